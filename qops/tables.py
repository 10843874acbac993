"""Tables of functions of one code."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._arrays import PIECE
from ._core import code_range, dequantize, quantize


def evaluate(f: Callable[[Any], Any], x: NDArray[Any]) -> NDArray[Any]:
    """Return f of numbers in float64, whatever becomes of those that never come."""
    with np.errstate(all="ignore"):
        y = np.asarray(f(x.astype(np.float64)))
    if y.dtype.kind not in "fiub":
        raise TypeError(f"lookup_table: f returns {y.dtype}, not real numbers")
    if y.shape != x.shape:
        raise ValueError(
            f"lookup_table: f returns shape {y.shape} for shape {x.shape}, not the same"
        )
    return y


def lookup_table(
    f: Callable[[Any], Any],
    dtype: DTypeLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    out_dtype: DTypeLike,
    out_scale: ArrayLike | None = None,
    out_zero_point: ArrayLike = 0,
) -> Any:
    """Make the table of a function from codes to codes, or to real numbers.

    Entry k is ``quantize(float32(f(float64(dequantize(qmin + k)))))``.

    Parameters
    ----------
    f : callable
        Maps an array of float64 to real numbers of the same shape.
    dtype : dtype
        Of the codes that come in: uint8, int8, uint16 or int16.
    scale, zero_point : scalar or 1-D array_like
        Theirs; arrays give a row for each channel.
    out_dtype : dtype
        Of the codes that go out; or float32 or float64 for the numbers themselves.
    out_scale, out_zero_point : scalar or 1-D array_like
        Theirs; one for all channels, or as many as there are. Not for numbers.

    Returns
    -------
    ndarray
        Of shape (256,) or (65536,), or such a row for each channel, for `take`.

    Raises
    ------
    TypeError
        For a dtype that is none of these, or if `f` does not return real numbers.
    ValueError
        If `f` returns another shape, or a scale or zero point is not valid; as in
        `quantize`.

    See Also
    --------
    take : Uses the table.

    Notes
    -----
    `f` sees the values that the codes stand for, exactly; its results are rounded to
    float32 once, before they are quantized. What is NaN becomes the zero point.

    Examples
    --------
    >>> import numpy as np, qops
    >>> table = qops.lookup_table(np.tanh, np.int8, 0.05, 0, np.int8, 1 / 128, 0)
    >>> qops.take(np.array([-128, -20, 0, 20, 127], np.int8), table)
    array([-128,  -97,    0,   97,  127], dtype=int8)
    """
    least, most = code_range("lookup_table", dtype)
    if most - least > 65535:
        raise TypeError("lookup_table: dtype is int32, not one of 8 or 16 bits")
    channels = np.broadcast_shapes(
        *(np.shape(a) for a in (scale, zero_point, out_zero_point)),
        () if out_scale is None else np.shape(out_scale),
    )
    if len(channels) > 1:
        raise ValueError(
            f"lookup_table: parameters have shape {channels}, not () or (channels,)"
        )
    to = np.dtype(out_dtype).newbyteorder("=")
    if to == np.float32 or to == np.float64:
        if out_scale is not None:
            raise ValueError(
                f"lookup_table: out_scale is {out_scale} and out_dtype is {to}, which "
                f"takes none"
            )
    elif out_scale is None:
        raise ValueError(
            f"lookup_table: out_scale is None and out_dtype is {to}; give the scale of "
            f"the codes"
        )
    codes = np.arange(least, most + 1).astype(dtype)
    codes = np.broadcast_to(codes, (*channels, codes.size))

    def axis(*parameters: ArrayLike) -> int | None:
        return 0 if any(map(np.ndim, parameters)) else None

    table = np.empty(codes.shape, to)
    step = PIECE // max(math.prod(channels), 1) or 1  # codes of all channels at once
    for first in range(0, codes.shape[-1], step):
        part = np.s_[..., first : first + step]
        x = dequantize(codes[part], scale, zero_point, axis=axis(scale, zero_point))
        y = evaluate(f, x)
        if to == np.float64:
            table[part] = y
            continue
        with np.errstate(over="ignore"):
            y = y.astype(np.float32)
        if out_scale is not None:
            out_axis = axis(out_scale, out_zero_point)
            y = quantize(y, out_scale, out_zero_point, dtype=to, axis=out_axis)
        table[part] = y
    return table
