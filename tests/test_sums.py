"""hsum and hsum_sq against Python integers, at every threshold and over any axes."""

import itertools
import os

import numpy as np
import oracles
import pytest
from guard import guarded, tail
from oracles import CODES, limits
from test_dequantize import codes

import qops

# Steps that fill a lane, of signed and of unsigned 32 bits (the table of the contract),
# and the codes a level takes in a step.
STEPS = {np.uint8: (16_512, 33_025), np.int8: (65_535, 131_071)}
LANES = (1, 32, 64)


@pytest.mark.parametrize("dtype", CODES)
def test_lengths(level, dtype):
    q = guarded(300, dtype)
    q[:] = codes(300, dtype)
    for n in range(260):
        v = tail(q, n)
        total, squares = qops.hsum(v), qops.hsum_sq(v)
        assert type(total) is type(squares) is int
        assert (total, squares) == (oracles.hsum(v), oracles.hsum_sq(v))


@pytest.mark.parametrize("value", [255, -128, 127])
def test_thresholds(level, value):
    dtype = np.uint8 if value == 255 else np.int8
    most = max(STEPS[dtype]) * 2 * max(LANES) + 65
    q = np.full(most, value, dtype)
    for steps, lanes in itertools.product(STEPS[dtype], LANES):
        for per_lane, off in itertools.product((1, 2), (-1, 0, 1)):
            n = steps * lanes * per_lane + off * lanes
            for m in (n - 1, n, n + 1):
                assert qops.hsum(q[:m]) == value * m
                assert qops.hsum_sq(q[:m]) == value * value * m


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("end", [0, 1])
def test_ends_of_the_range(level, dtype, end):
    value = limits(dtype)[end]
    q = np.full((3, 70_001), value, dtype)
    assert qops.hsum(q) == value * q.size
    assert qops.hsum_sq(q) == value * value * q.size
    for axis, n in ((0, 3), (1, 70_001)):
        assert set(qops.hsum(q, axis=axis).tolist()) == {value * n}
        assert set(qops.hsum_sq(q, axis=axis).tolist()) == {value * value * n}


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("order", ["C", "F", "reversed", "steps", "swapped", "moved"])
def test_axes(level, dtype, order):
    shape = (5, 3, 67, 4)
    q = codes(int(np.prod(shape)), dtype).reshape(shape)
    q = {
        "C": lambda: q,
        "F": lambda: np.asfortranarray(q),
        "reversed": lambda: q[::-1, :, ::-1],
        "steps": lambda: np.repeat(q, 2, axis=2)[:, :, ::2, ::-2],
        "swapped": lambda: q.astype(q.dtype.newbyteorder()),
        "moved": lambda: (
            np.frombuffer(b"\0" + q.tobytes(), q.dtype, q.size, 1)
            .reshape(shape)
            .transpose(2, 0, 3, 1)
        ),
    }[order]()
    for k in range(5):
        for axis in itertools.combinations(range(-4, 0), k):
            for keepdims in (False, True):
                for function in ("hsum", "hsum_sq"):
                    got = getattr(qops, function)(q, axis=axis, keepdims=keepdims)
                    expected = getattr(oracles, function)(q, axis, keepdims)
                    wide = function == "hsum_sq" and dtype == np.int32
                    assert np.shape(got) == np.shape(expected)
                    assert np.array_equal(got, expected)
                    assert wide or got.dtype == np.int64


@pytest.mark.parametrize("columns", [1, 3, 511, 1023, 1024, 1025, 2500])
def test_sums_over_rows(level, columns):
    q = codes(columns * 77, np.int8).reshape(77, columns)
    assert np.array_equal(qops.hsum(q, axis=0), q.astype(int).sum(axis=0))
    assert np.array_equal(qops.hsum_sq(q, axis=0), (q.astype(int) ** 2).sum(axis=0))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), ()])
def test_empty_and_0d(level, shape):
    q = np.ones(shape, np.uint8)
    assert qops.hsum(q) == q.size
    assert qops.hsum_sq(q, axis=()).shape == shape
    if shape:
        assert np.array_equal(qops.hsum(q, axis=0), q.sum(axis=0, dtype=np.int64))


def test_int32_squares_beyond_64_bits(level):
    q = np.full((4, 5), -(2**31), np.int32)
    assert qops.hsum_sq(q) == 20 << 62
    got = qops.hsum_sq(q, axis=0)
    assert got.dtype == object
    assert got.tolist() == [4 << 62] * 5


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_past_two_to_the_31_elements(level, dtype):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    n = (1 << 31) + 100
    if memory < 2 * n:
        pytest.skip(f"needs {2 * n} bytes of memory, {memory} are free")
    value = limits(dtype)[dtype == np.uint8]
    q = np.full(n, value, dtype)
    assert qops.hsum(q) == value * n
    assert qops.hsum_sq(q) == value * value * n
    assert qops.hsum(q[:, None], axis=0).tolist() == [value * n]
    qops.requantize(q, 1.0, 0, 1.0, 0, out=q)
    assert qops.hsum(q) == value * n
