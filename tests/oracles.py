"""What each result must be: plain NumPy, from the definitions and not from the code.

Arrays broadcast; scales and zero points may be arrays. No oracle has a tolerance.
"""

from fractions import Fraction

import ml_dtypes
import numpy as np

from qops._opcodes import OPCODES

DTYPES = {
    "u8": np.uint8,
    "i8": np.int8,
    "u16": np.uint16,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
CODES = [np.uint8, np.int8, np.uint16, np.int16, np.int32]
FLOATS = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]


def limits(dtype):
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def quantize(x, scale, zero, dtype):
    """clip(rint(x / s), qmin - z, qmax - z) + z, in float32 or float64."""
    lo, hi = limits(dtype)
    zero = np.asarray(zero, np.int64)
    v = quotients(x, scale, dtype)
    with np.errstate(all="ignore"):
        t = np.rint(v).astype(np.float64)
        q = np.clip(t, lo - zero, hi - zero) + zero
    return np.where(np.isnan(v), zero, q).astype(np.int64).astype(dtype)


def dequantize(q, scale, zero, dtype=np.float32):
    """(q - z) * s."""
    q, zero = np.asarray(q), np.asarray(zero, np.int64)
    s = np.asarray(scale, np.float64)
    with np.errstate(all="ignore"):
        if dtype == np.float64:
            return (q.astype(np.float64) - zero.astype(np.float64)) * s
        s = s.astype(np.float32)
        if q.dtype == np.int32:
            exact = (q.astype(np.int64) - zero).astype(np.float64)
            return (exact * s.astype(np.float64)).astype(np.float32)
        return (q.astype(np.float32) - zero.astype(np.float32)) * s


def requantize(q, scale, zero, out_scale, out_zero, dtype):
    return quantize(dequantize(q, scale, zero), out_scale, out_zero, dtype)


def fake_quantize(x, scale, zero, dtype):
    double = np.asarray(x).dtype == np.float64
    real = np.float64 if double else np.float32
    return dequantize(quantize(x, scale, zero, dtype), scale, zero, real)


def quotients(x, scale, dtype):
    """x / scale, in float32 or float64."""
    x, s = np.asarray(x), np.asarray(scale, np.float64)
    double = x.dtype == np.float64
    work = np.float64 if double or dtype == np.int32 else np.float32
    with np.errstate(all="ignore"):
        return x.astype(work) / (s if double else s.astype(np.float32)).astype(work)


def unsaturated(x, scale, zero, dtype):
    """qmin - z <= rint(x / s) <= qmax - z."""
    low, high = limits(dtype)
    zero = np.asarray(zero, np.int64)
    t = np.rint(quotients(x, scale, dtype)).astype(np.float64)
    return (t >= low - zero) & (t <= high - zero)


def masked_fill(q, mask, code):
    return np.where(mask, q.dtype.type(code), q)


def _binary(ufunc):
    def oracle(a, a_scale, a_zero, b, b_scale, b_zero, scale, zero, dtype, relu=False):
        with np.errstate(all="ignore"):
            v = ufunc(dequantize(a, a_scale, a_zero), dequantize(b, b_scale, b_zero))
            if relu:
                v = np.maximum(v, np.float32(0))
        return quantize(v, scale, zero, dtype)

    return oracle


qadd = _binary(np.add)
qsub = _binary(np.subtract)
qmul = _binary(np.multiply)
qdiv = _binary(np.divide)
qmaximum = _binary(np.maximum)
qminimum = _binary(np.minimum)
BINARY = ("qadd", "qsub", "qmul", "qdiv", "qmaximum", "qminimum")


def take(q, table):
    """table[k - qmin] for each code k."""
    return table[np.asarray(q).astype(np.int64) - limits(np.asarray(q).dtype)[0]]


def normalize(q, center, gain, shift, weight, bias, scale, zero, dtype):
    """((q - center) * gain + shift) * weight + bias in float32, quantized."""
    gain, shift, weight, bias = map(np.float32, (gain, shift, weight, bias))
    with np.errstate(all="ignore"):
        v = (np.asarray(q, np.int64) - center).astype(np.float32)
        return quantize((v * gain + shift) * weight + bias, scale, zero, dtype)


def window_max(*x):
    return np.max(x, axis=0)


def window_sum(*x):
    """Sum of codes, of which the lowest counts 0."""
    return np.sum([k.astype(np.int64) - limits(k.dtype)[0] for k in x], axis=0)


def window_mean(x, factor, offset, zero, dtype):
    """rint((sum - offset) * factor) + zero, saturated."""
    t = np.rint((window_sum(*x) - offset).astype(np.float32) * np.float32(factor))
    return np.clip(t + zero, *limits(dtype)).astype(dtype)


def blend_columns(a, b, a_weight, b_weight, zero):
    """a_weight * (a - zero) + b_weight * (b - zero) in float32."""
    x, y = ((np.asarray(k, np.int64) - zero).astype(np.float32) for k in (a, b))
    return np.float32(a_weight) * x + np.float32(b_weight) * y


def blend_rows(x, weights, scale, out_scale, out_zero, dtype):
    """Blend pairs of x, and the results again if there are four; times the scale."""
    weights = [np.float32(w) for w in weights]
    v = [weights[0] * a + weights[1] * b for a, b in zip(x[::2], x[1::2], strict=True)]
    v = weights[2] * v[0] + weights[3] * v[1] if len(v) > 1 else v[0]
    with np.errstate(over="ignore"):
        return quantize(v * np.float32(scale), out_scale, out_zero, dtype)


def hsum(q, axis=None, keepdims=False):
    return _sum(np.asarray(q).astype(object), axis, keepdims)


def hsum_sq(q, axis=None, keepdims=False):
    return _sum(np.asarray(q).astype(object) ** 2, axis, keepdims)


def _sum(q, axis, keepdims):
    """Sum Python integers, which have no end."""
    return np.sum(np.asarray(q, object), axis=axis, keepdims=keepdims, initial=0)


def exponentials(q, entry):
    """How far codes are below the highest of their row; the sum of entries of that."""
    below = q.max(-1, keepdims=True).astype(np.int64) - q.astype(np.int64)
    return below, entry(below).astype(object).sum(-1, keepdims=True)


def tile(opcode, *x):
    """What an opcode does to tiles of any dtypes, in NumPy."""
    return OPCODES[opcode].calculate(*x)


# add_codes and add_squares are hsum and hsum_sq along outer axes.
ORACLES = {
    "quantize": quantize,
    "dequantize": dequantize,
    "fake_quantize": fake_quantize,
    "unsaturated": unsaturated,
    "masked_fill": masked_fill,
    "qadd": qadd,
    "qsub": qsub,
    "qmul": qmul,
    "qdiv": qdiv,
    "qmaximum": qmaximum,
    "qminimum": qminimum,
    "normalize": normalize,
    "take": take,
    "take_wide": take,
    "take_words": take,
    **dict.fromkeys(("tile_cast", "tile_compare", "tile_float", "tile_int"), tile),
    "window_max": window_max,
    "window_sum": window_sum,
    "window_mean": window_mean,
    "blend_columns": blend_columns,
    "blend_rows": blend_rows,
    "exponentials": exponentials,
    "hsum": hsum,
    "hsum_sq": hsum_sq,
    "add_codes": hsum,
    "add_squares": hsum_sq,
}


# The oracles' own oracle: rational numbers, rounded to nearest even by hand.


def round_to_even(v):
    """Round a rational number to an integer, ties to even."""
    low = v.numerator // v.denominator
    rest = v - low
    return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2))


def round_to_float32(v):
    """Round a rational number to the nearest float32 in the normal range."""
    if v == 0:
        return v
    exponent = 0
    while abs(v) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(v) < Fraction(2) ** exponent:
        exponent -= 1
    ulp = Fraction(2) ** (exponent - 23)
    return round_to_even(v / ulp) * ulp


def rational_quantize(x, scale, zero, dtype):
    lo, hi = limits(dtype)
    t = round_to_even(round_to_float32(Fraction(float(x)) / Fraction(float(scale))))
    return min(max(t, lo - zero), hi - zero) + zero


# Comparing


def same(result, expected):
    """Assert equality of every bit, the dtype and the shape."""
    result, expected = np.asarray(result), np.asarray(expected)
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    if result.tobytes() != expected.tobytes():
        bits = f"V{result.dtype.itemsize}"
        wrong = np.argwhere(
            np.ascontiguousarray(result).view(bits)
            != np.ascontiguousarray(expected).view(bits)
        )
        i = tuple(wrong[0])
        raise AssertionError(
            f"{len(wrong)} of {result.size} differ, first at {[int(k) for k in i]}: "
            f"{result[i]!r}, not {expected[i]!r}"
        )
