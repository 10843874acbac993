"""A small convolutional network for handwritten digits, in NumPy float32.

It makes tests/data/digits.npz, with scikit-learn for the images: python tests/digits.py
"""

import sys
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent / "data" / "digits.npz"
SHAPES = {
    "conv1": (9 * 1, 8),  # 3 x 3 taps of the input channels, output channels
    "conv2": (9 * 8, 16),
    "dense": (2 * 2 * 16, 10),
}


def patches(x):
    """3 x 3 neighbourhoods of padded images (samples, height, width, channels)."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    n, h, w, c = windows.shape[:4]
    return windows.transpose(0, 1, 2, 4, 5, 3).reshape(n, h, w, 9 * c)


def pad(x):
    return np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])


def pool(x):
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4))


def forward(weights, x):
    """All activations: of each layer, after its bias and before relu; x comes first."""
    steps = {"x": x}
    for name in ("conv1", "conv2"):
        steps[name] = patches(pad(x)) @ weights[name] + weights[name + "_bias"]
        x = pool(np.maximum(steps[name], 0))
    flat = x.reshape(len(x), -1)
    steps["dense"] = flat @ weights["dense"] + weights["dense_bias"]
    return steps


def unpool(x, g):
    """Bring gradients of 2 x 2 maxima back to where they were, if positive."""
    n, h, w, c = x.shape
    x = np.maximum(x, 0).reshape(n, h // 2, 2, w // 2, 2, c)
    largest = (x == x.max((2, 4), keepdims=True)) & (x > 0)
    return (largest * g[:, :, None, :, None]).reshape(n, h, w, c)


def gradients(weights, x, labels):
    steps = forward(weights, x)
    hidden = pool(np.maximum(steps["conv1"], 0))
    flat = pool(np.maximum(steps["conv2"], 0)).reshape(len(x), -1)
    e = np.exp(steps["dense"] - steps["dense"].max(1, keepdims=True))
    g = e / e.sum(1, keepdims=True)
    g[np.arange(len(x)), labels] -= 1
    g /= len(x)
    result = {"dense": flat.T @ g, "dense_bias": g.sum(0)}
    g = (g @ weights["dense"].T).reshape(len(x), 2, 2, 16)
    g = unpool(steps["conv2"], g).reshape(-1, 16)
    result["conv2"] = patches(pad(hidden)).reshape(-1, 72).T @ g
    result["conv2_bias"] = g.sum(0)
    back = (g @ weights["conv2"].T).reshape(len(x), 4, 4, 3, 3, 8)
    g = np.zeros((len(x), 6, 6, 8), np.float32)
    for i, j in np.ndindex(3, 3):
        g[:, i : i + 4, j : j + 4] += back[:, :, :, i, j]
    g = unpool(steps["conv1"], g[:, 1:-1, 1:-1]).reshape(-1, 8)
    result["conv1"] = patches(pad(x)).reshape(-1, 9).T @ g
    result["conv1_bias"] = g.sum(0)
    return result


def train(x, labels, epochs=60, batch=50, rate=3e-3):
    """Adam, with weights that decay a little."""
    rng = np.random.default_rng(0)
    weights = {}
    for name, (n, m) in SHAPES.items():
        weights[name] = rng.normal(0, (2 / n) ** 0.5, (n, m)).astype(np.float32)
        weights[name + "_bias"] = np.zeros(m, np.float32)
    first = {k: np.zeros_like(v) for k, v in weights.items()}
    second = {k: np.zeros_like(v) for k, v in weights.items()}
    step = 0
    for epoch in range(epochs):
        order = rng.permutation(len(x))
        for i in range(0, len(x), batch):
            step += 1
            some = order[i : i + batch]
            for k, g in gradients(weights, x[some], labels[some]).items():
                g = g + 1e-4 * weights[k]
                first[k] += 0.1 * (g - first[k])
                second[k] += 0.001 * (g * g - second[k])
                v = np.sqrt(second[k] / (1 - 0.999**step)) + 1e-8
                now = rate * (1 - epoch / epochs)
                weights[k] -= (now * first[k] / (1 - 0.9**step) / v).astype(np.float32)
    return weights


def real(pixels):
    """Pixels of 0..16 as the network takes them."""
    return (pixels / np.float32(16)).astype(np.float32)[..., None]


def main():
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(1).permutation(len(digits.target))
    pixels = digits.images.astype(np.uint8)[order]
    labels = digits.target.astype(np.uint8)[order]
    known = 1197
    weights = train(real(pixels[:known]), labels[:known])
    guessed = forward(weights, real(pixels[known:]))["dense"].argmax(1)
    print(f"{np.mean(guessed == labels[known:]):.2%} of {len(guessed)} are right")
    np.savez_compressed(
        FILE,
        calibration=pixels[:200],
        pixels=pixels[known:],
        labels=labels[known:],
        **weights,
    )


if __name__ == "__main__":
    sys.exit(main())
