"""Fake quantization, its gradients and casts: from the definitions, and exactly."""

import math
import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import CODES, FLOATS, limits, round_to_even, same
from test_quantize import numbers

import qops

INTEGERS = [np.dtype(f"{k}{n}").type for k in "iu" for n in (1, 2, 4, 8)]


def rounded(x, *to):
    """The numbers, and which are not saturated."""
    return oracles.fake_quantize(x, *to), oracles.unsaturated(x, *to)


def check(x, scale, zero, dtype, **axis):
    wide = [np.asarray(p) for p in (scale, zero)]
    if axis:
        shape = [1] * x.ndim
        shape[axis["axis"]] = -1
        wide = [p.reshape(shape) if p.ndim else p for p in wide]
    expected = rounded(x, *wide, dtype)
    got = qops.fake_quantize(x, scale, zero, dtype=dtype, return_mask=True, **axis)
    for a, b in zip(got, expected, strict=True):
        same(a, b)
    same(qops.fake_quantize(x, scale, zero, dtype=dtype, **axis), expected[0])


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("x_dtype", FLOATS)
def test_fake_quantize(level, x_dtype, dtype):
    low, high = limits(dtype)
    x = numbers(1111, x_dtype)
    for scale in (0.1, 0.37, 1e-30, 1e30, 1e-45, 3e38):
        for zero in (low, high, (low + high + 1) // 2, max(low, -3)):
            check(x, scale, zero, dtype)
    check(x[:0], 0.1, 0, dtype)
    check(x[3].reshape(()), 0.1, 0, dtype)


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("x_dtype", FLOATS)
def test_masks_at_their_ends(level, x_dtype, dtype):
    """All numbers within 9 units of where saturation begins, for many scales."""
    rng = np.random.default_rng(0)
    low, high = limits(dtype)
    bits = f"i{np.dtype(x_dtype).itemsize}"
    exponents = rng.uniform(-149, 127, 150)
    scales = np.array([2.0**-149, 2.0**-126, 2.0**127, 1.0, *2.0**exponents])
    for scale in scales.astype(np.float32).astype(np.float64):
        for zero in (low, high, int(rng.integers(low, high))):
            ends = np.array([low - zero - 0.5, high - zero + 0.5]) * scale
            with np.errstate(over="ignore"):
                near = ends.astype(x_dtype).view(bits)[:, None] + np.arange(-9, 10)
            check(near.astype(bits).view(x_dtype), scale, zero, dtype)


def test_masks_of_every_float16(level):
    x = np.arange(2**16, dtype=np.uint16)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        for scale, zero in ((0.1, 3), (2.0**-30, 255), (513.7, 0), (1e-45, 7)):
            check(x.view(dtype), scale, zero, np.uint8)


@pytest.mark.parametrize("x_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 70001), (70001, 3), (7, 5, 4001), (140001,)])
def test_channels(level, x_dtype, shape):
    x = numbers(math.prod(shape), x_dtype).reshape(shape)
    for axis, n in enumerate(shape):
        rng = np.random.default_rng(axis)
        s, z = rng.uniform(0.01, 1, n), rng.integers(0, 255, n)
        for v in (x, np.asfortranarray(x)):
            check(v, s, z, np.uint8, axis=axis)
        check(x, s, 5, np.uint8, axis=axis)
        check(x, 0.3, z, np.uint8, axis=axis - len(shape))


@pytest.mark.parametrize("x_dtype", [np.float32, np.float64])
def test_blocks(level, x_dtype):
    x = numbers(3 * 70 * 5, x_dtype).reshape(3, 70, 5)
    rng = np.random.default_rng(0)
    s, z = rng.uniform(0.01, 1, (3, 9, 5)), rng.integers(0, 255, (3, 9, 5))
    expected = rounded(x, *(np.repeat(p, 8, 1)[:, :70] for p in (s, z)), np.uint8)
    own = {"dtype": np.uint8, "axis": 1, "block_size": 8, "return_mask": True}
    for a, b in zip(qops.fake_quantize(x, s, z, **own), expected, strict=True):
        same(a, b)


@pytest.mark.parametrize("x_dtype", [np.float16, np.float32, np.float64])
def test_layouts(x_dtype):
    base = numbers(6 * 10, x_dtype).reshape(6, 10)
    raw = np.empty(base.nbytes + 1, np.uint8)
    misaligned = raw[1:].view(x_dtype).reshape(6, 10)
    misaligned[:] = base
    result = np.float64 if x_dtype == np.float64 else np.float32
    for x in (base, base.T, base[::-1, ::-3], misaligned, base[:0], base[2:3, :1]):
        expected, mask = rounded(np.ascontiguousarray(x), 0.3, 7, np.uint8)
        for v in (x, x.astype(x.dtype.newbyteorder())):
            got = qops.fake_quantize(v, 0.3, 7, dtype=np.uint8, return_mask=True)
            same(got[0], expected)
            same(got[1], mask)
            out = np.empty((*x.shape, 2), np.dtype(result).newbyteorder())[..., 1]
            assert qops.fake_quantize(v, 0.3, 7, dtype="u1", out=out) is out
            same(out.astype(result), expected)
    wide = np.broadcast_to(base[0], (4, 10))
    same(
        qops.fake_quantize(wide, 0.3, 7, dtype=np.uint8),
        rounded(wide, 0.3, 7, np.uint8)[0],
    )
    y = qops.fake_quantize(base.T, 0.3, dtype=np.uint8)
    assert y.flags.f_contiguous
    assert isinstance(qops.fake_quantize(0.5, 1.0, dtype=np.uint8), np.float64)


def test_overlaps():
    base = numbers(140001, np.float32)
    for first in (0, 1, 5, 70000):
        x = base.copy()
        n = x.size - first
        expected, mask = rounded(base[:n], 0.3, 7, np.uint8)
        got = qops.fake_quantize(
            x[:n], 0.3, 7, dtype=np.uint8, out=x[first:], return_mask=True
        )
        same(got[0], expected)
        same(got[1], mask)
        x = base.copy()
        qops.fake_quantize(x[:n][::-1], 0.3, 7, dtype=np.uint8, out=x[first:])
        same(x[first:], expected[::-1])


# ------------------------------------------------------------------- gradients


def exact_gradients(x, scale, zero, g, dtype, factor=1):
    """Gradients of one channel, of rational numbers."""
    low, high = limits(dtype)
    dx, ds, dz = [], Fraction(0), Fraction(0)
    s = Fraction(float(np.float32(scale)))
    for v, w in zip(np.ravel(x).tolist(), np.ravel(g).tolist(), strict=True):
        if math.isnan(v):
            dx.append(0.0)
            continue
        t = v if math.isinf(v) else round_to_even(Fraction(v) / s)
        inside = low - zero <= t <= high - zero
        dx.append(w if inside else 0.0)
        if inside:
            ds += Fraction(w) * (t - Fraction(v) / s)
        else:
            ds += Fraction(w) * ((low if t < 0 else high) - zero)
            dz -= Fraction(w) * s
    shape = np.shape(x)
    return np.array(dx).reshape(shape), ds * factor, dz * factor


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("x_dtype", FLOATS)
def test_gradients(x_dtype, dtype):
    """Of multiples of a fraction of the scale: all sums are exact in float64."""
    rng = np.random.default_rng(0)
    low, high = limits(dtype)
    x = (rng.integers(-6000, 6000, (3, 700)) / 16).astype(x_dtype)
    x[:, ::50] = [[np.inf], [-np.inf], [np.nan]]
    g = (rng.integers(-50, 50, x.shape) / 8).astype(x_dtype)
    result = np.float64 if x_dtype == np.float64 else np.float32
    f = qops.fake_quantize_gradients
    for zero in (low, high, max(low, -3)):
        for factor in (1.0, 0.125):
            got = f(x, 0.5, zero, g, dtype=dtype, grad_factor=factor)
            expected = exact_gradients(x, 0.5, zero, g, dtype, Fraction(factor))
            for a, b in zip(got, expected, strict=True):
                b = b if isinstance(b, np.ndarray) else float(b)
                same(a, np.asarray(b, result))
        scales, zeros = np.array([0.5, 2.0, 0.125]), np.array([zero, 5, 1])
        got = f(x, scales, zeros, g, dtype=dtype, axis=0)
        rows = zip(x, scales, zeros.tolist(), g, strict=True)
        each = [exact_gradients(*row, dtype) for row in rows]
        for a, b in zip(got, zip(*each, strict=True), strict=True):
            b = [v if isinstance(v, np.ndarray) else float(v) for v in b]
            same(a, np.asarray(b, result))


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_gradients_of_each_layout(axis):
    rng = np.random.default_rng(0)
    shape = (5, 70, 301)
    x = rng.normal(size=shape).astype(np.float32)
    g = rng.normal(size=shape).astype(np.float32)
    s, z = 0.013, 100
    if axis is not None:
        s, z = rng.uniform(0.01, 0.02, shape[axis]), rng.integers(0, 255, shape[axis])
    f = qops.fake_quantize_gradients
    expected = f(x, s, z, g, dtype=np.uint8, axis=axis)
    turn = (2, 0, 1)
    for v, w in (
        (np.asfortranarray(x), g),
        (x.transpose(turn).copy().transpose(np.argsort(turn)), g[::-1].copy()[::-1]),
        (x.astype(">f4"), g.astype(">f4")),
        (np.repeat(x, 2, 2)[..., ::2], g.astype(np.float64)),
    ):
        for a, b in zip(f(v, s, z, w, dtype="u1", axis=axis), expected, strict=True):
            same(a, b)
    # The same to the last bit as sums that are rounded once.
    wide = [np.asarray(p, float) for p in (s, z)]
    if axis is not None:
        wide = [p.reshape([-1 if i == axis else 1 for i in range(3)]) for p in wide]
    v = oracles.quotients(x, wide[0], np.uint8)
    t = np.rint(v)
    _, mask = rounded(x, *wide, np.uint8)
    d = np.where(mask, t - v, np.clip(t, -wide[1], 255 - wide[1])).astype(np.float64)
    same(expected[0], np.where(mask, g, np.float32(0)))
    s32 = np.asarray(s, np.float32).astype(float)
    for got, terms, times in (
        (expected[1], g * d, 1.0),
        (expected[2], np.where(mask, 0.0, g), -s32),
    ):
        rows = (
            terms.reshape(1, -1)
            if axis is None
            else np.moveaxis(terms, axis, 0).reshape(shape[axis], -1)
        )
        total = np.array([math.fsum(row) for row in rows.tolist()])
        total = (total[0] if axis is None else total) * times
        same(got, np.asarray(total).astype(np.float32))


def test_gradients_of_little():
    f = qops.fake_quantize_gradients
    got = f(
        np.zeros((0, 2), np.float32), [1, 1], 0, np.zeros((0, 2)), dtype="u1", axis=1
    )
    same(got[0], np.zeros((0, 2), np.float32))
    same(got[1], np.zeros(2, np.float32))
    got = f(np.float32(-2), 1.0, 0, np.float16(3), dtype=np.uint8)
    assert got == (0, 0, -3)
    assert all(type(v) is np.float32 for v in got)
    got = f(np.float32(np.nan), 1.0, 0, np.inf, dtype=np.uint8)
    assert got == (0, 0, 0)


# ----------------------------------------------------------------------- casts


def cast(v, dtype):
    """Round a float of Python."""
    low, high = limits(dtype)
    if math.isnan(v):
        return 0
    if math.isinf(v):
        return high if v > 0 else low
    return min(max(round_to_even(Fraction(v)), low), high)


def casts(x, dtype):
    values = [cast(v, dtype) for v in np.ravel(x).astype(np.float64).tolist()]
    return np.array(values, dtype).reshape(np.shape(x))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("x_dtype", FLOATS)
def test_saturate_cast(x_dtype, dtype):
    powers = [2.0**k for k in (*range(-3, 18), *range(30, 34), *range(60, 67), 127)]
    with np.errstate(over="ignore"):
        near = np.array(powers).astype(x_dtype)
        bits = near.view(f"i{near.itemsize}")[:, None] + np.arange(-3, 4)
        x = bits.astype(f"i{near.itemsize}").view(x_dtype).ravel()
        x = np.concatenate(
            [x, -x, np.arange(-300, 300) / 2, numbers(99, np.float32)],
            dtype=x_dtype,
            casting="unsafe",
        )
    expected = casts(x, dtype)
    same(qops.saturate_cast(x, dtype), expected)
    out = np.zeros((x.size, 2), np.dtype(dtype).newbyteorder())[::-1, 1]
    assert qops.saturate_cast(x, dtype, out=out) is out
    same(out.astype(dtype), expected)


@given(st.floats(), st.sampled_from(INTEGERS))
def test_saturate_cast_of_any_float(v, dtype):
    assert qops.saturate_cast(v, dtype) == cast(v, dtype)
    v = np.float32(np.clip(v, -1e38, 1e38))
    assert qops.saturate_cast(v, dtype) == cast(float(v), dtype)


def test_layouts_of_casts():
    base = numbers(6 * 10, np.float32).reshape(6, 10)
    for x in (base, base.T, base[::-1, ::-3], base.astype(">f4"), base[:0], base[0, 0]):
        same(qops.saturate_cast(x, np.int16), casts(x, np.int16))
    assert qops.saturate_cast(base.T, np.int16).flags.f_contiguous
    assert type(qops.saturate_cast(2.5, np.uint64)) is np.uint64
    big = numbers(140001, np.float32)
    expected = casts(big, np.int32)
    x = big.copy()
    qops.saturate_cast(x, np.int32, out=x.view(np.int32))
    same(x.view(np.int32), expected)
    x = big.copy()
    qops.saturate_cast(x[:-1], np.int32, out=x[1:].view(np.int32))
    same(x[1:].view(np.int32), expected[:-1])
    x = big.copy()
    qops.saturate_cast(x, np.int8, out=x.view(np.int8)[7 : 7 + x.size])
    same(x.view(np.int8)[7 : 7 + x.size], casts(big, np.int8))


def test_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45], np.float32)
        for scale in (1e-45, 1e-30, 3e38):
            qops.fake_quantize(x, scale, dtype=np.int8, return_mask=True)
            qops.fake_quantize_gradients(x, scale, 0, x, dtype=np.int8)
        for dtype in INTEGERS:
            qops.saturate_cast(x, dtype)


X = np.ones((2, 3), np.float32)


def gradients(*args, **more):
    return qops.fake_quantize_gradients(*args, **{"dtype": np.uint8, **more})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: qops.fake_quantize(X, 1, 256, dtype=np.uint8),
            ValueError,
            "fake_quantize: zero_point is 256, not within 0..255, the range of uint8",
        ),
        (
            lambda: qops.fake_quantize(X, [1, 1, 0], axis=1, dtype=np.uint8),
            ValueError,
            r"fake_quantize: scale\[2\] is 0.0, not finite and greater than 0",
        ),
        (
            lambda: qops.fake_quantize(X, 1, dtype=np.int64),
            TypeError,
            "fake_quantize: dtype is int64, not one of",
        ),
        (
            lambda: qops.fake_quantize(X, 1, dtype=None),
            TypeError,
            "fake_quantize: dtype is None, not one of",
        ),
        (
            lambda: qops.fake_quantize(X.astype(int), 1, dtype=np.int8),
            TypeError,
            "fake_quantize: x is int64, not one of",
        ),
        (
            lambda: qops.fake_quantize(X, 1, dtype=np.int8, out=X.astype(float)),
            TypeError,
            "fake_quantize: out has dtype float64, not float32",
        ),
        (
            lambda: qops.fake_quantize(X, 1, dtype=np.int8, out=X[:1].copy()),
            ValueError,
            r"fake_quantize: out has shape \(1, 3\), not \(2, 3\)",
        ),
        (
            lambda: qops.fake_quantize(
                X, 1, dtype=np.int8, out=np.broadcast_to(X[0], X.shape)
            ),
            ValueError,
            "fake_quantize: out is read-only, not writeable",
        ),
        (
            lambda: gradients(X, 1, 0, X[:1]),
            ValueError,
            r"fake_quantize_gradients: gradient has shape \(1, 3\), not \(2, 3\), that",
        ),
        (
            lambda: gradients(X, 1, 0, X.astype(int)),
            TypeError,
            "fake_quantize_gradients: gradient is int64, not one of",
        ),
        (
            lambda: gradients(X, 1, 0, X, grad_factor="1"),
            TypeError,
            "fake_quantize_gradients: grad_factor is '1', not a number",
        ),
        (
            lambda: gradients(X, 1, 0, X, grad_factor=np.inf),
            ValueError,
            "fake_quantize_gradients: grad_factor is inf, not finite",
        ),
        (
            lambda: gradients(X, 1, -1, X),
            ValueError,
            "fake_quantize_gradients: zero_point is -1, not within 0..255",
        ),
        (
            lambda: qops.saturate_cast(X, np.float32),
            TypeError,
            "saturate_cast: dtype is float32, not an integer type",
        ),
        (
            lambda: qops.saturate_cast(X, None),
            TypeError,
            "saturate_cast: dtype is None, not an integer type",
        ),
        (
            lambda: qops.saturate_cast(X, "codes"),
            TypeError,
            "saturate_cast: dtype is 'codes', not a dtype",
        ),
        (
            lambda: qops.saturate_cast(X, bool),
            TypeError,
            "saturate_cast: dtype is bool, not an integer type",
        ),
        (
            lambda: qops.saturate_cast(X > 0, np.int8),
            TypeError,
            "saturate_cast: x is bool, not one of",
        ),
        (
            lambda: qops.saturate_cast(X, np.int8, out=np.zeros((2, 3), np.uint8)),
            TypeError,
            "saturate_cast: out has dtype uint8, not int8",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()
