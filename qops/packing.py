"""Codes of 4 and 2 bits in packed bytes, and zero points that are real numbers."""

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._arrays import (
    PIECE,
    apart,
    check_parameters,
    float_dtype,
    pieces,
    result_of,
    rounded,
)
from ._core import (
    code_array,
    code_range,
    dequantize,
    quantize,
    real_array,
    refuse_nan,
    result_array,
    take,
)

Shape = int | Sequence[int]


def pack(q: ArrayLike, bits: int, *, out: NDArray[Any] | None = None) -> Any:
    """Pack codes of 4 or 2 bits into bytes, as ONNX stores them.

    ``byte[i] = sum((q[n * i + j] & (2**bits - 1)) << bits * j for j in range(n))`` with
    ``n = 8 / bits``: in C order, the first code in the lowest bits. What the last byte
    has left is zero.

    Parameters
    ----------
    q : array_like
        Codes: uint8 of 0..15 or 0..3; or int8 of -8..7 or -2..1; any layout.
    bits : int
        Of a code: 4 or 2.
    out : ndarray of uint8, optional
        Where to write the bytes; of one dimension. It may overlap `q`.

    Returns
    -------
    ndarray of uint8
        ``ceil(q.size * bits / 8)`` bytes, of one dimension; or `out`.

    Raises
    ------
    TypeError
        For codes that are not uint8 or int8.
    ValueError
        For a code out of range, and for `bits` or an `out` that does not fit.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.pack(np.array([1, 2, 15], np.uint8), 4)
    array([33, 15], dtype=uint8)
    """
    op = "pack"
    array = code_array(op, "q", q)
    low, high = _limits(op, bits, "q", array.dtype)
    y = _bytes(op, bits, out, array.size)
    if array.size:
        ends = int(array.min()), int(array.max())
        if ends[0] < low or ends[1] > high:
            raise ValueError(
                f"{op}: q has {ends[1] if ends[1] > high else ends[0]}, not within "
                f"{low}..{high}, the range of {bits} bits"
            )
    array = apart(array, y)
    packer = _Packer(bits, y)
    for index in pieces(array.shape):
        piece = array[index]
        np.copyto(packer.room(piece.shape, array.dtype), piece)
        packer.put(piece.size)
    packer.finish()
    return y


def unpack(
    packed: ArrayLike,
    shape: Shape,
    dtype: DTypeLike,
    bits: int,
    *,
    out: NDArray[Any] | None = None,
) -> Any:
    """Unpack codes of 4 or 2 bits: the inverse of `pack`.

    ``q[n * i + j] = byte[i] >> bits * j & (2**bits - 1)`` with ``n = 8 / bits``, in C
    order; for int8 the highest of the bits is the sign.

    Parameters
    ----------
    packed : array_like of uint8
        Bytes, of one dimension. What the last one has left is ignored.
    shape : int or sequence of int
        Of the codes.
    dtype : dtype
        Of the codes: uint8 or int8.
    bits : int
        Of a code: 4 or 2.
    out : ndarray, optional
        Where to write the codes; it may overlap `packed`.

    Returns
    -------
    ndarray
        Codes; or `out`.

    Raises
    ------
    TypeError
        For bytes that are not uint8, and for another dtype.
    ValueError
        If there are more bytes than the shape needs, or fewer; and for `bits` or an
        `out` that does not fit.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.unpack(np.array([33, 15], np.uint8), 3, np.int8, 4)
    array([ 1,  2, -1], dtype=int8)
    """
    op = "unpack"
    _limits(op, bits, "dtype", dtype)
    size = _shape(op, shape)
    array = _packed(op, packed, size, bits)
    y = result_of(op, out, np.dtype(dtype), size)
    unpacker = _Unpacker(bits, np.dtype(dtype), apart(array, y))
    for index in pieces(size):
        y[index] = unpacker.get(y[index].shape)
    return y


def quantize_packed(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike = 0,
    *,
    bits: int,
    dtype: DTypeLike,
    axis: int | None = None,
    block_size: int | None = None,
    nan: Literal["zero_point", "raise"] = "zero_point",
    out: NDArray[Any] | None = None,
) -> Any:
    """Quantize real numbers to packed codes of 4 or 2 bits.

    ``pack(clip(rint(x / scale), qmin - zero_point, qmax - zero_point) + zero_point)``
    with the range of so many bits, as `quantize` computes it.

    Parameters
    ----------
    x, scale, zero_point, axis, block_size, nan
        As in `quantize`; the zero point lies within the range of so many bits.
    bits : int
        Of a code: 4 or 2.
    dtype : dtype
        uint8 for codes of 0..15 or 0..3, int8 for -8..7 or -2..1.
    out : ndarray of uint8, optional
        Where to write the bytes; of one dimension. It may overlap `x`.

    Returns
    -------
    ndarray of uint8
        ``ceil(x.size * bits / 8)`` bytes, as `pack` makes them; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `quantize` and `pack`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> x = np.array([0.1, 0.2, -9.0, 9.0], np.float32)
    >>> qops.quantize_packed(x, 0.1, bits=4, dtype=np.int8)
    array([ 33, 120], dtype=uint8)
    """
    op = "quantize_packed"
    array = real_array(op, x)
    low, high = _limits(op, bits, "dtype", dtype)
    given = check_parameters(
        op,
        scale,
        zero_point,
        dtype,
        array.shape,
        axis,
        block_size,
        limits=(low, high, f"{bits} bits"),
        double=array.dtype.itemsize == 8,
    )
    if nan not in ("zero_point", "raise"):
        raise ValueError(f"{op}: nan is {nan!r}, not 'zero_point' or 'raise'")
    y = _bytes(op, bits, out, array.size)
    if nan == "raise" and any(np.isnan(array[v]).any() for v in pieces(array.shape)):
        refuse_nan(op, array)
    array = apart(array, y)
    packer = _Packer(bits, y)
    all_codes = np.arange(256).astype(np.uint8).view(dtype)
    saturated = np.clip(np.sort(all_codes), low, high)
    for index in pieces(array.shape, PIECE, given.axis, given.block):
        piece = array[index]
        # Saturated to 8 bits and then to fewer is saturated to fewer at once.
        codes = packer.room(piece.shape, np.dtype(dtype))
        quantize(piece, **given.at(index), out=codes)
        take(codes, saturated, out=codes)  # faster than np.minimum
        packer.put(piece.size)
    packer.finish()
    return y


def dequantize_packed(
    packed: ArrayLike,
    shape: Shape,
    scale: ArrayLike,
    zero_point: ArrayLike = 0,
    *,
    bits: int,
    dtype: DTypeLike,
    result_dtype: DTypeLike | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    out: NDArray[Any] | None = None,
) -> Any:
    """Turn packed codes of 4 or 2 bits back into real numbers.

    ``x = (unpack(packed) - zero_point) * scale``, as `dequantize` computes it.

    Parameters
    ----------
    packed : array_like of uint8
        Bytes, of one dimension. What the last one has left is ignored.
    shape : int or sequence of int
        Of the result.
    scale, zero_point, axis, block_size
        As in `quantize_packed`.
    bits : int
        Of a code: 4 or 2.
    dtype : dtype
        uint8 for codes of 0..15 or 0..3, int8 for -8..7 or -2..1.
    result_dtype : dtype, optional
        float32 (default) or float64; of `out` where that is given.
    out : ndarray, optional
        Where to write the numbers; it may overlap `packed`.

    Returns
    -------
    ndarray
        Real numbers; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `dequantize` and `unpack`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> packed = np.array([33, 120], np.uint8)
    >>> qops.dequantize_packed(packed, (2, 2), 0.5, bits=4, dtype=np.int8)
    array([[ 0.5,  1. ],
           [-4. ,  3.5]], dtype=float32)
    """
    op = "dequantize_packed"
    low, high = _limits(op, bits, "dtype", dtype)
    size = _shape(op, shape)
    array = _packed(op, packed, size, bits)
    to = float_dtype(op, result_dtype, "result_dtype", out)
    given = check_parameters(
        op,
        scale,
        zero_point,
        dtype,
        size,
        axis,
        block_size,
        limits=(low, high, f"{bits} bits"),
        double=to == np.float64,
    )
    y = result_of(op, out, to, size)
    unpacker = _Unpacker(bits, np.dtype(dtype), apart(array, y))
    for index in pieces(size, PIECE, given.axis, given.block):
        part = y[index]
        dequantize(unpacker.get(part.shape), **given.at(index), out=part)
    return y


def quantize_float_zero_point(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> Any:
    """Quantize with a zero point that is a real number.

    ``q = clip(rint(x / scale + zero_point), qmin, qmax)``: in float32, or in float64
    where `x` is float64 or the codes are int32. The zero point is added before
    rounding, not after it as in `quantize`; NaN becomes what 0 does.

    Parameters
    ----------
    x : array_like
        Real numbers: float32, float16, float64 or ml_dtypes' bfloat16, any layout.
    scale, zero_point : float or 1-D array_like
        Finite, the scale > 0; arrays hold one for each channel. They are rounded to
        float32 unless `x` is float64.
    dtype : dtype, optional
        Of the codes: uint8, int8, uint16, int16 or int32. Required unless `out` is
        given.
    axis : int, optional
        The axis of the channels.
    out : ndarray, optional
        Where to write the codes, of the shape of `x`; it may overlap `x`.

    Returns
    -------
    ndarray
        Codes, of the shape of `x`; a scalar for 0-d `x`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `quantize`.

    Notes
    -----
    This is the scheme per_channel_affine_float_qparams of PyTorch, which multiplies by
    the rounded reciprocal of the scale instead of dividing, and so may differ by 1.

    Examples
    --------
    >>> import numpy as np, qops
    >>> x = np.array([-1.0, 0.0, 0.5, 9.0], np.float32)
    >>> qops.quantize_float_zero_point(x, 0.5, 2.25, dtype=np.uint8)
    array([ 0,  2,  3, 20], dtype=uint8)
    """
    op = "quantize_float_zero_point"
    array = real_array(op, x)
    y = result_array(op, out, dtype, None, array.shape)
    double = array.dtype.itemsize == 8
    given = check_parameters(
        op, scale, zero_point, None, array.shape, axis, double=double
    )
    low, high = code_range(op, y.dtype.newbyteorder("="))
    work = np.float64 if double or y.dtype.itemsize == 4 else np.float32
    array = apart(array, y)
    for index in pieces(array.shape):
        s, z = (rounded(p, double, work) for p in given.beside(index, array.ndim))
        with np.errstate(all="ignore"):  # what overflows saturates
            t: Any = array[index].astype(work)
            np.copyto(t, 0, where=np.isnan(t))
            t /= s
            t += z
            np.rint(t, out=t)
            np.clip(t, low, high, out=t)
        np.copyto(y[index], t, casting="unsafe")
    return y[()] if out is None else out


def dequantize_float_zero_point(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> Any:
    """Turn codes back into real numbers, with a zero point that is a real number.

    ``x = (q - zero_point) * scale``: in float32 for codes of up to 16 bits; in float64
    for int32 codes, rounded once at the end; in float64 where the result is.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32, any layout.
    scale, zero_point, axis
        As in `quantize_float_zero_point`. They are rounded to float32 unless the result
        is float64.
    dtype : dtype, optional
        float32 (default) or float64; of `out` where that is given.
    out : ndarray, optional
        Where to write the numbers, of the shape of `q`; it may overlap `q`.

    Returns
    -------
    ndarray
        Real numbers, of the shape of `q`; a scalar for 0-d `q`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `dequantize`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.dequantize_float_zero_point(np.array([0, 2, 20], np.uint8), 0.5, 2.25)
    array([-1.125, -0.125,  8.875], dtype=float32)
    """
    op = "dequantize_float_zero_point"
    array = code_array(op, "q", q)
    to = float_dtype(op, dtype, "dtype", out)
    double = to == np.float64
    given = check_parameters(
        op, scale, zero_point, None, array.shape, axis, double=double
    )
    y = result_of(op, out, to, array.shape)
    work = np.float64 if double or array.dtype.itemsize == 4 else np.float32
    array = apart(array, y)
    for index in pieces(array.shape):
        s, z = (rounded(p, double, work) for p in given.beside(index, array.ndim))
        with np.errstate(all="ignore"):
            x: Any = array[index].astype(work)
            x -= z
            x *= s
            np.copyto(y[index], x, casting="same_kind")
    return y[()] if out is None else out


# ------------------------------------------------------------------- checking


def _limits(op: str, bits: Any, name: str, dtype: DTypeLike) -> tuple[int, int]:
    """Return the lowest and the highest code, of so many bits and the sign of a dtype.

    Name is what is of that dtype.
    """
    if isinstance(bits, bool) or bits not in (2, 4):
        raise ValueError(f"{op}: bits is {bits!r}, not 2 or 4")
    try:
        codes = None if dtype is None else np.dtype(dtype)
    except TypeError as error:
        raise TypeError(f"{op}: dtype is {dtype!r}, not a dtype") from error
    if codes not in (np.uint8, np.int8):
        raise TypeError(f"{op}: {name} is {codes}, not uint8 or int8")
    half = 1 << bits - 1
    return (-half, half - 1) if codes == np.int8 else (0, 2 * half - 1)


def _bytes(op: str, bits: int, out: NDArray[Any] | None, size: int) -> NDArray[Any]:
    return result_of(op, out, np.uint8, (-(-size * bits // 8),))


def _shape(op: str, shape: Shape) -> tuple[int, ...]:
    try:
        lengths = shape if isinstance(shape, Sequence) else (shape,)
        checked = tuple(operator.index(n) for n in lengths)
    except TypeError:
        raise TypeError(
            f"{op}: shape is {shape!r}, not an integer, nor several"
        ) from None
    if any(n < 0 for n in checked):
        raise ValueError(f"{op}: shape is {shape!r}, not without negative lengths")
    return checked


def _packed(
    op: str, packed: ArrayLike, shape: tuple[int, ...], bits: int
) -> NDArray[Any]:
    """Return packed bytes as an array, checked."""
    array = np.asarray(packed)
    if array.dtype != np.uint8:
        raise TypeError(f"{op}: packed is {array.dtype}, not uint8")
    expected = (-(-math.prod(shape) * bits // 8),)
    if array.shape != expected:
        raise ValueError(
            f"{op}: packed has shape {array.shape}, not {expected}, that of "
            f"{math.prod(shape)} codes of {bits} bits"
        )
    return array


# -------------------------------------------------------------------- packing


class _Packer:
    """Pack codes that come a piece at a time: a piece may end within a byte."""

    def __init__(self, bits: int, out: NDArray[Any]) -> None:
        self._bits = bits
        self._out = out  # what is left of it
        self._waiting = 0  # codes of a byte that is not full yet
        self._codes = np.empty(PIECE + 8, np.uint8)

    def room(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the array to write codes to."""
        size = math.prod(shape)
        room = self._codes[self._waiting : self._waiting + size]
        return room.view(dtype.newbyteorder("=")).reshape(shape)

    def put(self, size: int) -> None:
        """Pack as many of the codes as fill bytes."""
        n = self._waiting + size
        per_byte = 8 // self._bits
        self._waiting = n % per_byte
        full = n - self._waiting
        rest = self._codes[full:n].copy()
        self._pack(full)
        self._codes[: rest.size] = rest

    def finish(self) -> None:
        """Pack what is left."""
        if self._waiting:
            per_byte = 8 // self._bits
            self._codes[self._waiting : per_byte] = 0
            self._pack(per_byte)

    def _pack(self, n: int) -> None:
        """Pack the first n codes, a multiple of those of a byte, in words of them."""
        if self._bits == 4:
            words = self._codes[:n].view("<u2")
            words &= 0x0F0F
            words |= words >> 4
        else:
            words = self._codes[:n].view("<u4")
            words &= 0x03030303
            words |= words >> 6
            words |= words >> 12
        np.copyto(self._out[: words.size], words, casting="unsafe")
        self._out = self._out[words.size :]


class _Unpacker:
    """Unpack codes a piece at a time: a piece may end within a byte."""

    def __init__(self, bits: int, dtype: np.dtype[Any], packed: NDArray[Any]) -> None:
        self._per_byte = 8 // bits
        self._table = _table(bits, dtype == np.int8)
        self._dtype = dtype.newbyteorder("=")
        self._packed = packed
        self._done = 0
        self._words = np.empty(PIECE // self._per_byte + 2, self._table.dtype)

    def get(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the next codes; they last until the next call."""
        size = math.prod(shape)
        first, skipped = divmod(self._done, self._per_byte)
        self._done += size
        end = -(-self._done // self._per_byte)
        words = self._words[: end - first]
        take(self._packed[first:end], self._table, out=words)
        codes = words.view(self._dtype)[skipped : skipped + size]
        return codes.reshape(shape)


@lru_cache
def _table(bits: int, signed: bool) -> NDArray[Any]:
    """Return the codes of each byte, as a word."""
    per_byte = 8 // bits
    codes = np.arange(256)[:, None] >> bits * np.arange(per_byte) & (1 << bits) - 1
    if signed:
        codes -= (codes >> bits - 1) << bits
    words: NDArray[Any] = codes.astype(np.uint8).view(f"i{per_byte}")[:, 0]
    words.flags.writeable = False
    return words
