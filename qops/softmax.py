"""Softmax along an axis, and its logarithm, from exact sums of exponentials."""

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._arrays import PIECE, apart, axis_of, pieces
from ._core import hsum, quantize, softmax, take
from .reductions import AxesCall, Pair

Array = NDArray[Any]

# Terms of softmax are integers times 2**-bits, so that their sum is exact: those of
# 8-bit codes fit the int32 codes that hsum takes.
_TERM_BITS = {1: 30, 2: 40, 4: 40}
# Rows of so many 8-bit codes get a table each: less work than a quotient per code.
_LONG_ROW = 512
_MAX = float(np.finfo(np.float32).max)


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
    call = AxesCall("qsoftmax", q, (scale, zero_point), out)
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
    call = AxesCall("qlog_softmax", q, (scale, zero_point), out)
    return _softmax(call, (out_scale, out_zero_point), axis, dtype, True)


def _softmax(
    call: AxesCall, out_pair: Pair, axis: int, dtype: DTypeLike | None, log: bool
) -> Any:
    i = axis_of(call.op, axis, call.x.ndim)
    given = call.result(call.x.shape, dtype, out_pair, 0 if log else 1)
    x, y = (np.moveaxis(v, i, -1) for v in (apart(call.x, given), given))
    n = x.shape[-1]
    terms = _Terms(call, log, given.dtype.newbyteorder("="), n)
    if terms.fused:
        _rows(x, y, terms)
        return call.done(given)
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


def _rows(x: Array, y: Array, terms: "_Terms") -> None:
    """Apply softmax to 8-bit codes along the last axis, to 8-bit codes."""
    n = x.shape[-1]
    whole = x.size and x.flags.c_contiguous and y.flags.c_contiguous
    all_rows = x.shape[:-1] if n else (0,)
    for index in [...] if whole else pieces(all_rows, max(PIECE // max(n, 1), 1)):
        to = y[index]
        codes = to if to.flags.c_contiguous else np.empty(to.shape, to.dtype)
        softmax(
            np.ascontiguousarray(x[index]).reshape(-1, n),
            terms.units,
            2.0**-terms.bits,
            terms.numbers,
            float(np.asarray(terms.to[0])),
            int(np.asarray(terms.to[1])),
            codes.reshape(-1, n),
        )
        if codes is not to:
            to[...] = codes


def _by_row(ufunc: Any, x: Array, dtype: DTypeLike | None = None) -> Array:
    """Reduce along the last axis, to a column: this takes less than axis=-1."""
    starts = np.arange(0, x.size, x.shape[-1])
    y: Array = ufunc.reduceat(x.reshape(-1), starts, dtype=dtype)
    return y.reshape(-1, 1)


class _Terms:
    """What softmax sums and divides, from how far codes are below the highest."""

    def __init__(self, call: AxesCall, log: bool, dtype: np.dtype[Any], n: int) -> None:
        self.scale, self.to, self.log, self.dtype = call.scale, call.to, log, dtype
        self.narrow = call.native.itemsize == 1
        self.bits = _TERM_BITS[call.native.itemsize]
        self.fused = self.narrow and dtype.itemsize == 1 and not log
        self.tables = self.narrow and n >= _LONG_ROW and not self.fused
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
