"""Choose scales and zero points for real numbers."""

import operator
from typing import Any

import numpy as np
from numpy.exceptions import AxisError
from numpy.typing import ArrayLike, DTypeLike

from ._core import code_range, real_array


def choose_qparams(
    x: ArrayLike, dtype: DTypeLike, *, axis: int | None = None, symmetric: bool = False
) -> tuple[Any, Any]:
    """Choose scale and zero point from the minimum and the maximum.

    With ``lo = min(x.min(), 0)`` and ``hi = max(x.max(), 0)``, so that zero is
    representable: ``scale = (hi - lo) / (qmax - qmin)`` and ``zero_point =
    clip(rint(qmin - lo / scale), qmin, qmax)``.

    Parameters
    ----------
    x : array_like
        Real numbers: float32, float16, float64 or ml_dtypes' bfloat16.
    dtype : dtype
        Of the codes: uint8, int8, uint16, int16 or int32.
    axis : int, optional
        The axis of the channels; by default there is one pair for all of `x`.
    symmetric : bool, optional
        Use as many codes above zero as below it: ``scale = max(-lo, hi) / m`` with
        m = 127, 32767 or 2147483647, and the zero point in the middle, 0 or 128.

    Returns
    -------
    scale : numpy scalar or ndarray
        Float32, or float64 where `x` is; in units of `x`. All zeros give 1.
    zero_point : int or ndarray
        The code of zero; an array of `dtype` with `axis`.

    Raises
    ------
    TypeError
        For a dtype that is none of these.
    ValueError
        If `x` is empty or not finite: the message says where the first such value is.

    Notes
    -----
    Computed in float64. A scale is rounded to float32 once, and before the zero point
    is derived from it; it never rounds to zero.

    Examples
    --------
    >>> import numpy as np, qops
    >>> x = np.array([[-1.0, 0.0, 1.55], [0.0, 0.5, 25.5]], np.float32)
    >>> scale, zero_point = qops.choose_qparams(x, np.uint8, axis=0)
    >>> scale, zero_point
    (array([0.01, 0.1 ], dtype=float32), array([100,   0], dtype=uint8))
    >>> qops.choose_qparams(x, np.int8, symmetric=True)
    (np.float32(0.2007874), 0)
    """
    x = real_array("choose_qparams", x)
    lowest, highest = code_range("choose_qparams", dtype)
    others = _axes_but(axis, x.ndim)
    if x.size == 0:
        raise ValueError(
            f"choose_qparams: x has shape {x.shape}, which has no values; "
            f"give at least one"
        )
    with np.errstate(invalid="ignore"):  # a signalling NaN is reported below
        least, most = x.min(axis=others), x.max(axis=others)
    if not (np.isfinite(least) & np.isfinite(most)).all():
        i = [int(k) for k in np.argwhere(~np.isfinite(x))[0]]
        raise ValueError(
            f"choose_qparams: x{i or ''} is {x[tuple(i)]}, not finite; "
            f"replace or mask it first"
        )
    lo = np.minimum(least.astype(np.float64), 0)
    hi = np.maximum(most.astype(np.float64), 0)
    precision = np.dtype(np.float64 if x.dtype.itemsize == 8 else np.float32).type
    if symmetric:
        step = np.maximum(-lo, hi) / ((highest - lowest) // 2)
        zero = np.full(step.shape, (highest + lowest + 1) // 2)
    else:
        step = hi / (highest - lowest) - lo / (highest - lowest)
    scale = np.maximum(step, np.finfo(precision).smallest_subnormal).astype(precision)
    scale = np.where((lo == 0) & (hi == 0), precision(1), scale)
    if not symmetric:
        zero = np.clip(np.rint(lowest - lo / scale.astype(float)), lowest, highest)
    if axis is None:
        return scale[()], int(zero)
    return scale, zero.astype(dtype)


def _axes_but(axis: int | None, ndim: int) -> tuple[int, ...] | None:
    """Return all axes but one, checked; None for all of them."""
    if axis is None:
        return None
    try:
        i = operator.index(axis)
    except TypeError:
        raise TypeError(f"choose_qparams: axis is {axis!r}, not an integer") from None
    if not -ndim <= i < ndim:
        raise AxisError(
            f"choose_qparams: axis is {i}, not within the {ndim} dimensions of x"
        )
    return tuple(k for k in range(ndim) if k != i % ndim)
