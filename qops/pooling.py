"""Pooling over one to three spatial dimensions, channels first or last."""

import itertools
import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._arrays import Index, pair_or, part, several
from ._core import (
    FEW_CHANNELS,
    check_pairs,
    code_array,
    code_range,
    pool,
    quantize,
    real_means,
    requantize,
    result_array,
)
from .comparisons import same_pair

Array = NDArray[Any]
Ints = int | Sequence[int]

_MOST_SUMMED = 257  # codes of 8 bits whose sum, less the lowest codes, fits 16 bits
_MANY_PHASES = 3  # of a stride: to take rows apart is not worth it
_KEPT = 4096  # outputs of a dimension whose windows are kept for the next call


class Windows(NamedTuple):
    """Where the windows of a dimension lie; arrays have an element for each output."""

    dilation: int
    first: NDArray[np.int64]  # the first tap that lies inside
    taps: NDArray[np.int64]  # how many do
    most: int  # of them
    kind: NDArray[np.int64]  # which of the kinds it is
    kinds: tuple[tuple[int, int], ...]  # taps that count, and what to divide by
    runs: NDArray[np.int64]  # lengths of what is alike, and the same step apart
    padded: tuple[int, int, int] | None = None  # kernel, stride, padding of rows


class SpatialCall:
    """What poolings and resizing are given, checked, and how they end."""

    def __init__(
        self,
        op: str,
        q: ArrayLike,
        pair: tuple[Any, Any],
        out_pair: tuple[Any, Any],
        channels_last: bool,
    ) -> None:
        x = code_array(op, "q", q)
        if not 3 <= x.ndim <= 5:
            raise ValueError(
                f"{op}: q has shape {x.shape}, not samples, channels and one to three "
                f"spatial dimensions"
            )
        self.op, self.channels_last = op, channels_last
        self.axis = x.ndim - 1 if channels_last else 1
        self.pair, self.out_pair = pair, pair_or(pair, out_pair)
        self.given_out = any(p is not None for p in out_pair)
        self.per_channel = any(map(several, (*pair, *out_pair)))
        check_pairs(op, "", *pair, x.dtype, x.shape, self.axis)
        self.x = np.ascontiguousarray(x, x.dtype.newbyteorder("="))
        self.spatial = x.shape[1:-1] if channels_last else x.shape[2:]
        self.channels = x.shape[-1] if channels_last else 1  # beside each other
        for i, n in enumerate(self.spatial):
            if n == 0:
                axis = i + (1 if channels_last else 2)
                raise ValueError(
                    f"{op}: q has shape {x.shape}, which has nothing along axis {axis}"
                )

    def same_pair(self) -> bool:
        """Say whether the result has the parameters of q."""
        if not self.given_out:
            return True
        shape = (self.x.shape[self.axis],) if self.per_channel else ()
        s, z, *to = (np.broadcast_to(p, shape) for p in (*self.pair, *self.out_pair))
        return same_pair((s, z), (to[0], to[1]))

    def requantize(self, q: Array, out: Array, piece: Index | None = None) -> None:
        """Give codes, which may be a piece, the parameters of the result."""
        axis, given = None, (*self.pair, *self.out_pair)
        if self.per_channel:
            axis = self.axis
            if piece is not None:
                given = tuple(part(p, axis, piece) for p in given)
        requantize(q, *given, axis=axis, out=out)

    def each(self, name: str, value: Ints, least: int) -> list[int]:
        """Return a number for each spatial dimension, checked."""
        n = len(self.spatial)
        one = type(value) is int or np.ndim(value) == 0
        given: list[Any] = [value] * n if one else [*np.array(value)]
        if len(given) != n:
            raise ValueError(
                f"{self.op}: {name} is {value}, not one number or {n} of them"
            )
        try:
            numbers = [operator.index(k) for k in given]
        except TypeError:
            raise TypeError(f"{self.op}: {name} is {value!r}, not integers") from None
        for k in numbers:
            if k < least:
                raise ValueError(f"{self.op}: {name} is {value}, not at least {least}")
        return numbers

    def result(
        self, windows: list[Windows], dtype: DTypeLike | None, out: Array | None
    ) -> tuple[Array, Array]:
        """Return the result, and a contiguous array for it that overlaps nothing."""
        return self.sized_result([w.first.size for w in windows], dtype, out)

    def sized_result(
        self, sizes: Sequence[int], dtype: DTypeLike | None, out: Array | None
    ) -> tuple[Array, Array]:
        """Return the same for so many outputs along each spatial dimension."""
        n, c = self.x.shape[0], self.x.shape[self.axis]
        shape = (n, *sizes, c) if self.channels_last else (n, c, *sizes)
        y = result_array(self.op, out, dtype, self.x.dtype, shape)
        to = y.dtype.newbyteorder("=")
        check_pairs(self.op, "out_", *self.out_pair, to, shape, self.axis)
        direct = y.flags.c_contiguous and y.dtype.isnative
        if out is not None and np.may_share_memory(self.x, y):
            direct = False
        return y, y if direct else np.empty(shape, to)

    def pool(
        self, windows: list[Windows], pad: int, how: list[Any], y: Array, *pairs: Any
    ) -> None:
        """Run the kernel."""
        three = [_NO_WINDOWS] * (3 - len(windows)) + windows
        x, y = (flat(a, self.channels_last) for a in (self.x, y))
        pool(x, three, pad, how, y, *pairs)

    def narrow(self, taps: int) -> bool:
        """Say whether sums of so many codes fit 16 bits, and all have one pair."""
        return (
            self.x.dtype.itemsize == 1 and taps <= _MOST_SUMMED and not self.per_channel
        )


def flat(a: Array, channels_last: bool) -> Array:
    """View an array as (outer, depth, height, width, channels)."""
    spatial = a.shape[1:-1] if channels_last else a.shape[2:]
    ones = (1,) * (3 - len(spatial))
    outer = a.shape[:1] if channels_last else (a.shape[0] * a.shape[1],)
    return a.reshape(*outer, *ones, *spatial, a.shape[-1] if channels_last else 1)


_ONE = np.ones(1, np.int64)
_NO_WINDOWS = Windows(1, 0 * _ONE, _ONE, 1, 0 * _ONE, ((1, 1),), _ONE)


def _sliding(
    call: SpatialCall,
    kernel: Ints,
    stride: Ints | None,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    include_pad: bool | None,
) -> list[Windows]:
    kernels = call.each("kernel", kernel, 1)
    strides = kernels if stride is None else call.each("stride", stride, 1)
    paddings = call.each("padding", padding, 0)
    dilations = call.each("dilation", dilation, 1)
    windows = []
    for i, of in enumerate(
        zip(call.spatial, kernels, strides, paddings, dilations, strict=True)
    ):
        n, k, s, p, d = of
        if 2 * p > k:
            raise ValueError(
                f"{call.op}: padding is {padding}, more than half the kernel {kernel}"
            )
        if n + 2 * p < d * (k - 1) + 1:
            raise ValueError(
                f"{call.op}: kernel is {kernel} with dilation {dilation} and padding "
                f"{padding}, more than the {n} elements of a dimension"
            )
        padded = (
            i == len(kernels) - 1
            and s < _MANY_PHASES
            and call.channels < FEW_CHANNELS
            and (include_pad is None or call.narrow(math.prod(kernels)))
        )
        make = _slide if n <= _KEPT else _slide.__wrapped__
        w = make(*of, bool(ceil_mode), include_pad, padded)
        if w is None:
            raise ValueError(
                f"{call.op}: with kernel {kernel}, dilation {dilation} and padding "
                f"{padding} a window has none of the {n} elements of a dimension"
            )
        windows.append(w)
    return windows


@lru_cache(maxsize=128)
def _slide(
    n: int,
    k: int,
    s: int,
    p: int,
    d: int,
    ceil_mode: bool,
    include_pad: bool | None,
    padded: bool,
) -> Windows | None:
    """Return the windows of n elements, or None if one has no element.

    What counts is for means; `include_pad` is None if there are none.
    """
    rest = n + 2 * p - (d * (k - 1) + 1)
    size = (-(-rest // s) if ceil_mode else rest // s) + 1
    if (size - 1) * s >= n + p:  # it would begin in the padding behind
        size -= 1
    start = np.arange(size, dtype=np.int64) * s - p
    before = np.maximum(-(start // d), 0)  # taps in the padding, rounded up
    last = np.minimum((n - 1 - start) // d, k - 1)
    if (last < before).any():
        return None
    taps = last - before + 1
    divisor = np.minimum(start + k, n + p) - start if include_pad else taps
    # padding of a row is zeros, which count as taps
    counted = np.full_like(taps, k) if padded else taps
    kind, kinds = _kinds(counted, divisor, include_pad is not None)
    first, most = start + before * d, int(taps.max())
    runs = _runs(start if padded else first, counted, kind)
    rows = (k, s, p) if padded else None
    return Windows(d, first, taps, most, kind, kinds, runs, rows)


def _kinds(
    taps: NDArray[np.int64], divisor: NDArray[np.int64], means: bool
) -> tuple[NDArray[np.int64], tuple[tuple[int, int], ...]]:
    """Return of which kind each window is, and all kinds; one of maxima."""
    if not means:
        return np.zeros_like(taps), ((1, 1),)
    unique, kind = np.unique(np.stack([taps, divisor], 1), axis=0, return_inverse=True)
    return kind.reshape(-1), tuple((int(t), int(by)) for t, by in unique)


def _runs(
    first: NDArray[np.int64], taps: NDArray[np.int64], kind: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the lengths of runs of outputs that a kernel can take together."""
    other = (np.diff(taps) != 0) | (np.diff(kind) != 0)
    step = np.diff(first)
    other[1:] |= (step[1:] != step[:-1]) & ~other[:-1]
    return np.diff(np.flatnonzero(other) + 1, prepend=0, append=taps.size).astype(
        np.int64
    )


def _adaptive(call: SpatialCall, size: Ints, means: bool) -> list[Windows]:
    sizes = call.each("size", size, 1)
    return [
        (_adapt if m <= _KEPT else _adapt.__wrapped__)(n, m, means)
        for n, m in zip(call.spatial, sizes, strict=True)
    ]


@lru_cache(maxsize=128)
def _adapt(n: int, m: int, means: bool) -> Windows:
    o = np.arange(m, dtype=np.int64)
    first = o * n // m
    taps = -(-(o + 1) * n // m) - first
    kind, kinds = _kinds(taps, taps, means)
    runs = _runs(first, taps, kind)
    return Windows(1, first, taps, int(taps.max()), kind, kinds, runs)


def _max_pool(
    call: SpatialCall,
    windows: list[Windows],
    dtype: DTypeLike | None,
    out: Array | None,
) -> Any:
    y, to = call.result(windows, dtype, out)
    codes = to if to.dtype == call.x.dtype else np.empty(to.shape, call.x.dtype)
    if codes.size:
        lowest, _ = code_range(call.op, codes.dtype)
        call.pool(windows, lowest, [None], codes)
    if codes is not to or not call.same_pair():  # rounding keeps the order
        call.requantize(codes, to)
    if to is not y:
        y[...] = to
    return y


def _avg_pool(
    call: SpatialCall,
    windows: list[Windows],
    divisor: int | None,
    dtype: DTypeLike | None,
    out: Array | None,
) -> Any:
    y, to = call.result(windows, dtype, out)
    if to.size == 0:
        return y
    narrow = call.narrow(math.prod(w.kinds[-1][0] for w in windows))
    if narrow and (call.channels >= FEW_CHANNELS or windows[-1].padded):
        how = _means(
            call.x.dtype,
            (float(call.pair[0]), int(call.pair[1])),
            to.dtype,
            (float(call.out_pair[0]), int(call.out_pair[1])),
            tuple(w.kinds for w in windows),
            divisor,
        )
        call.pool(windows, int(call.pair[1]), how, to)
    else:
        counts = _counts(tuple(w.kinds for w in windows), divisor)
        n = to.shape[call.axis]
        scales = np.full(n, np.asarray(call.pair[0], np.float32), np.float64)
        zeros = np.full(n, call.pair[1], np.int64)
        call.pool(windows, 0, counts, to, (scales, zeros, *call.out_pair))
    if to is not y:
        y[...] = to
    return y


Mean = tuple[float, int, int]


@lru_cache(maxsize=32)
def _means(
    dtype: np.dtype[Any],
    pair: tuple[float, int],
    out_dtype: np.dtype[Any],
    out_pair: tuple[float, int],
    kinds: tuple[tuple[tuple[int, int], ...], ...],
    divisor: int | None,
) -> list[Any]:
    """Return for each kind of window a mean, or a table if one of them has no mean."""
    results = [
        _table(
            dtype,
            pair,
            out_dtype,
            out_pair,
            math.prod(taps for taps, _ in kind),
            divisor or math.prod(by for _, by in kind),
        )
        for kind in itertools.product(*kinds)
    ]
    direct = all(mean for _, mean in results)
    return [mean if direct else table for table, mean in results]


@lru_cache(maxsize=32)
def _counts(
    kinds: tuple[tuple[tuple[int, int], ...], ...], divisor: int | None
) -> list[tuple[int, float]]:
    """Return for each kind of window its taps, and what to divide their sum by."""
    return [
        (
            math.prod(taps for taps, _ in kind),
            float(divisor or math.prod(by for _, by in kind)),
        )
        for kind in itertools.product(*kinds)
    ]


@lru_cache(maxsize=128)  # of up to 64 Ki entries
def _table(
    dtype: np.dtype[Any],
    pair: tuple[float, int],
    out_dtype: np.dtype[Any],
    out_pair: tuple[float, int],
    taps: int,
    divisor: int,
) -> tuple[Array, Mean | None]:
    """Return the averages of all sums of so many codes, from the lowest sum on.

    And a factor, the sum of zero and its code, if one float32 product gives the same:
    it does but for ties, and it is tried out for all sums.
    """
    low, high = code_range("qavg_pool", dtype)
    sums = np.arange(taps * low, taps * high + 1) - taps * pair[1]
    real = real_means(sums, float(np.float32(pair[0])), divisor)
    table: Array = quantize(real, *out_pair, dtype=out_dtype)
    least, most = code_range("qavg_pool", out_dtype)
    scale, out_scale = map(np.float32, (pair[0], out_pair[0]))
    with np.errstate(over="ignore", invalid="ignore"):  # then it is not used
        factor = np.float32(float(scale) / (divisor * float(out_scale)))
        t = np.rint(sums.astype(np.float32) * factor)
    same = dtype == out_dtype and np.array_equal(
        np.clip(t + out_pair[1], least, most), table
    )
    if not same or not (np.abs(t) < 2**30).all():
        return table, None
    return table, (float(factor), taps * (pair[1] - low), out_pair[1])


def qmax_pool(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    kernel: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    channels_last: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Take the maximum in each window.

    On codes, which are requantized where the parameters of the result are others.
    Padding has no value: a window's maximum is that of its elements.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32; samples, channels, and one to three
        spatial dimensions.
    scale, zero_point : scalar or 1-D array_like
        Of `q`; the scale is rounded to float32. Arrays hold one for each channel.
    out_scale, out_zero_point : scalar or 1-D array_like, optional
        Of the result; by default those of `q`.
    kernel : int or sequence of int
        The extent of a window, for all spatial dimensions or for each.
    stride : int or sequence of int, optional
        From window to window; by default `kernel`.
    padding : int or sequence of int, optional
        How far windows reach beyond each end; at most half of `kernel`.
    dilation : int or sequence of int, optional
        From element to element of a window.
    ceil_mode : bool, optional
        Let the last window reach further, if it begins before the padding behind.
    channels_last : bool, optional
        Channels are the last dimension, not the second.
    dtype : dtype, optional
        Of the result; by default that of `out`, or else of `q`.
    out : ndarray, optional
        Where to write the codes; it may overlap `q`.

    Returns
    -------
    ndarray
        Codes; or `out`. Along a dimension of n elements there are
        ``(n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1``.

    Raises
    ------
    TypeError
        For an array of another dtype, or numbers that are not integers.
    ValueError
        For a shape, number or parameter that does not fit; if a window has no element.

    Notes
    -----
    What is not contiguous is copied first.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> qops.qmax_pool(q, 0.1, 0, kernel=2)[0, 0]
    array([[ 5,  7],
           [13, 15]], dtype=uint8)
    """
    call = SpatialCall(
        "qmax_pool",
        q,
        (scale, zero_point),
        (out_scale, out_zero_point),
        channels_last,
    )
    windows = _sliding(call, kernel, stride, padding, dilation, ceil_mode, None)
    return _max_pool(call, windows, dtype, out)


def qavg_pool(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    kernel: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    channels_last: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Take the mean in each window.

    ``quantize(float32(float64(sum(q - zero_point)) * scale / count))``, with an exact
    sum.

    Parameters
    ----------
    q, scale, zero_point, out_scale, out_zero_point, kernel, stride, padding
        As in `qmax_pool`.
    ceil_mode, channels_last, dtype, out
        As in `qmax_pool`.
    count_include_pad : bool, optional
        Count the padding, which is zero, though not what lies beyond it.
    divisor_override : int, optional
        Divide by it, not by the count.

    Returns
    -------
    ndarray
        Codes; or `out`; of the shape that `qmax_pool` gives.

    Raises
    ------
    TypeError, ValueError
        As in `qmax_pool`.

    Notes
    -----
    What is not contiguous is copied first.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    >>> qops.qavg_pool(q, 0.1, 0, 0.05, 0, kernel=2)[0, 0]
    array([[ 5,  9],
           [21, 25]], dtype=uint8)
    """
    call = SpatialCall(
        "qavg_pool",
        q,
        (scale, zero_point),
        (out_scale, out_zero_point),
        channels_last,
    )
    if divisor_override is not None and operator.index(divisor_override) < 1:
        raise ValueError(
            f"qavg_pool: divisor_override is {divisor_override}, not at least 1"
        )
    include_pad = bool(count_include_pad)
    windows = _sliding(call, kernel, stride, padding, 1, ceil_mode, include_pad)
    return _avg_pool(call, windows, divisor_override, dtype, out)


def qadaptive_max_pool(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    size: Ints,
    channels_last: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Take the maximum in windows of which there are so many.

    Window i of m over n elements has those from ``i * n // m`` to below ``ceil((i + 1)
    * n / m)``.

    Parameters
    ----------
    q, scale, zero_point, out_scale, out_zero_point, channels_last, dtype, out
        As in `qmax_pool`.
    size : int or sequence of int
        Of the result, for all spatial dimensions or for each.

    Returns
    -------
    ndarray
        Codes; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `qmax_pool`.

    Notes
    -----
    What is not contiguous is copied first.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.arange(5, dtype=np.uint8).reshape(1, 1, 5)
    >>> qops.qadaptive_max_pool(q, 0.1, 0, size=2)
    array([[[2, 4]]], dtype=uint8)
    """
    call = SpatialCall(
        "qadaptive_max_pool",
        q,
        (scale, zero_point),
        (out_scale, out_zero_point),
        channels_last,
    )
    return _max_pool(call, _adaptive(call, size, False), dtype, out)


def qadaptive_avg_pool(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    size: Ints,
    channels_last: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Take the mean in windows of which there are so many.

    The windows are those of `qadaptive_max_pool`, the mean is that of `qavg_pool`.

    Parameters
    ----------
    q, scale, zero_point, out_scale, out_zero_point, channels_last, dtype, out
        As in `qmax_pool`.
    size : int or sequence of int
        Of the result, for all spatial dimensions or for each.

    Returns
    -------
    ndarray
        Codes; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `qmax_pool`.

    Notes
    -----
    What is not contiguous is copied first.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.arange(5, dtype=np.uint8).reshape(1, 1, 5)
    >>> qops.qadaptive_avg_pool(q, 0.1, 0, size=2)
    array([[[1, 3]]], dtype=uint8)
    """
    call = SpatialCall(
        "qadaptive_avg_pool",
        q,
        (scale, zero_point),
        (out_scale, out_zero_point),
        channels_last,
    )
    return _avg_pool(call, _adaptive(call, size, True), None, dtype, out)


def qglobal_avg_pool(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    channels_last: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Take the mean over all spatial dimensions, which are kept with length 1.

    Parameters
    ----------
    q, scale, zero_point, out_scale, out_zero_point, channels_last, dtype, out
        As in `qmax_pool`.

    Returns
    -------
    ndarray
        Codes; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `qmax_pool`.

    Notes
    -----
    What is not contiguous is copied first.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.arange(8, dtype=np.uint8).reshape(1, 2, 4)
    >>> qops.qglobal_avg_pool(q, 0.1, 0, 0.05, 0)
    array([[[ 3],
            [11]]], dtype=uint8)
    """
    call = SpatialCall(
        "qglobal_avg_pool",
        q,
        (scale, zero_point),
        (out_scale, out_zero_point),
        channels_last,
    )
    return _avg_pool(call, _adaptive(call, 1, True), None, dtype, out)
