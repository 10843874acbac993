"""Sums, means, extremes and orders of codes along axes, and softmax."""

import math
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._arrays import PIECE, apart, axes_of, axis_of, integer, pair_or, pieces
from ._core import (
    check_pairs,
    code_array,
    hsum,
    hsum_sq,
    quantize,
    requantize,
    result_array,
    take,
)
from .comparisons import same_pair
from .functions import pair_of_steps
from .normalization import spread

Array = NDArray[Any]
Axes = int | tuple[int, ...] | None
Pair = tuple[Any, Any]

# Terms of softmax are integers times 2**-bits, so that their sum is exact: those of
# 8-bit codes fit the int32 codes that hsum takes.
_TERM_BITS = {1: 30, 2: 40, 4: 40}
# Rows of so many 8-bit codes get a table each: less work than a quotient per code.
_LONG_ROW = 512
_MAX = float(np.finfo(np.float32).max)


class _Call:
    """What all are given, checked, and how they end."""

    def __init__(self, op: str, q: ArrayLike, pair: Pair, out: Array | None) -> None:
        self.op, self.pair, self.out = op, pair, out
        self.x = code_array(op, "q", q)
        self.native = self.x.dtype.newbyteorder("=")
        check_pairs(op, "", *pair, self.native, (), None)
        self.scale = float(np.float32(pair[0]))
        self.zero = int(np.asarray(pair[1])[()])

    def result(
        self,
        shape: tuple[int, ...],
        dtype: DTypeLike | None,
        out_pair: Pair,
        steps: int = 0,
    ) -> Array:
        """Return where to write, and set the pair to write with."""
        y = result_array(self.op, self.out, dtype, self.native, shape)
        of_y = y.dtype.newbyteorder("=")
        default = pair_of_steps(self.op, steps, of_y) if steps else self.pair
        self.to = pair_or(default, out_pair)
        check_pairs(self.op, "out_", *self.to, of_y, (), None)
        return y

    def done(self, y: Array) -> Any:
        return y[()] if self.out is None else self.out


class _Reduction(_Call):
    """A reduction along axes."""

    def __init__(
        self,
        op: str,
        q: ArrayLike,
        pair: Pair,
        out_pair: Pair,
        axis: Axes,
        keepdims: bool,
        dtype: DTypeLike | None,
        out: Array | None,
    ) -> None:
        super().__init__(op, q, pair, out)
        given = self.x.shape
        self.axes = axes_of(op, axis, len(given))
        self.n = math.prod(given[i] for i in self.axes)
        shape = tuple(
            1 if i in self.axes else n
            for i, n in enumerate(given)
            if keepdims or i not in self.axes
        )
        self.y = self.result(shape, dtype, out_pair)

    def some(self) -> None:
        """Refuse to reduce nothing."""
        if not self.n:
            raise ValueError(
                f"{self.op}: q has shape {self.x.shape}, with 0 codes along axes "
                f"{self.axes}, not at least 1"
            )

    def sums(self) -> Array:
        """Return the exact sums of q - z."""
        sums: Array = self.shaped(self.of_all(hsum)) - self.n * self.zero
        return sums

    def of_all(self, f: Any) -> Any:
        whole = len(self.axes) == self.x.ndim  # in threads, if it is None
        return f(self.x, axis=None if whole else self.axes)

    def shaped(self, numbers: Any) -> Array:
        return np.asarray(numbers).reshape(self.y.shape)

    def write(self, numbers: NDArray[np.float64]) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            quantize(numbers.astype(np.float32), *self.to, out=self.y)
        return self.done(self.y)

    def variance(self, correction: int) -> NDArray[np.float64]:
        """Return the variance of real numbers."""
        given, n = integer(self.op, "correction", correction), self.n
        if n - given <= 0:
            raise ValueError(
                f"{self.op}: correction is {given}, not below the {n} codes along axes "
                f"{self.axes}"
            )
        if n == 0:
            self.some()
        sums, squares = (self.shaped(self.of_all(f)) for f in (hsum, hsum_sq))
        codes = spread(self.native, sums, squares, n) / float(n * (n - given))
        return codes * self.scale * self.scale

    def extreme(self, f: Any) -> Any:
        self.some()
        found = self.shaped(self.of_all(f))
        same = self.y.dtype.newbyteorder("=") == self.native
        if same and same_pair(self.pair, self.to):
            np.copyto(self.y, found)
        else:
            requantize(found, *self.pair, *self.to, out=self.y)
        return self.done(self.y)


def qsum(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    axis: Axes = None,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Sum along axes.

    ``quantize(float32(float64(S) * scale))`` with S the exact sum of ``q - zero_point``
    and the scale rounded to float32. The sum of nothing is zero.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32, any layout.
    scale, zero_point : scalar
        Of `q`.
    out_scale, out_zero_point : scalar, optional
        Of the result; by default those of `q`.
    axis : int or tuple of int, optional
        The axes to reduce; all by default.
    keepdims : bool, optional
        Keep the axes that are reduced, with length 1.
    dtype : dtype, optional
        Of the result; by default that of `out`, or else of `q`.
    out : ndarray, optional
        Where to write the codes; it may overlap `q`.

    Returns
    -------
    ndarray
        Codes; a scalar if no dimension is left; or `out`.

    Raises
    ------
    TypeError
        For arrays of other dtypes.
    ValueError
        For a scale, zero point, axis or shape that does not fit.
    OverflowError
        If a sum of codes is beyond int64.

    Notes
    -----
    Sums take 8 bytes for each code of the result, and so do the numbers made of them.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.array([[10, 20, 30], [40, 50, 90]], np.uint8)
    >>> qops.qsum(q, 0.1, 0, 0.2, 0, axis=1)
    array([30, 90], dtype=uint8)
    """
    call = _Reduction(
        "qsum",
        q,
        (scale, zero_point),
        (out_scale, out_zero_point),
        axis,
        keepdims,
        dtype,
        out,
    )
    return call.write(call.sums().astype(np.float64) * call.scale)


def qmean(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    axis: Axes = None,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Take the mean along axes.

    ``quantize(float32(float64(S) * scale / n))`` with S the exact sum of the n
    ``q - zero_point`` and the scale rounded to float32.

    Parameters
    ----------
    q, scale, zero_point, out_scale, out_zero_point, axis, keepdims, dtype, out
        As in `qsum`.

    Returns
    -------
    ndarray
        Codes; a scalar if no dimension is left; or `out`.

    Raises
    ------
    TypeError, OverflowError
        As in `qsum`.
    ValueError
        As in `qsum`; or if there is nothing to take the mean of.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.array([[10, 20, 30], [40, 50, 90]], np.uint8)
    >>> qops.qmean(q, 0.1, 0, axis=1)
    array([20, 60], dtype=uint8)
    """
    call = _Reduction(
        "qmean",
        q,
        (scale, zero_point),
        (out_scale, out_zero_point),
        axis,
        keepdims,
        dtype,
        out,
    )
    call.some()
    return call.write(call.sums().astype(np.float64) * call.scale / call.n)


def qvar(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    axis: Axes = None,
    correction: int = 0,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Take the variance along axes.

    ``quantize(float32(V * scale * scale))`` in float64, with the scale rounded to
    float32 and ``V = float64(n * sum(q**2) - sum(q)**2) / (n * (n - correction))``, of
    which the difference is exact.

    Parameters
    ----------
    q, scale, zero_point, out_scale, out_zero_point, axis, keepdims, dtype, out
        As in `qsum`; the result does not depend on the zero point of `q`.
    correction : int, optional
        How much to take from the number of codes: 1 for the variance of a sample.

    Returns
    -------
    ndarray
        Codes; a scalar if no dimension is left; or `out`.

    Raises
    ------
    TypeError, OverflowError
        As in `qsum`.
    ValueError
        As in `qsum`; or if there are no more codes than the correction.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.array([[10, 20, 30], [40, 50, 90]], np.uint8)
    >>> qops.qvar(q, 0.1, 0, axis=1, correction=1)
    array([10, 70], dtype=uint8)
    """
    call = _Reduction(
        "qvar",
        q,
        (scale, zero_point),
        (out_scale, out_zero_point),
        axis,
        keepdims,
        dtype,
        out,
    )
    return call.write(call.variance(correction))


def qstd(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    axis: Axes = None,
    correction: int = 0,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Take the standard deviation along axes.

    ``quantize(float32(sqrt(V * scale * scale)))`` in float64, with V as in `qvar`.

    Parameters
    ----------
    q, scale, zero_point, out_scale, out_zero_point, axis, correction, keepdims, dtype
        As in `qvar`.
    out
        As in `qvar`.

    Returns
    -------
    ndarray
        Codes; a scalar if no dimension is left; or `out`.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As in `qvar`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.array([[10, 20, 30], [40, 50, 90]], np.uint8)
    >>> qops.qstd(q, 0.1, 0, axis=1, correction=1)
    array([10, 26], dtype=uint8)
    """
    call = _Reduction(
        "qstd",
        q,
        (scale, zero_point),
        (out_scale, out_zero_point),
        axis,
        keepdims,
        dtype,
        out,
    )
    return call.write(np.sqrt(call.variance(correction)))


def qmin(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    axis: Axes = None,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Take the minimum along axes.

    ``min(q)``, requantized if the parameters or the dtype of the result are others.

    Parameters
    ----------
    q, scale, zero_point, out_scale, out_zero_point, axis, keepdims, dtype, out
        As in `qsum`.

    Returns
    -------
    ndarray
        Codes; a scalar if no dimension is left; or `out`.

    Raises
    ------
    TypeError
        As in `qsum`.
    ValueError
        As in `qsum`; or if there is nothing to take the minimum of.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.array([[10, 20, 30], [40, 50, 90]], np.uint8)
    >>> qops.qmin(q, 0.1, 0, axis=1)
    array([10, 40], dtype=uint8)
    """
    call = _Reduction(
        "qmin",
        q,
        (scale, zero_point),
        (out_scale, out_zero_point),
        axis,
        keepdims,
        dtype,
        out,
    )
    return call.extreme(np.min)


def qmax(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    axis: Axes = None,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Take the maximum along axes.

    ``max(q)``, requantized if the parameters or the dtype of the result are others.

    Parameters
    ----------
    q, scale, zero_point, out_scale, out_zero_point, axis, keepdims, dtype, out
        As in `qsum`.

    Returns
    -------
    ndarray
        Codes; a scalar if no dimension is left; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `qmin`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.array([[10, 20, 30], [40, 50, 90]], np.uint8)
    >>> qops.qmax(q, 0.1, 0, axis=1)
    array([30, 90], dtype=uint8)
    """
    call = _Reduction(
        "qmax",
        q,
        (scale, zero_point),
        (out_scale, out_zero_point),
        axis,
        keepdims,
        dtype,
        out,
    )
    return call.extreme(np.max)


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


def qcumsum(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Sum along an axis, up to each element.

    ``quantize(float32(float64(S) * scale))`` with S the exact sum of ``q - zero_point``
    up to there and the scale rounded to float32.

    Parameters
    ----------
    q, scale, zero_point, out_scale, out_zero_point, dtype, out
        As in `qsum`; `out` has the shape of the result.
    axis : int, optional
        The axis; by default `q` is flattened.

    Returns
    -------
    ndarray
        Codes, of the shape of `q`, or of one dimension without `axis`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `qsum`.

    Notes
    -----
    Without `axis`, what is not contiguous is copied first.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.qcumsum(np.array([10, 20, 30], np.uint8), 0.1, 5)
    array([10, 25, 50], dtype=uint8)
    """
    op = "qcumsum"
    call = _Call(op, q, (scale, zero_point), out)
    if axis is None:
        call.x = call.x.reshape(-1)
    i = axis_of(op, 0 if axis is None else axis, call.x.ndim)
    given = call.result(call.x.shape, dtype, (out_scale, out_zero_point))
    x, y = (np.moveaxis(v, i, -1) for v in (apart(call.x, given), given))
    carry: Any = 0
    for index in pieces(x.shape):
        sums = np.cumsum(np.subtract(x[index], call.zero, dtype=np.int64), axis=-1)
        if index[-1].start:  # a row that a piece does not hold
            sums += carry
        carry = sums[..., -1:]
        with np.errstate(over="ignore", under="ignore"):
            numbers = (sums.astype(np.float64) * call.scale).astype(np.float32)
        quantize(numbers, *call.to, out=y[index])
    return call.done(given)


def qsoftmax(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    axis: int = -1,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Apply softmax along an axis.

    ``quantize(float32(e), S * out_scale, out_zero_point)`` with ``e = exp((q - max(q))
    * scale)`` in float64, the scales rounded to float32: dividing by S and by the scale
    is one division. S is the exact sum of ``rint(e * 2**b) / 2**b``, with b 30 for
    8-bit codes and 40 for wider ones, so it does not depend on the layout.

    Parameters
    ----------
    q, scale, zero_point, dtype, out
        As in `qsum`; the result does not depend on the zero point of `q`.
    out_scale, out_zero_point : scalar, optional
        Of the result; by default 1/256 (of 16 bits 1/65536) and the lowest code.
    axis : int, optional
        The axis.

    Returns
    -------
    ndarray
        Codes, of the shape of `q`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `qsum`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.qsoftmax(np.array([10, 20, 30], np.uint8), 0.1, 0)
    array([ 23,  63, 170], dtype=uint8)
    """
    call = _Call("qsoftmax", q, (scale, zero_point), out)
    return _softmax(call, (out_scale, out_zero_point), axis, dtype, False)


def qlog_softmax(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    axis: int = -1,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Apply the logarithm of softmax along an axis.

    ``quantize(float32((q - max(q)) * scale - log(S)))`` in float64, with S as in
    `qsoftmax` and the scale rounded to float32.

    Parameters
    ----------
    q, scale, zero_point, out_scale, out_zero_point, dtype, out
        As in `qsum`; the result does not depend on the zero point of `q`.
    axis : int, optional
        The axis.

    Returns
    -------
    ndarray
        Codes, of the shape of `q`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `qsum`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.qlog_softmax(np.array([10, 20, 30], np.uint8), 0.1, 0, 0.1, 255)
    array([231, 241, 251], dtype=uint8)
    """
    call = _Call("qlog_softmax", q, (scale, zero_point), out)
    return _softmax(call, (out_scale, out_zero_point), axis, dtype, True)


def _softmax(
    call: _Call, out_pair: Pair, axis: int, dtype: DTypeLike | None, log: bool
) -> Any:
    i = axis_of(call.op, axis, call.x.ndim)
    given = call.result(call.x.shape, dtype, out_pair, 0 if log else 1)
    x, y = (np.moveaxis(v, i, -1) for v in (apart(call.x, given), given))
    n = x.shape[-1]
    terms = _Terms(call, log, given.dtype.newbyteorder("="), n)
    for rows in pieces(x.shape[:-1] if n else (0,), max(PIECE // max(n, 1), 1)):
        block, to = x[rows], y[rows]
        cut = list(pieces(block.shape))  # more than one only of a single row
        top = reduce(np.maximum, (_by_row(np.maximum, block[v]) for v in cut))
        total: Any = 0
        for index in cut:
            below = terms.below(block[index], top)
            sums = terms.sums(below)
            total = total + (sums if len(cut) == 1 else sums.astype(object))
        for index in cut:
            if len(cut) > 1:
                below = terms.below(block[index], top)
            codes = terms.codes(below, total)
            np.copyto(to[index], codes.reshape(to[index].shape))
    return call.done(given)


def _by_row(ufunc: Any, x: Array, dtype: DTypeLike | None = None) -> Array:
    """Reduce along the last axis, to a column: this takes less than axis=-1."""
    starts = np.arange(0, x.size, x.shape[-1])
    y: Array = ufunc.reduceat(x.reshape(-1), starts, dtype=dtype)
    return y.reshape(-1, 1)


class _Terms:
    """What softmax sums and divides, from how far codes are below the highest."""

    def __init__(self, call: _Call, log: bool, dtype: np.dtype[Any], n: int) -> None:
        self.scale, self.to, self.log, self.dtype = call.scale, call.to, log, dtype
        self.narrow = call.native.itemsize == 1
        self.bits = _TERM_BITS[call.native.itemsize]
        self.tables = self.narrow and n >= _LONG_ROW
        if self.narrow:
            exponents = np.arange(256, dtype=np.float64) * -self.scale
            self.units = self._units(exponents).astype(np.int32)
            self.numbers: Array = exponents if log else self._exp(exponents)
            if self.tables:
                self.numbers = np.tile(self.numbers, (max(PIECE // n, 1), 1))

    @staticmethod
    def _exp(exponents: Array) -> NDArray[np.float32]:
        with np.errstate(under="ignore"):
            return np.exp(exponents).astype(np.float32)

    def _units(self, exponents: Array) -> NDArray[np.int64]:
        with np.errstate(under="ignore"):
            return np.rint(np.exp(exponents) * 2.0**self.bits).astype(np.int64)

    def below(self, q: Array, top: Array) -> Array:
        """Return indices of tables, or exponents, in rows."""
        rows = q.reshape(-1, q.shape[-1])
        if self.narrow:  # differences of int8 are right modulo 256
            return np.subtract(top.view(np.uint8), rows.view(np.uint8))
        return np.subtract(rows, top, dtype=np.int64) * self.scale

    def sums(self, below: Array) -> Array:
        """Return exact sums of rows, in units."""
        units = take(below, self.units) if self.narrow else self._units(below)
        if self.tables:
            return np.asarray(hsum(units, -1, keepdims=True))
        return _by_row(np.add, units, np.int64)

    def codes(self, below: Array, total: Array) -> Array:
        sums = total.astype(np.float64) * 2.0**-self.bits
        if self.tables:
            table = self._quantize(self.numbers[: sums.size], sums)
            return np.asarray(take(below, table, axis=0))
        if self.narrow:
            return self._quantize(take(below, self.numbers), sums)
        return self._quantize(below if self.log else self._exp(below), sums)

    def _quantize(self, numbers: Array, sums: NDArray[np.float64]) -> Array:
        scale, zero = self.to
        if self.log:
            with np.errstate(over="ignore"):
                x = (numbers - np.log(sums)).astype(np.float32)
            return np.asarray(quantize(x, scale, zero, dtype=self.dtype))
        # Of a scale beyond float32 all is zero, and of the highest one too.
        scales = np.minimum(sums[:, 0] * float(np.float32(scale)), _MAX)
        return np.asarray(quantize(numbers, scales, zero, axis=0, dtype=self.dtype))


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
    # Keys that differ: the code, or its complement to find the largest, then the index.
    wide = bits + 8 * x.itemsize > 31
    key_type = np.dtype(np.int64 if wide else np.int32).type
    mask, shift = key_type(2**bits - 1), key_type(bits)
    most = max(PIECE, count)  # of one row at a time
    for index in pieces(shape[:-1] if count else (0,), max(PIECE // max(n, 1), 1)):
        keys = np.empty(0, key_type)  # the best so far
        for first in range(0, n, most):
            last = min(first + most, n)
            more = rows[index][..., first:last].astype(key_type, order="C")
            if largest:
                np.invert(more, out=more)
            more <<= shift
            more |= np.arange(first, last, dtype=key_type)
            keys = np.concatenate((keys[..., :count], more), -1) if first else more
            if keys.shape[-1] > count:
                keys.partition(count - 1, axis=-1)
        best = np.sort(keys[..., :count], axis=-1)
        indices[index] = best & mask
        best >>= shift
        values[index] = np.invert(best, out=best) if largest else best
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
