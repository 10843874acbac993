"""Comparisons and qwhere against rational numbers, on each level."""

import operator
from fractions import Fraction

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import CODES, limits, same
from test_dequantize import codes

import qops

COMPARISONS = {
    "qequal": operator.eq,
    "qnot_equal": operator.ne,
    "qless": operator.lt,
    "qless_equal": operator.le,
    "qgreater": operator.gt,
    "qgreater_equal": operator.ge,
}


def real(q, scale, zero):
    """The rational numbers that codes stand for."""
    s = Fraction(float(np.float32(scale)))
    return [(int(k) - int(zero)) * s for k in np.ravel(q)]


def compared(name, a, sa, za, b, sb, zb):
    op = COMPARISONS[name]
    x, y = real(a, sa, za), real(b, sb, zb)
    got = [op(v, w) for v, w in zip(x, y, strict=True)]
    return np.array(got, bool).reshape(np.shape(a))


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("b_dtype", CODES)
@pytest.mark.parametrize("a_dtype", CODES)
def test_pairs(level, name, a_dtype, b_dtype):
    a, b = codes(400, a_dtype), codes(400, b_dtype, seed=1)
    b[::3] = np.clip(a[::3].astype(np.int64) // 2, *limits(b_dtype)).astype(b_dtype)
    f = getattr(qops, name)
    for sa, za, sb, zb in (
        (0.1, 0, 0.2, 0),
        (0.1, 3, 0.1, 3),
        (0.1, 3, 0.1, 4),
        (1e30, 1, 1e-30, 0),
        (3e-39, 0, 6e-39, 100),
    ):
        args = a, sa, za, b, sb, zb
        same(f(*args), compared(name, *args))


@pytest.mark.parametrize("name", COMPARISONS)
def test_what_float64_can_not_tell(name):
    """Products of 57 bits that float64 rounds to the same number, and equal ones."""
    k = np.arange(128, 255)[:, None]
    a = (k * 2**23 + [-1, 0, 1]).astype(np.int32)
    args = a, 1.0 + 2.0**-23, 0, (a + k - 2**30).astype(np.int32), 1.0, -(2**30)
    x = (a.astype(np.float64) * np.float32(args[1])).ravel()
    assert (x == (a + k).ravel()).all()
    assert sum(map(operator.ne, real(*args[:3]), real(*args[3:]))) == 2 * 127
    same(getattr(qops, name)(*args), compared(name, *args))
    twice = (a // 2 * 2).astype(np.int32)
    args = a // 2, 1.0, 0, twice, 0.5, 0
    assert getattr(qops, name)(*args).all() == COMPARISONS[name](1, 1)


@given(
    st.sampled_from(sorted(COMPARISONS)),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.floats(2.0**-140, 2.0**100, width=32),
    st.floats(0.25, 4, width=32),
    st.integers(-(2**31), 2**31 - 1),
)
def test_properties(name, a, za, sa, ratio, zb):
    """Codes of b as near to a as they come."""
    sb = np.float32(sa) * np.float32(ratio)
    if not 0 < sb < np.inf:
        return
    nearest = round((a - za) * Fraction(sa) / Fraction(float(sb))) + zb
    b = np.int32(np.clip(nearest, -(2**31), 2**31 - 1))
    args = np.int32(a), sa, za, b, float(sb), zb
    assert getattr(qops, name)(*args) == compared(name, *args)


def test_shapes():
    a = np.arange(6, dtype=np.uint8).reshape(2, 3)
    b = np.array([0, 4, 8], np.int8)
    s = np.array([0.5, 0.25, 1.0])
    got = qops.qless(a, 1.0, 0, b, s, 0, axis=1)
    same(got, a < b * s)
    out = np.zeros((2, 6), bool)[:, ::-2]
    assert qops.qless(a, 1.0, 0, b, s, [0, 0, 0], axis=-1, out=out) is out
    same(np.ascontiguousarray(out), a < b * s)
    same(qops.qequal(a[:0], 1.0, 0, b, 1.0, 0), np.zeros((0, 3), bool))
    assert qops.qequal(np.uint8(2), 1.0, 0, np.int32(1), 2.0, 0) is np.True_
    same(qops.qless(b, 1.0, 0, b, s, 0), b < b * s)
    wide = np.broadcast_to(a[0], (70000, 3))
    same(qops.qless(wide, 1.0, 0, b, s, 0, axis=1), wide < b * s)
    v = np.array([0, 1, 1, 0], np.uint8)
    qops.qequal(v, 1.0, 0, v[::-1], 1.0, 1, out=v.view(bool))
    same(v.view(bool), np.array([False, False, False, False]))


@pytest.mark.parametrize("dtype", CODES)
def test_where(level, dtype):
    rng = np.random.default_rng(0)
    lo, _ = limits(dtype)
    a = codes(3 * 35000, dtype).reshape(3, 35000)
    b = codes(35000, np.int8, seed=1)
    chosen = rng.integers(0, 2, (3, 1)).astype(bool) | (b > 5)
    s, z = rng.uniform(0.1, 1, 3), rng.integers(max(lo, -9), 100, 3)
    for pair, to in (((0.1, 3), (0.1, 3)), ((0.1, 3), (0.3, 9)), ((s, z), (s, z))):
        wide = [np.reshape(p, (-1, 1)) for p in (*pair, *to)]
        x = a
        if pair is not to and (np.ndim(pair[0]) == 0) and pair != to:
            x = oracles.requantize(a, *wide, dtype)
        y = oracles.requantize(b, 0.2, -4, *wide[2:], dtype)
        expected = np.where(chosen, x, y)
        axis = 0 if np.ndim(pair[0]) else None
        got = qops.qwhere(chosen, a, *pair, b, 0.2, -4, *to, axis=axis)
        same(got, expected)
        out = a.copy()
        qops.qwhere(chosen, out, *pair, b, 0.2, -4, *to, axis=axis, out=out)
        same(out, expected)
    got = qops.qwhere(True, dtype(5), 0.1, 5, b[:0], 0.1, 0, 0.1, 9, dtype=np.int16)
    same(got, np.empty(0, np.int16))
    assert qops.qwhere(False, dtype(5), 0.1, 5, np.int8(1), 0.1, 0, 0.1, 9) == 10


A = np.arange(6, dtype=np.uint8).reshape(2, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: qops.qless(A, 1, 0, A * 1.0, 1, 0), TypeError, "qless: b is float64"),
        (
            lambda: qops.qless(A, 0, 0, A, 1, 0),
            ValueError,
            "qless: a_scale is 0.0, not finite",
        ),
        (
            lambda: qops.qless(A, 1, 0, A, 1, -1),
            ValueError,
            "qless: b_zero_point is -1, not within 0..255",
        ),
        (
            lambda: qops.qless(A, 1, 0, A[:, :2], 1, 0),
            ValueError,
            r"qless: the shapes a \(2, 3\) and b \(2, 2\) do not broadcast",
        ),
        (
            lambda: qops.qless(A, [1, 2], 0, A, 1, 0),
            ValueError,
            r"qless: a_scale has shape \(2,\) and x has shape \(2, 3\); give the axis",
        ),
        (
            lambda: qops.qless(A, 1, 0, A, 1, 0, out=A),
            TypeError,
            "qless: out has dtype uint8, not bool",
        ),
        (
            lambda: qops.qless(A, 1, 0, A, 1, 0, out=np.zeros(3, bool)),
            ValueError,
            r"qless: out has shape \(3,\), not \(2, 3\)",
        ),
        (
            lambda: qops.qless(A, 1, 0, A, 1, 0, out=np.broadcast_to(A > 0, A.shape)),
            ValueError,
            "qless: out is read-only, not writeable",
        ),
        (
            lambda: qops.qwhere(A, A, 1, 0, A, 1, 0, 1, 0),
            TypeError,
            "qwhere: condition is uint8, not bool",
        ),
        (
            lambda: qops.qwhere(A > 1, A, 1, 0, A, 1, 0, -1, 0),
            ValueError,
            "qwhere: scale is -1.0, not finite",
        ),
        (
            lambda: qops.qwhere(
                A > 1, A, 1, 0, A, 1, 0, 1, 0, out=np.zeros(6, np.int8)
            ),
            ValueError,
            r"qwhere: out has shape \(6,\), not \(2, 3\)",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()
