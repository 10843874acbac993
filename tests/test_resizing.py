"""qinterpolate against NumPy, on each level: one dimension after the other."""

import itertools

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import limits, same
from test_dequantize import codes

import qops

DTYPES = [np.uint8, np.int8, np.uint16, np.int16]
MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


def places(n, m, corners):
    """Yield for each output its neighbours and their weights, as the formula says."""
    for o in range(m):
        if corners:
            at = o * (n - 1) / (m - 1) if m > 1 else 0.0
        else:
            at = max((o + 0.5) * n / m - 0.5, 0.0)
        low = min(int(at), n - 1)
        b = np.float32(at - low)
        yield low, min(low + 1, n - 1), np.float32(1) - b, b


def blended(v, axis, n, m, corners, zero=None):
    """Blend along an axis; of codes, which have a zero point, else of numbers."""
    parts = []
    for low, high, a, b in places(n, m, corners):
        x, y = v.take(low, axis), v.take(high, axis)
        if zero is not None:
            parts.append(oracles.blend_columns(x, y, a, b, zero))
        else:
            parts.append(a * x + b * y)
    return np.stack(parts, axis)


def interpolated(q, pair, to, sizes, corners, dtype):
    """Of codes with channels first."""
    v = q
    for axis in reversed(range(2, q.ndim)):
        zero = pair[1] if axis == q.ndim - 1 else None
        v = blended(v, axis, q.shape[axis], sizes[axis - 2], corners, zero)
    assert v.dtype == np.float32
    return oracles.blend_rows([v, v], [1, 0], pair[0], *to, dtype)


CASES = [
    ((2, 3, 5), (9,)),
    ((1, 40, 7), (3,)),
    ((2, 3, 5, 6), (10, 12)),
    ((1, 33, 4, 3), (7, 5)),
    ((2, 17, 9, 1), (1, 4)),
    ((1, 2, 3, 700), (2, 1500)),
    ((1, 2100, 2, 2), (3, 3)),
    ((1, 2, 3, 4, 5), (5, 4, 11)),
    ((1, 20, 2, 3, 2), (1, 5, 3)),
    ((2, 3, 1, 4, 3), (2, 2, 5)),
    ((0, 3, 4), (8,)),
    ((2, 0, 4, 4), (8, 8)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "sizes"), CASES)
def test_blend(level, dtype, shape, sizes):
    lo, hi = limits(dtype)
    q = codes(int(np.prod(shape)), dtype).reshape(shape)
    last = np.ascontiguousarray(np.moveaxis(q, 1, -1))
    zero = min(hi, lo + 100)
    for corners, to in itertools.product((False, True), ((0.05, zero), (0.3, lo + 7))):
        own = {"size": sizes, "mode": MODES[len(sizes)], "align_corners": corners}
        expected = interpolated(q, (0.05, zero), to, sizes, corners, dtype)
        same(qops.qinterpolate(q, 0.05, zero, *to, **own), expected)
        got = qops.qinterpolate(last, 0.05, zero, *to, channels_last=True, **own)
        same(np.moveaxis(got, -1, 1), expected)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_parameters_of_each_channel(level, mode):
    rng = np.random.default_rng(0)
    q = codes(2 * 20 * 4 * 5, np.int8).reshape(2, 20, 4, 5)
    last = np.ascontiguousarray(np.moveaxis(q, 1, -1))
    scales, to_scales = rng.uniform(0.01, 2, (2, 20))
    zeros, to_zeros = rng.integers(-50, 100, (2, 20))
    own = {"size": (9, 3), "mode": mode}
    for pairs in (
        (scales, zeros, to_scales, to_zeros),
        (0.1, zeros, 0.2, 3),
        (0.1, 7, to_scales, 3),
        (scales, 7, scales, zeros),
    ):
        beside = [np.broadcast_to(p, 20) for p in pairs]
        expected = [
            qops.qinterpolate(q[:, [c]], *(p[c] for p in beside), **own)
            for c in range(20)
        ]
        expected = np.concatenate(expected, 1)
        same(qops.qinterpolate(q, *pairs, **own), expected)
        got = qops.qinterpolate(last, *pairs, channels_last=True, **own)
        same(np.moveaxis(got, -1, 1), expected)
    got = qops.qinterpolate(q, scales, zeros, size=(4, 5), mode=mode)
    same(got, q)


@pytest.mark.parametrize("scales", [(1e-40, 3e-40), (3e38, 1e-30), (1e-30, 3e38)])
def test_scales_that_need_a_division(level, scales):
    q = codes(60, np.int8).reshape(1, 3, 20)
    expected = interpolated(q, (scales[0], 3), (scales[1], -5), [33], False, np.int16)
    own = {"size": 33, "mode": "linear", "dtype": np.int16}
    same(qops.qinterpolate(q, scales[0], 3, scales[1], -5, **own), expected)


@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.booleans(),
    st.floats(2.0**-20, 2.0**20, width=32),
    st.integers(0, 255),
)
def test_properties(n, m, corners, scale, zero):
    """Any length; what has one value keeps it, and the identity keeps all."""
    q = codes(2 * n, np.uint8).reshape(1, 2, n)
    own = {"mode": "linear", "align_corners": corners}
    got = qops.qinterpolate(q, scale, zero, size=m, **own)
    same(got, interpolated(q, (scale, zero), (scale, zero), [m], corners, np.uint8))
    same(qops.qinterpolate(q, scale, zero, size=n, **own), q)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nearest(level, dtype):
    q = codes(2 * 3 * 5 * 7, dtype).reshape(2, 3, 5, 7)
    rows, columns = (np.arange(m) * n // m for n, m in ((5, 12), (7, 4)))
    expected = q[:, :, rows][..., columns]
    same(qops.qinterpolate(q, 0.1, 3, size=(12, 4)), expected)
    last = np.moveaxis(q, 1, -1)
    got = qops.qinterpolate(last, 0.1, 3, size=[12, 4], channels_last=True)
    same(np.moveaxis(got, -1, 1), expected)
    got = qops.qinterpolate(q, 0.1, 3, 0.2, 1, size=(12, 4), dtype=np.int8)
    same(got, oracles.requantize(expected, 0.1, 3, 0.2, 1, np.int8))


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((2, 3, 500_000), (300_001,)),
        ((1, 2, 300, 410), (700, 900)),
        ((3, 150, 9, 11), (17, 40)),
        ((2, 40, 210, 190), (21, 600)),
        ((2, 40, 210, 190), (10, 15)),
        ((1, 3, 2, 600, 300), (3, 700, 150)),
    ],
)
def test_nearest_in_pieces(shape, sizes):
    """Pieces begin and end within each of the dimensions, and dimensions shrink."""
    q = codes(int(np.prod(shape)), np.int16).reshape(shape)
    expected = q
    for axis, m in enumerate(sizes, 2):
        expected = expected.take(np.arange(m) * shape[axis] // m, axis)
    same(qops.qinterpolate(q, 0.1, 3, size=sizes), expected)
    other = oracles.requantize(expected, 0.1, 3, 0.2, 1, np.uint16)
    to = {"out_scale": 0.2, "out_zero_point": 1, "dtype": np.uint16}
    same(qops.qinterpolate(q, 0.1, 3, size=sizes, **to), other)
    last = np.ascontiguousarray(np.moveaxis(q, 1, -1))
    got = qops.qinterpolate(last, 0.1, 3, size=sizes, channels_last=True)
    same(np.moveaxis(got, -1, 1), expected)


def test_layouts():
    wide = codes(4 * 10 * 12, np.uint8).reshape(2, 2, 10, 12)
    q = wide[:, ::-1, ::2, ::-3]
    own = {"scale_factor": (2, 1.5), "mode": "bilinear"}
    expected = interpolated(q, (0.1, 9), (0.1, 9), [10, 6], False, np.uint8)
    same(qops.qinterpolate(q, 0.1, 9, **own), expected)
    swapped = q.astype(np.int16).astype(">i2")
    got = qops.qinterpolate(swapped, 0.1, 9, **own, dtype=np.uint8)
    same(got, expected)
    out = np.zeros((2, 2, 10, 12), np.uint8)[..., ::-2]
    assert qops.qinterpolate(q, 0.1, 9, **own, out=out) is out
    same(np.ascontiguousarray(out), expected)
    shared = wide.copy()
    part = shared[:, :, :5, :4]
    before = part.copy()
    own = {"size": (10, 12), "mode": "bilinear"}
    qops.qinterpolate(part, 0.1, 9, **own, out=shared)
    same(shared, qops.qinterpolate(before, 0.1, 9, **own))


Q = np.zeros((1, 2, 3, 4), np.uint8)


def call(q=Q, **own):
    own = {"size": 4, **own}
    return qops.qinterpolate(q, 0.1, 0, **own)


@pytest.mark.parametrize(
    ("own", "error", "message"),
    [
        ({"q": Q * 1.0}, TypeError, "q is float64"),
        ({"q": Q.astype(np.int32)}, TypeError, "q is int32, not uint8, int8, uint16"),
        ({"q": Q[0, 0]}, ValueError, r"q has shape \(3, 4\), not samples"),
        ({"q": Q[:, :, :0]}, ValueError, r".* has nothing along axis 2"),
        ({"mode": "cubic"}, ValueError, "mode is 'cubic', not one of nearest"),
        ({"mode": "linear"}, ValueError, "mode is 'linear', for 1 spatial dimensions"),
        ({"align_corners": True}, ValueError, "align_corners is True, and mode is"),
        ({"size": None}, ValueError, "size is None and scale_factor is None; give one"),
        ({"scale_factor": 2}, ValueError, "size is 4 and scale_factor is 2; give one"),
        ({"size": (4, 0)}, ValueError, r"size is \(4, 0\), not at least 1"),
        ({"size": 2.0}, TypeError, "size is 2.0, not integers"),
        ({"size": None, "scale_factor": "x"}, TypeError, "scale_factor is 'x', not"),
        (
            {"size": None, "scale_factor": 0.1},
            ValueError,
            r"scale_factor is 0.1, which makes \[0.0, 0.0\] of \[3, 4\] elements",
        ),
        (
            {"size": None, "scale_factor": [1, 2, 3]},
            ValueError,
            r"scale_factor is \[1, 2, 3\], not one number or 2",
        ),
        (
            {"size": None, "scale_factor": np.nan},
            ValueError,
            r"scale_factor is nan, which makes \[nan, nan\]",
        ),
        ({"dtype": np.int32}, TypeError, "the result is int32, of more than 16 bits"),
        ({"out": Q}, ValueError, r"out has shape \(1, 2, 3, 4\), not \(1, 2, 4, 4\)"),
    ],
)
def test_errors(own, error, message):
    with pytest.raises(error, match=f"^qinterpolate: {message}"):
        call(**own)
