"""Resizing of images: nearest neighbours, or a blend of two along each dimension."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._arrays import PIECE, pieces
from ._core import FEW_CHANNELS, interpolate
from .pooling import Ints, SpatialCall, flat

Array = NDArray[Any]

_MODES = {"nearest": (1, 2, 3), "linear": (1,), "bilinear": (2,), "trilinear": (3,)}


def qinterpolate(
    q: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike | None = None,
    *,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Literal["nearest", "linear", "bilinear", "trilinear"] = "nearest",
    align_corners: bool = False,
    channels_last: bool = False,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Any:
    """Resize the spatial dimensions.

    Along a dimension of n elements that becomes m, output ``o`` lies at

    - ``floor(o * n / m)`` for "nearest", where it takes the code;
    - ``max((o + 0.5) * n / m - 0.5, 0)`` for the others, or with `align_corners` at
      ``o * (n - 1) / (m - 1)`` (0 if m is 1), in float64; with ``low`` its floor,
      ``high = min(low + 1, n - 1)``, ``b = float32(it - low)`` and ``a = 1 - b``.

    Then in float32, of the codes less the zero point, first along the last dimension:
    ``v = a * x[low] + b * x[high]``, of such numbers the same along the dimension
    before, and so on; the result is ``quantize(v * scale)``.

    Parameters
    ----------
    q : array_like
        Codes, uint8, int8, uint16 or int16: samples, channels, and one to three spatial
        dimensions.
    scale, zero_point : scalar or 1-D array_like
        Of `q`; the scale is rounded to float32. Arrays hold one for each channel.
    out_scale, out_zero_point : scalar or 1-D array_like, optional
        Of the result; by default those of `q`.
    size : int or sequence of int, optional
        Elements of the result along all spatial dimensions, or along each.
    scale_factor : float or sequence of float, optional
        Instead: m is ``floor(n * scale_factor)``, and the formulas use ``n / m``.
    mode : {"nearest", "linear", "bilinear", "trilinear"}, optional
        The last three are for one, two and three spatial dimensions.
    align_corners : bool, optional
        The corner elements stay where they are; not for "nearest".
    channels_last : bool, optional
        Channels are the last dimension, not the second.
    dtype : dtype, optional
        Of the result; by default that of `out`, or else of `q`.
    out : ndarray, optional
        Where to write the codes; it may overlap `q`.

    Returns
    -------
    ndarray
        Codes; or `out`.

    Raises
    ------
    TypeError
        For an array of another dtype, or numbers of the wrong kind.
    ValueError
        For a shape, mode, number or parameter that does not fit, or if not just one of
        `size` and `scale_factor` is given.

    Notes
    -----
    What is not contiguous is copied first, and so are both arrays where channels with
    parameters of their own are last.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.array([[[0, 100]]], np.uint8)
    >>> qops.qinterpolate(q, 0.1, 0, size=4, mode="linear")
    array([[[  0,  25,  75, 100]]], dtype=uint8)
    """
    op = "qinterpolate"
    pairs = (scale, zero_point), (out_scale, out_zero_point)
    call = SpatialCall(op, q, *pairs, channels_last)
    if call.x.dtype.itemsize > 2:
        raise TypeError(f"{op}: q is {call.x.dtype}, not uint8, int8, uint16 or int16")
    if mode not in _MODES:
        raise ValueError(f"{op}: mode is {mode!r}, not one of {', '.join(_MODES)}")
    ndim = len(call.spatial)
    if ndim not in _MODES[mode]:
        raise ValueError(
            f"{op}: mode is {mode!r}, for {_MODES[mode][0]} spatial dimensions, and q "
            f"has shape {call.x.shape}"
        )
    if align_corners and mode == "nearest":
        raise ValueError(f"{op}: align_corners is True, and mode is 'nearest'")
    sizes = _sizes(call, size, scale_factor)
    y, to = call.sized_result(sizes, dtype, out)
    if y.dtype.itemsize > 2:
        raise TypeError(f"{op}: the result is {y.dtype}, of more than 16 bits")
    if mode == "nearest":
        _nearest(call, sizes, to)
    elif to.size:
        _blend(call, sizes, align_corners, to)
    if to is not y:
        y[...] = to
    return y


def _sizes(call: SpatialCall, size: Any, factor: Any) -> list[int]:
    if (size is None) == (factor is None):
        raise ValueError(
            f"{call.op}: size is {size} and scale_factor is {factor}; give one of them"
        )
    if size is not None:
        return call.each("size", size, 1)
    given = np.asarray(factor)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{call.op}: scale_factor is {factor!r}, not real numbers")
    n = len(call.spatial)
    if given.shape not in {(), (n,)}:
        raise ValueError(
            f"{call.op}: scale_factor is {factor}, not one number or {n} of them"
        )
    sizes = np.floor(np.multiply(call.spatial, given.astype(np.float64)))
    if not ((sizes >= 1) & (sizes < 2**31)).all():
        raise ValueError(
            f"{call.op}: scale_factor is {factor}, which makes {sizes.tolist()} of "
            f"{list(call.spatial)} elements, not 1 to 2**31 - 1"
        )
    return [int(m) for m in sizes]


def _nearest(call: SpatialCall, sizes: list[int], to: Array) -> None:
    """Take codes along each dimension in turn, for pieces of the result.

    Whatever grows comes last, so that what is in between is small.
    """
    x = call.x
    indices = {
        i + (1 if call.channels_last else 2): np.arange(m) * n // m
        for i, (n, m) in enumerate(zip(call.spatial, sizes, strict=True))
    }
    growth = {axis: to.shape[axis] / x.shape[axis] for axis in indices}
    order = sorted(indices, key=growth.__getitem__)
    *first, last = order
    shrinks = math.prod(min(growth[axis], 1) for axis in order[1:])
    same = x.dtype == to.dtype and call.same_pair()
    for piece in pieces(to.shape, max(int(4 * PIECE * shrinks), 4096)):
        part, of = list(piece), {}
        for axis, index in indices.items():
            at = index[piece[axis]]
            part[axis] = slice(None)
            if at.size < index.size:  # then it is the first one that is not 1
                part[axis] = slice(at[0], at[-1] + 1)
                at = at - at[0]
            of[axis] = at
        codes = x[tuple(part)]  # contiguous: take would copy anything else
        for axis in first:
            codes = np.take(codes, of[axis], axis)
        if same:
            np.take(codes, of[last], last, out=to[piece], mode="clip")  # not buffered
        else:
            codes = np.take(codes, of[last], last)
            call.requantize(codes, to[piece], piece)


def _blend(call: SpatialCall, sizes: list[int], corners: bool, to: Array) -> None:
    last, codes, result = call.channels_last, call.x, to
    if last and call.per_channel:  # an image of one channel has one pair
        last, codes = False, np.ascontiguousarray(np.moveaxis(codes, -1, 1))
        result = np.empty(np.moveaxis(to, -1, 1).shape, to.dtype)
    x, y = flat(codes, last), flat(result, last)
    dims = [
        _neighbours(n, m, corners)
        for n, m in zip(x.shape[1:-1], y.shape[1:-1], strict=True)
    ]
    channels = x.shape[-1]
    low, high, *weights = dims[-1]
    low, high = low * channels, high * channels
    if channels < FEW_CHANNELS:  # each is a column of its own
        each = np.arange(channels)
        low, high = ((v[:, None] + each).reshape(-1) for v in (low, high))
        weights = [np.repeat(w, channels) for w in weights]
        channels = 1
    dims[-1] = low, high, weights[0], weights[1]
    interpolate(
        x.reshape(*x.shape[:3], -1),
        dims,
        channels,
        *call.pair,
        *call.out_pair,
        y,
    )
    if result is not to:
        to[...] = np.moveaxis(result, 1, -1)


def _neighbours(n: int, m: int, corners: bool) -> tuple[Array, Array, Array, Array]:
    """Return the lower and the higher neighbour of each output, and what they count."""
    o = np.arange(m)
    if corners:
        at = o * (n - 1) / max(m - 1, 1)
    else:
        at = np.maximum((o + 0.5) * n / m - 0.5, 0)
    low = np.minimum(np.floor(at).astype(np.int64), n - 1)
    b = (at - low).astype(np.float32)
    return low, np.minimum(low + 1, n - 1), 1 - b, b
