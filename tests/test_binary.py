"""Operations on two codes against their oracles: all 8-bit pairs, on each level."""

import itertools

import numpy as np
import oracles
import pytest
from guard import guarded, tail, untouched
from oracles import BINARY, CODES, limits, same
from test_dequantize import codes

import qops

OPS = {op: (getattr(qops, op), getattr(oracles, op)) for op in BINARY}


def parameter_sets(dtype):
    """Give 56 sets of scales and zero points: known faults, extremes, random ones."""
    lo, hi = limits(dtype)
    sets = [
        (0.1, 0.1, 0.2, 0, 0, 0),  # PyTorch's levels differ on a quarter of these
        (0.5, 0.25, 2.0, lo, hi, 1),
        (1.0, 1.0, 1.0, lo, lo, lo),
        (1.0, 1.0, 1.0, hi, hi, hi),
        (0.1, 0.1, 0.2, lo, hi, lo),
        (0.1, 0.1, 0.2, hi, lo, hi),
    ]
    extremes = (1e-30, 1e-12, 1e-3, 1.0, 1e12, 1e30)
    sets += [
        (a, b, y, 1, 2, 3) for a, b, y in itertools.product(extremes[::2], repeat=3)
    ]
    rng = np.random.default_rng(3)
    while len(sets) < 56:
        zeros = rng.integers(lo, hi, 3, endpoint=True).tolist()
        sets.append((*(2.0 ** rng.uniform(-8, 3, 3)).tolist(), *zeros))
    return sets


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("op", OPS)
def test_all_pairs(level, op, dtype, relu):
    function, oracle = OPS[op]
    lo, hi = limits(dtype)
    one = np.arange(lo, hi + 1).astype(dtype)
    a, b = np.repeat(one, 256), np.tile(one, 256)
    out = np.empty_like(a)
    sets = parameter_sets(dtype)
    assert len(sets) >= 50
    for sa, sb, sy, za, zb, zy in sets:
        args = (a, sa, za, b, sb, zb, sy, zy)
        function(*args, relu=relu, out=out)
        same(out, oracle(*args, dtype, relu))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("op", OPS)
def test_lengths(level, op, dtype):
    function, oracle = OPS[op]
    a, b, y = (guarded(300, dtype) for _ in range(3))
    a[:], b[:] = codes(300, dtype, 1), codes(300, dtype, 2)
    for n, relu in itertools.product(range(260), (False, True)):
        args = (tail(a, n), 0.1, 3, tail(b, n), 0.03, 5, 0.07, 4)
        expected = oracle(*args, dtype, relu)
        same(function(*args, relu=relu), expected)
        y.view(np.uint8)[:] = 0xA5
        out = tail(y, n)
        assert function(*args, relu=relu, out=out) is out
        same(out, expected)
        assert untouched(y, n)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtypes", [*itertools.product(CODES, CODES)])
def test_mixed_dtypes(level, op, dtypes, relu):
    function, oracle = OPS[op]
    a, b = codes(1300, dtypes[0], 1), codes(1300, dtypes[1], 2)
    for out_dtype in CODES:
        for scales in ((0.1, 0.1, 0.2), (1e-4, 0.02, 1e-30), (1e25, 1e25, 1.0)):
            sa, sb, sy = scales
            args = (a, sa, 1, b, sb, 2, sy, 3)
            got = function(*args, dtype=out_dtype, relu=relu)
            same(got, oracle(*args, out_dtype, relu))


def test_default_dtype_is_that_of_a(level):
    a, b = np.zeros(3, np.int16), np.zeros(3, np.uint8)
    assert qops.qadd(a, 1.0, 0, b, 1.0, 0, 1.0, 0).dtype == np.int16


def test_broadcasting(level):
    rng = np.random.default_rng(4)
    for sa, sb in (
        ((3, 1, 70), (5, 1)),
        ((70,), (4, 70)),
        ((), (5,)),
        ((2, 0), (1, 1)),
    ):
        a = rng.integers(0, 256, sa).astype(np.uint8)
        b = rng.integers(0, 256, sb).astype(np.uint8)
        args = (a, 0.1, 3, b, 0.2, 5, 0.25, 100)
        same(qops.qmul(*args), oracles.qmul(*args, np.uint8))


def test_parameters_per_channel_and_blocked(level):
    a, b = codes(6 * 40, np.uint8, 1).reshape(6, 40), codes(40, np.uint8, 2)
    sa = np.linspace(0.01, 0.2, 40)
    zy = np.arange(40)
    got = qops.qadd(a, sa, 7, b, 0.1, 3, 0.2, zy, axis=-1, relu=True)
    same(got, oracles.qadd(a, sa, 7, b, 0.1, 3, 0.2, zy, np.uint8, True))
    sb = np.random.default_rng(0).uniform(0.01, 0.2, (6, 3))
    got = qops.qmul(a, 0.1, 7, b, sb, 3, 0.2, 4, axis=1, block_size=16)
    wide = np.repeat(sb, 16, axis=1)[:, :40]
    same(got, oracles.qmul(a, 0.1, 7, b, wide, 3, 0.2, 4, np.uint8))
