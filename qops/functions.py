"""Functions of one code: each is a float64 function here, and a table at work."""

import inspect
import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._arrays import apart, pair_or, part, pieces
from ._core import (
    check_pairs,
    code_array,
    code_range,
    dequantize,
    quantize,
    result_array,
    take,
)
from .tables import evaluate, lookup_table

# Of a table of 65 536 entries, which is as much work as so many codes.
_WIDE_TABLE = 1 << 16

_DOC = """{summary}.

``quantize(float32(f(x)), out_scale, out_zero_point)`` with ``x = dequantize(q)`` and
``f(x) = {formula}`` in float64.

Parameters
----------
q : array_like
    Codes: uint8, int8, uint16, int16 or int32, any layout.
scale, zero_point : scalar or 1-D array_like
    Of `q`; arrays hold one for each channel.
out_scale, out_zero_point : scalar or 1-D array_like, optional
    Of the result; by default {defaults}.
{parameters}dtype : dtype, optional
    Of the result; by default that of `out`, or else of `q`.
axis : int, optional
    The axis of the channels.
out : ndarray, optional
    Where to write the codes, of the shape of `q`; it may overlap `q`.

Returns
-------
ndarray
    Codes, of the shape of `q`; a scalar for 0-d `q`; or `out`.

Raises
------
TypeError, ValueError
    As in `quantize`{raises}.

Notes
-----
What is NaN becomes the zero point; infinities saturate. 8-bit codes are looked up in a
table of all 256, which is kept for the next call with the same parameters.

Examples
--------
>>> import numpy as np, qops
>>> q = np.array([0, 64, 128, 192, 255], np.uint8)
>>> qops.{name}(q, 0.05, 128{arguments})
{result}
"""


Pair = tuple[Any, Any]


class CodeFunction(Protocol):
    """A function of one code; `parameters` are those of the float64 function."""

    def __call__(
        self,
        q: ArrayLike,
        scale: ArrayLike,
        zero_point: ArrayLike = 0,
        out_scale: ArrayLike | None = None,
        out_zero_point: ArrayLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        axis: int | None = None,
        out: NDArray[Any] | None = None,
        **parameters: Any,
    ) -> Any:
        """Apply it."""


# Public name -> float64 function
FUNCTIONS: dict[str, Callable[..., Any]] = {}
_STEPS: dict[str, int] = {}


def _code_function(
    formula: str,
    result: list[int],
    *,
    arguments: str = "",
    parameters: str = "",
    raises: str = "",
    steps: int = 0,
) -> Callable[[Callable[..., Any]], CodeFunction]:
    """Make a public function of a float64 function, whose docstring is the summary.

    With `steps`, results lie within an interval of so many: the default scale is
    ``steps / 2**bits``, the zero point the lowest code, or for two the middle one.
    """

    def decorate(f: Callable[..., Any]) -> CodeFunction:
        name = f.__name__
        FUNCTIONS[name] = f
        _STEPS[name] = steps
        own = list(inspect.signature(f).parameters.values())[1:]

        def public(
            q: ArrayLike,
            scale: ArrayLike,
            zero_point: ArrayLike = 0,
            out_scale: ArrayLike | None = None,
            out_zero_point: ArrayLike | None = None,
            *,
            dtype: DTypeLike | None = None,
            axis: int | None = None,
            out: NDArray[Any] | None = None,
            **given: Any,
        ) -> Any:
            given_pair: tuple[Any, Any, Any, Any] = (
                scale,
                zero_point,
                out_scale,
                out_zero_point,
            )
            if (
                axis is None
                and type(q) is np.ndarray
                and q.dtype.itemsize == 1
                and (out is None or (type(out) is np.ndarray and out.shape == q.shape))
            ):
                to = None if out is None else out.dtype
                items, hashed = tuple(given.items()), cast(Any, dtype)
                try:
                    table = _quick(name, q.dtype, *given_pair, hashed, to, items)
                    return take(q, table, out=out)
                except (TypeError, ValueError):
                    pass  # arrays of parameters; or what is told below
            array = code_array(name, "q", q)
            if out is not None:
                result_array(name, out, dtype, None, array.shape)
            target = _dtype(
                name, array.dtype, dtype, None if out is None else out.dtype
            )
            pairs = _pairs_of(name, *given_pair, target)
            return _apply(name, array, *pairs, _bound(name, given), target, axis, out)

        signature = inspect.signature(public)
        common = list(signature.parameters.values())[:-1]
        public.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*common[:5], *own, *common[5:]]
        )
        public.__name__ = public.__qualname__ = name
        public.__doc__ = _DOC.format(
            name=name,
            summary=(f.__doc__ or "").removesuffix("."),
            formula=formula,
            arguments=arguments,
            parameters=parameters,
            raises=raises,
            result=repr(np.array(result, np.uint8)),
            defaults=f"{steps}/256 (of 16 bits {steps}/65536) and the "
            + ("lowest" if steps == 1 else "middle")
            + " code"
            if steps
            else "those of `q`",
        )
        return public

    return decorate


def _dtype(
    op: str, of_q: np.dtype[Any], dtype: DTypeLike | None, of_out: np.dtype[Any] | None
) -> np.dtype[Any]:
    if dtype is not None:
        code_range(op, dtype)
    given = of_q if of_out is None and dtype is None else of_out or np.dtype(dtype)
    return given.newbyteorder("=")


def _pairs_of(
    op: str,
    scale: Any,
    zero_point: Any,
    out_scale: Any,
    out_zero_point: Any,
    dtype: np.dtype[Any],
) -> tuple[Pair, Pair]:
    """Return the pairs of q and of the result, by default what the function says."""
    steps = _STEPS[op]
    default = pair_of_steps(op, steps, dtype) if steps else (scale, zero_point)
    return (scale, zero_point), pair_or(default, (out_scale, out_zero_point))


def pair_of_steps(op: str, steps: int, dtype: np.dtype[Any]) -> tuple[float, int]:
    """Return the pair for results from 0 to 1, or for two steps from -1 to 1."""
    low, high = code_range(op, dtype)
    middle = (low + high + 1) // 2
    return steps / (high - low + 1), low if steps == 1 else middle


def _bound(op: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the float64 function's own parameters, checked."""
    own = list(inspect.signature(FUNCTIONS[op]).parameters.values())[1:]
    names = [p.name for p in own]
    for name in given:
        if name not in names:
            raise TypeError(
                f"{op}: {name} is not a parameter"
                + (f", {', '.join(names)} would be" if names else "")
            )
    bound = {}
    for p in own:
        value = given.get(p.name, p.default)
        if value is inspect.Parameter.empty:
            raise TypeError(f"{op}: {p.name} is not given")
        if value is not None and not isinstance(p.default, str | bool):
            value = _numbers(op, p.name, value)
        bound[p.name] = value
    return bound


def _numbers(op: str, name: str, value: Any) -> Any:
    """Return a parameter as a float, or as an array with one for each channel."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.ndim > 1:
        raise TypeError(
            f"{op}: {name} is {value!r}, not a number, nor one for each channel"
        )
    array = array.astype(np.float64)
    if np.isnan(array).any():
        raise ValueError(f"{op}: {name} is {value!r}, not without NaN")
    return array if array.ndim else float(array)


_SCALARS = (int, float, str, np.generic)  # what needs no look at its dimensions


def _hashable(pair: Pair) -> Pair:
    a, b = (p if isinstance(p, _SCALARS) else np.asarray(p)[()] for p in pair)
    return a, b


def _apply(
    op: str,
    array: NDArray[Any],
    pair: Pair,
    out_pair: Pair,
    parameters: dict[str, Any],
    dtype: np.dtype[Any],
    axis: int | None,
    out: NDArray[Any] | None,
) -> Any:
    """Apply a function by a table, or where that is more work, directly."""
    every = (*pair, *out_pair, *parameters.values())
    channels = not all(isinstance(p, _SCALARS) or np.ndim(p) == 0 for p in every)
    if channels and axis is None and array.ndim == 1:
        axis = 0
    bits = 8 * array.itemsize
    if (
        not channels
        and axis is None
        and (bits == 8 or (bits == 16 and array.size >= _WIDE_TABLE))
    ):
        table = _table(
            op,
            tuple(parameters.items()),
            array.dtype.newbyteorder("="),
            _hashable(pair),
            _hashable(out_pair),
            dtype,
        )
        return take(array, table, out=out)
    check_pairs(op, "", *pair, array.dtype.newbyteorder("="), array.shape, axis)
    check_pairs(op, "out_", *out_pair, dtype, array.shape, axis)
    if axis is not None:
        axis %= array.ndim
    for name, value in parameters.items():
        _check_channels(op, name, value, array.shape, axis)
    f = FUNCTIONS[op]
    if (
        channels
        and axis is not None
        and bits == 8
        and array.size > 256 * array.shape[axis]
    ):
        n = array.shape[axis]
        own = {k: v[:, None] if np.ndim(v) else v for k, v in parameters.items()}
        scales, zeros = (np.broadcast_to(p, (n,)) for p in pair)
        table = lookup_table(
            partial(f, **own), array.dtype, scales, zeros, dtype, *out_pair
        )
        return take(array, table, axis=axis, out=out)
    return _direct(partial(f), array, pair, out_pair, parameters, dtype, axis, out)


def _check_channels(
    op: str, name: str, value: Any, shape: tuple[int, ...], axis: int | None
) -> None:
    if np.ndim(value) and (axis is None or value.shape != (shape[axis],)):
        raise ValueError(
            f"{op}: {name} has shape {value.shape}, not "
            + (
                f"({shape[axis]},), the length of axis {axis} of q with shape {shape}"
                if axis is not None
                else "(); give the axis that it belongs to"
            )
        )


@lru_cache(maxsize=128, typed=True)
def _quick(
    op: str,
    dtype: np.dtype[Any],
    scale: Any,
    zero_point: Any,
    out_scale: Any,
    out_zero_point: Any,
    given_dtype: Any,
    out_dtype: np.dtype[Any] | None,
    given: tuple[tuple[str, Any], ...],
) -> NDArray[Any]:
    """Return the table for arguments as they come, if all of them are numbers."""
    to = _dtype(op, dtype, given_dtype, out_dtype)
    if out_dtype is not None and (given_dtype is not None or out_dtype != to):
        raise TypeError("not so quick")
    pairs = _pairs_of(op, scale, zero_point, out_scale, out_zero_point, to)
    parameters = _bound(op, dict(given))
    return _table(op, tuple(parameters.items()), dtype, *pairs, to)


@lru_cache(maxsize=128, typed=True)  # tables of up to 256 KiB
def _table(
    op: str,
    parameters: tuple[tuple[str, Any], ...],
    dtype: np.dtype[Any],
    pair: Pair,
    out_pair: Pair,
    out_dtype: np.dtype[Any],
) -> NDArray[Any]:
    check_pairs(op, "", *pair, dtype, (), None)
    check_pairs(op, "out_", *out_pair, out_dtype, (), None)
    f = partial(FUNCTIONS[op], **dict(parameters))
    table = lookup_table(f, dtype, *pair, out_dtype, *out_pair)
    table.flags.writeable = False
    return table  # type: ignore[no-any-return]


def _direct(
    f: Callable[..., Any],
    array: NDArray[Any],
    pair: Pair,
    out_pair: Pair,
    parameters: dict[str, Any],
    dtype: np.dtype[Any],
    axis: int | None,
    out: NDArray[Any] | None,
) -> Any:
    """Evaluate the function of each code, a piece at a time."""
    y = np.empty(array.shape, dtype) if out is None else out
    array = apart(array, y)
    for index in pieces(array.shape):
        own = {}
        for name, value in parameters.items():
            own[name] = part(value, axis, index)
            if np.ndim(value):
                shape = [1] * array.ndim
                shape[axis or 0] = -1
                own[name] = own[name].reshape(shape)
        s, z, out_s, out_z = (part(p, axis, index) for p in (*pair, *out_pair))
        x = dequantize(
            array[index], s, z, axis=axis if np.ndim(s) or np.ndim(z) else None
        )
        with np.errstate(over="ignore"):
            v = evaluate(partial(f, **own), np.asarray(x)).astype(np.float32)
        out_axis = axis if np.ndim(out_s) or np.ndim(out_z) else None
        quantize(v, out_s, out_z, axis=out_axis, out=y[index])
    return y[()] if out is None else out


# ------------------------------------------------------------------ the functions

_object_erf = np.frompyfunc(math.erf, 1, 1)
_object_erfc = np.frompyfunc(math.erfc, 1, 1)


def _erf(x: Any) -> Any:
    return _object_erf(x).astype(np.float64)


def _relu_if(relu: bool, y: Any) -> Any:
    return np.maximum(y, 0.0) if relu else y


@_code_function(
    "max(x, 0)",
    [128, 128, 128, 192, 255],
)
def qrelu(x: Any) -> Any:
    """Set negative numbers to zero."""
    return np.maximum(x, 0.0)


@_code_function("min(max(x, 0), 6)", [128, 128, 128, 192, 248])
def qrelu6(x: Any) -> Any:
    """Clip to 0..6."""
    return np.clip(x, 0.0, 6.0)


@_code_function(
    "x if x > 0 else negative_slope * x",
    [127, 127, 128, 192, 255],
    parameters="negative_slope : float, optional\n    Of negative numbers.\n",
)
def qleaky_relu(x: Any, *, negative_slope: float = 0.01) -> Any:
    """Multiply negative numbers by a slope."""
    return np.where(x > 0, x, negative_slope * x)


@_code_function(
    "x if x > 0 else weight * x",
    [96, 112, 128, 192, 255],
    arguments=", weight=0.25",
    parameters="weight : float or 1-D array_like\n"
    "    Of negative numbers; an array has one for each channel. `dequantize` those\n"
    "    that are quantized.\n",
)
def qprelu(x: Any, *, weight: Any) -> Any:
    """Multiply negative numbers by a weight."""
    return np.where(x > 0, x, weight * x)


_ALPHA = "alpha : float, optional\n    Minus the limit at minus infinity.\n"


@_code_function(
    "x if x > 0 else alpha * expm1(x)",
    [108, 109, 128, 192, 255],
    parameters=_ALPHA,
)
def qelu(x: Any, *, alpha: float = 1.0) -> Any:
    """Apply the exponential linear unit."""
    return np.where(x > 0, x, alpha * np.expm1(x))


@_code_function(
    "x if x > 0 else alpha * expm1(x / alpha)",
    [108, 109, 128, 192, 255],
    parameters=_ALPHA,
)
def qcelu(x: Any, *, alpha: float = 1.0) -> Any:
    """Apply the continuously differentiable exponential linear unit."""
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


@_code_function(
    "1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * expm1(x))",
    [93, 94, 128, 195, 255],
)
def qselu(x: Any) -> Any:
    """Apply the scaled exponential linear unit."""
    y = np.where(x > 0, x, 1.6732632423543772848 * np.expm1(x))
    return 1.0507009873554804934 * y


@_code_function(
    "x * erfc(-x / sqrt(2)) / 2",
    [128, 128, 128, 192, 255],
    parameters="approximate : {'none', 'tanh'}, optional\n"
    "    With 'tanh', ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``.\n",
    raises="; for another `approximate`",
)
def qgelu(x: Any, *, approximate: str = "none") -> Any:
    """Apply the Gaussian error linear unit."""
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1.0 + np.tanh(inner))
    if approximate != "none":
        raise ValueError(f"qgelu: approximate is {approximate!r}, not 'none' or 'tanh'")
    # erfc, for 1 + erf loses what is left of it where x is far below zero
    return 0.5 * x * _object_erfc(x * -math.sqrt(0.5)).astype(np.float64)


@_code_function(
    "1 / (1 + exp(-x))",
    [0, 10, 128, 246, 255],
    steps=1,
)
def qsigmoid(x: Any) -> Any:
    """Apply the logistic function."""
    return 1.0 / (1.0 + np.exp(-x))


@_code_function(
    "min(x, 0) - log1p(exp(-abs(x)))",
    [0, 63, 114, 127, 128],
)
def qlogsigmoid(x: Any) -> Any:
    """Apply the logarithm of the logistic function."""
    return np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x)))


@_code_function(
    "clip(x + 3, 0, 6) / 6",
    [0, 0, 128, 255, 255],
    steps=1,
)
def qhardsigmoid(x: Any) -> Any:
    """Apply the piecewise linear logistic function."""
    return np.clip(x + 3.0, 0.0, 6.0) / 6.0


@_code_function(
    "tanh(x)",
    [0, 0, 128, 255, 255],
    steps=2,
)
def qtanh(x: Any) -> Any:
    """Apply the hyperbolic tangent."""
    return np.tanh(x)


@_code_function(
    "clip(x, min_val, max_val)",
    [108, 108, 128, 148, 148],
    parameters="min_val, max_val : float, optional\n    The interval.\n",
    raises="; if `min_val` is above `max_val`",
)
def qhardtanh(x: Any, *, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """Clip to an interval, as `qclamp`."""
    return _clip("qhardtanh", "min_val", "max_val", x, min_val, max_val)


@_code_function(
    "x * clip(x + 3, 0, 6) / 6",
    [128, 128, 128, 192, 255],
)
def qhardswish(x: Any) -> Any:
    """Multiply by the piecewise linear logistic function."""
    return x * np.clip(x + 3.0, 0.0, 6.0) / 6.0


@_code_function(
    "x / (1 + exp(-x))",
    [128, 125, 128, 189, 255],
)
def qsilu(x: Any) -> Any:
    """Multiply by the logistic function."""
    return x / (1.0 + np.exp(-x))


@_code_function(
    "log(1 + exp(beta * x)) / beta",
    [128, 129, 142, 193, 255],
    parameters="beta : float, optional\n    Its sharpness.\n",
)
def qsoftplus(x: Any, *, beta: float = 1.0) -> Any:
    """Apply the smooth rectifier."""
    return np.logaddexp(0.0, beta * x) / beta


@_code_function(
    "x / (1 + abs(x))",
    [111, 113, 128, 143, 145],
)
def qsoftsign(x: Any) -> Any:
    """Apply the soft sign."""
    return x / (1.0 + np.abs(x))


@_code_function(
    "x * tanh(log(1 + exp(x)))",
    [128, 125, 128, 192, 255],
)
def qmish(x: Any) -> Any:
    """Multiply by the tangent of the smooth rectifier."""
    return x * np.tanh(np.logaddexp(0.0, x))


@_code_function("exp(x)", [128, 129, 148, 255, 255])
def qexp(x: Any) -> Any:
    """Take the exponential."""
    return np.exp(x)


@_code_function(
    "log(x)",
    [128, 128, 0, 151, 165],
)
def qlog(x: Any) -> Any:
    """Take the natural logarithm."""
    return np.log(x)


@_code_function("sqrt(x)", [128, 128, 128, 164, 178])
def qsqrt(x: Any) -> Any:
    """Take the square root."""
    return np.sqrt(x)


@_code_function(
    "1 / sqrt(x)",
    [128, 128, 255, 139, 136],
)
def qrsqrt(x: Any) -> Any:
    """Take the reciprocal of the square root."""
    return 1.0 / np.sqrt(x)


@_code_function("x * x", [255, 255, 128, 255, 255])
def qsquare(x: Any) -> Any:
    """Square."""
    return x * x


@_code_function("abs(x)", [255, 192, 128, 192, 255])
def qabs(x: Any) -> Any:
    """Take the absolute value."""
    return np.abs(x)


@_code_function("-x", [255, 192, 128, 64, 1])
def qneg(x: Any) -> Any:
    """Negate."""
    return -x


@_code_function("sin(x)", [126, 129, 128, 127, 129])
def qsin(x: Any) -> Any:
    """Take the sine."""
    return np.sin(x)


@_code_function("cos(x)", [148, 108, 148, 108, 148])
def qcos(x: Any) -> Any:
    """Take the cosine."""
    return np.cos(x)


@_code_function(
    "erf(x)",
    [108, 108, 128, 148, 148],
)
def qerf(x: Any) -> Any:
    """Apply the error function."""
    return _erf(x)


def _clip(op: str, low_name: str, high_name: str, x: Any, low: Any, high: Any) -> Any:
    if low is not None and high is not None and not np.all(np.less_equal(low, high)):
        raise ValueError(
            f"{op}: {low_name} is {low} and {high_name} is {high}, which is below it"
        )
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


@_code_function(
    "min(max(x, min), max)",
    [108, 108, 128, 168, 168],
    arguments=", min=-1.0, max=2.0",
    parameters="min, max : float, optional\n"
    "    Its ends, real numbers; None where there is none.\n",
    raises="; if `min` is above `max`",
)
def qclamp(x: Any, *, min: float | None = None, max: float | None = None) -> Any:
    """Clip to an interval."""
    return _clip("qclamp", "min", "max", x, min, max)


@_code_function(
    "x if x > threshold else value",
    [148, 148, 148, 192, 255],
    arguments=", threshold=0.0, value=1.0",
    parameters="threshold, value : float\n    Real numbers.\n",
)
def qthreshold(x: Any, *, threshold: float, value: float) -> Any:
    """Replace what is not above a threshold."""
    return np.where(x > threshold, x, value)


_SCALAR = (
    "value : float\n    The real number.\nrelu : bool, optional\n"
    "    Set negative results to zero.\n"
)


@_code_function(
    "x + value",
    [30, 94, 158, 222, 255],
    arguments=", value=1.5",
    parameters=_SCALAR,
)
def qadd_scalar(x: Any, *, value: float, relu: bool = False) -> Any:
    """Add a number."""
    return _relu_if(relu, x + value)


@_code_function(
    "x * value",
    [192, 160, 128, 96, 64],
    arguments=", value=-0.5",
    parameters=_SCALAR,
)
def qmul_scalar(x: Any, *, value: float, relu: bool = False) -> Any:
    """Multiply by a number."""
    return _relu_if(relu, x * value)


@_code_function(
    "x ** exponent",
    [255, 255, 128, 255, 255],
    arguments=", exponent=2.0",
    parameters="exponent : float\n    The power.\n",
)
def qpow_scalar(x: Any, *, exponent: float) -> Any:
    """Raise to a power."""
    return np.power(x, exponent)
