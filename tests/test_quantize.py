"""quantize: every path of the conversion to codes, against the float formula."""

from fractions import Fraction

import numpy as np
import oracles
import pytest
from guard import STEPS, check_lengths
from numpy.testing import assert_array_equal
from oracles import CODES, EIGHT_BITS, FLOATS, SPECIAL, near_ties, numbers, zero_points

import qops

PAIRS = [(x, q) for x in FLOATS for q in CODES]
PATTERNS = 2**32
STRIDE = 1021  # a prime, so that all exponents and low bits come by
CHUNK = 2**22


def check(x, scale, zero_point, dtype):
    """Compare a call with the oracle."""
    found = qops.quantize(x, scale, zero_point, dtype=dtype)
    assert found.dtype == dtype
    assert_array_equal(found, oracles.quantize(x, scale, zero_point, dtype))


@pytest.mark.parametrize("steps", [(1,), STEPS], ids=["contiguous", "strided"])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_lengths(level, source, target, steps):
    dtype, zero_point = CODES[target], zero_points(target)[2]
    x = numbers(source, 260)

    def call(x, out):
        return qops.quantize(x, 0.3, zero_point, out=out)

    check_lengths(call, [x], oracles.quantize(x, 0.3, zero_point, dtype), steps)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_lengths_with_a_scale_for_each(level, source, target):
    dtype = CODES[target]
    rng = np.random.default_rng(1)
    x = numbers(source, 260)
    scale = rng.uniform(0.1, 3.0, 260)
    zero_point = oracles.codes(target, 260)

    def call(x, scale, zero_point, out):
        return qops.quantize(x, scale, zero_point, axis=0, out=out)

    for kind in (np.float32, np.float64):
        inputs = [x, scale.astype(kind), zero_point]
        check_lengths(call, inputs, oracles.quantize(*inputs, dtype), STEPS)


# ---------------------------------------------------------------- rounding


def test_division_is_division(level):
    """By the reciprocal, these would be 51 and 128."""
    assert qops.quantize(np.float32(757.5), 15, dtype=np.uint8) == 50
    x = np.float32(0.273939937)
    assert qops.quantize(x, 0.00214854861, dtype=np.uint8) == 127


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_ties_go_to_even_before_the_zero_point(level, source, target):
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5] * 20, FLOATS[source])
    zero_point = zero_points(target)[2] | 1
    found = qops.quantize(x, 1, zero_point, dtype=CODES[target]).astype(np.int64)
    assert_array_equal(found - zero_point, [-2, -2, 0, 0, 2, 2] * 20)


@pytest.mark.parametrize("target", EIGHT_BITS)
def test_near_ties(level, target):
    rng = np.random.default_rng(2)
    ties = np.arange(-260, 260)
    for scale in np.exp(rng.uniform(-60, 60, 500)).astype(np.float32):
        zero_point = rng.choice(zero_points(target))
        check(near_ties(scale, ties, np.float32), scale, zero_point, CODES[target])


@pytest.mark.parametrize("target", ["u16", "i16"])
def test_near_ties_of_16_bits(level, target):
    rng = np.random.default_rng(3)
    ties = np.arange(-65_800, 65_800)
    for scale in np.exp(rng.uniform(-60, 60, 8)).astype(np.float32):
        zero_point = rng.choice(zero_points(target))
        check(near_ties(scale, ties, np.float32), scale, zero_point, CODES[target])


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", CODES)
def test_near_ties_of_a_scale_for_each(level, source, target):
    rng = np.random.default_rng(4)
    limits = np.iinfo(CODES[target])
    ties = rng.integers(limits.min - 4, limits.max + 4, 1000, endpoint=True)
    scales = np.exp(rng.uniform(-60, 60, 100)).astype(FLOATS[source])
    with np.errstate(over="ignore"):
        x = np.stack([near_ties(s, ties, FLOATS[source]) for s in scales])
    zero = oracles.codes(target, 100)
    for axis, data in ((0, x), (1, x.T.copy())):
        found = qops.quantize(data, scales, zero, axis=axis, dtype=CODES[target])
        s, z = (oracles.spread(p, data.shape, axis) for p in (scales, zero))
        assert_array_equal(found, oracles.quantize(data, s, z, CODES[target]))


@pytest.mark.parametrize("target", EIGHT_BITS)
def test_every_binade_of_scales(level, target):
    """Scales from the smallest subnormal to the largest power, and random ones."""
    rng = np.random.default_rng(5)
    ties = np.arange(-260, 260, 3)
    for exponent in range(-149, 128):
        for significand in (1.0, *rng.uniform(1, 2, 2)):
            with np.errstate(over="ignore", under="ignore"):
                scale = np.ldexp(np.float32(significand), exponent)
                x = near_ties(scale, ties, np.float32)
            check(x, scale, zero_points(target)[2], CODES[target])


@pytest.mark.parametrize("target", ["u16", "i16", "i32"])
def test_extreme_scales(level, target):
    with np.errstate(under="ignore"):
        x = np.concatenate([numbers("f32", 1000), SPECIAL.astype(np.float32)])
    for scale in (1e-45, 1e-40, 2.0**-126, 1e-38, 1e-30, 1e30, 2.0**127, 3.4e38):
        check(x, np.float32(scale), zero_points(target)[1], CODES[target])


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-300, 1e-50, 1e50, 1.7e308])
@pytest.mark.parametrize("target", CODES)
def test_scales_that_only_float64_has(level, target, scale):
    with np.errstate(over="ignore"):
        x = np.concatenate([numbers("f64", 500) * scale, numbers("f64", 500)])
    check(x, scale, zero_points(target)[2], CODES[target])


def test_scale_is_rounded_to_float32_first(level):
    """But not where the input is float64, or a Python number."""
    x = np.arange(-200, 200) * np.float32(0.1) + np.float32(0.05)
    for data in (x, x.astype(np.float64), x.tolist()):
        found = qops.quantize(data, 0.1, dtype=np.int16)
        assert_array_equal(found, oracles.quantize(data, 0.1, 0, np.int16))
    assert qops.quantize(0.25, 0.1, dtype=np.int8) == 2  # a tie in float64


@pytest.mark.parametrize("source", FLOATS)
def test_int32_codes_are_found_in_float64(level, source):
    """Beyond 2**24, float32 would lose the last bits."""
    rng = np.random.default_rng(6)
    with np.errstate(over="ignore"):
        x = rng.uniform(-2.2e9, 2.2e9, 5000).astype(FLOATS[source])
    for scale in (1.0, 0.7, 1.0000001, 3.0):
        for zero_point in zero_points("i32"):
            check(x, scale, zero_point, np.int32)


# ---------------------------------------------------------------- saturation


def check_special(source, target, zero_point):
    """Hold every special value to its side, in vectors and in the tail alike."""
    with np.errstate(over="ignore", under="ignore"):
        x = np.resize(SPECIAL, 8 * SPECIAL.size + 3).astype(FLOATS[source])
    for scale in (1.0, 1e-30):
        check(x, scale, zero_point, CODES[target])
    limits = np.iinfo(CODES[target])
    found = qops.quantize(x[:3], 1.0, zero_point, dtype=CODES[target])
    assert found.tolist() == [limits.max, limits.min, zero_point]


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", EIGHT_BITS)
def test_special_values_with_every_zero_point(level, source, target):
    limits = np.iinfo(CODES[target])
    for zero_point in range(limits.min, limits.max + 1):
        check_special(source, target, zero_point)


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", ["u16", "i16", "i32"])
def test_special_values_with_zero_points_at_the_ends(level, source, target):
    for zero_point in zero_points(target):
        check_special(source, target, zero_point)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("target", ["u16", "i16"])
def test_special_values_with_every_zero_point_of_16_bits(level, target, axis):
    limits = np.iinfo(CODES[target])
    zero = np.arange(limits.min, limits.max + 1)
    shape = (65_536, 9) if axis == 0 else (9, 65_536)
    special = SPECIAL[[0, 1, 2, 6, 7, 8, 9, 14, 15]].astype(np.float32)
    x = oracles.spread(special, shape, 1 - axis)
    found = qops.quantize(x, 1.0, zero, dtype=CODES[target], axis=axis)
    z = oracles.spread(zero, shape, axis)
    assert_array_equal(found, oracles.quantize(x, 1.0, z, CODES[target]))


@pytest.mark.parametrize("target", CODES)
def test_is_monotone(level, target):
    """No saturation flips its side: larger numbers never have smaller codes."""
    bits = np.arange(0, 0x7F80_0001, 4001, dtype=np.uint32)
    positive = bits.view(np.float32)
    x = np.concatenate([-positive[::-1], positive, [np.float32(np.inf)]])
    for scale in (1e-30, 0.1, 1.0, 1e30):
        for zero_point in zero_points(target):
            found = qops.quantize(x, scale, zero_point, dtype=CODES[target])
            assert np.all(found[1:] >= found[:-1])


# ---------------------------------------------------------------- all patterns


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.003, 3e-5, 777.0])
@pytest.mark.parametrize("target", CODES)
@pytest.mark.parametrize("source", ["f16", "bf16"])
def test_all_16_bit_patterns(level, source, target, scale):
    x = np.arange(65_536, dtype=np.uint16).view(FLOATS[source])
    for zero_point in zero_points(target):
        check(x, scale, zero_point, CODES[target])


def check_patterns(start, stop, step, scale, zero_point, dtype):
    """Compare a range of float32 patterns, in chunks."""
    for first in range(start, stop, CHUNK * step):
        last = min(first + CHUNK * step, stop)
        x = np.arange(first, last, step, dtype=np.uint32).view(np.float32)
        check(x, scale, zero_point, dtype)


@pytest.mark.parametrize("target", CODES)
def test_sampled_float32_patterns(level, target):
    check_patterns(0, PATTERNS, STRIDE, 0.0237, zero_points(target)[2], CODES[target])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "scale"), [("u8", 0.0237), ("i8", 3e-20), ("u16", 0.0237), ("i32", 3.7)]
)
def test_float32_patterns(level, target, scale):
    """One third of all patterns: 1.4e9."""
    zero_point = zero_points(target)[2]
    check_patterns(1, PATTERNS, 3, scale, zero_point, CODES[target])


# ---------------------------------------------------------------- the oracle itself


@pytest.mark.parametrize("target", CODES)
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_oracle_is_right(source, target):
    """The NumPy expression equals exact arithmetic, rounded once by hand."""
    rng = np.random.default_rng(7)
    dtype = FLOATS[source]
    double = source == "f64" or target == "i32"
    precision = oracles.DOUBLE if double else oracles.SINGLE
    limits = np.iinfo(CODES[target])
    for scale in np.exp(rng.uniform(-40, 40, 40)).astype(dtype):
        zero_point = int(rng.choice(zero_points(target)))
        low, high = limits.min - zero_point - 9, limits.max - zero_point + 9
        ties = rng.integers(low, high, 12, endpoint=True)
        x = np.append(near_ties(scale, ties, dtype, 1), ties.astype(dtype) * scale)
        found = oracles.quantize(x, scale, zero_point, CODES[target])
        rest = Fraction(float(scale)), zero_point, CODES[target], precision
        exact = [oracles.exact_quantize(v, *rest) for v in x.tolist()]
        assert found.tolist() == exact


def test_rounding_by_hand_is_right():
    """`nearest` agrees with the hardware's rounding of float64 to float32."""
    rng = np.random.default_rng(8)
    x = rng.uniform(1, 2, 3000) * 2.0 ** rng.integers(-155, 127, 3000)
    x[::2] = (x[::2].astype(np.float32) * 1.00000006).astype(np.float64)
    with np.errstate(under="ignore"):
        wanted = x.astype(np.float32).tolist()
    assert [float(oracles.nearest(Fraction(v))) for v in x.tolist()] == wanted


# ---------------------------------------------------------------- the nan= argument


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", CODES)
def test_nan_raise_changes_nothing_without_nan(level, source, target):
    x = numbers(source, 1000)
    x = x[~np.isnan(x)]
    found = qops.quantize(x, 0.3, 1, dtype=CODES[target], nan="raise")
    assert_array_equal(found, oracles.quantize(x, 0.3, 1, CODES[target]))


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("first", [0, 1, 63, 64, 100, 4098, 4099])
def test_nan_raise_names_the_first(level, source, first):
    x = np.ones(4100, FLOATS[source])
    x[[first, -1]] = np.nan
    out = np.full(4100, 77, np.uint8)
    with pytest.raises(ValueError, match=rf"^quantize: x\[{first}\] is nan,"):
        qops.quantize(x, 1.0, out=out, nan="raise")
    assert np.all(out == 77)
    y = x.reshape(41, 100)[:, ::-1]
    i, j = np.argwhere(np.isnan(y))[0]
    with pytest.raises(ValueError, match=rf"^quantize: x\[{i}, {j}\] is nan,"):
        qops.quantize(y, 1.0, dtype=np.uint8, nan="raise")
