"""What each operation has to return: plain NumPy expressions, and exact rationals.

Written from the definitions alone, so that a test that compares with `==` is a proof
and not an echo. Each expression is evaluated in the type that its inputs have: NumPy's
float32 arithmetic is IEEE-754 binary32, rounded to nearest even. The functions named
`exact_*` say the same with fractions and integers, one number at a time, and show that
the expressions are right.

At the end: the words for dtypes, and inputs that are worth trying.
"""

from fractions import Fraction

import ml_dtypes
import numpy as np

quietly = np.errstate(all="ignore")


# ---------------------------------------------------------------- the expressions


@quietly
def quantize(x, scale, zero_point, dtype):
    """clip(rint(x / s), min - z, max - z) + z; NaN becomes z."""
    x, dtype = np.asarray(x), np.dtype(dtype)
    double = x.dtype.itemsize == 8
    work = np.float64 if double or dtype.itemsize == 4 else np.float32
    s = np.asarray(scale).astype(np.float64 if double else np.float32).astype(work)
    z = np.asarray(zero_point).astype(np.int64)
    limits = np.iinfo(dtype)
    low, high = (limits.min - z).astype(work), (limits.max - z).astype(work)
    t = np.rint(x.astype(work) / s)
    q = np.clip(t, low, high) + z.astype(work)
    return np.where(np.isnan(t), z.astype(work), q).astype(dtype)


@quietly
def dequantize(q, scale, zero_point, dtype=np.float32):
    """(q - z) * s: int32 codes, and results in float64, go through float64."""
    q, s = np.asarray(q), np.asarray(scale)
    z = np.asarray(zero_point).astype(np.int64)
    if np.dtype(dtype) == np.float64:
        return (q.astype(np.float64) - z.astype(np.float64)) * s.astype(np.float64)
    s = s.astype(np.float32)
    if q.dtype.itemsize == 4:
        exact = (q.astype(np.int64) - z).astype(np.float64)
        return (exact * s.astype(np.float64)).astype(np.float32)
    return (q.astype(np.float32) - z.astype(np.float32)) * s


def requantize(q, scale, zero_point, out_scale, out_zero_point, dtype=None):
    """Quantize what dequantize gives."""
    x = dequantize(q, scale, zero_point)
    dtype = np.asarray(q).dtype.newbyteorder("=") if dtype is None else dtype
    return quantize(x, out_scale, out_zero_point, dtype)


def binary(function):
    """Return the operation on codes that a float32 function makes."""

    @quietly
    def operation(a, sa, za, b, sb, zb, scale, zero_point, dtype=None, relu=False):
        x = function(dequantize(a, sa, za), dequantize(b, sb, zb))
        if relu:
            x = np.maximum(x, np.float32(0))
        dtype = np.asarray(a).dtype.newbyteorder("=") if dtype is None else dtype
        return quantize(x, scale, zero_point, dtype)

    return operation


qadd = binary(np.add)
qmul = binary(np.multiply)


def hsum(q, axis=None, keepdims=False):
    """Sum in integers that have no limit."""
    return np.sum(np.asarray(q).astype(object), axis=axis, keepdims=keepdims)


def hsum_sq(q, axis=None, keepdims=False):
    """Sum squares in integers that have no limit."""
    return np.sum(np.asarray(q).astype(object) ** 2, axis=axis, keepdims=keepdims)


def add_codes(total, q):
    """Add codes to sums, as a sum along any axis but the last does row by row."""
    return total + np.asarray(q).astype(object)


def add_squares(total, q):
    """Add squares of codes to sums."""
    return total + np.asarray(q).astype(object) ** 2


ORACLES = {
    "add_codes": add_codes,
    "add_squares": add_squares,
    "dequantize": dequantize,
    "hsum": hsum,
    "hsum_sq": hsum_sq,
    "qadd": qadd,
    "qmul": qmul,
    "quantize": quantize,
    "requantize": requantize,
}


def choose_qparams(x, dtype, symmetric=False):
    """Return scale and zero point of a whole array."""
    x, limits = np.asarray(x), np.iinfo(dtype)
    kind = np.float64 if x.dtype.itemsize == 8 else np.float32
    lo = min(float(x.min()), 0.0)
    hi = max(float(x.max()), 0.0)
    steps = limits.max - limits.min
    if symmetric:
        hi, lo, steps = max(-lo, hi), 0.0, 2 ** (limits.bits - 1) - 1
    scale = kind((hi - lo) / steps) if hi > lo else kind(1)
    scale = max(scale, np.finfo(kind).smallest_subnormal)
    if symmetric:
        return scale, 0 if limits.min else 2 ** (limits.bits - 1)
    zero_point = np.rint(limits.min - lo / np.float64(scale))
    return scale, int(np.clip(zero_point, limits.min, limits.max))


def spread(values, shape, axis, block_size=None):
    """Return the parameter of each element: per channel, or blocked along an axis."""
    values = np.asarray(values)
    axis %= len(shape)
    if values.ndim == 0:
        return np.broadcast_to(values, shape)
    if block_size is None:
        others = [k for k in range(len(shape)) if k != axis]
        return np.broadcast_to(np.expand_dims(values, others), shape)
    repeated = np.repeat(values, min(block_size, max(shape[axis], 1)), axis)
    return np.take(repeated, np.arange(shape[axis]), axis)


# ---------------------------------------------------------------- exact rationals

SINGLE = (24, -149)  # bits of a significand, exponent of the smallest number
DOUBLE = (53, -1074)


def nearest(value, precision=SINGLE):
    """Round a fraction to a float, ties to even; it must not overflow."""
    if not value:
        return value
    bits, smallest = precision
    n, d = abs(value.numerator), value.denominator
    exponent = n.bit_length() - d.bit_length()
    exponent -= n * 2 ** max(-exponent, 0) < d * 2 ** max(exponent, 0)
    unit = Fraction(2) ** max(exponent - bits + 1, smallest)
    return round(value / unit) * unit  # of a Fraction: half to even


def exact_quantize(x, scale, zero_point, dtype, precision=SINGLE):
    """Quantize one number."""
    limits = np.iinfo(dtype)
    t = round(nearest(Fraction(x) / Fraction(scale), precision)) + int(zero_point)
    return min(max(t, int(limits.min)), int(limits.max))


def exact_dequantize(q, scale, zero_point, precision=SINGLE):
    """Dequantize one code of at most 24 bits."""
    return nearest((int(q) - int(zero_point)) * Fraction(scale), precision)


# ---------------------------------------------------------------- dtypes and inputs

CODES = {
    "u8": np.dtype(np.uint8),
    "i8": np.dtype(np.int8),
    "u16": np.dtype(np.uint16),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
}
FLOATS = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
EIGHT_BITS = ("u8", "i8")
RESULTS = {word: FLOATS[word] for word in ("f32", "f64")}  # of dequantize

SPECIAL = np.array(
    [
        *(np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0),
        *(1e30, -1e30, 3e9, -3e9, 2.0**31, -(2.0**31), 2147483520.0, 2.0**63),
        *(np.finfo(np.float32).max, np.finfo(np.float32).min),
        *(1e-45, -1e-45, 1e-39, 2.0**-126, -(2.0**-126), 65504.0, -65504.0),
        *(0.5, -0.5, 1.5, -1.5, 2.5, 127.5, -128.5, 254.5, 255.5, -255.5),
    ]
)


def zero_points(word):
    """Return zero points to try: both ends, beside them, and the middle."""
    limits = np.iinfo(CODES[word])
    low, high = int(limits.min), int(limits.max)
    return low, low + 1, (low + high) // 2 + 1, high - 1, high


def codes(word, size, seed=0):
    """Return codes: any, and the extremes more often."""
    rng = np.random.default_rng(seed)
    limits = np.iinfo(CODES[word])
    q = rng.integers(limits.min, limits.max, size, CODES[word], endpoint=True)
    extremes = rng.choice(np.array([limits.min, limits.max, 0], CODES[word]), size)
    return np.where(rng.random(size) < 0.1, extremes, q)


@quietly
def numbers(word, size, spread=40.0, seed=0):
    """Return numbers: normally distributed, with many halves, and special values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=spread, size=size)
    x = np.where(rng.random(size) < 0.3, np.rint(x) + 0.5, x)
    x = np.where(rng.random(size) < 0.1, rng.choice(SPECIAL, size), x)
    return x.astype(FLOATS[word])


def near_ties(scale, ties, dtype, units=3):
    """Return the floats within some units of (k + 1/2) * scale, for each k."""
    dtype = np.dtype(dtype)
    middle = (ties.astype(dtype) + dtype.type(0.5)) * dtype.type(scale)
    bits = middle.view(f"i{dtype.itemsize}")
    around = np.arange(-units, units + 1, dtype=bits.dtype)
    return (bits[:, None] + around).view(dtype).ravel()
