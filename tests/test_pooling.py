"""Pooling against loops over windows, on each level."""

import itertools
import math

import numpy as np
import oracles
import pytest
from guard import guarded
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import CODES, limits, same
from test_dequantize import codes

import qops


def sliding(n, k, s, p, d, ceil_mode):
    """Give for each window of a dimension its elements, and its extent."""
    windows = []
    while True:
        start = len(windows) * s - p
        fits = start + d * (k - 1) < n + p
        reaches = ceil_mode and start + d * (k - 1) - (n + p - 1) < s and start < n
        if not (fits or reaches):
            return windows
        taps = [start + j * d for j in range(k)]
        within = sum(1 for t in range(start, start + k) if t < n + p)
        windows.append(([t for t in taps if 0 <= t < n], within))


def adaptive(n, m):
    windows = []
    for i in range(m):
        taps = [t for t in range(n) if i * n < (t + 1) * m and t * m < (i + 1) * n]
        windows.append((taps, len(taps)))
    return windows


def each_window(q, windows):
    """Give the index of each output with its codes and its extent; channels first."""
    for at in itertools.product(*(range(len(w)) for w in windows)):
        of = [w[i] for w, i in zip(windows, at, strict=True)]
        picked = q[(..., *np.ix_(*(taps for taps, _ in of)))]
        yield at, picked.reshape(*q.shape[:2], -1), math.prod(n for _, n in of)


def max_pool(q, windows):
    y = np.empty((*q.shape[:2], *map(len, windows)), q.dtype)
    for at, of, _ in each_window(q, windows):
        y[(..., *at)] = of.max(axis=-1)
    return y


def avg_pool(q, scale, zero, to, dtype, windows, include_pad=False, divisor=None):
    y = np.empty((*q.shape[:2], *map(len, windows)), dtype)
    for at, of, extent in each_window(q, windows):
        total = of.astype(np.int64).sum(axis=-1) - zero * of.shape[-1]
        by = divisor or (extent if include_pad else of.shape[-1])
        real = total.astype(np.float64) * np.float64(np.float32(scale)) / by
        with np.errstate(over="ignore"):
            y[(..., *at)] = oracles.quantize(real.astype(np.float32), *to, dtype)
    return y


def both_layouts(function, q, expected, *args, **kwargs):
    same(function(q, *args, **kwargs), expected)
    last = np.ascontiguousarray(np.moveaxis(q, 1, -1))
    got = function(last, *args, channels_last=True, **kwargs)
    same(np.moveaxis(got, -1, 1), expected)
    view = np.moveaxis(last, -1, 1)
    same(function(view, *args, **kwargs), expected)


WINDOWS = [
    # spatial shape, kernel, stride, padding, dilation
    ((7,), 3, 1, 1, 1),
    ((200,), 3, 2, 1, 2),
    ((5, 70), 3, 1, 1, 1),
    ((9, 8), (3, 2), (2, 3), (1, 0), (1, 2)),
    ((12, 131), 2, 2, 0, 1),
    ((6, 7), (1, 7), None, 0, 1),
    ((3, 4, 66), 3, 1, 1, 1),
    ((5, 6, 7), (2, 3, 3), 2, (1, 1, 0), 1),
]


def dims(spatial, kernel, stride, padding, dilation, ceil_mode):
    n = len(spatial)
    k, p, d = (np.broadcast_to(v, n).tolist() for v in (kernel, padding, dilation))
    s = k if stride is None else np.broadcast_to(stride, n).tolist()
    return [sliding(*of, ceil_mode) for of in zip(spatial, k, s, p, d, strict=True)]


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("channels", [1, 3, 20, 70])
@pytest.mark.parametrize(
    ("spatial", "kernel", "stride", "padding", "dilation"), WINDOWS
)
@pytest.mark.parametrize("dtype", CODES)
def test_max(
    level, dtype, spatial, kernel, stride, padding, dilation, channels, ceil_mode
):
    shape = (2, channels, *spatial)
    q = codes(math.prod(shape), dtype).reshape(shape)
    own = {"kernel": kernel, "stride": stride, "padding": padding}
    own |= {"dilation": dilation, "ceil_mode": ceil_mode}
    windows = dims(spatial, kernel, stride, padding, dilation, ceil_mode)
    expected = max_pool(q, windows)
    both_layouts(qops.qmax_pool, q, expected, 0.1, 3, **own)
    other = oracles.requantize(expected, 0.1, 3, 0.3, -7, np.int8)
    got = qops.qmax_pool(q, 0.1, 3, 0.3, -7, dtype=np.int8, **own)
    same(got, other)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("channels", [1, 20])
@pytest.mark.parametrize(
    ("spatial", "kernel", "stride", "padding", "dilation"), WINDOWS
)
@pytest.mark.parametrize("dtype", CODES)
def test_avg(
    level, dtype, spatial, kernel, stride, padding, dilation, channels, ceil_mode
):
    shape = (2, channels, *spatial)
    q = codes(math.prod(shape), dtype).reshape(shape)
    own = {"kernel": kernel, "stride": stride, "padding": padding}
    own |= {"ceil_mode": ceil_mode}
    windows = dims(spatial, kernel, stride, padding, 1, ceil_mode)
    args = 0.1, 3, 0.07, 5
    for pad, divisor in ((True, None), (False, None), (True, 7)):
        expected = avg_pool(q, *args[:2], args[2:], dtype, windows, pad, divisor)
        how = {"count_include_pad": pad, "divisor_override": divisor}
        both_layouts(qops.qavg_pool, q, expected, *args, **own, **how)
    for out_dtype, to in ((np.int16, (1e-3, 9)), (np.int32, (1e-6, 9))):
        got = qops.qavg_pool(q, 0.1, 3, *to, dtype=out_dtype, **own)
        same(got, avg_pool(q, 0.1, 3, to, out_dtype, windows, True))
    got = qops.qavg_pool(q, 1e30, 3, 1e-30, 5, **own)  # everything saturates
    same(got, avg_pool(q, 1e30, 3, (1e-30, 5), dtype, windows, True))


@pytest.mark.parametrize(
    ("spatial", "size"),
    [((7,), 3), ((7, 70), (3, 64)), ((4, 5, 6), (4, 2, 3)), ((3, 3), 5), ((40, 50), 2)],
)
@pytest.mark.parametrize("channels", [1, 18])
@pytest.mark.parametrize("dtype", CODES)
def test_adaptive(level, dtype, channels, spatial, size):
    shape = (2, channels, *spatial)
    q = codes(math.prod(shape), dtype).reshape(shape)
    sizes = np.broadcast_to(size, len(spatial)).tolist()
    windows = [adaptive(n, m) for n, m in zip(spatial, sizes, strict=True)]
    expected = max_pool(q, windows)
    both_layouts(qops.qadaptive_max_pool, q, expected, 0.1, 3, size=size)
    expected = avg_pool(q, 0.1, 3, (0.05, 9), dtype, windows)
    both_layouts(qops.qadaptive_avg_pool, q, expected, 0.1, 3, 0.05, 9, size=size)
    windows = [adaptive(n, 1) for n in spatial]
    expected = avg_pool(q, 0.1, 3, (0.01, 9), dtype, windows)
    both_layouts(qops.qglobal_avg_pool, q, expected, 0.1, 3, 0.01, 9)


@pytest.mark.parametrize("kernel", [16, 17, (1, 257), (2, 129)])
def test_sums_at_the_edge_of_16_bits(level, kernel):
    """257 codes of 255 are 65 535; more take the way of large windows."""
    q = np.full((1, 2, 20, 300), 255, np.uint8)
    q[0, 1] = codes(6000, np.uint8).reshape(20, 300)
    own = {"kernel": kernel, "stride": 3}
    windows = dims((20, 300), kernel, 3, 0, 1, False)
    expected = avg_pool(q, 0.1, 0, (0.1, 0), np.uint8, windows)
    both_layouts(qops.qavg_pool, q, expected, 0.1, 0, **own)
    assert (expected[0, 0] == 255).all()


@pytest.mark.parametrize("channels", [1, 3, 20, 2100])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32])
def test_parameters_of_each_channel(level, dtype, channels):
    rng = np.random.default_rng(0)
    q = codes(2 * channels * 35, dtype).reshape(2, channels, 5, 7)
    scales, to_scales = rng.uniform(0.01, 2, (2, channels))
    zeros, to_zeros = rng.integers(0, 100, (2, channels))
    windows = dims((5, 7), 3, 2, 1, 1, False)
    own = {"kernel": 3, "stride": 2, "padding": 1}
    largest = max_pool(q, windows)
    both_layouts(qops.qmax_pool, q, largest, scales, zeros, **own)
    both_layouts(qops.qmax_pool, q, largest, scales, 3, scales.tolist(), 3, **own)
    of_channels = [(scales, zeros, to_scales, to_zeros), (0.1, 7, to_scales, 9)]
    of_channels += [(scales, 5, 0.3, to_zeros), (0.1, zeros, 0.2, 5)]
    for pairs in of_channels:
        beside = [np.reshape(p, (-1, 1, 1)) for p in pairs]
        for out_dtype in (dtype, np.int8):
            expected = oracles.requantize(largest, *beside, out_dtype)
            both_layouts(qops.qmax_pool, q, expected, *pairs, dtype=out_dtype, **own)
            expected = avg_pool(q, *pairs[:2], pairs[2:], out_dtype, windows, True)
            both_layouts(qops.qavg_pool, q, expected, *pairs, dtype=out_dtype, **own)
    expected = avg_pool(q, scales, zeros, (scales, zeros), dtype, windows, True)
    both_layouts(qops.qavg_pool, q, expected, scales, zeros, **own)
    whole = [adaptive(n, 1) for n in (5, 7)]
    expected = avg_pool(q, scales, zeros, (scales, zeros), dtype, whole)
    both_layouts(qops.qglobal_avg_pool, q, expected, scales, zeros)
    expected = max_pool(q, whole)
    both_layouts(qops.qadaptive_max_pool, q, expected, scales, zeros, size=1)


def test_equal_parameters_leave_codes_of_32_bits():
    """Which requantize would round to float32."""
    q = np.full((1, 2, 4), 2**31 - 2, np.int32)
    for pair in ((0.1, 0), ([0.1, 0.1], 0), (0.1, [0, 0])):
        same(qops.qmax_pool(q, *pair, 0.1, [0, 0], kernel=2), q[..., :2])


@pytest.mark.parametrize(
    ("shape", "kernel", "stride"),
    [
        ((1, 3, 700, 9), (600, 3), (50, 1)),  # more rows than are added at a time
        ((2, 17, 2, 900), (2, 700), (1, 60)),  # more columns
        ((2, 3, 5001), 3000, 777),  # more than are kept
        ((1, 1, 3, 4500), (3, 100), (1, 37)),
        ((1, 2100, 4, 5), (3, 4), 1),  # more channels
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_large_windows(level, dtype, shape, kernel, stride):
    q = codes(math.prod(shape), dtype).reshape(shape)
    lo, hi = limits(dtype)
    q.reshape(-1)[: q.size // 2] = hi
    windows = dims(shape[2:], kernel, stride, 0, 1, False)
    own = {"kernel": kernel, "stride": stride}
    for to, out_dtype in (((0.1, lo), dtype), ((1e-4 * (hi - lo), 5), np.int16)):
        expected = avg_pool(q, 0.1, lo, to, out_dtype, windows)
        got = 0.1, lo, *to
        both_layouts(qops.qavg_pool, q, expected, *got, dtype=out_dtype, **own)


@pytest.mark.parametrize("channels", [1, 3, 21, 70])
@pytest.mark.parametrize("dtype", CODES)
def test_nothing_beyond_the_arrays_is_touched(level, dtype, channels):
    for (n, k, s), last in itertools.product(
        [(67, 3, 1), (67, 3, 2), (67, 5, 5), (33, 33, 1)], (False, True)
    ):
        shape = (1, n, n, channels) if last else (1, channels, n, n)
        q = guarded(math.prod(shape), dtype).reshape(shape)
        q[...] = codes(q.size, dtype).reshape(shape)
        own = {"kernel": k, "stride": s, "channels_last": last}
        for pool in (qops.qmax_pool, qops.qavg_pool):
            expected = pool(q.copy(), 0.1, 3, **own)
            out = guarded(expected.size, dtype).reshape(expected.shape)
            same(pool(q, 0.1, 3, **own, out=out), expected)


def test_means_are_those_of_exact_sums():
    """Float32 sums would lose the last codes, and a mean of int32 the first."""
    q = np.full((1, 1, 3000), 2**31 - 1, np.int32)
    q[0, 0, -7:] = -(2**31)
    total = 2993 * (2**31 - 1) - 7 * 2**31 + 3000 * 2**31
    got = qops.qglobal_avg_pool(q, 1.0, -(2**31), 1.0, -(2**31))
    real = np.float32(total / 3000)
    same(got, oracles.quantize([[[real]]], 1.0, -(2**31), np.int32))
    q = np.full((1, 1, 70_000), 255, np.uint8)
    q[0, 0, 0] = 254
    got = qops.qglobal_avg_pool(q, 1.0, 255, 1e-5, 0, dtype=np.int16)
    same(got, np.full((1, 1, 1), -1, np.int16))  # -1 / 70000
    q = np.full((1, 16, 40_000, 1), 65535, np.uint16)  # 2**31 is less
    both_layouts(qops.qglobal_avg_pool, q, q[:, :, :1], 1.0, 0)


@given(st.data())
def test_properties(data):
    n, c, k, d = (data.draw(st.integers(1, most)) for most in (90, 20, 7, 3))
    s, p = data.draw(st.integers(1, 9)), data.draw(st.integers(0, k // 2))
    assume(n + 2 * p >= d * (k - 1) + 1)
    ceil_mode = data.draw(st.booleans())
    windows = [sliding(n, k, s, p, d, ceil_mode)]
    own = {"kernel": k, "stride": s, "padding": p, "ceil_mode": ceil_mode}
    q = codes(2 * c * n, np.uint8, seed=n).reshape(2, c, n)
    if all(taps for taps, _ in windows[0]):
        both_layouts(qops.qmax_pool, q, max_pool(q, windows), 0.1, 0, dilation=d, **own)
    else:
        with pytest.raises(ValueError, match="a window has none of the"):
            qops.qmax_pool(q, 0.1, 0, dilation=d, **own)
    windows = [sliding(n, k, s, p, 1, ceil_mode)]
    expected = avg_pool(q, 0.1, 7, (0.2, 9), np.uint8, windows, True)
    both_layouts(qops.qavg_pool, q, expected, 0.1, 7, 0.2, 9, **own)


def test_out_and_empty():
    q = codes(2 * 3 * 8 * 8, np.uint8).reshape(2, 3, 8, 8)
    expected = qops.qmax_pool(q, 0.1, 0, kernel=3, stride=1, padding=1)
    out = np.zeros((2, 3, 8, 16), np.uint8)[..., ::-2]
    assert qops.qmax_pool(q, 0.1, 0, kernel=3, stride=1, padding=1, out=out) is out
    same(np.ascontiguousarray(out), expected)
    v = q.copy()
    qops.qmax_pool(v, 0.1, 0, kernel=3, stride=1, padding=1, out=v)
    same(v, expected)
    v = q.copy()
    average = qops.qavg_pool(q, 0.1, 0, kernel=3, stride=1, padding=1)
    qops.qavg_pool(v, 0.1, 0, kernel=3, stride=1, padding=1, out=v)
    same(v, average)
    got = qops.qmax_pool(q[:0], 0.1, 0, kernel=2)
    same(got, np.empty((0, 3, 4, 4), np.uint8))
    got = qops.qavg_pool(q[:, :0], 0.1, 0, kernel=2, dtype=np.int8)
    same(got, np.empty((2, 0, 4, 4), np.int8))
    read_only = q.copy()
    read_only.flags.writeable = False
    same(
        qops.qmax_pool(read_only[::-1], 0.1, 0, kernel=8),
        q.max((2, 3), keepdims=True)[::-1],
    )


Q = np.zeros((1, 2, 4, 5), np.uint8)


@pytest.mark.parametrize(
    ("own", "error", "message"),
    [
        ({"kernel": 0}, ValueError, "kernel is 0, not at least 1"),
        ({"kernel": []}, ValueError, r"kernel is \[\], not one number or 2 of them"),
        ({"kernel": [3]}, ValueError, r"kernel is \[3\], not one number or 2 of them"),
        ({"kernel": 1.5}, TypeError, "kernel is 1.5, not integers"),
        ({"kernel": 2, "stride": (1, 0)}, ValueError, r"stride is \(1, 0\), not at l"),
        ({"kernel": 2, "dilation": -1}, ValueError, "dilation is -1, not at least 1"),
        ({"kernel": 2, "padding": -1}, ValueError, "padding is -1, not at least 0"),
        ({"kernel": 3, "padding": 2}, ValueError, "padding is 2, more than half the k"),
        (
            {"kernel": 6},
            ValueError,
            "kernel is 6 with dilation 1 and padding 0, more t",
        ),
        (
            {"kernel": 2, "out": np.zeros((1, 2, 2, 3), np.uint8)},
            ValueError,
            r"out has shape \(1, 2, 2, 3\), not \(1, 2, 2, 2\)",
        ),
        ({"kernel": 2, "out_scale": -1}, ValueError, "out_scale is -1.0, not finite"),
    ],
)
def test_errors(own, error, message):
    with pytest.raises(error, match=f"^qmax_pool: {message}"):
        qops.qmax_pool(Q, 0.1, 0, **own)


def test_other_errors():
    with pytest.raises(TypeError, match="qmax_pool: q is int64, not a dtype of codes"):
        qops.qmax_pool(Q.astype(np.int64), 0.1, 0, kernel=2)
    with pytest.raises(ValueError, match=r"qmax_pool: q has shape \(4, 5\), not sampl"):
        qops.qmax_pool(Q[0, 0], 0.1, 0, kernel=2)
    with pytest.raises(ValueError, match="which has nothing along axis 3"):
        qops.qmax_pool(Q[..., :0], 0.1, 0, kernel=2)
    with pytest.raises(ValueError, match="which has nothing along axis 1"):
        qops.qmax_pool(Q[:, :0], 0.1, 0, kernel=2, channels_last=True)
    with pytest.raises(ValueError, match="qavg_pool: divisor_override is 0, not at"):
        qops.qavg_pool(Q, 0.1, 0, kernel=2, divisor_override=0)
    with pytest.raises(ValueError, match="a window has none of the 1 elements"):
        qops.qmax_pool(Q[..., :1], 0.1, 0, kernel=2, dilation=2, padding=1)
    with pytest.raises(
        ValueError, match=r"qmax_pool: scale has shape \(3,\), not \(2,\)"
    ):
        qops.qmax_pool(Q, [1, 2, 3], 0, kernel=2)
    with pytest.raises(
        ValueError, match=r"qmax_pool: out_zero_point has shape \(5,\), n"
    ):
        qops.qmax_pool(Q, 0.1, 0, 0.1, [0] * 5, kernel=2)
    with pytest.raises(
        ValueError, match=r"qavg_pool: scale\[1\] is -2.0, not finite and"
    ):
        qops.qavg_pool(Q, [1, -2], 0, kernel=2)
    with pytest.raises(
        ValueError, match=r"qavg_pool: zero_point has shape .* one dimen"
    ):
        qops.qavg_pool(Q, 0.1, [[0, 0]], kernel=2)
    with pytest.raises(ValueError, match="qadaptive_max_pool: size is 0, not at least"):
        qops.qadaptive_max_pool(Q, 0.1, 0, size=0)


def test_limits_of_codes(level):
    """All the lowest and all the highest codes, whose sums are the table's ends."""
    for dtype in CODES:
        for code in limits(dtype):
            q = np.full((1, 1, 6, 70), code, dtype)
            got = qops.qavg_pool(q, 0.1, 0, kernel=3, stride=1)
            assert (got == code).all()
            got = qops.qmax_pool(q, 0.1, 0, kernel=3, stride=1, padding=1)
            assert (got == code).all()
