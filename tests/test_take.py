"""take and lookup_table against NumPy's indexing, on each level."""

import ml_dtypes
import numpy as np
import oracles
import pytest
from guard import guarded, tail, untouched
from numpy.exceptions import AxisError
from oracles import limits, same
from test_dequantize import codes

import qops

CODES = [np.uint8, np.int8, np.uint16, np.int16]
ENTRIES = [np.uint8, np.uint16, np.float32, np.float64, np.int8, np.int64, np.float16]


def table_of(dtype, entries, *channels, seed=0):
    """Give a table of random bits, so that every byte of an entry counts."""
    lo, hi = limits(dtype)
    shape = (*channels, hi - lo + 1)
    bits = np.random.default_rng(seed).bytes(int(np.prod(shape)) * 8)
    return np.frombuffer(bits, entries)[: int(np.prod(shape))].reshape(shape)


@pytest.mark.parametrize("entries", ENTRIES)
@pytest.mark.parametrize("dtype", CODES)
def test_lengths(level, dtype, entries):
    table = table_of(dtype, entries)
    q, y = guarded(1300, dtype), guarded(1300, entries)
    q[:] = codes(1300, dtype)
    for n in [*range(260), 511, 512, 513, 575, 1023, 1300]:
        v = tail(q, n)
        expected = oracles.take(v, table)
        same(qops.take(v, table), expected)
        y.view(np.uint8)[:] = 0xA5
        out = tail(y, n)
        assert qops.take(v, table, out=out) is out
        same(out, expected)
        assert untouched(y, n)


@pytest.mark.parametrize("entries", [np.uint8, np.float32])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_every_code_in_every_place(level, dtype, entries):
    """A table at the end of its memory, too."""
    lo, hi = limits(dtype)
    table = guarded(256, entries)
    table[:] = table_of(dtype, entries)
    q = np.resize(np.arange(lo, hi + 1), 256 * 65).astype(dtype)
    q = q.reshape(256, 65).T.copy()  # each code at each offset
    same(qops.take(q, table), oracles.take(q, table))


@pytest.mark.parametrize("entries", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("dtype", CODES)
def test_layouts(level, dtype, entries):
    table = table_of(dtype, entries)
    q = codes(6 * 70 * 8, dtype).reshape(6, 70, 8)
    for x in (
        *(q[::2], q[:, ::-3], q.T, q[..., 0], q[:, :0], q[1, 1, 1], q[:, ::-1, ::-1]),
        np.broadcast_to(q[:1], q.shape),
        q.astype(q.dtype.newbyteorder()),
        np.asfortranarray(q),
    ):
        same(qops.take(x, table), oracles.take(x.astype(dtype), table))
        swapped = table.astype(table.dtype.newbyteorder())
        same(qops.take(x, swapped), oracles.take(x.astype(dtype), table))
        same(
            qops.take(x, np.repeat(table, 2)[::2]), oracles.take(x.astype(dtype), table)
        )
        y = np.zeros((*x.shape, 2), entries)[..., 0]
        assert qops.take(x, table, out=y) is y
        same(y.copy(), oracles.take(x.astype(dtype), table))
    view = q.view(type("Mine", (np.ndarray,), {}))
    assert type(qops.take(view, table)) is np.ndarray


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("entries", [np.uint8, np.float32, np.int64])
@pytest.mark.parametrize("dtype", CODES[:3])
def test_channels(level, dtype, entries, axis):
    q = codes(3 * 5 * 129, dtype).reshape(3, 5, 129)
    table = table_of(dtype, entries, q.shape[axis])
    expected = np.stack(
        [
            oracles.take(v, t)
            for v, t in zip(np.moveaxis(q, axis, 0), table, strict=True)
        ],
        axis,
    )
    same(qops.take(q, table, axis=axis), expected)
    for out in (
        np.empty(q.shape, entries),
        np.empty(q.shape, entries, "F"),
        np.empty((3, 5, 258), entries)[..., ::2],
    ):
        assert qops.take(q, table, axis=axis, out=out) is out
        same(out.copy(), expected)
    same(qops.take(q[:, ::-1][:, ::-1], table, axis=axis), expected)
    empty = qops.take(np.moveaxis(q, axis, 0)[:, :0], table, axis=0)
    assert empty.size == 0


def test_overlaps(level):
    table = table_of(np.uint8, np.uint8)
    q = codes(1000, np.uint8)
    expected = oracles.take(q, table)
    x = q.copy()
    assert qops.take(x, table, out=x) is x
    same(x, expected)
    x = np.concatenate([q, q[:3]])
    qops.take(x[:1000], table, out=x[3:])
    same(x[3:], expected)
    for dtype in np.uint8, np.int8:  # the table is overwritten
        both = np.empty(1256, np.uint8)
        both[:256] = table
        x = q[:300].view(dtype)
        qops.take(x, both[:256], out=both[100:400])
        same(both[100:400], oracles.take(x, table))
    rows = np.stack([table, table[::-1]])
    x = q.reshape(2, 500).copy()
    qops.take(x, rows, axis=0, out=x)
    same(x, np.stack([table[q[:500]], table[::-1][q[500:]]]))


def test_scalars_and_sequences(level):
    table = np.arange(256, dtype=np.float32)
    y = qops.take(np.uint8(7), table)
    assert (type(y), y) == (np.float32, 7)
    same(qops.take(np.array(3, np.int8), table), np.float32(131))
    same(qops.take(np.array([1, 2], np.uint8), table.tolist()), np.array([1.0, 2.0]))
    bf16 = table.astype(ml_dtypes.bfloat16)
    same(qops.take(np.array([5], np.uint8), bf16), bf16[5:6])
    out = np.zeros((), np.float32)
    assert qops.take(np.uint8(9), table, out=out) is out
    assert out == 9


Q, T = np.zeros((2, 3), np.uint8), np.zeros(256, np.uint8)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (
            (Q.astype(float), T),
            TypeError,
            "q is float64, not one of uint8, int8, uint16",
        ),
        (
            (Q.astype(np.int32), T),
            TypeError,
            "q is int32, not one of uint8, int8, uint16",
        ),
        (
            (Q, T.astype(complex)),
            TypeError,
            "table is complex128, not codes or real num",
        ),
        (
            (Q, T.astype(object)),
            TypeError,
            "table is object, not codes or real numbers",
        ),
        (
            (np.ma.array(Q), T),
            TypeError,
            "q is a masked array, not a plain one; fill it",
        ),
        ((Q, np.ma.array(T)), TypeError, "table is a masked array, not a plain one"),
        (
            (Q, T[:255]),
            ValueError,
            "table has shape (255,), not (256,), an entry for e",
        ),
        (
            (Q, T[None]),
            ValueError,
            "table has shape (1, 256), not (256,), an entry for",
        ),
        (
            (Q.astype(np.int16), T),
            ValueError,
            "table has shape (256,), not (65536,), an",
        ),
        (
            (Q, T[None], 1),
            ValueError,
            "table has shape (1, 256), not (3, 256), an entry",
        ),
        (
            (Q, T, 1),
            ValueError,
            "table has shape (256,), not (3, 256), an entry for eac",
        ),
        ((Q, T, 2), AxisError, "axis is 2, not within -2..1, the axes of 2 dimensions"),
        ((Q, T, 0.5), TypeError, "axis is 0.5, not an integer"),
        ((Q, T, None, Q[:1].copy()), ValueError, "out has shape (1, 3), not (2, 3)"),
        ((Q, T, None, Q.astype(np.int8)), TypeError, "out has dtype int8, not uint8"),
        ((Q, T, None, [1]), TypeError, "out is list, not an array"),
    ],
)
def test_errors(arguments, error, said):
    q, table, axis, out = (*arguments, None, None)[:4]
    before = None if out is None else np.array(out)
    with pytest.raises(error) as caught:
        qops.take(q, table, axis=axis, out=out)
    assert str(caught.value).startswith(f"take: {said}")
    assert out is None or (np.array(out) == before).all()


def test_read_only_out():
    out = np.zeros((2, 3), np.uint8)
    out.flags.writeable = False
    with pytest.raises(ValueError, match=r"^take: out is read-only, not writeable$"):
        qops.take(Q, T, out=out)


# ---------------------------------------------------------------- tables of functions


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("out_dtype", [np.uint8, np.int8, np.int16, np.float32])
@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("f", [sigmoid, np.tanh, np.sqrt, np.square, np.isnan])
def test_tables(f, dtype, out_dtype):
    lo, hi = limits(dtype)
    q = np.arange(lo, hi + 1).astype(dtype)
    quantized = out_dtype != np.float32
    args = (out_dtype, 1 / 128, 3) if quantized else (out_dtype,)
    table = qops.lookup_table(f, dtype, 0.037, 5, *args)
    with np.errstate(all="ignore"):
        real = f(oracles.dequantize(q, 0.037, 5).astype(np.float64)).astype(np.float32)
    same(table, oracles.quantize(real, 1 / 128, 3, out_dtype) if quantized else real)
    same(qops.take(q, table), table)


def test_table_of_float64():
    table = qops.lookup_table(np.exp, np.uint8, 0.1, 0, np.float64)
    x = oracles.dequantize(np.arange(256, dtype=np.uint8), 0.1, 0)
    same(table, np.exp(x.astype(np.float64)))


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_tables_of_channels(dtype):
    """Those of 16 bits take several pieces."""
    scales, zeros = np.array([0.1, 0.2, 0.3]), np.array([1, -2, 3])
    rows = qops.lookup_table(np.tanh, dtype, scales, zeros, np.int8, 1 / 128)
    real = qops.lookup_table(np.tanh, dtype, scales, zeros, np.float64)
    for row, numbers, scale, zero in zip(rows, real, scales, zeros, strict=True):
        args = np.tanh, dtype, float(scale), int(zero)
        same(row, qops.lookup_table(*args, np.int8, 1 / 128))
        same(numbers, qops.lookup_table(*args, np.float64))
    rows = qops.lookup_table(np.tanh, dtype, 0.1, 0, np.int8, scales, zeros)
    for row, scale, zero in zip(rows, scales, zeros, strict=True):
        args = (0.1, 0, np.int8, float(scale), int(zero))
        same(row, qops.lookup_table(np.tanh, dtype, *args))


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (
            (np.tanh, np.int32, 1, 0, np.int8, 1),
            TypeError,
            "dtype is int32, not one of 8",
        ),
        (
            (np.tanh, np.float32, 1, 0, np.int8, 1),
            TypeError,
            "dtype is float32, not one",
        ),
        (
            (np.tanh, np.int8, 1, 0, np.int8),
            ValueError,
            "out_scale is None and out_dtyp",
        ),
        (
            (np.tanh, np.int8, 1, 0, np.float32, 1),
            ValueError,
            "out_scale is 1 and out_dt",
        ),
        (
            (np.sum, np.int8, 1, 0, np.int8, 1),
            ValueError,
            "f returns shape () for shape ",
        ),
        (
            (lambda x: x + 1j, np.int8, 1, 0, np.int8, 1),
            TypeError,
            "f returns complex128",
        ),
        (
            (np.tanh, np.int8, [[1]], 0, np.int8, 1),
            ValueError,
            "parameters have shape (1",
        ),
    ],
)
def test_tables_refused(arguments, error, said):
    with pytest.raises(error) as caught:
        qops.lookup_table(*arguments)
    assert str(caught.value).startswith(f"lookup_table: {said}")


# ---------------------------------------------------------------- requantize


@pytest.mark.parametrize("out_dtype", [*CODES, np.int32])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_requantize_through_a_table(level, dtype, out_dtype):
    """From 2048 codes on; with each of its 256 entries, and any layout."""
    q = np.resize(np.arange(256), 2 * 2400).astype(np.uint8).view(dtype)
    for scale, zero, out_scale, out_zero in [
        (0.1, 3, 0.1, 3),
        (0.37, 100, 0.011, 7),
        (1e-30, 0, 1e30, 1),
        (1e30, 0, 1e-30, 1),
        (1e-42, 0, 1e-42, 5),
    ]:
        for v in q[:2047], q[:2048], q[::2], q.reshape(60, 80).T:
            args = (v, scale, zero, out_scale, out_zero)
            expected = oracles.requantize(*args, out_dtype)
            same(qops.requantize(*args, dtype=out_dtype), expected)
