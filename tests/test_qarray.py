"""QArray: parameters follow the codes, and nothing happens by surprise."""

import copy
import operator
import pickle

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import CODES, same
from test_dequantize import codes

import qops
from qops import QArray

Q = codes(3 * 4 * 5, np.uint8).reshape(3, 4, 5)
S, Z = np.array([0.1, 0.2, 0.3, 0.4]), np.array([1, 2, 3, 4])


def real(q, s, z, axis=None):
    if axis is not None:
        shape = [-1 if i == axis else 1 for i in range(q.ndim)]
        s, z = (np.reshape(p, shape) if np.ndim(p) else p for p in (s, z))
    return oracles.dequantize(q, s, z)


def test_what_it_carries():
    a = QArray(Q, 0.1, 3)
    assert (a.shape, a.ndim, a.size, len(a)) == ((3, 4, 5), 3, 60, 3)
    assert (a.dtype, a.scale, a.zero_point, a.axis) == (np.uint8, 0.1, 3, None)
    assert a.codes.base is not None
    assert np.shares_memory(a.codes, Q)
    same(a.codes, Q)
    b = QArray(Q.tolist() and Q, S, Z, axis=-2)
    assert b.axis == 1
    same(b.scale, S)
    same(b.zero_point, Z)
    assert QArray(Q[0, :, 0], S).axis == 0
    same(QArray(Q, 0.5, Z, axis=1).dequantize(), real(Q, 0.5, Z, 1))
    assert QArray(np.int8(3), 0.1).shape == ()


def test_it_does_not_change():
    a = QArray(Q, S, Z, axis=1)
    for name in ("codes", "scale", "zero_point", "axis", "shape", "other"):
        with pytest.raises(AttributeError):
            setattr(a, name, 1)
    for x in (a.codes, a.scale, a.zero_point):
        with pytest.raises(ValueError, match="read-only"):
            x[...] = 0
    with pytest.raises(TypeError, match="item assignment"):
        a[0] = 1
    s = S.copy()
    assert not QArray(Q, s, Z, axis=1).scale.flags.writeable
    assert s.flags.writeable
    assert Q.flags.writeable
    assert copy.copy(a) is a
    assert copy.deepcopy(a) is a
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)


@pytest.mark.parametrize("dtype", CODES)
def test_numbers(level, dtype):
    q = codes(60, dtype).reshape(3, 4, 5)
    a = QArray(q, S, Z, axis=1)
    same(a.dequantize(), real(q, S, Z, 1))
    same(np.asarray(a), real(q, S, Z, 1))
    same(np.array(a, dtype=np.float64), real(q, S, Z, 1).astype(np.float64))
    assert np.asarray(QArray(dtype(5), 1.0)).shape == ()
    same(a.dequantize(np.float64), qops.dequantize(q, S, Z, axis=1, dtype=np.float64))
    b = a.requantize(0.3, 7, dtype=np.int8)
    same(b.codes, qops.requantize(q, S, Z, 0.3, 7, axis=1, dtype=np.int8))
    assert (b.scale, b.zero_point, b.axis) == (0.3, 7, None)
    c = QArray(q, 0.3, 7).requantize(S, Z, axis=-2)
    same(c.codes, qops.requantize(q, 0.3, 7, S, Z, axis=1))
    assert c.axis == 1
    same(np.mean(a), np.mean(real(q, S, Z, 1)))


def test_from_float():
    x = np.linspace(-1, 3, 60).reshape(3, 4, 5)
    a = QArray.from_float(x, 0.05, 20, dtype=np.uint8)
    same(a.codes, qops.quantize(x, 0.05, 20, dtype=np.uint8))
    for symmetric in (False, True):
        b = QArray.from_float(x, dtype=np.int8, axis=1, symmetric=symmetric)
        s, z = qops.choose_qparams(x, np.int8, axis=1, symmetric=symmetric)
        same(b.scale, s)
        same(b.zero_point, z.astype(np.int64))
        same(b.codes, qops.quantize(x, s, z, dtype=np.int8, axis=1))


INDICES = [
    *(0, -1, slice(None), slice(1, 3), slice(None, None, -1), slice(0, 0), ..., None),
    *([2, 0], np.array([True, False, True])),
    *((0, 1), (..., 2), (slice(None), 1), (slice(None), slice(1, 3)), (0, 1, 2)),
    *((None, 0), (slice(None), None, [3, 1, 1]), (slice(None), slice(2, 2))),
    *((slice(None), slice(1, 2)), ([0, 1], slice(None), [2, 3]), ([0, 1], 2)),
    (np.array([[0, 0], [2, 2]]), slice(None), 1),
    Q > 300,
]


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices(index, axis):
    n = 1 if axis is None else Q.shape[axis]
    s = 0.1 if axis is None else np.arange(1, n + 1) * 0.1
    z = 3 if axis is None else np.arange(n)
    a = QArray(Q, s, z, axis)
    b = a[index]
    assert isinstance(b, QArray)
    same(b.codes, Q[index])
    same(np.asarray(b.dequantize()), real(Q, s, z, axis)[index])
    assert (b.axis is None) == (np.ndim(b.scale) == 0)


@given(st.data())
def test_indices_of_all_kinds(data):
    """Whatever NumPy takes, unless channels would lie along several axes."""
    axis = data.draw(st.integers(0, 2))
    n = Q.shape[axis]
    s, z = np.arange(1, n + 1) * 0.1, np.arange(n)
    each = st.one_of(
        st.slices(3),
        st.integers(-3, 2),
        st.lists(st.integers(-3, 2), min_size=2, max_size=2),
        st.none(),
    )
    index = tuple(data.draw(st.lists(each, max_size=3)))
    a = QArray(Q, s, z, axis)
    shape = [-1 if i == axis else 1 for i in range(3)]
    channels = np.asarray(np.broadcast_to(z.reshape(shape), Q.shape)[index])
    along = [(np.diff(channels, axis=i) != 0).any() for i in range(channels.ndim)]
    if sum(along) > 1:
        with pytest.raises(IndexError, match="channels along axes"):
            a[index]
    else:
        same(np.asarray(a[index].dequantize()), real(Q, s, z, axis)[index])


def test_indices_that_mix_channels():
    a = QArray(Q, S, Z, axis=1)
    with pytest.raises(IndexError, match=r"channels along axes \[1, 2\], not along"):
        a[:, [[0, 1], [2, 3]]]
    with pytest.raises(IndexError, match="out of bounds"):
        a[5]
    assert a[Q < 9].ndim == 1  # channels in any order, along one axis


COMPARISONS = [
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
]


@pytest.mark.parametrize("f", COMPARISONS)
def test_comparisons(f):
    a, b = QArray(Q, 0.1, 3), QArray(Q[::-1], 0.2, 1)
    exact = [
        (v.codes.astype(np.float64) - v.zero_point) * np.float64(np.float32(v.scale))
        for v in (a, b)
    ]
    same(f(a, b), f(*exact))
    same(f(a, 1.5), f(real(Q, 0.1, 3), np.float32(1.5)))
    same(f(np.ones(5), a), f(np.ones(5), real(Q, 0.1, 3)))
    c = QArray(Q[0], S, Z, axis=0)
    got = f(a, c)
    same(got, qops_of(f)(Q, 0.1, 3, Q[0], S, Z, axis=1))
    same(f(c, c), f(real(Q[0], S, Z, 0), real(Q[0], S, Z, 0)))
    with pytest.raises(ValueError, match="channels lie along axes 0 and 2"):
        f(c, QArray(Q, np.ones(5), axis=2))
    assert type(f(QArray(np.int8(1), 0.1), QArray(np.int8(1), 0.1))) is np.bool_


def qops_of(f):
    names = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"}
    names |= {"gt": "greater", "ge": "greater_equal"}
    return getattr(qops, "q" + names[f.__name__])


def test_other_operators_refuse():
    a = QArray(Q, 0.1, 3)
    for call, name in (
        (lambda: a + a, "add"),
        (lambda: 2 * a, "multiply"),
        (lambda: a * Q, "multiply"),
        (lambda: Q - a, "subtract"),
        (lambda: -a, "negative"),
        (lambda: np.exp(a), "exp"),
        (lambda: np.add.reduce(a), "add"),
        (lambda: np.equal(a, a, out=np.empty(Q.shape, bool)), "equal"),
    ):
        with pytest.raises(TypeError, match=f"^{name}: a result of QArrays has no"):
            call()


def test_show_and_pickle():
    a = QArray(np.array([1, 2], np.uint8), 0.1, 3)
    assert repr(a) == "QArray([1, 2], scale=0.1, zero_point=3, dtype=uint8)"
    b = QArray(np.array([[1, 2]], np.int8), [0.5, 0.25], [0, 1], axis=1)
    assert repr(b) == (
        "QArray([[1, 2]], scale=[0.5, 0.25], zero_point=[0, 1], axis=1, dtype=int8)"
    )
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        for v in (a, b, QArray(Q.astype(">i2").T, 0.5)):
            w = pickle.loads(pickle.dumps(v, protocol))
            assert (w == v).all()
            assert w.axis == v.axis
            assert w.dtype.newbyteorder("=") == v.dtype.newbyteorder("=")
            same(w.scale, v.scale)
            same(w.zero_point, v.zero_point)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: QArray(Q * 1.0, 0.1), TypeError, "QArray: codes is float64, not a"),
        (lambda: QArray(Q, 0.0), ValueError, "QArray: scale is 0.0, not finite"),
        (lambda: QArray(Q, 1, 256), ValueError, "QArray: zero_point is 256, not"),
        (lambda: QArray(Q, S), ValueError, r"QArray: scale has shape \(4,\) and x"),
        (lambda: QArray(Q, S, axis=0), ValueError, r"QArray: scale has shape \(4,\)"),
        (lambda: QArray(Q, S, axis=3), ValueError, "QArray: axis is 3, not within"),
        (
            lambda: QArray(Q, S, Z, 1).requantize(np.ones(5), 0, axis=2),
            ValueError,
            "requantize: axis is 2, not 1, that of the channels there are",
        ),
        (
            lambda: np.array(QArray(Q, 1), copy=False),
            ValueError,
            "QArray: copy is False, but real numbers have to be made",
        ),
        (lambda: len(QArray(np.int8(1), 1)), TypeError, "unsized"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
