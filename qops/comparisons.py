"""Comparisons of quantized arrays, exact, and a choice between two of them."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._arrays import apart, broadcast_shape, part, pieces, result_of
from ._core import check_pairs, code_array, dequantize, requantize, result_array

_DOC = """Tell where one quantized array {words} another.

``{formula}`` of the real numbers that the codes stand for, without rounding.

Parameters
----------
a, b : array_like
    Codes: uint8, int8, uint16, int16 or int32, any layout. They broadcast.
a_scale, a_zero_point, b_scale, b_zero_point : scalar or 1-D array_like
    Theirs; rounded to float32. Arrays hold one for each channel.
axis : int, optional
    The axis of the channels, of the shape that `a` and `b` broadcast to.
out : ndarray of bool, optional
    Where to write; of that shape.

Returns
-------
ndarray of bool
    Or a NumPy bool for 0-d `a` and `b`; or `out`.

Raises
------
TypeError, ValueError
    As in `quantize`.

Examples
--------
>>> import numpy as np, qops
>>> a = np.array([1, 2, 3], np.uint8)
>>> qops.{name}(a, 0.5, 0, np.uint8(4), 0.25, 0)
{result}
"""


class Comparison(Protocol):
    """A comparison of two quantized arrays."""

    def __call__(
        self,
        a: ArrayLike,
        a_scale: ArrayLike,
        a_zero_point: ArrayLike,
        b: ArrayLike,
        b_scale: ArrayLike,
        b_zero_point: ArrayLike,
        *,
        axis: int | None = None,
        out: NDArray[np.bool_] | None = None,
    ) -> Any:
        """Compare."""


def _comparison(
    name: str, ufunc: np.ufunc, words: str, formula: str, result: list[bool]
) -> Comparison:
    def compare(
        a: ArrayLike,
        a_scale: ArrayLike,
        a_zero_point: ArrayLike,
        b: ArrayLike,
        b_scale: ArrayLike,
        b_zero_point: ArrayLike,
        *,
        axis: int | None = None,
        out: NDArray[np.bool_] | None = None,
    ) -> Any:
        x, y = code_array(name, "a", a), code_array(name, "b", b)
        shape = broadcast_shape(name, {"a": x, "b": y})
        pairs = (a_scale, a_zero_point), (b_scale, b_zero_point)
        for prefix, array, pair in zip(("a_", "b_"), (x, y), pairs, strict=True):
            dtype = array.dtype.newbyteorder("=")
            check_pairs(name, prefix, *pair, dtype, shape, axis)
        to = result_of(name, out, np.bool_, shape)
        x, y = (np.broadcast_to(apart(v, to), shape) for v in (x, y))
        if x.dtype == y.dtype and same_pair(*pairs):
            ufunc(x, y, out=to)
        else:
            _compare(ufunc, (x, y), pairs, axis, to)
        return to[()] if out is None else out

    compare.__name__ = compare.__qualname__ = name
    compare.__doc__ = _DOC.format(
        name=name, words=words, formula=formula, result=repr(np.array(result))
    )
    return compare


qequal = _comparison("qequal", np.equal, "equals", "a == b", [False, True, False])
qnot_equal = _comparison(
    "qnot_equal", np.not_equal, "differs from", "a != b", [True, False, True]
)
qless = _comparison("qless", np.less, "is below", "a < b", [True, False, False])
qless_equal = _comparison(
    "qless_equal", np.less_equal, "is not above", "a <= b", [True, True, False]
)
qgreater = _comparison(
    "qgreater", np.greater, "is above", "a > b", [False, False, True]
)
qgreater_equal = _comparison(
    "qgreater_equal", np.greater_equal, "is not below", "a >= b", [False, True, True]
)

Pair = tuple[Any, Any]


def same_pair(a: Pair, b: Pair) -> bool:
    """Say whether scales, as float32, and zero points are the same."""
    return all(
        np.array_equal(np.asarray(p, dtype), np.asarray(q, dtype))
        for p, q, dtype in zip(a, b, (np.float32, np.int64), strict=True)
    )


def _compare(
    ufunc: np.ufunc,
    codes: tuple[NDArray[Any], NDArray[Any]],
    pairs: tuple[Pair, Pair],
    axis: int | None,
    out: NDArray[np.bool_],
) -> None:
    """Compare in float64, which holds codes of up to 16 bits times a float32 scale."""
    exact = all(q.dtype.itemsize < 4 for q in codes)
    if axis is None and any(np.ndim(p) for pair in pairs for p in pair):
        axis = 0  # of one dimension: anything else has been refused
    for index in pieces(out.shape):
        of = [
            (q[index], *(part(p, axis, index) for p in pair))
            for q, pair in zip(codes, pairs, strict=True)
        ]
        x, y = (_real(q, s, z, axis) for q, s, z in of)
        if exact:
            ufunc(x, y, out=out[index])
        else:
            order = np.where(x == y, _order(of, axis), np.sign(x - y))
            ufunc(order, 0, out=out[index])


def _real(q: NDArray[Any], scale: Any, zero: Any, axis: int | None) -> Any:
    used = np.asarray(scale, np.float64).astype(np.float32).astype(np.float64)
    one = np.ndim(scale) == 0 and np.ndim(zero) == 0
    return dequantize(q, used, zero, axis=None if one else axis, dtype=np.float64)


def _order(
    of: list[tuple[NDArray[Any], Any, Any]], axis: int | None
) -> NDArray[np.int64]:
    """Give the sign of a - b where float64 can't tell: from integers of 58 bits.

    Each number is ``difference * mantissa * 2**exponent``. Where both are about the
    same, so are the products once they are shifted to one exponent.
    """
    products, exponents = [], []
    for q, scale, zero in of:
        shape = [1] * q.ndim
        if axis is not None:
            shape[axis] = -1
        s, z = (
            np.reshape(p, shape) if np.ndim(p) else np.asarray(p) for p in (scale, zero)
        )
        mantissa, exponent = np.frexp(s.astype(np.float64).astype(np.float32))
        integer = np.ldexp(mantissa, 24).astype(np.int64)
        products.append((q.astype(np.int64) - z.astype(np.int64)) * integer)
        exponents.append(exponent.astype(np.int64))
    shift = np.clip(exponents[0] - exponents[1], -62, 62)
    a = products[0] << np.maximum(shift, 0)
    b = products[1] << np.maximum(-shift, 0)
    order: NDArray[np.int64] = np.sign(a - b)
    return order


def qwhere(
    condition: ArrayLike,
    a: ArrayLike,
    a_scale: ArrayLike,
    a_zero_point: ArrayLike,
    b: ArrayLike,
    b_scale: ArrayLike,
    b_zero_point: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    axis: int | None = None,
    out: NDArray[Any] | None = None,
) -> Any:
    """Choose between two quantized arrays, element by element.

    ``where(condition, requantize(a), requantize(b))``; codes whose parameters and dtype
    are those of the result are taken as they are.

    Parameters
    ----------
    condition : array_like of bool
        Where to take `a`. It broadcasts with `a` and `b`.
    a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point
        As in `qadd`.
    dtype : dtype, optional
        Of the result; by default that of `out`, or else of `a`.
    axis : int, optional
        The axis of the channels, of the shape that all broadcast to.
    out : ndarray, optional
        Where to write the codes, of that shape; it may overlap the inputs.

    Returns
    -------
    ndarray
        Codes; a scalar if all are 0-d; or `out`.

    Raises
    ------
    TypeError
        If `condition` is not of bools; else as in `quantize`.
    ValueError
        As in `quantize`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> a = np.array([10, 20, 250], np.uint8)
    >>> qops.qwhere(a > 15, a, 0.1, 0, np.uint8(7), 0.2, 0, 0.1, 0)
    array([ 14,  20, 250], dtype=uint8)
    """
    op = "qwhere"
    chosen = np.asarray(condition)
    if chosen.dtype != np.bool_:
        raise TypeError(f"{op}: condition is {chosen.dtype}, not bool")
    codes = [code_array(op, "a", a), code_array(op, "b", b)]
    shape = broadcast_shape(op, {"condition": chosen, "a": codes[0], "b": codes[1]})
    y = result_array(op, out, dtype, codes[0].dtype.newbyteorder("="), shape)
    to = scale, zero_point
    pairs = (a_scale, a_zero_point), (b_scale, b_zero_point)
    operands = zip(("a_", "b_", ""), (*codes, y), (*pairs, to), strict=True)
    for prefix, array, pair in operands:
        check_pairs(op, prefix, *pair, array.dtype.newbyteorder("="), shape, axis)
    chosen, *codes = (np.broadcast_to(apart(v, y), shape) for v in (chosen, *codes))
    if axis is None and any(np.ndim(p) for pair in (*pairs, to) for p in pair):
        axis = 0
    for index in pieces(shape):
        for q, pair, where in zip(codes, pairs, (None, ~chosen[index]), strict=True):
            _put(q[index], pair, to, axis, index, y[index], where)
    return y[()] if out is None else out


def _put(
    q: NDArray[Any],
    pair: Pair,
    to: Pair,
    axis: int | None,
    index: Any,
    y: NDArray[Any],
    where: NDArray[np.bool_] | None,
) -> None:
    """Write requantized codes to y, where that is asked for."""
    if q.dtype != y.dtype or not same_pair(pair, to):
        given = [part(p, axis, index) for p in (*pair, *to)]
        along = axis if any(map(np.ndim, given)) else None
        if where is None:
            requantize(q, *given, axis=along, out=y)
            return
        q = np.asarray(requantize(q, *given, axis=along, dtype=y.dtype))
    np.copyto(y, q, where=True if where is None else where)
