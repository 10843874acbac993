"""Pooling over one to three spatial dimensions, channels first or last."""

import itertools
import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._arrays import pair_or
from ._core import (
    check_pairs,
    code_array,
    code_range,
    hsum,
    pool,
    quantize,
    requantize,
    result_array,
)
from .comparisons import same_pair

Array = NDArray[Any]
Ints = int | Sequence[int]

_FEW_CHANNELS = 16  # fewer are not worth a step of a kernel for each column
_MOST_SUMMED = 257  # codes of 8 bits whose sum, less the lowest codes, fits 16 bits


class _Windows(NamedTuple):
    """Where the windows of a dimension lie, an element for each output index."""

    dilation: int
    first: NDArray[np.int64]  # the first tap that lies inside
    taps: NDArray[np.int64]  # how many do
    divisor: NDArray[np.int64]
    sliding: tuple[int, int, int] | None = None  # kernel, stride, padding


class SpatialCall:
    """What poolings and resizing are given, checked, and how they end."""

    def __init__(
        self,
        op: str,
        q: ArrayLike,
        pair: tuple[Any, Any],
        out_pair: tuple[Any, Any],
        channels_last: bool,
        most_bytes: int = 1,
    ) -> None:
        x = code_array(op, "q", q)
        if x.dtype.itemsize > most_bytes:
            names = ("uint8 or int8", "uint8, int8, uint16 or int16")[most_bytes - 1]
            raise TypeError(f"{op}: q is {x.dtype}, not {names}")
        if not 3 <= x.ndim <= 5:
            raise ValueError(
                f"{op}: q has shape {x.shape}, not samples, channels and one to three "
                f"spatial dimensions"
            )
        self.op, self.channels_last = op, channels_last
        self.scale, self.zero = pair
        self.out_scale, self.out_zero = pair_or(pair, out_pair)
        check_pairs(op, "", *pair, x.dtype, (), None)
        self.x = np.ascontiguousarray(x, x.dtype.newbyteorder("="))
        self.spatial = x.shape[1:-1] if channels_last else x.shape[2:]
        for i, n in enumerate(self.spatial):
            if n == 0:
                axis = i + (1 if channels_last else 2)
                raise ValueError(
                    f"{op}: q has shape {x.shape}, which has nothing along axis {axis}"
                )

    def each(self, name: str, value: Ints, least: int) -> list[int]:
        """Return a number for each spatial dimension, checked."""
        n = len(self.spatial)
        given: list[Any] = [value] * n if np.ndim(value) == 0 else [*np.array(value)]
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
        self, windows: list[_Windows], dtype: DTypeLike | None, out: Array | None
    ) -> tuple[Array, Array]:
        """Return the result, and a contiguous array for it that overlaps nothing."""
        return self.sized_result([w.first.size for w in windows], dtype, out)

    def sized_result(
        self, sizes: Sequence[int], dtype: DTypeLike | None, out: Array | None
    ) -> tuple[Array, Array]:
        """Return the same for so many outputs along each spatial dimension."""
        n, c = self.x.shape[0], self.x.shape[-1 if self.channels_last else 1]
        shape = (n, *sizes, c) if self.channels_last else (n, c, *sizes)
        y = result_array(self.op, out, dtype, self.x.dtype, shape)
        to = y.dtype.newbyteorder("=")
        check_pairs(self.op, "out_", self.out_scale, self.out_zero, to, (), None)
        direct = y.flags.c_contiguous and y.dtype.isnative
        if out is not None and np.may_share_memory(self.x, y):
            direct = False
        return y, y if direct else np.empty(shape, to)

    def pool(
        self,
        windows: list[_Windows],
        kinds: list[Any],
        pad: int,
        how: list[Any],
        y: Array,
    ) -> None:
        """Run the kernel; kinds has that of each output index."""
        dims = [
            (w.dilation, w.first, w.taps, kind)
            for w, kind in zip(_padded(windows), kinds, strict=True)
        ]
        sliding = (*(windows[-1].sliding or ()), pad) if self.pads(windows) else None
        pool(self.flat(self.x), dims, sliding, how, self.flat(y))

    def pads(self, windows: list[_Windows]) -> bool:
        """Say whether rows get their padding, and so every window all of its taps."""
        channels = self.x.shape[-1] if self.channels_last else 1
        return windows[-1].sliding is not None and channels < _FEW_CHANNELS

    def flat(self, a: Array) -> Array:
        """View an array as (outer, depth, height, width, channels)."""
        spatial = a.shape[1:-1] if self.channels_last else a.shape[2:]
        ones = (1,) * (3 - len(spatial))
        outer = a.shape[:1] if self.channels_last else (a.shape[0] * a.shape[1],)
        channels = a.shape[-1:] if self.channels_last else (1,)
        return a.reshape(*outer, *ones, *spatial, *channels)


def _padded(windows: list[_Windows]) -> list[_Windows]:
    """Return the windows of three dimensions."""
    zero, one = np.zeros(1, np.int64), np.ones(1, np.int64)
    return [_Windows(1, zero, one, one)] * (3 - len(windows)) + windows


def _sliding(
    call: SpatialCall,
    kernel: Ints,
    stride: Ints | None,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
) -> list[_Windows]:
    kernels = call.each("kernel", kernel, 1)
    strides = kernels if stride is None else call.each("stride", stride, 1)
    paddings = call.each("padding", padding, 0)
    dilations = call.each("dilation", dilation, 1)
    windows = []
    for n, k, s, p, d in zip(
        call.spatial, kernels, strides, paddings, dilations, strict=True
    ):
        if 2 * p > k:
            raise ValueError(
                f"{call.op}: padding is {padding}, more than half the kernel {kernel}"
            )
        extent = d * (k - 1) + 1
        rest = n + 2 * p - extent
        if rest < 0:
            raise ValueError(
                f"{call.op}: kernel is {kernel} with dilation {dilation} and padding "
                f"{padding}, more than the {n} elements of a dimension"
            )
        size = (-(-rest // s) if ceil_mode else rest // s) + 1
        if (size - 1) * s >= n + p:  # it would begin in the padding behind
            size -= 1
        start = np.arange(size, dtype=np.int64) * s - p
        before = np.maximum(-(start // d), 0)  # taps in the padding, rounded up
        last = np.minimum((n - 1 - start) // d, k - 1)
        if (last < before).any():
            raise ValueError(
                f"{call.op}: with kernel {kernel}, dilation {dilation} and padding "
                f"{padding} a window has none of the {n} elements of a dimension"
            )
        taps = last - before + 1
        whole = np.minimum(start + k, n + p) - start
        divisor = whole if count_include_pad else taps
        windows.append(_Windows(d, start + before * d, taps, divisor, (k, s, p)))
    return windows


def _adaptive(call: SpatialCall, size: Ints) -> list[_Windows]:
    windows = []
    for n, m in zip(call.spatial, call.each("size", size, 1), strict=True):
        o = np.arange(m, dtype=np.int64)
        first = o * n // m
        taps = -(-(o + 1) * n // m) - first
        windows.append(_Windows(1, first, taps, taps))
    return windows


def _max_pool(
    call: SpatialCall,
    windows: list[_Windows],
    dtype: DTypeLike | None,
    out: Array | None,
) -> Any:
    y, to = call.result(windows, dtype, out)
    pair, out_pair = (call.scale, call.zero), (call.out_scale, call.out_zero)
    same = to.dtype == call.x.dtype and same_pair(pair, out_pair)
    codes = to if to.dtype == call.x.dtype else np.empty(to.shape, call.x.dtype)
    if codes.size:
        kinds = [np.zeros_like(w.taps) for w in _padded(windows)]
        lowest, _ = code_range(call.op, codes.dtype)
        call.pool(windows, kinds, lowest, [None], codes)
    if not same:  # rounding keeps the order, so it may come last
        requantize(codes, *pair, *out_pair, out=to)
    if to is not y:
        y[...] = to
    return y


def _avg_pool(
    call: SpatialCall,
    windows: list[_Windows],
    divisor: int | None,
    dtype: DTypeLike | None,
    out: Array | None,
) -> Any:
    y, to = call.result(windows, dtype, out)
    if to.size == 0:
        return y
    counted = list(windows)
    if call.pads(windows):  # with zeros, which count as taps
        last = windows[-1]
        taps = np.full_like(last.taps, (last.sliding or (1,))[0])
        counted[-1] = last._replace(taps=taps)
    of_index, kinds = [], []
    for w in _padded(counted):
        both = np.stack([w.taps, w.divisor], 1)
        unique, kind = np.unique(both, axis=0, return_inverse=True)
        of_index.append(kind.reshape(-1))
        kinds.append(unique.tolist())
    if math.prod(int(w.taps.max()) for w in counted) <= _MOST_SUMMED:
        results = [
            _table(
                call.x.dtype,
                (float(call.scale), int(call.zero)),
                to.dtype,
                (float(call.out_scale), int(call.out_zero)),
                math.prod(taps for taps, _ in kind),
                divisor or math.prod(by for _, by in kind),
            )
            for kind in itertools.product(*kinds)
        ]
        direct = all(mean for _, mean in results)
        how = [mean if direct else table for table, mean in results]
        call.pool(windows, of_index, int(call.zero), how, to)
    else:
        flat = call.flat(call.x), call.flat(to)
        _average_large(call, flat[0], _padded(windows), divisor, flat[1])
    if to is not y:
        y[...] = to
    return y


def _average(
    sums: Any, scale: float, divisor: int, out_pair: tuple[Any, Any], **to: Any
) -> Any:
    """Quantize float32(float64(sum) * scale / divisor)."""
    real = np.asarray(sums, np.float64) * float(np.float32(scale)) / divisor
    with np.errstate(over="ignore"):
        return quantize(real.astype(np.float32), *out_pair, **to)


Mean = tuple[float, int, int]


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
    table: Array = _average(sums, pair[0], divisor, out_pair, dtype=out_dtype)
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


def _average_large(
    call: SpatialCall, x: Array, windows: list[_Windows], divisor: int | None, y: Array
) -> None:
    """Average windows that are so large that there are few: one by one."""
    pair = call.out_scale, call.out_zero
    for at in np.ndindex(*y.shape[1:4]):
        of = [
            slice(int(w.first[i]), int(w.first[i] + w.taps[i]))
            for w, i in zip(windows, at, strict=True)
        ]
        taps = math.prod(s.stop - s.start for s in of)
        by = divisor or math.prod(
            int(w.divisor[i]) for w, i in zip(windows, at, strict=True)
        )
        sums = hsum(x[:, of[0], of[1], of[2]], (1, 2, 3)) - taps * int(call.zero)
        y[:, at[0], at[1], at[2]] = _average(
            sums, float(call.scale), by, pair, dtype=y.dtype
        )


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
        Codes, uint8 or int8: samples, channels, and one to three spatial dimensions.
    scale, zero_point : scalar
        Of `q`.
    out_scale, out_zero_point : scalar, optional
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
    windows = _sliding(call, kernel, stride, padding, dilation, ceil_mode, False)
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
    windows = _sliding(call, kernel, stride, padding, 1, ceil_mode, count_include_pad)
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
    return _max_pool(call, _adaptive(call, size), dtype, out)


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
    return _avg_pool(call, _adaptive(call, size), None, dtype, out)


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
    return _avg_pool(call, _adaptive(call, 1), None, dtype, out)
