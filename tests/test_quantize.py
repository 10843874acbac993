"""quantize against its oracle: every length, special value and tie, on each level."""

import ml_dtypes
import numpy as np
import oracles
import pytest
from guard import guarded, tail, untouched
from oracles import CODES, FLOATS, limits, same

import qops
from qops import threads

LENGTHS = range(4 * 64 + 4)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 3e9, -3e9, 3.4e38, 1e-45]


def numbers(n, dtype, seed=0):
    """Give numbers of the size of codes, with special values among them."""
    x = np.random.default_rng(seed).normal(size=n) * 40
    x[1::13] = np.resize(SPECIAL, x[1::13].size)
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(dtype)


@pytest.mark.parametrize("out_dtype", CODES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_lengths(level, dtype, out_dtype):
    x, y = guarded(300, dtype), guarded(300, out_dtype)
    x[:] = numbers(300, dtype)
    lo, hi = limits(out_dtype)
    for scale, zero in ((0.1, hi), (0.37, lo), (1e-30, 1), (1e30, 2)):
        for n in LENGTHS:
            v = tail(x, n)
            expected = oracles.quantize(v, scale, zero, out_dtype)
            same(qops.quantize(v, scale, zero, dtype=out_dtype), expected)
            y.view(np.uint8)[:] = 0xA5
            out = tail(y, n)
            assert qops.quantize(v, scale, zero, out=out) is out
            same(out, expected)
            assert untouched(y, n)


def near_ties(scale, most, rng):
    """Give floats within 3 units of (k + 1/2) * scale."""
    k = rng.integers(-most, most, 500) + 0.5
    x = (k * np.float64(scale)).astype(np.float32).view(np.int32)
    return (x[:, None] + np.arange(-3, 4, dtype=np.int32)).ravel().view(np.float32)


@pytest.mark.parametrize(
    ("out_dtype", "most"),
    [(np.uint8, 260), (np.int8, 260), (np.uint16, 66000), (np.int16, 66000)],
)
def test_near_ties(level, out_dtype, most):
    rng = np.random.default_rng(2)
    lo, hi = limits(out_dtype)
    for exponent in rng.uniform(-56, 56, 300):
        scale = np.float32(2.0**exponent)
        zero = int(rng.integers(lo, hi, endpoint=True))
        x = near_ties(scale, most, rng)
        got = qops.quantize(x, scale, zero, dtype=out_dtype)
        same(got, oracles.quantize(x, scale, zero, out_dtype))
    scales = (2.0 ** rng.uniform(-7, 7, x.size)).astype(np.float32)
    x = near_ties(scales[0], most, rng)
    got = qops.quantize(x, scales, zero, dtype=out_dtype, axis=0)
    same(got, oracles.quantize(x, scales, zero, out_dtype))


@pytest.mark.parametrize("out_dtype", CODES)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_all_half_floats(level, dtype, out_dtype):
    x = np.arange(65536, dtype=np.uint16).view(dtype)
    for scale, zero in ((0.05, 3), (0.0001, 77), (300.0, 0)):
        got = qops.quantize(x, scale, zero, dtype=out_dtype)
        same(got, oracles.quantize(x, scale, zero, out_dtype))


def check_patterns(patterns, out_dtype, scale, zero):
    x = patterns.astype(np.uint32).view(np.float32)
    got = qops.quantize(x, scale, zero, dtype=out_dtype)
    same(got, oracles.quantize(x, scale, zero, out_dtype))


@pytest.mark.parametrize("out_dtype", CODES)
def test_sample_of_all_patterns(level, out_dtype):
    patterns = np.arange(0, 1 << 32, 4099, dtype=np.uint64)
    for scale, zero in ((0.1, 5), (3.0, 100)):
        check_patterns(patterns, out_dtype, scale, zero)


@pytest.mark.slow
@pytest.mark.parametrize("out_dtype", [np.uint8, np.int16])
def test_a_billion_patterns(level, out_dtype):
    """Every fourth float32 there is: 2**30 of them."""
    for start in range(0, 1 << 32, 1 << 24):
        patterns = np.arange(start + 1, start + (1 << 24), 4, dtype=np.uint64)
        check_patterns(patterns, out_dtype, 0.1, 5)


def test_nan_raises_before_anything_is_written(level):
    x = np.array([[1.0, 2.0], [3.0, np.nan]], np.float32)
    out = np.full((2, 2), 7, np.uint8)
    with pytest.raises(ValueError, match=r"quantize: x\[1, 1\] is nan"):
        qops.quantize(x, 1.0, nan="raise", out=out)
    assert (out == 7).all()
    assert qops.quantize(x[:1], 1.0, nan="raise", out=out[:1]).tolist() == [[1, 2]]


def test_python_numbers_are_float64(level):
    x = 0.1 + 1e-12
    assert qops.quantize(x, 0.2, dtype=np.uint8) == 1
    assert qops.quantize([x], 0.2, dtype=np.uint8).tolist() == [1]
    assert qops.quantize(np.float32(x), 0.2, dtype=np.uint8) == 0
    assert type(qops.quantize(x, 0.2, dtype=np.int16)) is np.int16


@pytest.mark.parametrize("shift", [0, 1, 7])
def test_results_written_around_the_caches(level, monkeypatch, shift):
    """As if there were hardly any; neither end is that of a vector."""
    monkeypatch.setattr(threads, "CACHE_BYTES", 1)
    n = 600_003
    x = np.resize(np.random.default_rng(0).normal(0, 9, 65_537), n).astype(np.float32)
    q, y = np.empty(n + 64, np.uint8), np.empty(n + 64, np.float32)
    for start in (0, 3):
        out = q[start:][: n - shift]
        qops.quantize(x[shift:], 0.1, 128, out=out)
        same(out, oracles.quantize(x[shift:], 0.1, 128, np.uint8))
        back = y[start:][: n - shift]
        qops.dequantize(out, 0.1, 128, out=back)
        same(back, oracles.dequantize(out, 0.1, 128))
    half = x.astype(np.float16)
    for dtype in np.int16, np.int32:
        wide = qops.quantize(half, 0.001, 0, dtype=dtype)
        same(wide, oracles.quantize(half, 0.001, 0, dtype))
