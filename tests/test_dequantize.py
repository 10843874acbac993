"""dequantize and requantize against their oracles, on each level."""

import numpy as np
import oracles
import pytest
from guard import guarded, tail, untouched
from oracles import CODES, limits, same

import qops

PARAMETERS = [(0.1, "lo"), (0.37, "hi"), (1e-30, "mid"), (1e30, "lo"), (1e-42, "hi")]


def codes(n, dtype, seed=0):
    """Give random codes, the ends of the range among them."""
    lo, hi = limits(dtype)
    q = np.random.default_rng(seed).integers(lo, hi, n, dtype, endpoint=True)
    q[::17], q[5::17] = lo, hi
    return q


def zero_of(word, dtype):
    lo, hi = limits(dtype)
    return {"lo": lo, "hi": hi, "mid": (lo + hi + 1) // 2}[word]


@pytest.mark.parametrize("out_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", CODES)
def test_lengths(level, dtype, out_dtype):
    q, y = guarded(300, dtype), guarded(300, out_dtype)
    q[:] = codes(300, dtype)
    for scale, word in PARAMETERS:
        zero = zero_of(word, dtype)
        for n in range(260):
            v = tail(q, n)
            expected = oracles.dequantize(v, scale, zero, out_dtype)
            same(qops.dequantize(v, scale, zero, dtype=out_dtype), expected)
            y.view(np.uint8)[:] = 0xA5
            out = tail(y, n)
            assert qops.dequantize(v, scale, zero, out=out) is out
            same(out, expected)
            assert untouched(y, n)


@pytest.mark.parametrize("dtype", CODES[:4])
def test_all_codes(level, dtype):
    lo, hi = limits(dtype)
    q = np.arange(lo, hi + 1).astype(dtype)
    for zero in range(lo, hi + 1, 1 if hi < 256 else 9973):
        x = qops.dequantize(q, 0.1, zero)
        same(x, oracles.dequantize(q, 0.1, zero))
        same(x[zero - lo], np.float32(0.0))


def test_int32_differences_beyond_int32(level):
    lo, hi = limits(np.int32)
    q = np.resize(np.array([lo, hi, 0, -1, 1, lo + 1], np.int32), 99)
    for zero in (lo, hi, 0):
        for dtype in (np.float32, np.float64):
            got = qops.dequantize(q, 0.3, zero, dtype=dtype)
            same(got, oracles.dequantize(q, 0.3, zero, dtype))


@pytest.mark.parametrize("out_dtype", CODES)
@pytest.mark.parametrize("dtype", CODES)
def test_requantize(level, dtype, out_dtype):
    q = codes(1111, dtype)
    if dtype(0).itemsize == 1:
        q[:256] = [*np.arange(*limits(dtype), dtype=int).tolist(), limits(dtype)[1]]
    for n in (0, 1, 63, 64, 65, 1023, 1024, 1025, 1111):
        for scale, word in PARAMETERS[:4]:
            for out_scale in (0.1, scale, scale * 3.7):
                args = (q[:n], scale, zero_of(word, dtype), out_scale, 1)
                got = qops.requantize(*args, dtype=out_dtype)
                same(got, oracles.requantize(*args, out_dtype))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_codes_survive_a_round_trip(level, dtype):
    lo, hi = limits(dtype)
    q = np.arange(lo, hi + 1).astype(dtype)
    for zero in (lo, 0, hi):
        for scale in (0.1, 1 / 3, 1e-20, 1e20):
            x = qops.dequantize(q, scale, zero)
            same(qops.quantize(x, scale, zero, dtype=dtype), q)
            same(qops.requantize(q, scale, zero, scale, zero), q)
