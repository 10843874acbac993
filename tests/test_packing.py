"""Packed codes against bits taken one by one, and the definitions of numbers."""

import math
import warnings

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import CODES, FLOATS, same
from test_quantize import numbers

import qops

KINDS = [(bits, dtype) for bits in (2, 4) for dtype in (np.uint8, np.int8)]


def ends(bits, dtype):
    half = 2 ** (bits - 1)
    return (-half, half - 1) if dtype == np.int8 else (0, 2 * half - 1)


def codes(shape, bits, dtype, seed=0):
    low, high = ends(bits, dtype)
    return np.random.default_rng(seed).integers(low, high, shape, dtype, endpoint=True)


def packed(q, bits):
    """The flattened codes as one Python integer, first in the lowest bits."""
    whole = 0
    for k in reversed(np.ravel(q).tolist()):
        whole = whole << bits | k & (2**bits - 1)
    n = -(-np.size(q) * bits // 8)
    return np.frombuffer(whole.to_bytes(n, "little"), np.uint8)


def packed_quickly(q, bits):
    """The same of bits; whose order packbits has from the other end."""
    flat = np.ravel(q).astype(np.uint8)[:, None]
    return np.packbits((flat >> np.arange(bits)) & 1, bitorder="little")


def quantized(x, scale, zero, bits, dtype):
    low, high = ends(bits, dtype)
    zero = np.asarray(zero, np.int64)
    double = x.dtype == np.float64
    with np.errstate(all="ignore"):
        if double:
            t = np.rint(x / np.asarray(scale, np.float64))
        else:
            t = np.rint(x.astype(np.float32) / np.asarray(scale, np.float32))
        q = np.clip(t, low - zero, high - zero) + zero
    return np.where(np.isnan(x.astype(np.float64)), zero, q).astype(dtype)


@pytest.mark.parametrize(("bits", "dtype"), KINDS)
def test_lengths(level, bits, dtype):
    q = codes(300, bits, dtype)
    for n in (*range(70), 299, 300):
        v = q[300 - n :]
        expected = packed(v, bits)
        same(expected, packed_quickly(v, bits))
        same(qops.pack(v, bits), expected)
        same(qops.unpack(expected, n, dtype, bits), v)
        x = v.astype(np.float32) / 2
        args = {"bits": bits, "dtype": dtype}
        same(qops.quantize_packed(x, 0.5, **args), expected)
        same(qops.dequantize_packed(expected, n, 0.5, **args), x)


@pytest.mark.parametrize(("bits", "dtype"), KINDS)
def test_all_bytes(level, bits, dtype):
    b = np.arange(256).astype(np.uint8)
    q = qops.unpack(b, (16, 16 * 8 // bits), dtype, bits)
    low, high = ends(bits, dtype)
    assert q.dtype == dtype
    assert (q.min(), q.max()) == (low, high)
    same(qops.pack(q, bits), b)


@pytest.mark.parametrize(("bits", "dtype"), KINDS)
@pytest.mark.parametrize("shape", [(3, 65537), (65537, 3), (5, 13109, 3), (200001,)])
def test_pieces_that_end_within_bytes(bits, dtype, shape):
    q = codes(shape, bits, dtype)
    expected = packed_quickly(q, bits)
    same(qops.pack(q, bits), expected)
    same(qops.pack(np.asfortranarray(q), bits), expected)
    same(qops.unpack(expected, shape, dtype, bits), q)
    args = {"bits": bits, "dtype": dtype}
    for axis in range(len(shape)):
        n = shape[axis]
        s = np.random.default_rng(1).uniform(0.1, 1, n).astype(np.float32)
        z = codes(n, bits, dtype, 2)
        wide = [1] * len(shape)
        wide[axis] = n
        x = numbers(q.size, np.float32).reshape(shape) / 9
        codes_ = quantized(x, s.reshape(wide), z.reshape(wide), bits, dtype)
        got = qops.quantize_packed(x, s, z, axis=axis, **args)
        same(got, packed_quickly(codes_, bits))
        got = qops.dequantize_packed(expected, shape, s, z, axis=axis, **args)
        same(got, oracles.dequantize(q, s.reshape(wide), z.reshape(wide)))


@pytest.mark.parametrize("block", [1, 3, 32, 40000, 100000])
@pytest.mark.parametrize("shape", [(3, 65537), (65537, 3), (140001,), (7, 1001, 11)])
@pytest.mark.parametrize(("bits", "dtype"), [(4, np.int8), (2, np.uint8)])
def test_blocks(bits, dtype, shape, block):
    for axis in range(len(shape)):
        blocks = list(shape)
        blocks[axis] = -(-shape[axis] // block)
        s = np.random.default_rng(1).uniform(0.1, 1, blocks).astype(np.float32)
        z = codes(blocks, bits, dtype)
        of = np.arange(shape[axis]) // block
        wide_s, wide_z = s.take(of, axis), z.take(of, axis)
        x = numbers(math.prod(shape), np.float32).reshape(shape) / 9
        expected = packed_quickly(quantized(x, wide_s, wide_z, bits, dtype), bits)
        args = {"bits": bits, "dtype": dtype, "axis": axis, "block_size": block}
        same(qops.quantize_packed(x, s, z, **args), expected)
        q = qops.unpack(expected, shape, dtype, bits)
        got = qops.dequantize_packed(expected, shape, s, z, **args)
        same(got, oracles.dequantize(q, wide_s, wide_z))
        zero = int(ends(bits, dtype)[1])
        got = qops.dequantize_packed(expected, shape, s, zero, **args)
        same(got, oracles.dequantize(q, wide_s, zero))


@pytest.mark.parametrize(("bits", "dtype"), KINDS)
@pytest.mark.parametrize("x_dtype", FLOATS)
def test_quantize(level, bits, dtype, x_dtype):
    x = numbers(1003, x_dtype)
    low, high = ends(bits, dtype)
    args = {"bits": bits, "dtype": dtype}
    for scale in (0.1, 7.3, 1e-30, 1e30):
        for zero in range(low, high + 1):
            q = quantized(x, scale, zero, bits, dtype)
            same(qops.quantize_packed(x, scale, zero, **args), packed_quickly(q, bits))
            with np.errstate(all="ignore"):
                assert set(q[x == np.inf]) == {high}
                assert set(q[x == -np.inf]) == {low}
    if x_dtype == np.float64:  # whose scale is not rounded
        q = quantized(x * 1e-60, 1e-59, 0, bits, dtype)
        got = qops.quantize_packed(x * 1e-60, 1e-59, **args)
        same(got, packed_quickly(q, bits))


@pytest.mark.parametrize(("bits", "dtype"), KINDS)
@pytest.mark.parametrize("result", [np.float32, np.float64])
def test_dequantize(level, bits, dtype, result):
    q = codes((11, 7), bits, dtype)
    b = packed(q, bits)
    for scale in (0.1, 1e-42, 1e30):
        zero = ends(bits, dtype)[1]
        args = (b, (11, 7), scale, zero)
        kinds = {"bits": bits, "dtype": dtype}
        expected = oracles.dequantize(q, scale, zero, result)
        same(qops.dequantize_packed(*args, **kinds, result_dtype=result), expected)
        out = np.empty((7, 11), np.dtype(result).newbyteorder()).T
        assert qops.dequantize_packed(*args, **kinds, out=out) is out
        same(np.ascontiguousarray(out).astype(result), expected)


@given(
    st.sampled_from(KINDS),
    st.lists(st.integers(0, 6), max_size=3),
    st.integers(0, 2**32),
)
def test_round_trip(kind, shape, seed):
    bits, dtype = kind
    q = codes(shape, bits, dtype, seed)
    b = qops.pack(q, bits)
    same(b, packed(q, bits))
    same(qops.unpack(b, shape, dtype, bits), np.asarray(q))


@pytest.mark.parametrize(("bits", "dtype"), KINDS)
def test_layouts(bits, dtype):
    q = codes((6, 10), bits, dtype)
    raw = np.empty(6 * 10 * 4 + 1, np.uint8)
    x = raw[1:].view(np.float32).reshape(6, 10)  # misaligned
    x[:] = q
    args = {"bits": bits, "dtype": dtype}
    for view in (
        lambda v: v,
        lambda v: v.T,
        lambda v: v[::-1, ::-3],
        lambda v: v[:0],
        lambda v: v[2:3, 3:4].reshape(()),
        lambda v: np.broadcast_to(v[0], (5, 10)),
    ):
        expected = packed(view(q), bits)
        same(qops.pack(view(q), bits), expected)
        same(qops.quantize_packed(view(x), 1.0, **args), expected)
        same(qops.quantize_packed(view(x.astype(">f4")), 1.0, **args), expected)
        out = np.zeros((2 * expected.size, 2), np.uint8)[::-2, 1]
        assert qops.pack(view(q), bits, out=out) is out
        same(np.ascontiguousarray(out), expected)
        out[:] = 0
        assert qops.quantize_packed(view(x), 1.0, **args, out=out) is out
        same(np.ascontiguousarray(out), expected)
        shape = view(q).shape
        got = qops.dequantize_packed(out, shape, 1.0, **args)
        same(got, view(q).astype(np.float32))
        same(qops.unpack(out, shape, dtype, bits), np.asarray(view(q)))
    read_only = q.copy()
    read_only.flags.writeable = False
    same(qops.pack(read_only, bits), packed(q, bits))


def test_bits_that_are_left_over():
    same(qops.unpack(np.array([0xF1], np.uint8), 1, np.uint8, 4), np.array([1], "u1"))
    got = qops.unpack(np.array([0xFF], np.uint8), (), np.int8, 2)
    same(got, np.array(-1, np.int8))
    got = qops.dequantize_packed([np.uint8(0xF3)], 1, 1.0, bits=4, dtype=np.uint8)
    same(got, np.array([3], np.float32))


@pytest.mark.parametrize(("bits", "dtype"), KINDS)
def test_overlaps(bits, dtype):
    n = 70001
    size = -(-n * bits // 8)
    q = codes(n, bits, dtype)
    expected = packed_quickly(q, bits)
    for first in (0, 1, 40000):
        v = np.zeros(2 * n, dtype)
        at = v[first : first + n]
        at[:] = q
        out = v.view(np.uint8)[first + 3 : first + 3 + size]
        qops.pack(at, bits, out=out)
        same(out, expected)
        y = v[first:][:n]
        qops.unpack(out, n, dtype, bits, out=y)
        same(y, q)
        x = np.zeros(n, np.float32)
        x[:] = q
        out = x.view(np.uint8)[first : first + size]
        qops.quantize_packed(x, 1.0, bits=bits, dtype=dtype, out=out)
        same(out, expected)
        qops.dequantize_packed(out, n, 1.0, bits=bits, dtype=dtype, out=x)
        same(x, q.astype(np.float32))


# ------------------------------------------------- zero points that are real numbers


def float_quantized(x, scale, zero, dtype):
    double = x.dtype == np.float64
    work = np.float64 if double or dtype == np.int32 else np.float32
    s, z = np.asarray(scale, np.float64), np.asarray(zero, np.float64)
    with np.errstate(all="ignore"):
        if not double:
            s, z = s.astype(np.float32), z.astype(np.float32)
        v = np.where(np.isnan(x.astype(work)), 0, x.astype(work))
        t = np.rint(v / s.astype(work) + z.astype(work)).astype(np.float64)
        low, high = oracles.limits(dtype)
        return np.clip(t, low, high).astype(np.int64).astype(dtype)


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("x_dtype", FLOATS)
def test_quantize_float_zero_point(x_dtype, dtype):
    x = numbers(3 * 1001, x_dtype).reshape(3, 1001)
    for scale, zero in ((0.1, 0.5), (0.37, -3.3), (1e-30, 1e9), (1e30, -1e20)):
        expected = float_quantized(x, scale, zero, dtype)
        got = qops.quantize_float_zero_point(x, scale, zero, dtype=dtype)
        same(got, expected)
        v = np.asfortranarray(x).astype(
            x.dtype.newbyteorder() if x_dtype in (np.float32, np.float64) else x.dtype
        )
        out = np.zeros((3, 2002), np.dtype(dtype).newbyteorder())[:, ::-2]
        assert qops.quantize_float_zero_point(v, scale, zero, out=out) is out
        same(out.astype(dtype), expected)
    s, z = np.array([0.1, 0.2, 7.0]), np.array([0.25, -1e3, 2.5])
    for axis in (0, -2):
        got = qops.quantize_float_zero_point(x, s, z, dtype=dtype, axis=axis)
        same(got, float_quantized(x, s[:, None], z[:, None], dtype))
    assert qops.quantize_float_zero_point(np.nan, 1.0, 2.5, dtype=dtype) == 2
    got = qops.quantize_float_zero_point(x[:, :0], s, 0.5, dtype=dtype, axis=0)
    same(got, np.empty((3, 0), dtype))


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("result", [np.float32, np.float64])
def test_dequantize_float_zero_point(dtype, result):
    low, high = oracles.limits(dtype)
    q = np.random.default_rng(0).integers(low, high, (70001, 3), dtype, endpoint=True)
    s, z = np.array([0.1, 0.2, 7.0]), np.array([0.25, -1e3, 2.5])

    def expected(s, z):
        used = [np.asarray(p, np.float64) for p in (s, z)]
        if result == np.float32:
            used = [p.astype(np.float32) for p in used]
        work = np.float64 if dtype == np.int32 else result
        s, z = (p.astype(work) for p in used)
        return ((q.astype(work) - z) * s).astype(result)

    f = qops.dequantize_float_zero_point
    same(f(q, 0.1, 0.7, dtype=result), expected(0.1, 0.7))
    same(f(q, s, z, axis=1, dtype=result), expected(s, z))
    same(f(q[::-1], s, 0.5, axis=1, dtype=result), expected(s, 0.5)[::-1])
    out = np.empty((3, 70001), result).T
    assert f(q, s, z, axis=1, out=out) is out
    same(np.ascontiguousarray(out), expected(s, z))
    if dtype(0).itemsize == np.dtype(result).itemsize:
        v = q.copy()
        f(v, s, z, axis=1, out=v.view(result))
        same(v.view(result), expected(s, z))
    assert f(dtype(3), 0.5, 0.5) == 1.25


def test_it_is_pytorch_s_scheme():
    """A case from its documentation of float zero points: embedding rows."""
    x = np.array([[-1.0, 0.0, 2.0], [3.0, 4.0, 6.0]], np.float32)
    s, z = np.array([3 / 15, 3 / 15]), np.array([5.0, -15.0])
    q = qops.quantize_float_zero_point(x, s, z, axis=0, dtype=np.uint8)
    same(q, np.array([[0, 5, 15], [0, 5, 15]], np.uint8))
    assert np.isclose(qops.dequantize_float_zero_point(q, s, z, axis=0), x).all()


Q = np.arange(4, dtype=np.uint8)
X = np.ones((2, 3), np.float32)
B = np.zeros(3, np.uint8)
U4 = {"bits": 4, "dtype": np.uint8}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: qops.pack(Q * 9, 4),
            ValueError,
            "pack: q has 27, not within 0..15, the range of 4 bits",
        ),
        (
            lambda: qops.pack(np.int8([1, -3]), 2),
            ValueError,
            "pack: q has -3, not within -2..1, the range of 2 bits",
        ),
        (lambda: qops.pack(Q, 3), ValueError, "pack: bits is 3, not 2 or 4"),
        (lambda: qops.pack(Q, True), ValueError, "pack: bits is True, not 2 or 4"),
        (
            lambda: qops.pack(Q.astype(np.int16), 4),
            TypeError,
            "pack: q is int16, not uint8 or int8",
        ),
        (lambda: qops.pack(Q * 1.0, 4), TypeError, "pack: q is float64, not a dtype"),
        (
            lambda: qops.pack(Q, 4, out=np.zeros(3, np.uint8)),
            ValueError,
            r"pack: out has shape \(3,\), not \(2,\)",
        ),
        (
            lambda: qops.pack(Q, 4, out=np.zeros(2, np.int8)),
            TypeError,
            "pack: out has dtype int8, not uint8",
        ),
        (lambda: qops.pack(Q, 4, out=[]), TypeError, "pack: out is list, not an array"),
        (
            lambda: qops.unpack(B, 4, np.uint8, 4),
            ValueError,
            r"unpack: packed has shape \(3,\), not \(2,\), that of 4 codes of 4 bits",
        ),
        (
            lambda: qops.unpack(B[None], (2, 3), np.uint8, 4),
            ValueError,
            r"unpack: packed has shape \(1, 3\), not \(3,\), that of 6 codes",
        ),
        (
            lambda: qops.unpack(B.view(np.int8), 6, np.uint8, 4),
            TypeError,
            "unpack: packed is int8, not uint8",
        ),
        (
            lambda: qops.unpack(B, 6, np.int16, 4),
            TypeError,
            "unpack: dtype is int16, not uint8 or int8",
        ),
        (
            lambda: qops.unpack(B, 6, None, 4),
            TypeError,
            "unpack: dtype is None, not uint8 or int8",
        ),
        (
            lambda: qops.unpack(B, 6, "codes", 4),
            TypeError,
            "unpack: dtype is 'codes', not a dtype",
        ),
        (
            lambda: qops.unpack(B, -6, np.int8, 4),
            ValueError,
            "unpack: shape is -6, not without negative lengths",
        ),
        (
            lambda: qops.unpack(B, 6.0, np.int8, 4),
            TypeError,
            "unpack: shape is 6.0, not an integer, nor several",
        ),
        (
            lambda: qops.quantize_packed(X, 1, 16, **U4),
            ValueError,
            "quantize_packed: zero_point is 16, not within 0..15, the range of 4 bits",
        ),
        (
            lambda: qops.quantize_packed(X, 1, [0, -9], bits=4, dtype="i1", axis=0),
            ValueError,
            r"quantize_packed: zero_point\[1\] is -9, not within -8..7",
        ),
        (
            lambda: qops.quantize_packed(X, 1, 0.5, **U4),
            ValueError,
            "quantize_packed: zero_point is 0.5, not an integer",
        ),
        (
            lambda: qops.quantize_packed(X, 1, np.nan, **U4),
            ValueError,
            "quantize_packed: zero_point is nan, not an integer",
        ),
        (
            lambda: qops.quantize_packed(X, 1, "1", **U4),
            TypeError,
            "quantize_packed: zero_point is <U1, not real numbers",
        ),
        (
            lambda: qops.quantize_packed(X, [[1, 0]] * 2, axis=1, block_size=2, **U4),
            ValueError,
            r"quantize_packed: scale\[0, 1\] is 0.0, not finite and greater than 0",
        ),
        (
            lambda: qops.quantize_packed(X, 1e-60, **U4),
            ValueError,
            "quantize_packed: scale is 1e-60, in float32 0.0, not finite and greater",
        ),
        (
            lambda: qops.quantize_packed(X, [1, 1], axis=1, **U4),
            ValueError,
            r"quantize_packed: scale has shape \(2,\), not \(3,\), the length of axis",
        ),
        (
            lambda: qops.quantize_packed(X, [1, 1], **U4),
            ValueError,
            r"quantize_packed: scale has shape \(2,\) and x has shape \(2, 3\); give",
        ),
        (
            lambda: qops.quantize_packed(X, X, axis=1, **U4),
            ValueError,
            r"quantize_packed: scale has shape \(2, 3\), not one dimension",
        ),
        (
            lambda: qops.quantize_packed(X, [1, 1], [0, 0, 0], axis=0, **U4),
            ValueError,
            r"quantize_packed: zero_point has shape \(3,\), not \(2,\), that of scale",
        ),
        (
            lambda: qops.quantize_packed(X, X, axis=1, block_size=2, **U4),
            ValueError,
            r"quantize_packed: scale has shape \(2, 3\), not \(2, 2\), that of x with",
        ),
        (
            lambda: qops.quantize_packed(X, 1, block_size=2, **U4),
            ValueError,
            "quantize_packed: block_size is 2 and axis is None; give the axis",
        ),
        (
            lambda: qops.quantize_packed(X, 1, block_size=0, axis=0, **U4),
            ValueError,
            "quantize_packed: block_size is 0, not 1 or more",
        ),
        (
            lambda: qops.quantize_packed(X, 1, axis=2, **U4),
            ValueError,
            "quantize_packed: axis is 2, not within -2..1, the axes of 2 dimensions",
        ),
        (
            lambda: qops.quantize_packed(X, 1, axis=0.5, **U4),
            TypeError,
            "quantize_packed: axis is 0.5, not an integer",
        ),
        (
            lambda: qops.quantize_packed(1.0, 1, axis=0, **U4),
            ValueError,
            "quantize_packed: axis is 0, but there are no dimensions",
        ),
        (
            lambda: qops.quantize_packed(Q, 1, **U4),
            TypeError,
            "quantize_packed: x is uint8, not one of .*; requantize takes codes",
        ),
        (
            lambda: qops.quantize_packed(X, 1, nan="ignore", **U4),
            ValueError,
            "quantize_packed: nan is 'ignore', not 'zero_point' or 'raise'",
        ),
        (
            lambda: qops.quantize_packed(X * [1, 1, np.nan], 1, nan="raise", **U4),
            ValueError,
            r"quantize_packed: x\[0, 2\] is nan, not a number",
        ),
        (
            lambda: qops.quantize_packed(np.nan, 1, nan="raise", **U4),
            ValueError,
            "quantize_packed: x is nan, not a number",
        ),
        (
            lambda: qops.dequantize_packed(B, 4, 1, **U4),
            ValueError,
            r"dequantize_packed: packed has shape \(3,\), not \(2,\)",
        ),
        (
            lambda: qops.dequantize_packed(B, 6, 1, result_dtype=np.float16, **U4),
            TypeError,
            "dequantize_packed: result_dtype is float16, not one of float32, float64",
        ),
        (
            lambda: qops.dequantize_packed(B, 6, 1, out=B, **U4),
            TypeError,
            "dequantize_packed: out has dtype uint8, not one of float32, float64",
        ),
        (
            lambda: qops.dequantize_packed(B, 6, 1, out=X, **U4),
            ValueError,
            r"dequantize_packed: out has shape \(2, 3\), not \(6,\)",
        ),
        (
            lambda: qops.quantize_float_zero_point(X, 1, np.inf, dtype=np.uint8),
            ValueError,
            "quantize_float_zero_point: zero_point is inf, not finite",
        ),
        (
            lambda: qops.quantize_float_zero_point(X, 0, 1.5, dtype=np.uint8),
            ValueError,
            "quantize_float_zero_point: scale is 0.0, not finite and greater than 0",
        ),
        (
            lambda: qops.quantize_float_zero_point(X, 1, 1.5),
            TypeError,
            "quantize_float_zero_point: dtype is not given, and neither is out",
        ),
        (
            lambda: qops.dequantize_float_zero_point(X, 1, 1.5),
            TypeError,
            "dequantize_float_zero_point: q is float32, not a dtype of codes",
        ),
        (
            lambda: qops.dequantize_float_zero_point(Q, 1, [1.5, np.nan, 0, 0]),
            ValueError,
            r"dequantize_float_zero_point: zero_point\[1\] is nan, not finite",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()


def test_nothing_is_written_when_an_argument_is_wrong():
    out = np.full(1 << 17, 7, np.uint8)
    x = np.zeros(1 << 18, np.float32)
    x[-1] = np.nan
    with pytest.raises(ValueError, match=r"x\[262143\] is nan"):
        qops.quantize_packed(x, 1, **U4, nan="raise", out=out)
    q = np.zeros(1 << 18, np.uint8)
    q[-1] = 16
    with pytest.raises(ValueError, match="q has 16"):
        qops.pack(q, 4, out=out)
    assert (out == 7).all()


def test_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = np.array([np.inf, -np.inf, np.nan, 3e38], np.float32)
        same(qops.quantize_packed(x, 1e-30, 1, **U4), np.array([0x0F, 0xF1], "u1"))
        got = qops.quantize_float_zero_point(x, 1e-30, 1.25, dtype=np.int32)
        same(got, np.array([2**31 - 1, -(2**31), 1, 2**31 - 1], np.int32))
