"""Sums, means and extremes of codes along axes."""

import math
from collections.abc import Callable, Iterator
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
)
from .comparisons import same_pair
from .functions import pair_of_steps
from .normalization import spread

Array = NDArray[Any]
Axes = int | tuple[int, ...] | None
Pair = tuple[Any, Any]


class AxesCall:
    """What operations along axes are given, checked, and how they end."""

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
        """Return the result: out, or y, of no dimensions as a scalar."""
        return y[()] if self.out is None else self.out


class _Reduction(AxesCall):
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

    def sums(self, x: Array) -> Array:
        """Return the exact sums of q - z, for q or a part of it."""
        sums: Array = np.asarray(self.over(hsum, x)) - self.n * self.zero
        return sums

    def over(self, f: Any, x: Array) -> Any:
        whole = len(self.axes) == x.ndim  # in threads, if it is None
        return f(x, axis=None if whole else self.axes)

    def parts(self) -> Iterator[tuple[Array, Array]]:
        """Yield parts of q, and where to write what they are reduced to."""
        y = self.y.squeeze(self.axes) if self.y.ndim == self.x.ndim else self.y
        apart = not np.may_share_memory(self.x, y)
        to = y if apart else np.empty_like(y)
        kept = [i for i in range(self.x.ndim) if i not in self.axes]
        for piece in pieces(to.shape, PIECE // 4):
            part: list[Any] = [slice(None)] * self.x.ndim
            for i, of in zip(kept, piece if kept else (), strict=True):
                part[i] = of
            yield self.x[(..., *part)], to[piece]
        if not apart:
            np.copyto(y, to)

    def write(self, reduced: Callable[[Array], Any]) -> Any:
        """Quantize the numbers that parts are reduced to."""
        for x, y in self.parts():
            with np.errstate(over="ignore", under="ignore"):
                quantize(np.asarray(reduced(x), np.float32), *self.to, out=y)
        return self.done(self.y)

    def variance(self, correction: int) -> Callable[[Array], Any]:
        """Return what gives the variance of real numbers."""
        given, n = integer(self.op, "correction", correction), self.n
        if n - given <= 0:
            raise ValueError(
                f"{self.op}: correction is {given}, not below the {n} codes along axes "
                f"{self.axes}"
            )
        if n == 0:
            self.some()

        def variances(x: Array) -> Any:
            sums, squares = (np.asarray(self.over(f, x)) for f in (hsum, hsum_sq))
            codes = spread(self.native, sums, squares, n) / float(n * (n - given))
            return codes * self.scale * self.scale

        return variances

    def extreme(self, f: Any) -> Any:
        self.some()
        same = self.y.dtype.newbyteorder("=") == self.native
        same = same and same_pair(self.pair, self.to)
        for x, y in self.parts():
            found = self.over(f, x)
            if same:
                np.copyto(y, found)
            else:
                requantize(found, *self.pair, *self.to, out=y)
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
    return call.write(lambda x: call.sums(x).astype(np.float64) * call.scale)


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
    return call.write(lambda x: call.sums(x).astype(np.float64) * call.scale / call.n)


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
    variance = call.variance(correction)
    return call.write(lambda x: np.sqrt(variance(x)))


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
    call = AxesCall(op, q, (scale, zero_point), out)
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
