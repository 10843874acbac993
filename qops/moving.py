"""Joining, filling, padding and shuffling of quantized arrays."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._arrays import apart, axis_of, integer, real_numbers, result_of
from ._core import check_pairs, code_array, quantize, requantize, result_array
from ._core import masked_fill as _masked_fill
from .comparisons import same_pair

Array = NDArray[Any]


def qconcatenate(
    arrays: Sequence[ArrayLike],
    scales: ArrayLike,
    zero_points: ArrayLike,
    out_scale: ArrayLike,
    out_zero_point: ArrayLike,
    *,
    axis: int = 0,
    relu: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Join quantized arrays along an axis.

    ``concatenate([requantize(q) for q in arrays])``; codes whose parameters and dtype
    are those of the result are taken as they are. With `relu`, ``maximum(., 0)``.

    Parameters
    ----------
    arrays : sequence of array_like
        Codes: uint8, int8, uint16, int16 or int32, of one shape but for `axis`.
    scales, zero_points : scalar or sequence of scalar
        One for all arrays, or one for each; scales are rounded to float32.
    out_scale, out_zero_point : scalar
        Of the result.
    axis : int, optional
        The axis to join.
    relu : bool, optional
        Set negative numbers to zero.
    dtype : dtype, optional
        Of the result; by default that of `out`, or else of the first array.
    out : ndarray, optional
        Where to write the codes; it may overlap the inputs.

    Returns
    -------
    ndarray
        Codes; or `out`.

    Raises
    ------
    TypeError
        For arrays of other dtypes.
    ValueError
        If there is no array, or for shapes or parameters that do not fit.

    Examples
    --------
    >>> import numpy as np, qops
    >>> a, b = np.array([1, 2], np.uint8), np.array([3, 4], np.uint8)
    >>> qops.qconcatenate([a, b], [0.1, 0.2], 0, 0.1, 0)
    array([1, 2, 6, 8], dtype=uint8)
    """
    op = "qconcatenate"
    codes = _codes(op, arrays)
    first = codes[0]
    if first.ndim == 0:
        raise ValueError(f"{op}: arrays[0] has no axis; use qstack")
    i = axis_of(op, axis, first.ndim, None)
    for k, q in enumerate(codes):
        if q.shape[:i] + q.shape[i + 1 :] != first.shape[:i] + first.shape[i + 1 :]:
            raise ValueError(
                f"{op}: arrays[{k}] has shape {q.shape} and arrays[0] {first.shape}, "
                f"which differ beside axis {i}"
            )
    pairs = _pairs(op, codes, scales, zero_points)
    total = sum(q.shape[i] for q in codes)
    shape = (*first.shape[:i], total, *first.shape[i + 1 :])
    y = result_array(op, out, dtype, first.dtype.newbyteorder("="), shape)
    ends = np.cumsum([q.shape[i] for q in codes])[:-1]
    parts = np.split(y, ends, i)
    _join(op, codes, pairs, (out_scale, out_zero_point), relu, y, parts)
    return y


def qstack(
    arrays: Sequence[ArrayLike],
    scales: ArrayLike,
    zero_points: ArrayLike,
    out_scale: ArrayLike,
    out_zero_point: ArrayLike,
    *,
    axis: int = 0,
    relu: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Join quantized arrays of one shape along a new axis.

    ``stack([requantize(q) for q in arrays])``, as in `qconcatenate`.

    Parameters
    ----------
    arrays : sequence of array_like
        Codes: uint8, int8, uint16, int16 or int32, of one shape.
    scales, zero_points, out_scale, out_zero_point, relu, dtype, out
        As in `qconcatenate`.
    axis : int, optional
        Where the new axis is in the result.

    Returns
    -------
    ndarray
        Codes; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `qconcatenate`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> a, b = np.array([1, 2], np.uint8), np.array([3, 4], np.uint8)
    >>> qops.qstack([a, b], [0.1, 0.2], 0, 0.1, 0)
    array([[1, 2],
           [6, 8]], dtype=uint8)
    """
    op = "qstack"
    codes = _codes(op, arrays)
    first = codes[0]
    i = axis_of(op, axis, first.ndim + 1, None)
    for k, q in enumerate(codes):
        if q.shape != first.shape:
            raise ValueError(
                f"{op}: arrays[{k}] has shape {q.shape}, not {first.shape} as arrays[0]"
            )
    pairs = _pairs(op, codes, scales, zero_points)
    shape = (*first.shape[:i], len(codes), *first.shape[i:])
    y = result_array(op, out, dtype, first.dtype.newbyteorder("="), shape)
    along = np.moveaxis(y, i, 0)
    parts = [along[k, ...] for k in range(len(codes))]
    _join(op, codes, pairs, (out_scale, out_zero_point), relu, y, parts)
    return y


def _codes(op: str, arrays: Sequence[ArrayLike]) -> list[Array]:
    codes = [code_array(op, f"arrays[{i}]", q) for i, q in enumerate(arrays)]
    if not codes:
        raise ValueError(f"{op}: arrays is empty; give one at least")
    return codes


def _pairs(
    op: str, codes: list[Array], scales: ArrayLike, zero_points: ArrayLike
) -> list[tuple[Any, Any]]:
    """Return the pair of each array, checked."""
    of_each = []
    for name, given in (("scales", scales), ("zero_points", zero_points)):
        numbers = np.asarray(given)
        if numbers.shape not in {(), (len(codes),)}:
            raise ValueError(
                f"{op}: {name} has shape {numbers.shape}, not () or ({len(codes)},)"
            )
        of_each.append(np.broadcast_to(numbers, len(codes)))
    pairs = [(s, z) for s, z in zip(*of_each, strict=True)]
    for i, (q, pair) in enumerate(zip(codes, pairs, strict=True)):
        check_pairs(op, f"arrays[{i}] ", *pair, q.dtype.newbyteorder("="), (), None)
    return pairs


def _join(
    op: str,
    codes: list[Array],
    pairs: list[tuple[Any, Any]],
    to: tuple[Any, Any],
    relu: bool,
    y: Array,
    parts: list[Array],
) -> None:
    native = y.dtype.newbyteorder("=")
    check_pairs(op, "out_", *to, native, (), None)
    codes = [apart(q, y) for q in codes]
    for q, pair, part in zip(codes, pairs, parts, strict=True):
        if q.dtype == y.dtype and same_pair(pair, to):
            np.copyto(part, q)
        else:
            requantize(q, *pair, *to, out=part)
        if relu:  # the code of zero is exact, and rounding keeps the order
            np.maximum(part, native.type(int(to[1])), out=part)


def masked_fill(
    q: ArrayLike,
    mask: ArrayLike,
    value: float,
    scale: ArrayLike,
    zero_point: ArrayLike,
    *,
    out: Array | None = None,
) -> Any:
    """Replace codes by that of a real number where a mask is true.

    ``where(mask, quantize(float32(value)), q)``.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32.
    mask : array_like of bool
        It broadcasts to the shape of `q`.
    value : float
        Quantized as by `quantize`: a NaN becomes the zero point.
    scale, zero_point : scalar
        Of `q`.
    out : ndarray, optional
        Where to write the codes, of the dtype and shape of `q`; it may be `q`.

    Returns
    -------
    ndarray
        Codes; or `out`.

    Raises
    ------
    TypeError
        If `mask` is not of bools, or for other dtypes.
    ValueError
        For shapes or parameters that do not fit.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.array([10, 20, 30], np.uint8)
    >>> qops.masked_fill(q, q > 15, 0.5, 0.1, 0)
    array([10,  5,  5], dtype=uint8)
    """
    op = "masked_fill"
    x, where = code_array(op, "q", q), np.asarray(mask)
    native = x.dtype.newbyteorder("=")
    if where.dtype != np.bool_:
        raise TypeError(f"{op}: mask is {where.dtype}, not bool")
    try:
        where = np.broadcast_to(where, x.shape)
    except ValueError:
        raise ValueError(
            f"{op}: mask has shape {where.shape}, which does not broadcast to that of "
            f"q, {x.shape}"
        ) from None
    check_pairs(op, "", scale, zero_point, native, (), None)
    code = _codes_of(op, "value", value, (scale, zero_point), native)
    return _masked_fill(x, where, int(code), out)


def index_put(
    q: ArrayLike,
    indices: Any,
    values: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    *,
    out: Array | None = None,
) -> Any:
    """Replace codes at indices by those of real numbers.

    ``y = q.copy(); y[indices] = quantize(values)``. Of values for one place the last
    one counts, as in NumPy.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32.
    indices
        What NumPy takes between brackets.
    values : array_like of float
        They broadcast to the shape that the indices select.
    scale, zero_point : scalar
        Of `q`.
    out : ndarray, optional
        Where to write the codes, of the dtype and shape of `q`; it may be `q`.

    Returns
    -------
    ndarray
        Codes; or `out`.

    Raises
    ------
    IndexError
        For indices that `q` does not have.
    TypeError, ValueError
        As in `masked_fill`.

    Notes
    -----
    The codes of `values` are an array of their own, and `q` is copied.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.array([10, 20, 30], np.uint8)
    >>> qops.index_put(q, [0, 2], [0.5, 0.7], 0.1, 0)
    array([ 5, 20,  7], dtype=uint8)
    """
    op = "index_put"
    x = code_array(op, "q", q)
    native = x.dtype.newbyteorder("=")
    check_pairs(op, "", scale, zero_point, native, (), None)
    if out is not None:
        result_of(op, out, native, x.shape)
    codes = _codes_of(op, "values", values, (scale, zero_point), native)
    put = x.astype(native)  # a copy: what does not fit is known before y is written
    try:
        put[indices] = codes
    except ValueError as error:
        raise ValueError(f"{op}: {error}") from None
    if out is None:
        return put
    out[...] = put
    return out


def _codes_of(
    op: str, name: str, value: ArrayLike, pair: tuple[Any, Any], dtype: np.dtype[Any]
) -> Any:
    """Return the codes of real numbers, rounded to float32 first."""
    with np.errstate(over="ignore"):
        numbers = real_numbers(op, name, value).astype(np.float32, copy=False)
    return quantize(numbers, *pair, dtype=dtype)


def qpad(
    q: ArrayLike,
    pad_width: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    *,
    mode: Literal["constant", "edge"] = "constant",
    value: float = 0.0,
) -> Any:
    """Pad codes with that of a real number, or with those at the edges.

    ``numpy.pad(q, pad_width, constant_values=quantize(float32(value)))``; zero is the
    zero point.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32.
    pad_width : array_like of int
        How many codes before and after, along each axis or all, as in `numpy.pad`.
    scale, zero_point : scalar
        Of `q`.
    mode : {"constant", "edge"}, optional
        What the padding is: a number, or the nearest code.
    value : float, optional
        The number.

    Returns
    -------
    ndarray
        Codes, of the dtype of `q`.

    Raises
    ------
    TypeError
        For other dtypes.
    ValueError
        For another mode, negative widths or parameters that do not fit.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.qpad(np.array([130, 140], np.uint8), (1, 2), 0.1, 128)
    array([128, 130, 140, 128, 128], dtype=uint8)
    """
    op = "qpad"
    x = code_array(op, "q", q)
    native = x.dtype.newbyteorder("=")
    if mode not in {"constant", "edge"}:
        raise ValueError(f"{op}: mode is {mode!r}, not 'constant' or 'edge'")
    check_pairs(op, "", scale, zero_point, native, (), None)
    widths: Any = np.asarray(pad_width)
    if widths.dtype.kind not in "iu":
        raise TypeError(f"{op}: pad_width is {widths.dtype}, not integers")
    code = _codes_of(op, "value", value, (scale, zero_point), native)
    x = x.astype(native, copy=False)
    try:
        if mode == "edge":
            return np.pad(x, widths, mode="edge")
        return np.pad(x, widths, mode="constant", constant_values=code)
    except ValueError as error:
        raise ValueError(f"{op}: {error}") from None


def channel_shuffle(
    q: ArrayLike, groups: int, *, axis: int = 1, out: Array | None = None
) -> Any:
    """Interleave the channels of groups.

    Channel ``j * groups + i`` of the result is channel ``i * (channels // groups) + j``
    of `q`, whose parameters it keeps.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32.
    groups : int
        How many; the channels are a multiple.
    axis : int, optional
        The axis of the channels.
    out : ndarray, optional
        Where to write the codes, of the dtype and shape of `q`; it may be `q`.

    Returns
    -------
    ndarray
        Codes; or `out`.

    Raises
    ------
    TypeError
        For other dtypes, or numbers that are not integers.
    ValueError
        For numbers that do not fit.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.channel_shuffle(np.arange(6, dtype=np.uint8), 2, axis=0)
    array([0, 3, 1, 4, 2, 5], dtype=uint8)
    """
    op = "channel_shuffle"
    x = code_array(op, "q", q)
    i = axis_of(op, axis, x.ndim, None)
    n = integer(op, "groups", groups)
    channels = x.shape[i]
    if n < 1 or channels % n:
        raise ValueError(f"{op}: groups is {n}, which does not divide {channels}")
    y = result_of(op, out, x.dtype.newbyteorder("="), x.shape)
    x = apart(x, y)
    all_before, each = (slice(None),) * i, channels // n
    for k in range(n):
        y[(*all_before, slice(k, None, n))] = x[
            (*all_before, slice(k * each, (k + 1) * each))
        ]
    return y
