"""Joining, filling, padding and shuffling against NumPy and the oracles."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import CODES, limits, same
from test_dequantize import codes

import qops


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("dtype", CODES)
def test_join(level, dtype, relu):
    lo, hi = limits(dtype)
    z = [min(hi, lo + k) for k in (100, 90, 5)]
    scales = [0.1, 0.05, 0.1]
    arrays = [codes(35 * n, dtype, seed=n).reshape(5, n, 7) for n in (3, 1, 4)]
    to = 0.1, z[0]

    def expected(q, s, zero):
        r = q if (s, zero) == to else oracles.requantize(q, s, zero, *to, dtype)
        return np.maximum(r, dtype(z[0])) if relu else r

    parts = [expected(*of) for of in zip(arrays, scales, z, strict=True)]
    for axis in (1, -2):
        got = qops.qconcatenate(arrays, scales, z, *to, axis=axis, relu=relu)
        same(got, np.concatenate(parts, 1))
    for axis in (0, 1, 3, -1):
        cut = [q[:, :1] for q in arrays]
        got = qops.qstack(cut, scales, z, *to, axis=axis, relu=relu)
        same(got, np.stack([p[:, :1] for p in parts], axis))


def test_join_layouts():
    wide = codes(200, np.uint8).reshape(10, 20)
    a, b = wide[::-1, ::2], wide[:, 3:13]
    expected = np.concatenate([a, oracles.requantize(b, 0.2, 3, 0.1, 0, np.uint8)], 1)
    got = qops.qconcatenate([a, b], [0.1, 0.2], [0, 3], 0.1, 0, axis=1)
    same(got, expected)
    qops.qconcatenate([a, b], [0.1, 0.2], [0, 3], 0.1, 0, axis=1, out=wide)
    same(wide, expected)
    swapped = codes(5, np.int16).astype(">i2")
    same(qops.qconcatenate([swapped], 0.1, 0, 0.1, 0), swapped.astype(np.int16))
    got = qops.qconcatenate([np.int8([1]), np.uint8([2, 3])], 1.0, 0, 0.5, 1)
    same(got, np.int8([3, 5, 7]))
    same(qops.qstack([np.uint8(3), np.int8(4)], 1.0, 0, 1.0, 0), np.uint8([3, 4]))
    empty = np.empty((0, 3), np.int8)
    same(qops.qconcatenate([empty, empty], 1.0, 0, 2.0, 1), empty)
    same(qops.qstack([empty], 1.0, 0, 2.0, 1, axis=1), np.empty((0, 1, 3), np.int8))


@pytest.mark.parametrize("dtype", CODES)
def test_fill(level, dtype):
    lo, hi = limits(dtype)
    zero = min(hi, lo + 90)
    q = codes(105, dtype).reshape(3, 5, 7)
    mask = codes(7, np.uint8) > 100
    for value in (0.0, -0.07, 3.14159, np.inf, -np.inf, np.nan, 1e300):
        with np.errstate(over="ignore"):
            code = oracles.quantize(np.float32(value), 0.1, zero, dtype)
        expected = oracles.masked_fill(q, mask, code)
        same(qops.masked_fill(q, mask, value, 0.1, zero), expected)
        out = q.copy()
        assert qops.masked_fill(out, mask, value, 0.1, zero, out=out) is out
        same(out, expected)
        expected = q.copy()
        expected[:, [4, 0]] = code
        same(qops.index_put(q, np.s_[:, [4, 0]], value, 0.1, zero), expected)
    swapped = q.astype(q.dtype.newbyteorder(">"))[:, ::-1]
    same(qops.masked_fill(swapped, True, 0, 0.1, zero), np.full_like(q, zero))
    assert isinstance(qops.masked_fill(dtype(5), False, 0, 0.1, zero), dtype)
    v = np.frombuffer(b"\0\1\1\0\0\1", np.uint8).copy()
    qops.masked_fill(v, v.view(bool)[::-1], 2.0, 1.0, 0, out=v)
    same(v, np.uint8([2, 1, 1, 2, 2, 1]))


def test_put():
    q = codes(12, np.uint8).reshape(3, 4)
    expected = q.copy()
    expected[[0, 2], 1] = 15, 255
    same(qops.index_put(q, ([0, 2], 1), [1.5, 99.0], 0.1, 0), expected)
    out = q.T.copy().T
    assert qops.index_put(out, ([0, 2], 1), [1.5, 99.0], 0.1, 0, out=out) is out
    same(np.ascontiguousarray(out), expected)
    same(qops.index_put(q, q < 0, 7, 0.1, 0), q)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=2),
    st.sampled_from(["constant", "edge"]),
    st.sampled_from(CODES),
    st.floats(-20, 20, width=32),
)
def test_padding(width, mode, dtype, value):
    zero = min(limits(dtype)[1], 100)
    q = codes(15, dtype).reshape(3, 5)[::-1]
    if mode == "edge":
        expected = np.pad(q, width, mode="edge")
    else:
        code = oracles.quantize(np.float32(value), 0.1, zero, dtype)
        expected = np.pad(q, width, constant_values=code)
    same(qops.qpad(q, width, 0.1, zero, mode=mode, value=value), expected)


@pytest.mark.parametrize("dtype", CODES)
def test_shuffle(dtype):
    q = codes(2 * 6 * 5, dtype).reshape(2, 6, 5)
    for groups in (1, 2, 3, 6):
        order = np.arange(6).reshape(groups, -1).T.ravel()
        same(qops.channel_shuffle(q, groups), q[:, order])
        last = np.moveaxis(q, 1, -1)
        got = qops.channel_shuffle(last, groups, axis=-1)
        same(got, np.ascontiguousarray(last[..., order]))
        out = q.copy()
        qops.channel_shuffle(out, groups, out=out)
        same(out, q[:, order])
    same(qops.channel_shuffle(q[:, :0], 3), q[:, :0])


Q = np.arange(6, dtype=np.uint8).reshape(2, 3)


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (
            lambda: qops.qconcatenate([], 1, 0, 1, 0),
            ValueError,
            "qconcatenate: arrays is empty",
        ),
        (
            lambda: qops.qconcatenate([Q, Q * 1.0], 1, 0, 1, 0),
            TypeError,
            r"qconcatenate: arrays\[1\] is float64",
        ),
        (
            lambda: qops.qconcatenate([Q, Q[:, :2]], 1, 0, 1, 0),
            ValueError,
            r"qconcatenate: arrays\[1\] has shape \(2, 2\) and arrays\[0\] \(2, 3\)",
        ),
        (
            lambda: qops.qconcatenate([Q, Q], [1, 2, 3], 0, 1, 0),
            ValueError,
            r"qconcatenate: scales has shape \(3,\), not \(\) or \(2,\)",
        ),
        (
            lambda: qops.qconcatenate([Q, Q], [1, -2], 0, 1, 0),
            ValueError,
            r"qconcatenate: arrays\[1\] scale is -2.0",
        ),
        (
            lambda: qops.qconcatenate([Q], 1, 0, 1, 0, axis=2),
            ValueError,
            "qconcatenate: axis is 2, not within 2 dimensions",
        ),
        (
            lambda: qops.qconcatenate([np.uint8(1)], 1, 0, 1, 0),
            ValueError,
            r"qconcatenate: arrays\[0\] has no axis; use qstack",
        ),
        (
            lambda: qops.qstack([Q, Q[0]], 1, 0, 1, 0),
            ValueError,
            r"qstack: arrays\[1\] has shape \(3,\), not \(2, 3\)",
        ),
        (
            lambda: qops.qstack([Q], 1, 0, 1, 300),
            ValueError,
            "qstack: out_zero_point is 300, not within 0..255",
        ),
        (
            lambda: qops.masked_fill(Q, Q, 0, 1, 0),
            TypeError,
            "masked_fill: mask is uint8, not bool",
        ),
        (
            lambda: qops.masked_fill(Q, np.ones(2, bool), 0, 1, 0),
            ValueError,
            r"masked_fill: mask has shape \(2,\), which does not broadcast to that of",
        ),
        (
            lambda: qops.masked_fill(Q, Q > 1, "x", 1, 0),
            TypeError,
            "masked_fill: value is <U1, not real numbers",
        ),
        (
            lambda: qops.masked_fill(Q, Q > 1, 0, 1, 0, out=Q.astype(np.int8)),
            TypeError,
            "masked_fill: out has dtype int8, not uint8",
        ),
        (
            lambda: qops.index_put(Q, ([0], [1]), [1, 2], 1, 0),
            ValueError,
            "index_put: shape mismatch",
        ),
        (lambda: qops.index_put(Q, 5, 1, 1, 0), IndexError, "index 5 is out of"),
        (
            lambda: qops.qpad(Q, 1, 1, 0, mode="wrap"),
            ValueError,
            "qpad: mode is 'wrap', not 'constant' or 'edge'",
        ),
        (lambda: qops.qpad(Q, -1, 1, 0), ValueError, "qpad: index can't contain"),
        (lambda: qops.qpad(Q, 1.0, 1, 0), TypeError, "qpad: pad_width is float64, not"),
        (
            lambda: qops.channel_shuffle(Q, 2),
            ValueError,
            "channel_shuffle: groups is 2, which does not divide 3",
        ),
        (
            lambda: qops.channel_shuffle(Q, 1.5),
            TypeError,
            "channel_shuffle: groups is 1.5, not an integer",
        ),
        (
            lambda: qops.channel_shuffle(Q, 3, out=Q[0]),
            ValueError,
            r"channel_shuffle: out has shape \(3,\), not \(2, 3\)",
        ),
    ],
)
def test_errors(run, error, message):
    with pytest.raises(error, match=f"^{message}"):
        run()
