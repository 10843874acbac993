"""The oracles against rational arithmetic, and against faults that they must see."""

import numpy as np
import oracles
import pytest


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16])
def test_quantize_is_correctly_rounded(dtype):
    rng = np.random.default_rng(1)
    for _ in range(40):
        scale = np.float32(2.0 ** rng.uniform(-20, 20))
        zero = int(rng.integers(*oracles.limits(dtype), endpoint=True))
        k = rng.integers(-300, 300, 20) + rng.choice([0, 0.5], 20)
        x = (k * scale).astype(np.float32)
        x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), -x])
        expected = [oracles.rational_quantize(v, scale, zero, dtype) for v in x]
        assert oracles.quantize(x, scale, zero, dtype).tolist() == expected


def test_ties_go_to_even_and_the_zero_point_comes_after():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
    assert oracles.quantize(x, 1, 3, np.int8).tolist() == [3, 5, 5, 3, 1]


def test_a_reciprocal_would_be_seen():
    """The example of why it has to be a division: 757.5 / 15."""
    x, scale = np.float32(757.5), np.float32(15)
    assert oracles.quantize(x, scale, 0, np.uint8) == 50
    assert np.rint(x * (np.float32(1) / scale)) == 51


def test_same_sees_a_bit():
    a = np.zeros(3, np.float32)
    b = a.copy()
    b[1] = -0.0
    oracles.same(a, a.copy())
    with pytest.raises(AssertionError, match=r"1 of 3 differ, first at \[1\]"):
        oracles.same(a, b)
    with pytest.raises(AssertionError):
        oracles.same(a, a.astype(np.float64))
