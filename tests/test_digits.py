"""A trained network from end to end, in codes: as good as its float original."""

import digits
import numpy as np
import pytest

import qops


@pytest.fixture(scope="module")
def data():
    with np.load(digits.FILE, allow_pickle=False) as file:
        return dict(file)


class Layer:
    """Weights in int8, symmetric and per channel; biases in units of the sums."""

    def __init__(self, weight, bias, x_pair, y_pair):
        self.x_pair, self.y_pair = x_pair, y_pair
        scale, _ = qops.choose_qparams(weight, np.int8, axis=1, symmetric=True)
        self.weight = qops.quantize(weight, scale, dtype=np.int8, axis=1)
        self.scale = np.float32(x_pair[0]) * scale
        self.bias = qops.quantize(bias, self.scale, dtype=np.int32)

    def __call__(self, codes):
        """Codes of which the last axis is multiplied, to codes of the result."""
        zero = np.int32(self.x_pair[1])
        sums = (codes - zero) @ self.weight.astype(np.int32) + self.bias
        axis = sums.ndim - 1
        to = np.float32(self.y_pair[0]), int(self.y_pair[1])
        return qops.requantize(sums, self.scale, 0, *to, dtype=np.uint8, axis=axis)


def quantized(data):
    """Make the network, with parameters from activations of known images."""
    x = digits.real(data["calibration"])
    steps = digits.forward(data, x)
    pairs = {k: qops.choose_qparams(v, np.uint8) for k, v in steps.items()}
    layers, before = {}, "x"
    for name in ("conv1", "conv2", "dense"):
        own = data[name], data[name + "_bias"]
        layers[name] = Layer(*own, pairs[before], pairs[name])
        before = name

    def run(pixels):
        q = qops.quantize(digits.real(pixels), *pairs["x"], dtype=np.uint8)
        for name in ("conv1", "conv2"):
            width = [(0, 0), (1, 1), (1, 1), (0, 0)]
            padded = qops.qpad(q, width, *layers[name].x_pair)
            q = layers[name](digits.patches(padded))
            q = qops.qrelu(q, *pairs[name])
            q = qops.qmax_pool(q, *pairs[name], kernel=2, channels_last=True)
        return layers["dense"](q.reshape(len(q), -1))

    return run


def test_digits(level, data):
    right = digits.forward(data, digits.real(data["pixels"]))["dense"].argmax(1)
    original = np.mean(right == data["labels"])
    codes = quantized(data)(data["pixels"])
    ours = np.mean(codes.argmax(1) == data["labels"])
    print(f"float {original:.2%}, quantized {ours:.2%}")
    assert original > 0.95
    assert ours >= original - 0.01


def test_gradients(data):
    """The training is that of the network: slopes by small differences."""
    x = digits.real(data["pixels"][:20]).astype(np.float64)
    labels = data["labels"][:20]
    weights = {k: data[k].astype(np.float64) for k in digits.gradients(data, x, labels)}

    def loss():
        v = digits.forward(weights, x)["dense"]
        v = v - v.max(1, keepdims=True)
        return np.mean(np.log(np.exp(v).sum(1)) - v[np.arange(20), labels])

    for name, slope in digits.gradients(weights, x, labels).items():
        at = np.unravel_index(np.abs(slope).argmax(), slope.shape)
        before, difference = weights[name][at], []
        for sign in (1, -1):
            weights[name][at] = before + sign * 1e-6
            difference.append(loss())
        weights[name][at] = before
        measured = (difference[0] - difference[1]) / 2e-6
        assert abs(measured - slope[at]) < 1e-4 * abs(slope[at]) + 1e-9
