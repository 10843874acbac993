"""What training with quantization needs, and casts to integers that saturate."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._arrays import (
    PIECE,
    Pairs,
    apart,
    check_parameters,
    memory_order,
    pieces,
    result_of,
    rounded,
)
from ._core import code_range, real_array
from ._core import fake_quantize as _fake_quantize


def fake_quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike = 0,
    *,
    dtype: DTypeLike,
    axis: int | None = None,
    block_size: int | None = None,
    return_mask: bool = False,
    out: NDArray[Any] | None = None,
) -> Any:
    """Round real numbers to those that codes stand for.

    ``dequantize(quantize(x))``, bit for bit. The mask is true where nothing saturates:
    ``qmin - zero_point <= rint(x / scale) <= qmax - zero_point``.

    Parameters
    ----------
    x, scale, zero_point, axis, block_size
        As in `quantize`.
    dtype : dtype
        Of the codes: uint8, int8, uint16, int16 or int32.
    return_mask : bool, optional
        Return the mask too.
    out : ndarray, optional
        Where to write the numbers, of the shape of `x`; it may overlap `x`.

    Returns
    -------
    y : ndarray
        float32, or float64 where `x` is; in the memory order of `x`; a scalar for 0-d
        `x`; or `out`.
    mask : ndarray of bool
        With `return_mask` only.

    Raises
    ------
    TypeError, ValueError
        As in `quantize`.

    Notes
    -----
    NaN becomes 0, as in `quantize`; the mask is false there.

    Examples
    --------
    >>> import numpy as np, qops
    >>> x = np.array([-0.3, 0.24, 0.25, 30.0], np.float32)
    >>> y, mask = qops.fake_quantize(x, 0.1, dtype=np.uint8, return_mask=True)
    >>> y
    array([ 0. ,  0.2,  0.2, 25.5], dtype=float32)
    >>> mask
    array([False,  True,  True, False])
    """
    array = real_array("fake_quantize", x)
    given = array, scale, zero_point, dtype, axis, block_size
    if not return_mask:
        return _fake_quantize(*given, out, False)
    mask = _fake_quantize(*given, None, True)  # before y is written, which may be x
    return _fake_quantize(*given, out, False), mask.view(np.bool_)


def _given(
    op: str,
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    dtype: DTypeLike,
    axis: int | None,
) -> tuple[NDArray[Any], np.dtype[Any], tuple[int, int], Pairs]:
    """Return x, the dtype of codes, the lowest and highest, and their parameters."""
    array = real_array(op, x)
    limits = code_range(op, dtype)
    codes = np.dtype(dtype).newbyteorder("=")
    double = array.dtype.itemsize == 8
    given = check_parameters(
        op, scale, zero_point, codes, array.shape, axis, double=double
    )
    return array, codes, limits, given


def fake_quantize_gradients(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    gradient: ArrayLike,
    *,
    dtype: DTypeLike,
    axis: int | None = None,
    grad_factor: float = 1.0,
) -> tuple[Any, Any, Any]:
    """Return the gradients of `fake_quantize`, with learned scale and zero point.

    With ``t = rint(x / scale)`` and the mask of `fake_quantize`::

        dx = gradient where mask, else 0
        dscale = grad_factor * sum(gradient * d)
        dzero_point = grad_factor * -scale * sum(gradient where saturated)

    and ``d = t - x / scale`` where the mask is true, ``qmin - zero_point`` where `x`
    saturates below and ``qmax - zero_point`` where it does above.

    Parameters
    ----------
    x, scale, zero_point, dtype, axis
        As in `fake_quantize`; arrays hold one for each channel.
    gradient : array_like
        Of the result, of the shape of `x`: real numbers of any of the dtypes that `x`
        may have. They are rounded to the dtype of `dx`.
    grad_factor : float, optional
        What to multiply the gradients of scale and zero point by.

    Returns
    -------
    dx : ndarray
        Of the shape of `x`: float32, or float64 where `x` is.
    dscale, dzero_point : numpy scalar or ndarray
        Of that dtype too; arrays hold one for each channel.

    Raises
    ------
    TypeError, ValueError
        As in `quantize`; for a gradient of another shape.

    Notes
    -----
    Sums are float64, and their order depends on the shape alone: they are the same for
    each layout and CPU. Where `x` is NaN, all gradients are 0.

    This is learned step size quantization, with the zero point added after rounding;
    PyTorch's learnable fake quantization adds it before.

    Examples
    --------
    >>> import numpy as np, qops
    >>> x = np.array([-0.5, 0.625, 200.0], np.float32)
    >>> g = np.ones(3, np.float32)
    >>> qops.fake_quantize_gradients(x, 0.5, 0, g, dtype=np.uint8)
    (array([0., 1., 0.], dtype=float32), np.float32(254.75), np.float32(-1.0))
    """
    op = "fake_quantize_gradients"
    array, codes, (low, high), given = _given(op, x, scale, zero_point, dtype, axis)
    double = array.dtype.itemsize == 8
    g = _gradient(op, gradient, array.shape)
    factor = _factor(op, grad_factor)
    real = np.float64 if double else np.float32
    work = np.float64 if double or codes.itemsize == 4 else np.float32
    dx = np.empty(array.shape, real)
    shape = () if given.axis is None else (array.shape[given.axis],)
    sums = np.zeros((2, *shape))
    for index in pieces(array.shape, PIECE // 4):
        s, z = given.beside(index, array.ndim)
        s = rounded(s, double, work)
        least, most = (np.asarray(end, work) for end in (low - z, high - z))
        with np.errstate(all="ignore"):
            v: Any = array[index].astype(work)
            v /= s
            terms = g[index].astype(real)
            none = np.isnan(v)
            if none.any():
                v[none] = terms[none] = 0
            # Infinities would not vanish where they are multiplied by 0 below.
            np.clip(v, least - 1, most + 1, out=v)
            t = np.rint(v, out=np.empty_like(v))
            d = np.clip(t, least, most, out=np.empty_like(t))
            mask = np.equal(d, t, out=np.empty(t.shape, np.bool_))
            v *= mask
            d -= v
            at = ... if given.axis is None else index[given.axis]
            sums[0, at] += _sum(np.multiply(terms, d, dtype=np.float64), given.axis)
            dx[index] = _where(mask, terms)
            outside = _where(np.logical_not(mask, out=mask), terms)
            sums[1, at] += _sum(outside.astype(np.float64), given.axis)
    with np.errstate(all="ignore"):
        s = rounded(given.scale, double, np.float64)
        dscale = sums[0] * factor
        dzero = 0.0 - sums[1] * s * factor  # and not minus zero
    return dx[()], dscale.astype(real)[()], dzero.astype(real)[()]


def _gradient(op: str, gradient: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    g = np.asarray(gradient)
    if g.dtype.newbyteorder("=") not in (np.float16, np.float32, np.float64) and (
        g.dtype.name != "bfloat16"
    ):
        raise TypeError(
            f"{op}: gradient is {g.dtype}, not one of float32, float16, float64, "
            f"bfloat16"
        )
    if g.shape != shape:
        raise ValueError(f"{op}: gradient has shape {g.shape}, not {shape}, that of x")
    return g


def _factor(op: str, value: Any) -> float:
    factor = np.asarray(value)
    if factor.dtype.kind not in "iuf" or factor.ndim:
        raise TypeError(f"{op}: grad_factor is {value!r}, not a number")
    if not np.isfinite(factor):
        raise ValueError(f"{op}: grad_factor is {value!r}, not finite")
    return float(factor)


def _where(mask: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
    """Return x where the mask is true, else 0: also of infinities and NaN."""
    bits = x.view(f"i{x.itemsize}") * mask  # faster than np.where
    return np.asarray(bits).view(x.dtype)


def _sum(terms: NDArray[Any], axis: int | None) -> Any:
    """Sum over all axes but one, by adding halves: always in the same order."""
    n = 1 if axis is None else terms.shape[axis]
    rows = terms if axis is None else np.moveaxis(terms, axis, 0)
    rows = np.ascontiguousarray(rows).reshape(n, -1)
    while rows.shape[1] > 1:
        half = rows.shape[1] // 2
        rows[:, :half] += rows[:, -half:]
        rows = rows[:, : rows.shape[1] - half]
    return rows[0, 0] if axis is None else rows[:, 0]


def saturate_cast(
    x: ArrayLike, dtype: DTypeLike, *, out: NDArray[Any] | None = None
) -> Any:
    """Round real numbers to integers that saturate.

    ``clip(rint(x), min, max)`` of the dtype's limits, computed without rounding them;
    ties go to even, and NaN becomes 0.

    Parameters
    ----------
    x : array_like
        Real numbers: float32, float16, float64 or ml_dtypes' bfloat16, any layout.
    dtype : dtype
        Of the result: any integer type of NumPy.
    out : ndarray, optional
        Where to write the integers, of the shape of `x`; it may overlap `x`.

    Returns
    -------
    ndarray
        Integers, in the memory order of `x`; a scalar for 0-d `x`; or `out`.

    Raises
    ------
    TypeError
        For a dtype that is none of these.
    ValueError
        For an `out` that does not fit.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.saturate_cast(np.array([-1.0, 2.5, 300.0, np.nan]), np.uint8)
    array([  0,   2, 255,   0], dtype=uint8)
    """
    op = "saturate_cast"
    array = real_array(op, x)
    try:
        integer = None if dtype is None else np.dtype(dtype).newbyteorder("=")
    except TypeError as error:
        raise TypeError(f"{op}: dtype is {dtype!r}, not a dtype") from error
    if integer is None or integer.kind not in "iu":
        raise TypeError(f"{op}: dtype is {integer}, not an integer type")
    if out is None:
        y = np.empty_like(array, integer, subok=False)
    else:
        y = result_of(op, out, integer, array.shape)
    array = apart(array, y, in_turn=True)
    order = memory_order(array)
    a, b = array.transpose(order), y.transpose(order)
    work = np.float64 if array.dtype.itemsize == 8 else np.float32
    low, high = int(np.iinfo(integer).min), int(np.iinfo(integer).max)
    # The lowest is a float, the highest may lie between two: then take the one below.
    last = work(high)
    if int(last) > high:
        last = np.nextafter(last, work(0))
    for index in pieces(a.shape):
        with np.errstate(invalid="ignore"):  # of signalling NaN
            t: Any = a[index].astype(work)
            np.rint(t, out=t)
        np.copyto(t, 0, where=np.isnan(t))
        above = t > last
        np.clip(t, work(low), last, out=t)
        np.copyto(b[index], t, casting="unsafe")
        np.copyto(b[index], integer.type(high), where=above)
    return y[()] if out is None else out
