"""Reductions, orders and softmax against Python integers and float64, on each level."""

import math

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.exceptions import AxisError
from oracles import CODES, limits, same
from test_dequantize import codes

import qops

REDUCTIONS = ("qsum", "qmean", "qvar", "qstd", "qmin", "qmax")
AXES = (None, 0, -1, 1, (0, 2), (-1, 1), (), (0, 1, 2))


def single(x):
    with np.errstate(over="ignore"):
        return np.float32(x)


def reduced(name, x, s, z, correction=0):
    """Reduce a list of Python integers to a float32, or to a code."""
    n = len(x)
    if name in ("qmin", "qmax"):
        return min(x) if name == "qmin" else max(x)
    total = float(sum(k - z for k in x))
    if name == "qsum":
        return single(total * s)
    if name == "qmean":
        return single(total * s / n)
    spread = n * sum(k * k for k in x) - sum(x) ** 2
    var = float(spread) / float(n * (n - correction)) * s * s
    return single(var if name == "qvar" else math.sqrt(var))


def reduction(name, q, pair, to, dtype, axis, keepdims=False, **own):
    """Reduce by Python integers, and requantize what is a code if need be."""
    s, z = float(np.float32(pair[0])), pair[1]
    axes = range(q.ndim) if axis is None else np.atleast_1d(axis).astype(int)
    axes = sorted(i % q.ndim for i in axes)
    kept = [n for i, n in enumerate(q.shape) if i not in axes]
    rows = np.moveaxis(q, axes, range(q.ndim - len(axes), q.ndim)).reshape(*kept, -1)
    got = [
        reduced(name, rows[i].tolist(), s, z, **own)
        for i in np.ndindex(rows.shape[:-1])
    ]
    if name in ("qmin", "qmax"):
        y = np.array(got, q.dtype.newbyteorder("="))
        if pair != to or y.dtype != dtype:
            y = oracles.requantize(y, *pair, *to, dtype)
    else:
        y = oracles.quantize(np.array(got, np.float32), *to, dtype)
    if keepdims:
        kept = [1 if i in axes else n for i, n in enumerate(q.shape)]
    return y.reshape(kept)


def pair_of(dtype):
    lo, hi = limits(dtype)
    return 20.0 / (hi - lo), max(lo, -50) + 60


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_axes(level, name, dtype):
    f, pair = getattr(qops, name), pair_of(dtype)
    q = codes(3 * 5 * 37, dtype).reshape(3, 5, 37)
    views = q, q[:, ::-1, ::-2], q.transpose(2, 0, 1), q.astype(q.dtype.newbyteorder())
    for axis in AXES:
        for to in (pair, (0.3, 7)):
            for x in views:
                expected = reduction(name, x, pair, to, dtype, axis)
                same(f(x, *pair, *to, axis=axis), expected)
        for wanted in (np.int16, np.uint8):
            got = f(q, *pair, 0.1, 3, axis=axis, keepdims=True, dtype=wanted)
            same(got, reduction(name, q, pair, (0.1, 3), wanted, axis, keepdims=True))
    same(f(q, *pair), reduction(name, q, pair, pair, dtype, None))
    for z in limits(dtype):
        expected = reduction(name, q, (1e-3, z), (1e-3, z), dtype, 1)
        same(f(q, 1e-3, z, axis=1), expected)
    one = f(q[1, 2, 3], *pair)
    assert isinstance(one, dtype)
    same(one, reduction(name, q[1, 2, 3:4], pair, pair, dtype, 0))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_out(level, name):
    f = getattr(qops, name)
    q = codes(6 * 40, np.int16).reshape(6, 40)
    expected = reduction(name, q, (0.01, 3), (0.3, 2), np.int16, 1)
    for out in (
        np.zeros(6, np.int16),
        np.zeros(6, ">i2"),
        np.zeros(12, np.int16)[::-2],
        q.copy()[:, 1],
    ):
        x = q if out.base is None or out.base.size < 99 else out.base
        assert f(x, 0.01, 3, 0.3, 2, axis=1, out=out) is out
        same(out.astype(np.int16), expected)
    q = codes(300, np.int32)
    big = np.zeros((), ">i4")
    assert qops.qmax(q, 0.01, 3, out=big) is big
    assert big == q.max()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_pieces_of_the_result(name):
    """Results that take several pieces, also where they go over codes not yet read."""
    f, args = getattr(qops, name), (0.01, 3, 0.3, 2)
    q = codes(3 * 7001 * 3, np.int16).reshape(3, 7001, 3)
    for axis in (0, 2):
        expected = reduction(name, q, args[:2], args[2:], np.int16, axis)
        same(f(q, *args, axis=axis), expected)
        kept = f(np.asfortranarray(q), *args, axis=axis, keepdims=True)
        same(kept, np.expand_dims(expected, axis))
        x = q.copy()
        out = np.moveaxis(x, axis, 0)[1][::-1]
        assert f(x, *args, axis=axis, out=out) is out
        same(out, expected)


@pytest.mark.parametrize("correction", [-2, 0, 1, 6])
@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("name", ["qvar", "qstd"])
def test_correction(level, name, dtype, correction):
    q = codes(7 * 30, dtype).reshape(7, 30)
    pair, to = pair_of(dtype), (0.3, 5)
    got = getattr(qops, name)(q, *pair, *to, axis=0, correction=correction)
    same(got, reduction(name, q, pair, to, dtype, 0, correction=correction))


def test_large_numbers(level):
    """Squares beyond 64 bits, and one code that differs from the others."""
    q = np.full(70000, -(2**31), np.int32)
    q[7] = 2**31 - 1
    for name in REDUCTIONS:
        expected = reduction(name, q, (1e-3, 5), (1.0, 5), np.int32, None)
        same(getattr(qops, name)(q, 1e-3, 5, 1.0, 5), expected[()])
    q = np.full(1024, 255, np.uint8)
    q[3] = 254
    assert qops.qstd(q, 1.0, 0, 2.0**-12, 0) == 128
    assert qops.qsum(q, 3e38, 0, 1.0, 0) == 255
    assert qops.qsum(q, 3e38, 255, 1.0, 9) == 0


def test_nothing():
    q = np.empty((3, 0, 2), np.int8)
    same(qops.qsum(q, 0.1, 5, axis=1), np.full((3, 2), 5, np.int8))
    same(qops.qsum(q, 0.1, 5, 0.1, 7), np.int8(7))
    for name in REDUCTIONS:
        same(getattr(qops, name)(q, 0.1, 5, axis=0), np.empty((0, 2), np.int8))
    for f in (qops.qargmin, qops.qargmax):
        same(f(q, 2), np.empty((3, 0), np.intp))
    for f in (qops.qcumsum, qops.qsoftmax, qops.qlog_softmax):
        same(f(q, 0.1, 5, axis=1), q)
    same(qops.qsort(q), q)
    same(qops.qtopk(q, 0, axis=1)[0], q)


@pytest.mark.parametrize("dtype", CODES)
def test_index_of(level, dtype):
    q = np.clip(codes(4 * 5 * 9, dtype), 100, 103).reshape(4, 5, 9)
    for f, of in ((qops.qargmin, np.argmin), (qops.qargmax, np.argmax)):
        for x in (q, q[::-1, ::2], q.T, q.astype(q.dtype.newbyteorder())):
            same(f(x), of(x))
            for axis in (0, -1):
                first = np.apply_along_axis(lambda v, of=of: of(v.tolist()), axis, x)
                same(f(x, axis), first)
                same(f(x, axis, keepdims=True), np.expand_dims(first, axis))
        assert f(dtype(3)) == 0


def cumsum(q, scale, zero, to, dtype):
    sums = np.cumsum(q.astype(object) - zero, axis=-1).astype(np.float64)
    return oracles.quantize((sums * float(np.float32(scale))).astype("f4"), *to, dtype)


@pytest.mark.parametrize("dtype", CODES)
def test_cumsum(level, dtype):
    pair, to = pair_of(dtype), (0.7, 9)
    q = codes(2 * 3 * 41, dtype).reshape(2, 3, 41)
    for x in (q, q[:, ::-1, ::-2], q.T, q.astype(q.dtype.newbyteorder())):
        for axis in range(3):
            moved = np.moveaxis(x, axis, -1)
            expected = np.moveaxis(cumsum(moved, *pair, to, dtype), -1, axis)
            same(qops.qcumsum(x, *pair, *to, axis=axis), expected)
        same(qops.qcumsum(x, *pair, *to), cumsum(x.ravel(), *pair, to, dtype))
    same(qops.qcumsum(dtype(70), *pair), cumsum(np.array([70]), *pair, pair, dtype))
    long = codes(2 * 70000, dtype, seed=1).reshape(2, 70000)
    expected = cumsum(long, *pair, (300.0, 9), np.int16)
    same(qops.qcumsum(long, *pair, 300.0, 9, axis=1, dtype=np.int16), expected)
    out = long.copy()
    expected = cumsum(long, *pair, to, dtype)
    assert qops.qcumsum(out, *pair, *to, axis=1, out=out[:, ::-1]).base is out
    same(out[:, ::-1], expected)


def softmax(q, scale, to, dtype, log=False):
    """Follow the definition along the last axis, with Python integers for the sum."""
    bits = 30 if q.dtype.itemsize == 1 else 40
    s = float(np.float32(scale))
    below, total = oracles.exponentials(
        q, lambda b: np.rint(np.exp(-b * s) * 2.0**bits).astype(np.int64)
    )
    total = total.astype(np.float64) / 2.0**bits
    if log:
        x = (-below * s - np.log(total)).astype(np.float32)
        return oracles.quantize(x, *to, dtype)
    scale = total * float(np.float32(to[0]))
    return oracles.quantize(np.exp(-below * s).astype(np.float32), scale, to[1], dtype)


@pytest.mark.parametrize("dtype", CODES)
def test_softmax(level, dtype):
    lo, hi = limits(dtype)
    scale, to = 20.0 / (hi - lo), (1 / (hi - lo + 1), lo)
    for shape in ((3, 2, 1), (4, 3, 100), (2, 3, 511), (3, 512), (2, 70000), (17,)):
        q = codes(math.prod(shape), dtype).reshape(shape)
        q[..., :3] = lo
        for x in (q, q[..., ::-2], q.T, q.astype(q.dtype.newbyteorder())):
            for axis in (-1, 0):
                moved = np.moveaxis(x, axis, -1)
                expected = np.moveaxis(softmax(moved, scale, to, dtype), -1, axis)
                same(qops.qsoftmax(x, scale, 0, axis=axis), expected)
        for wanted in (np.uint8, np.int16):
            for pair in ((0.001, 5), (1e-45, 3), (0.5, 0), (0.01, limits(wanted)[1])):
                expected = softmax(q, scale, pair, wanted)
                same(qops.qsoftmax(q, scale, 9, *pair, dtype=wanted), expected)
            expected = softmax(q, scale, (0.2, 99), wanted, log=True)
            got = qops.qlog_softmax(q, scale, 9, 0.2, 99, dtype=wanted)
            same(got, expected)
        same(
            qops.qlog_softmax(q, scale, hi), softmax(q, scale, (scale, hi), dtype, True)
        )
        out = q.copy()
        expected = softmax(q, scale, to, dtype)
        assert qops.qsoftmax(out, scale, 0, out=out) is out
        same(out, expected)
        out = np.zeros(q.shape, q.dtype.newbyteorder())[..., ::-1]
        qops.qsoftmax(q, scale, 0, out=out)
        same(out.astype(dtype), expected)
    q = np.full((3, 5), hi, dtype)
    same(qops.qsoftmax(q, 1e38, 0), softmax(q, 1e38, to, dtype))
    q[:, 1] = lo
    same(qops.qsoftmax(q, 1e38, 0), softmax(q, 1e38, to, dtype))
    same(qops.qsoftmax(q, 1.0, 0, 3e38, 5), np.full((3, 5), 5, dtype))


def test_softmax_is_near():
    """To softmax in float64, without the units and the float32."""
    rng = np.random.default_rng(0)
    for dtype in (np.uint8, np.int16, np.int32):
        lo, hi = limits(dtype)
        q = rng.integers(lo, hi, (50, 999), dtype, endpoint=True)
        x = (q.astype(np.float64) - q.max(-1, keepdims=True)) * (12 / (hi - lo))
        x = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
        s = 2.0**-24 if dtype == np.int32 else 2.0**-16
        got = qops.qsoftmax(q, 12 / (hi - lo), 0, s, 0, dtype=np.int32)
        assert abs(got * s - x).max() < 0.52 * s


def topk(q, k, largest):
    values, indices = [], []
    for row in q.reshape(-1, q.shape[-1]).tolist():
        order = sorted(range(len(row)), key=lambda i: -row[i] if largest else row[i])
        indices.append(order[:k])
        values.append([row[i] for i in order[:k]])
    shape = (*q.shape[:-1], k)
    values = np.array(values, q.dtype.newbyteorder("=")).reshape(shape)
    return values, np.array(indices, np.int64).reshape(shape)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", CODES)
def test_topk(dtype, largest):
    q = codes(2 * 3 * 41, dtype).reshape(2, 3, 41)
    few = np.clip(q, 100, 102)
    for x in (q, few, q[:, ::-1, ::-2], q.T, q.astype(q.dtype.newbyteorder())):
        for axis in (0, 1, -1):
            moved = np.moveaxis(x, axis, -1)
            n = moved.shape[-1]
            for k in {0, 1, n // 2, n}:
                got = qops.qtopk(x, k, axis=axis, largest=largest)
                for part, expected in zip(got, topk(moved, k, largest), strict=True):
                    same(part, np.moveaxis(expected, -1, axis))
    long = codes(2 * 100001, dtype).reshape(2, 100001)
    got = qops.qtopk(long, 50, largest=largest)
    for part, expected in zip(got, topk(long, 50, largest), strict=True):
        same(part, expected)


@pytest.mark.parametrize("dtype", CODES)
def test_sort(dtype):
    q = codes(2 * 3 * 41, dtype).reshape(2, 3, 41)
    for x in (q, q[:, ::-1, ::-2], q.T, q.astype(q.dtype.newbyteorder())):
        for axis in (0, 1, -1, None):
            expected = np.array(
                np.apply_along_axis(lambda v: sorted(v.tolist()), axis or 0, x)
                if axis is not None and axis >= 0
                else [sorted(v) for v in x.reshape(-1, x.shape[-1]).tolist()]
                if axis is not None
                else sorted(x.ravel().tolist()),
                dtype,
            ).reshape(-1 if axis is None else x.shape)
            same(qops.qsort(x, axis=axis), expected)
            back = np.flip(expected, 0 if axis is None else axis)
            same(qops.qsort(x, axis=axis, descending=True), back)
    for descending in (False, True):
        expected = qops.qsort(q, descending=descending)
        for out in (np.zeros(q.shape, q.dtype.newbyteorder()), q.copy()[:, :, ::-1]):
            x = q if out.base is None else out.base
            assert qops.qsort(x, descending=descending, out=out) is out
            same(out.astype(dtype), expected)


@given(
    st.sampled_from(CODES),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=40),
    st.floats(2.0**-60, 2.0**60, width=32),
    st.integers(0, 100),
)
def test_properties(dtype, x, scale, zero):
    q = np.clip(x, *limits(dtype)).astype(dtype)
    for name in REDUCTIONS:
        expected = reduction(name, q, (scale, zero), (scale, zero), dtype, None)
        same(getattr(qops, name)(q, scale, zero), expected[()])
    same(qops.qcumsum(q, scale, zero), cumsum(q, scale, zero, (scale, zero), dtype))
    values, indices = qops.qtopk(q, len(x))
    same(values, qops.qsort(q, descending=True))
    same(q[indices], values)
    lo, hi = limits(dtype)
    same(qops.qsoftmax(q, scale, 0), softmax(q, scale, (1 / (hi - lo + 1), lo), dtype))


A = np.arange(6, dtype=np.uint8).reshape(2, 3)
NONE = np.empty((0, 3), np.uint8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: qops.qsum(A * 1.0, 1, 0), TypeError, "qsum: q is float64"),
        (lambda: qops.qsum(A, 0, 0), ValueError, "qsum: scale is 0.0, not finite"),
        (
            lambda: qops.qmean(A, 1, -1),
            ValueError,
            "qmean: zero_point is -1, not within 0..255",
        ),
        (
            lambda: qops.qmax(A, 1, 0, -2.0),
            ValueError,
            "qmax: out_scale is -2.0, not finite",
        ),
        (
            lambda: qops.qmax(A, 1, 0, 1, 200, dtype=np.int8),
            ValueError,
            "qmax: out_zero_point is 200, not within -128..127",
        ),
        (
            lambda: qops.qsum(A, 1, 0, axis=2),
            AxisError,
            "qsum: axis is 2, not within the 2 dimensions of q",
        ),
        (
            lambda: qops.qsum(A, 1, 0, axis=(0, -2)),
            ValueError,
            r"qsum: axis is \(0, -2\), which has an axis twice",
        ),
        (
            lambda: qops.qsum(A, 1, 0, axis="a"),
            TypeError,
            "qsum: axis is 'a', not an integer",
        ),
        (
            lambda: qops.qsum(A, 1, 0, axis=0, out=np.zeros(2, np.uint8)),
            ValueError,
            r"qsum: out has shape \(2,\), not \(3,\)",
        ),
        *(
            (
                lambda name=name: getattr(qops, name)(NONE, 1, 0, axis=0),
                ValueError,
                rf"{name}: q has shape \(0, 3\), with 0 codes along axes \(0,\), "
                "not at least 1",
            )
            for name in ("qmean", "qmin", "qmax")
        ),
        *(
            (
                lambda f=f: f(NONE, 0),
                ValueError,
                rf"{f.__name__}: q has shape \(0, 3\), with 0 codes along axis 0, "
                "not at least 1",
            )
            for f in (qops.qargmin, qops.qargmax)
        ),
        (
            lambda: qops.qvar(A, 1, 0, axis=1, correction=3),
            ValueError,
            r"qvar: correction is 3, not below the 3 codes along axes \(1,\)",
        ),
        (
            lambda: qops.qstd(NONE, 1, 0, correction=-1),
            ValueError,
            r"qstd: q has shape \(0, 3\), with 0 codes along axes \(0, 1\)",
        ),
        (
            lambda: qops.qstd(A, 1, 0, correction=0.5),
            TypeError,
            "qstd: correction is 0.5, not an integer",
        ),
        (lambda: qops.qargmin(A, 2), AxisError, "qargmin: axis is 2, not within"),
        (lambda: qops.qargmin(A * 1.0), TypeError, "qargmin: q is float64"),
        (
            lambda: qops.qsoftmax(np.uint8(1), 1, 0),
            AxisError,
            "qsoftmax: axis is -1, not within the 0 dimensions of q",
        ),
        (
            lambda: qops.qlog_softmax(A, 1, 0, out=np.zeros(3, np.int8)),
            ValueError,
            r"qlog_softmax: out has shape \(3,\), not \(2, 3\)",
        ),
        (
            lambda: qops.qcumsum(A, 1, 0, out=np.zeros((2, 3), np.uint8)),
            ValueError,
            r"qcumsum: out has shape \(2, 3\), not \(6,\)",
        ),
        (
            lambda: qops.qtopk(A, 4),
            ValueError,
            "qtopk: k is 4, not within 0..3, the length of axis 1",
        ),
        (lambda: qops.qtopk(A, 1.5), TypeError, "qtopk: k is 1.5, not an integer"),
        (
            lambda: qops.qtopk(np.broadcast_to(np.int32(1), 2**32 + 1), 1),
            ValueError,
            r"qtopk: q has 4294967297 codes along axis 0, not at most 2\*\*32",
        ),
        (
            lambda: qops.qsort(A, out=np.zeros((2, 3), np.int8)),
            TypeError,
            "qsort: out has dtype int8, not uint8",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()
