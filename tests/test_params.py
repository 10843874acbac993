"""choose_qparams against its definition."""

import ml_dtypes
import numpy as np
import pytest
from oracles import CODES, FLOATS, limits

import qops


def expected(x, dtype, symmetric):
    """Choose for one channel, in float64, as the docstring says."""
    lo, hi = limits(dtype)
    x = x.astype(np.float64)
    least, most = min(x.min(), 0.0), max(x.max(), 0.0)
    real = np.float64
    if symmetric:
        scale = real(max(-least, most) / ((hi - lo) // 2))
        return scale, (lo + hi + 1) // 2
    return real((most - least) / (hi - lo)), None


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("x_dtype", FLOATS)
def test_definition(x_dtype, dtype, symmetric):
    rng = np.random.default_rng(0)
    lo, hi = limits(dtype)
    for shift in (-30, 0, 2, 30):
        x = (rng.normal(size=(7, 50)) * 5 + shift).astype(x_dtype)
        precision = np.float64 if x_dtype == np.float64 else np.float32
        scales, zeros = qops.choose_qparams(x, dtype, axis=0, symmetric=symmetric)
        assert scales.dtype == precision
        assert zeros.dtype == dtype
        for row, scale, zero in zip(x, scales, zeros, strict=True):
            s, z = expected(row, dtype, symmetric)
            assert abs(float(scale) - s) <= np.spacing(precision(s))
            if z is None:
                least = min(float(row.min()), 0.0)
                z = min(max(round(lo - least / float(scale)), lo), hi)
            assert zero == z
            one, same_zero = qops.choose_qparams(row, dtype, symmetric=symmetric)
            assert type(one) is precision
            assert type(same_zero) is int
            assert (one, same_zero) == (scale, zero)
        assert np.isin(0.0, qops.dequantize(zeros, scales, zeros, axis=0))


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", CODES[:4])
def test_quantizing_with_it_is_within_half_a_step(dtype, symmetric):
    x = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    scale, zero = qops.choose_qparams(x, dtype, symmetric=symmetric)
    q = qops.quantize(x, scale, zero, dtype=dtype)
    error = np.abs(qops.dequantize(q, scale, zero).astype(float) - x)
    assert error.max() <= float(scale) * (0.5 + 1e-3) + 2.0**-22
    assert not symmetric or q.min() > limits(dtype)[0]


def test_all_zeros_give_scale_1():
    x = np.zeros((2, 3), np.float32)
    assert qops.choose_qparams(x, np.int8) == (1.0, -128)
    assert qops.choose_qparams(x, np.uint8, symmetric=True) == (1.0, 128)
    x[1] = 1.0
    scales, _ = qops.choose_qparams(x, np.uint8, axis=0)
    assert scales.tolist() == [1.0, np.float32(1 / 255)]


def test_scale_is_never_zero_or_infinite():
    tiny = np.array([1e-45], np.float32)
    scale, _ = qops.choose_qparams(tiny, np.uint8)
    assert scale > 0
    assert qops.quantize(tiny, scale, dtype=np.uint8)[0] == 1
    for dtype in (np.float32, np.float64):
        huge = np.array([-1, 1], dtype) * np.finfo(dtype).max
        for symmetric in (False, True):
            scale, _ = qops.choose_qparams(huge, np.uint8, symmetric=symmetric)
            assert np.isfinite(scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(bad, dtype):
    x = np.zeros((2, 3), dtype)
    x[1, 2] = x[1, 1] = bad
    for axis in (None, 0, 1):
        with pytest.raises(ValueError, match=rf"x\[1, 1\] is {bad}, not finite"):
            qops.choose_qparams(x, np.uint8, axis=axis)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty(shape):
    with pytest.raises(ValueError, match=r"choose_qparams: x has shape .* no values"):
        qops.choose_qparams(np.zeros(shape, np.float32), np.uint8)


def test_axis():
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(np.exceptions.AxisError, match=r"choose_qparams: axis is 2"):
        qops.choose_qparams(x, np.uint8, axis=2)
    with pytest.raises(TypeError, match=r"choose_qparams: axis is 0\.5"):
        qops.choose_qparams(x, np.uint8, axis=0.5)
    assert qops.choose_qparams(x, np.uint8, axis=-1)[0].shape == (3,)
