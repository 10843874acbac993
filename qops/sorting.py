"""The order of codes along an axis, which is that of the numbers they stand for."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._arrays import PIECE, axis_of, integer, pieces
from ._core import code_array, result_array

Array = NDArray[Any]


def qargmin(q: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Find the first minimum along an axis.

    ``argmin(q)``: the order of codes is that of the numbers they stand for.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32, any layout.
    axis : int, optional
        The axis to reduce; by default `q` is flattened.
    keepdims : bool, optional
        Keep the axes that are reduced, with length 1.

    Returns
    -------
    ndarray of intp
        Indices; a scalar if no dimension is left.

    Raises
    ------
    TypeError
        If `q` is not of codes.
    ValueError
        If there is no such axis, or no code along it.

    Notes
    -----
    NumPy copies what is not contiguous along the axis.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.qargmin(np.array([[3, 1, 1], [5, 9, 4]], np.uint8), axis=1)
    array([1, 2])
    """
    return _index_of("qargmin", np.argmin, q, axis, keepdims)


def qargmax(q: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Find the first maximum along an axis.

    ``argmax(q)``: the order of codes is that of the numbers they stand for.

    Parameters
    ----------
    q, axis, keepdims
        As in `qargmin`.

    Returns
    -------
    ndarray of intp
        Indices; a scalar if no dimension is left.

    Raises
    ------
    TypeError, ValueError
        As in `qargmin`.

    Notes
    -----
    As in `qargmin`, NumPy copies what is not contiguous along the axis.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.qargmax(np.array([[3, 3, 1], [5, 9, 4]], np.uint8), axis=1)
    array([0, 1])
    """
    return _index_of("qargmax", np.argmax, q, axis, keepdims)


def _index_of(op: str, f: Any, q: ArrayLike, axis: int | None, keepdims: bool) -> Any:
    x = code_array(op, "q", q)
    i = None if axis is None else axis_of(op, axis, x.ndim)
    if not (x.size if i is None else x.shape[i]):
        raise ValueError(
            f"{op}: q has shape {x.shape}, with 0 codes along axis {i}, not at least 1"
        )
    return f(x, axis=i, keepdims=keepdims)


def qtopk(
    q: ArrayLike, k: int, *, axis: int = -1, largest: bool = True
) -> tuple[Array, Array]:
    """Find the k largest or smallest codes along an axis, and where they are.

    The order of codes is that of the numbers they stand for. They come sorted, the
    largest (or smallest) first; of equal codes the one with the lower index.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32, any layout.
    k : int
        How many, at most the length of the axis.
    axis : int, optional
        The axis.
    largest : bool, optional
        Whether to find the largest, or else the smallest.

    Returns
    -------
    values : ndarray
        Codes, of the shape of `q` but for k along the axis.
    indices : ndarray of int64
        Where they are along the axis.

    Raises
    ------
    TypeError
        If `q` is not of codes, or `k` not an integer.
    ValueError
        If `k` or the axis does not fit the shape of `q`.

    Notes
    -----
    Temporaries take 8 or 16 bytes for each of k codes, besides pieces.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.qtopk(np.array([3, 9, 1, 9], np.uint8), 3)
    (array([9, 9, 3], dtype=uint8), array([1, 3, 0]))
    """
    op = "qtopk"
    x = code_array(op, "q", q)
    i = axis_of(op, axis, x.ndim)
    n = x.shape[i]
    count = integer(op, "k", k)
    if not 0 <= count <= n:
        raise ValueError(
            f"{op}: k is {count}, not within 0..{n}, the length of axis {i}"
        )
    bits = max(n - 1, 0).bit_length()
    if bits + 8 * x.itemsize > 64:
        raise ValueError(f"{op}: q has {n} codes along axis {i}, not at most 2**32")
    rows = np.moveaxis(x, i, -1)
    shape = (*rows.shape[:-1], count)
    values = np.empty(shape, x.dtype.newbyteorder("="))
    indices = np.empty(shape, np.int64)
    # Keys that differ: the code, or less it to find the largest, then the index.
    wide = bits + 8 * x.itemsize > 31
    key_type = np.dtype(np.int64 if wide else np.int32).type
    mask, shift = key_type(2**bits - 1), key_type(bits)
    most = max(PIECE, count)  # of one row at a time
    for index in pieces(shape[:-1] if count else (0,), max(PIECE // max(n, 1), 1)):
        keys = np.empty(0, key_type)  # the best so far
        for first in range(0, n, most):
            last = min(first + most, n)
            more = rows[index][..., first:last].astype(key_type, order="C")
            more <<= shift
            at = np.arange(first, last, dtype=key_type)
            (np.subtract if largest else np.add)(at, more, out=more)
            keys = np.concatenate((keys[..., :count], more), -1) if first else more
            if keys.shape[-1] > count:
                keys.partition(count - 1, axis=-1)
        best = np.sort(keys[..., :count], axis=-1)
        indices[index] = best & mask
        best >>= shift
        values[index] = np.negative(best, out=best) if largest else best
    return np.moveaxis(values, -1, i), np.moveaxis(indices, -1, i)


def qsort(
    q: ArrayLike,
    *,
    axis: int | None = -1,
    descending: bool = False,
    out: Array | None = None,
) -> Array:
    """Sort codes along an axis.

    ``sort(q)``: the order of codes is that of the numbers they stand for.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32, any layout.
    axis : int, optional
        The axis; None flattens `q`.
    descending : bool, optional
        Put the largest first.
    out : ndarray, optional
        Where to write the codes, of the dtype of `q`; it may overlap `q`.

    Returns
    -------
    ndarray
        Codes, of the shape of `q`, or of one dimension without `axis`; or `out`.

    Raises
    ------
    TypeError
        If `q` is not of codes, or `out` of another dtype.
    ValueError
        If the axis or the shape of `out` does not fit.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.qsort(np.array([3, 9, 1, 9], np.uint8), descending=True)
    array([9, 9, 3, 1], dtype=uint8)
    """
    op = "qsort"
    x = code_array(op, "q", q)
    if axis is None:
        x = x.reshape(-1)
    i = axis_of(op, 0 if axis is None else axis, x.ndim)
    native = x.dtype.newbyteorder("=")
    y = result_array(op, out, native, native, x.shape)
    if descending:
        np.invert(x, out=y)
    else:
        np.copyto(y, x)
    # NumPy's stable sort is a radix sort up to 16 bits; equal codes are the same.
    y.sort(axis=i, kind="stable" if x.itemsize < 4 else None)
    if descending:
        np.invert(y, out=y)
    return y
