"""The faults of PyTorch's quantized kernels, each in data that shows it, on each level.

They are those of PyTorch 2.14. Results are compared with integers, fractions and
float64: scales are powers of two where float32 has to be exact.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from oracles import CODES, limits, round_to_even, round_to_float32, same
from test_dequantize import codes

import qops

# One vector of bytes and more: each length has a body, a tail or both.
LENGTHS = range(1, 4 * 64 + 4)
BYTES = [np.uint8, np.int8]


def code(x, scale, zero, dtype):
    """Quantize one number by Python's integers."""
    lo, hi = limits(dtype)
    if math.isnan(x):
        return zero
    if math.isinf(x):
        return hi if x > 0 else lo
    t = round_to_even(Fraction(x) / Fraction(scale))
    return min(max(t, lo - zero), hi - zero) + zero


def coded(x, scale, zero, dtype):
    """Quantize float64 whose quotients are exact, or not next to a tie."""
    return np.clip(np.rint(x / scale) + zero, *limits(dtype)).astype(dtype)


# ------------------------------------------- 1. oneDNN's qadd and qmul


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("name", ["qadd", "qmul"])
def test_codes_from_128_on_are_taken_for_negative(level, name, relu):
    """With AVX-512, uint8 is widened with a sign: 128 to 255 become -128 to -1."""
    a = np.arange(260).astype(np.uint8)
    b = np.roll(a[::-1], 77)
    x, y = (a - 3.0) * 0.5, (b - 200.0) * 0.25
    both, scale = (x + y, 2.0) if name == "qadd" else (x * y, 16.0)
    expected = coded(np.maximum(both, 0) if relu else both, scale, 100, np.uint8)
    for n in LENGTHS:
        args = a[:n], 0.5, 3, b[:n], 0.25, 200, scale, 100
        same(getattr(qops, name)(*args, relu=relu), expected[:n])


def test_ties_go_away_from_zero_in_tails(level):
    """The tail rounds halves away from zero, the vectors before it to even."""
    q = np.arange(260).astype(np.uint8)
    one = np.ones_like(q)
    expected = [round_to_even(Fraction(int(k), 2)) for k in q]
    for n in LENGTHS:
        for f, other in ((qops.qadd, one), (qops.qmul, one + 1)):
            got = f(q[:n], 1.0, 0, other[:n], 1.0, 1, 2.0, 0)
            assert got.tolist() == expected[:n]


# ------------------------------------------- 2. saturation at the wrong end

LARGE = [3e9, 3e10, 1e30, float(np.finfo(np.float32).max), math.inf]
SPECIAL = [0.0, -0.0, 1e-45, math.nan, 2.0**31 - 128, -(2.0**31), *LARGE]
SPECIAL += [-v for v in LARGE]


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("x_dtype", [np.float32, np.float64])
def test_large_numbers_change_sides(level, x_dtype, dtype):
    """Vectors add the zero point in int32, which wraps: +inf gives 0 for 128."""
    lo, hi = limits(dtype)
    few = {lo, lo + 1, -1, 0, 1, 128, 200, hi - 1, hi}
    zeros = range(lo, hi + 1) if hi < 256 else sorted(z for z in few if lo <= z <= hi)
    x = np.resize(np.array(SPECIAL, x_dtype), 139)
    for scale in (1.0, 2.0**-6):
        every = [[code(v, scale, z, dtype) for v in SPECIAL] for z in zeros]
        wide = np.broadcast_to(x, (len(zeros), x.size))
        scales = np.full(len(zeros), scale)
        got = qops.quantize(wide, scales, np.array(zeros), dtype=dtype, axis=0)
        for zero, row, expected in zip(zeros, got, every, strict=True):
            expected = np.resize(np.array(expected, dtype), x.size)
            same(qops.quantize(x, scale, zero, dtype=dtype), expected)
            same(row, expected)


@pytest.mark.parametrize("dtype", BYTES)
def test_large_sums_and_products_change_sides(level, dtype):
    """Vectors turn what is beyond int32 into its minimum, their tails do not."""
    lo, hi = limits(dtype)
    a = codes(260, dtype)
    for zero in (lo, lo + 100, 127, hi):
        for name, scale in (("qadd", 1e-8), ("qmul", 1 / 5e4)):
            b = np.full_like(a, zero) if name == "qadd" else np.roll(a, 5)
            x, y = (v.astype(int) - zero for v in (a, b))
            sign = np.sign(x + y if name == "qadd" else x * y)
            expected = np.choose(sign + 1, [lo, zero, hi]).astype(dtype)
            for n in LENGTHS:
                args = a[:n], 1.0, zero, b[:n], 1.0, zero, scale, zero
                same(getattr(qops, name)(*args), expected[:n])


def test_int32_results_change_sides_or_wrap(level):
    """Products of int32 codes wrap; beyond int32, vectors give its minimum."""
    lo, hi = limits(np.int32)
    a = np.resize(np.array([100_000, -100_000, 2**30], np.int32), 35)
    expected = np.resize(np.array([hi, lo, hi], np.int32), 35)
    b = np.full(35, 100_000, np.int32)
    for n in range(1, 36):
        same(qops.qmul(a[:n], 1.0, 0, b[:n], 1.0, 0, 1.0, 0), expected[:n])
        same(qops.qadd(a[:n], 1.0, 0, 0 * b[:n], 1.0, 0, 1e-6, 0), expected[:n])


# ------------------------------------------- 3. sums


def test_a_lane_of_exactly_two_to_the_31(level):
    """The sum of squares of int8 codes is flushed a step too late: std is 0, not 64."""
    q = np.zeros(2 << 20, np.int8)
    q[: 1 << 20] = -128
    assert qops.hsum_sq(q) == 128**2 << 20
    assert qops.qstd(q, 1.0, 0) == 64


@pytest.mark.parametrize("value", [255, -128])
def test_long_sums_overflow(level, value):
    """The lanes of a sum of bytes, which take four a step, are never flushed."""
    dtype = np.uint8 if value == 255 else np.int8
    steps = 2**31 // (4 * abs(value))
    longest = (steps + 1) * 64 + 65
    q = np.full(longest, value, dtype)
    for n in ((steps + 1) * 32, (steps + 1) * 32 + 65, longest):
        assert qops.hsum(q[:n]) == value * n
        assert qops.qmean(q[:n], 1.0, 0) == value


# ------------------------------------------- 4. real zero

GRID = [0.1, 0.05, 0.3, 1 / 3, 0.017, 0.7, 1e-3, 7.7, 1e-40, 3e25]


@pytest.mark.parametrize("dtype", [*BYTES, np.int16, np.int32])
def test_zero_is_not_quite_zero(level, dtype):
    """Vectors compute scale * q - scale * zero_point, with one product rounded."""
    lo, hi = limits(dtype)
    zeros = np.arange(lo, hi + 1) if hi < 256 else np.linspace(lo, hi, 9).astype(int)
    s32 = np.array(GRID, np.float32)[:, None]
    exact = s32.astype(np.float64) * zeros
    assert np.mean(exact.astype(np.float32) != exact) > 0.3
    for scale in GRID:
        for i, zero in enumerate(zeros.tolist()):
            q = np.full(67, zero, dtype)
            got = qops.qthreshold(q, scale, zero, 1.0, 3, threshold=0.0, value=20.0)
            same(got, np.full_like(q, 23))
            if i % 17 == 0:
                same(qops.qrelu(q, scale, zero), q)
                same(qops.qleaky_relu(q, scale, zero, negative_slope=-1e9), q)
                same(qops.qelu(q, scale, zero, alpha=1e9), q)
                same(qops.qthreshold(q, scale, zero, threshold=-1e-45, value=9.0), q)


@pytest.mark.parametrize("dtype", BYTES)
def test_relu_of_a_sum_that_is_zero(level, dtype):
    """The same in add_relu, whose sum with real zero is its first operand."""
    lo, hi = limits(dtype)
    q = np.arange(lo, hi + 1).astype(dtype)
    for zero in range(lo, hi + 1, 5):
        for scale in (0.1, 1e-20, 3.0):
            got = qops.qadd(q, scale, zero, q * 0, 1.0, 0, scale, zero, relu=True)
            same(got, np.maximum(q, zero).astype(dtype))


# ------------------------------------------- 5. prelu


@pytest.mark.parametrize("dtype", CODES)
def test_prelu_multiplies_positive_numbers(level, dtype):
    """They are multiplied by the nearest code of 1 in the weight's own parameters."""
    zero = 20
    q = np.arange(zero, 128).astype(dtype)
    for weight in (0.3, 0.001, 1e9, -7.0):
        same(qops.qprelu(q, 0.05, zero, weight=weight), q)
    channels = np.broadcast_to(q, (3, q.size))
    for w_scale in (0.3, 0.001, 1e-9):  # 1 is no multiple, or beyond the codes
        weight = qops.dequantize(np.int8([50, -128, 127]), w_scale)
        same(qops.qprelu(channels, 0.05, zero, weight=weight, axis=0), channels)


# ------------------------------------------- 6. layer norm


def normalized(q, scale, eps):
    """Return what mean 0 and deviation 1 make of codes, in float64 from integers."""
    x = q.astype(np.int64)
    n, total, squares = x.size, int(x.sum()), int((x * x).sum())
    var = (n * squares - total * total) / (n * n)
    return (x * n - total) / n * scale / math.sqrt(var * scale * scale + eps)


@pytest.mark.parametrize("eps", [0, 1e-5])
def test_variance_that_cancels(level, eps):
    """The variance is a float32 difference: an outlier comes out as -22.5, not -32."""
    one, ten = np.full((2, 1024), 255, np.uint8)
    one[5] = 254
    ten[::103] = 254
    for q, exact in (
        (one, {0: -31.98, 1e-5: -31.82}),
        (ten, {0: -10.07, 1e-5: -10.06}),
    ):
        y = normalized(q, 1.0, eps)
        assert abs(y.min() - exact[eps]) < 0.005
        for scale, zero, dtype in ((0.25, 200, np.uint8), (2.0**-10, 0, np.int16)):
            got = qops.qlayer_norm(q[None], 1.0, 0, scale, zero, dtype=dtype, eps=eps)
            same(got[0], coded(y, scale, zero, dtype))


# ------------------------------------------- 7. group norm, channels last


def group_norms(q, groups, scale, to):
    """Return each group's codes normalized; channels first."""
    rows = q.reshape(len(q) * groups, -1)
    y = np.stack([coded(normalized(v, scale, 1e-5), *to, q.dtype.type) for v in rows])
    return y.reshape(q.shape)


def norms_of(q, groups, *args):
    """Yield the results of each function and layout; channels first."""
    last = np.ascontiguousarray(np.moveaxis(q, 1, -1))
    calls = [(qops.qgroup_norm, {"groups": groups})]
    if groups == q.shape[1]:
        calls.append((qops.qinstance_norm, {}))
    for norm, own in calls:
        yield norm(q, *args, **own)
        yield np.moveaxis(norm(last, *args, axis=-1, **own), -1, 1)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("side", "low", "high"), [(1024, 250, 255), (512, 100, 139), (56, 0, 255)]
)
def test_many_pixels_with_channels_last(level, side, low, high, groups):
    """From 512 pixels on float32 sums are wrong, and depend on the threads."""
    rng = np.random.default_rng(0)
    q = rng.integers(low, high, (1, 2, side, side), np.uint8, endpoint=True)
    expected = group_norms(q, groups, 0.01, (0.02, 128))
    before = qops.get_num_threads()
    try:
        for n in (1, 2, 3):
            qops.set_num_threads(n)
            for got in norms_of(q, groups, 0.01, 0, 0.02, 128):
                same(got, expected)
    finally:
        qops.set_num_threads(before)


# ------------------------------------------- 8. group norm of many samples


@pytest.mark.parametrize(
    ("shape", "groups"), [((64, 4, 2, 2), 2), ((9, 4, 2, 2), 4), ((300, 6, 1, 3), 3)]
)
@pytest.mark.parametrize("dtype", BYTES)
def test_more_samples_than_codes_in_a_group(level, dtype, shape, groups):
    """The last samples are never written: what was in memory before stays there."""
    q = codes(math.prod(shape), dtype).reshape(shape)
    expected = group_norms(q, groups, 0.125, (0.03, 9))
    for got in norms_of(q, groups, 0.125, 5, 0.03, 9):
        same(got, expected)


# ------------------------------------------- 9. fake quantization


@pytest.mark.parametrize("dtype", CODES)
def test_infinity_becomes_the_lowest_number(level, dtype):
    """+inf and NaN become the lowest code's number, +inf per channel only."""
    lo, hi = limits(dtype)
    x = np.resize(np.array(SPECIAL, np.float32), 139)
    zeros = np.array([z for z in (lo, -1, 0, 3, hi) if lo <= z <= hi])
    scales = 2.0 ** -np.arange(zeros.size)
    y, mask = [], []
    for s, z in zip(scales.tolist(), zeros.tolist(), strict=True):
        of_x = [(code(v, s, z, dtype) - z) * s for v in SPECIAL]
        y.append(np.resize(np.array(of_x, np.float32), x.size))
        kept = [lo - z <= np.rint(v / s) <= hi - z for v in SPECIAL]
        mask.append(np.resize(kept, x.size))
        got = qops.fake_quantize(x, s, z, dtype=dtype, return_mask=True)
        same(got[0], y[-1])
        same(got[1], mask[-1])
    wide = np.broadcast_to(x, (zeros.size, x.size))
    own = {"dtype": dtype, "axis": 0, "return_mask": True}
    got = qops.fake_quantize(wide, scales, zeros, **own)
    same(got[0], np.stack(y))
    same(got[1], np.stack(mask))


# ------------------------------------------- 10. means and deviations


def test_mean_of_a_rounded_sum(level):
    """The sum of int32 codes is rounded to float32 before it is divided."""
    rng = np.random.default_rng(0)
    for zero in (0, 2**24, -(2**31)):
        for n in (3, 7, 1001):
            x = rng.integers(0, 2**23, (50, n))
            sums = x.sum(axis=1)
            exact = [round_to_float32(Fraction(k, n)) for k in sums.tolist()]
            expected = np.array([round_to_even(v) for v in exact])
            rounded = np.rint(sums.astype(np.float32) / np.float32(n))
            assert (rounded != expected).any()
            got = qops.qmean((x + zero).astype(np.int32), 1.0, zero, axis=1)
            same(got, (expected + zero).astype(np.int32))
    q = np.full(7, 2**24 + 1, np.int32)
    assert qops.qmean(q, 1.0, 2**24) == 2**24 + 1
    assert qops.qmean(q, 1.0, 0) == 2**24  # as dequantize: the mean is a float32


def test_mean_of_nothing(level):
    """The mean of nothing is 0, its deviation and that of one code 0 or 255."""
    for f in (qops.qmean, qops.qvar, qops.qstd):
        for q in (np.empty(0, np.uint8), np.empty((3, 0), np.int32)):
            with pytest.raises(ValueError, match=rf"^{f.__name__}: .* 0 codes"):
                f(q, 0.1, 0, axis=-1)
    one = np.full((2, 1), 9, np.uint8)
    for f in (qops.qvar, qops.qstd):
        with pytest.raises(ValueError, match="correction is 1, not below the 1 codes"):
            f(one, 0.1, 0, axis=1, correction=1)
        same(f(one, 0.1, 5, axis=1), np.full(2, 5, np.uint8))


# ------------------------------------------- 11. batch norm of nothing


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 3, 0), (0, 3)])
def test_batch_norm_of_nothing_forgets_the_parameters(level, shape):
    """The result has the parameters of the input: here those given are checked."""
    q, own = np.empty(shape, np.uint8), {"mean": np.zeros(3), "var": np.ones(3)}
    got = qops.qbatch_norm(q, 0.5, 7, 0.1, -3, dtype=np.int8, **own)
    same(got, np.empty(shape, np.int8))
    with pytest.raises(ValueError, match=r"^qbatch_norm: out_zero_point is -3, "):
        qops.qbatch_norm(q, 0.5, 7, 0.1, -3, **own)
    with pytest.raises(ValueError, match=r"^qbatch_norm: out_scale is -0\.1, not"):
        qops.qbatch_norm(q, 0.5, 7, -0.1, 3, **own)


# ------------------------------------------- 12. layer norm


def test_layer_norm_stores_before_it_is_done(level):
    """A vector of codes is stored after each quarter of it: four times the work."""
    # Results are right, if nobody reads what is written over: so do that here.
    for n in range(1, 131):
        q = codes(3 * n, np.uint8).reshape(3, n)
        expected = [coded(normalized(v, 0.5, 1e-5), 0.25, 9, np.uint8) for v in q]
        assert qops.qlayer_norm(q, 0.5, 0, 0.25, 9, out=q) is q
        same(q, np.stack(expected))


# ------------------------------------------- 13. loads, indices and differences


def doubled(x, axis):
    """Enlarge twofold with weights of quarters, which are exact."""
    n = x.shape[axis]
    at = np.maximum((np.arange(2 * n) + 0.5) / 2 - 0.5, 0)
    low = at.astype(int)
    b = (at - low).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    high = np.minimum(low + 1, n - 1)
    return (1 - b) * x.take(low, axis) + b * x.take(high, axis)


def test_bilinear_loads_half_a_vector(level):
    """With AVX-512 eight of 16 numbers are loaded, in code that is never called."""
    # So no result shows it: all widths and numbers of channels up to a vector's.
    for n in range(1, 71):
        q = codes(3 * 2 * n, np.uint8).reshape(1, 3, 2, n)
        own = {"mode": "bilinear", "scale_factor": 2}
        expected = doubled(doubled(q.astype(np.float64), 3), 2)
        got = qops.qinterpolate(q, 1.0, 0, 0.5, 7, dtype=np.int16, **own)
        same(got, coded(expected, 0.5, 7, np.int16))
        expected = doubled(doubled(q.astype(np.float64), 2), 1)
        args = q, 1.0, 0, 0.5, 7
        got = qops.qinterpolate(*args, channels_last=True, dtype=np.int16, **own)
        same(got, coded(expected, 0.5, 7, np.int16))


@pytest.mark.parametrize(("n", "m"), [(8191, 4100), (70_001, 1000), (5000, 12_289)])
def test_windows_of_rounded_indices(level, n, m):
    """The ends of adaptive windows are computed in float32, of products above 2**24."""
    o = np.arange(m + 1)
    rounded = np.floor((o * n).astype(np.float32) / np.float32(m)).astype(int)
    assert (rounded != o * n // m).any()
    first, end = o[:-1] * n // m, -(-o[1:] * n // m)
    q = codes(3 * n, np.uint8).reshape(1, 3, n)
    of = [q[..., a:b] for a, b in zip(first, end, strict=True)]
    largest = np.stack([v.max(-1) for v in of], -1)
    mean = np.stack([v.sum(-1, dtype=np.float64) / v.shape[-1] for v in of], -1)
    mean = coded(mean.astype(np.float32), 2.0**-7, 0, np.uint16)
    own = {"size": m}
    to = {"out_scale": 2.0**-7, "dtype": np.uint16}
    same(qops.qadaptive_max_pool(q, 1.0, 0, **own), largest)
    same(qops.qadaptive_avg_pool(q, 1.0, 0, **to, **own), mean)
    q, own = np.ascontiguousarray(np.moveaxis(q, 1, -1)), own | {"channels_last": True}
    got = qops.qadaptive_max_pool(q, 1.0, 0, **own)
    same(np.moveaxis(got, -1, 1), largest)
    got = qops.qadaptive_avg_pool(q, 1.0, 0, **to, **own)
    same(np.moveaxis(got, -1, 1), mean)


def test_int32_codes_are_rounded_before_the_difference(level):
    """Vectors turn a code into float32, which takes 24 bits, and then subtract."""
    for zero in (2**24 - 1, 2**30, -(2**31), 2**31 - 1):
        steps = np.arange(-130, 130)
        steps = steps[np.abs(zero + steps) <= 2**31 - 1]
        q = (zero + steps).astype(np.int32)
        for n in (1, 7, 64, q.size):
            exact = steps[:n] * 0.25
            same(qops.dequantize(q[:n], 0.25, zero), exact.astype(np.float32))
            same(qops.dequantize(q[:n], 0.25, zero, dtype=np.float64), exact)
            got = qops.requantize(q[:n], 0.25, zero, 0.5, 9, dtype=np.int8)
            same(got, coded(exact, 0.5, 9, np.int8))


# ------------------------------------------- 14. arguments


@pytest.mark.parametrize("bound", ["min", "max"])
def test_clamp_to_nan(bound):
    """A bound of NaN is cast to a code, which may be any."""
    for dtype in CODES:
        with pytest.raises(ValueError, match=f"^qclamp: {bound} is nan, not without"):
            qops.qclamp(np.zeros(3, dtype), 1.0, 0, **{bound: np.nan})


def test_clamp_to_an_interval_upside_down():
    """With min above max all become max."""
    with pytest.raises(ValueError, match=r"^qclamp: min is 2\.0 and max is 1\.0, whi"):
        qops.qclamp(np.zeros(3, np.uint8), 1.0, 0, min=2, max=1)


X, Q = np.ones((2, 4, 6), np.float32), np.ones((2, 4, 6), np.uint8)
ONES = np.ones(4)


@pytest.mark.parametrize("scale", [-1.0, -0.0, [-1.0, 1.0, 1.0, 1.0]])
@pytest.mark.parametrize(
    "call",
    [
        lambda s, **axis: qops.quantize(X, s, 0, dtype=np.uint8, **axis),
        lambda s, **axis: qops.dequantize(Q, s, 0, **axis),
        lambda s, **axis: qops.requantize(Q, s, 0, 1.0, 0, **axis),
        lambda s, **axis: qops.requantize(Q, 1.0, 0, s, 0, **axis),
        lambda s, **axis: qops.qadd(Q, s, 0, Q, 1.0, 0, 1.0, 0, **axis),
        lambda s, **axis: qops.qmul(Q, 1.0, 0, Q, s, 0, 1.0, 0, **axis),
        lambda s, **axis: qops.qdiv(Q, 1.0, 0, Q, 1.0, 0, s, 0, **axis),
        lambda s, **axis: qops.qequal(Q, s, 0, Q, 1.0, 0, **axis),
        lambda s, **axis: qops.qrelu(Q, s, 0, **axis),
        lambda s, **axis: qops.qsigmoid(Q, 1.0, 0, s, 0, **axis),
        lambda s, **axis: qops.fake_quantize(X, s, 0, dtype=np.uint8, **axis),
        lambda s, **axis: qops.quantize_packed(X, s, 0, bits=4, dtype="u1", **axis),
    ],
)
def test_negative_scales(call, scale):
    """They are taken, per tensor and per channel, and turn the order around."""
    axis = {"axis": 1} if np.ndim(scale) else {}
    with pytest.raises(
        ValueError, match=r"scale(\[0\])? is -[01]\.0, not finite and g"
    ):
        call(scale, **axis)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: qops.qbatch_norm(Q, 1.0, 0, s, 0, mean=ONES, var=ONES),
        lambda s: qops.qlayer_norm(Q, s, 0),
        lambda s: qops.qgroup_norm(Q, s, 0, groups=2),
        lambda s: qops.qmax_pool(Q, s, 0, kernel=2),
        lambda s: qops.qavg_pool(Q, 1.0, 0, s, 0, kernel=2),
        lambda s: qops.qinterpolate(Q, s, 0, size=3),
        lambda s: qops.qconcatenate([Q, Q], [1.0, s], 0, 1.0, 0),
        lambda s: qops.masked_fill(Q, Q > 0, 1.0, s, 0),
        lambda s: qops.qmean(Q, s, 0),
        lambda s: qops.qsoftmax(Q, s, 0),
    ],
)
def test_negative_scales_of_layers(call):
    """The same where there is one scale for all."""
    with pytest.raises(ValueError, match=r"scale is -1\.0, not finite and greater"):
        call(-1.0)
