"""What functions composed in Python do with arrays: take them in pieces, mostly."""

import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.exceptions import AxisError
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._core import check_pairs

# Elements of a piece: temporaries of that many fit the caches, and calls cost little.
PIECE = 1 << 16

Index = tuple[Any, ...]  # slices; of no dimensions, ... for a view and not a scalar


def pieces(
    shape: tuple[int, ...],
    most: int = PIECE,
    axis: int | None = None,
    block: int | None = None,
) -> Iterator[Index]:
    """Yield indices of parts that cover a shape, each of at most so many elements.

    Parts follow each other in C order, and each has all of the axes. With a block, a
    part covers whole blocks along the axis, or lies within one of them.

    Examples
    --------
    >>> from qops._arrays import pieces
    >>> [x for x, in pieces((5,), 2)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    if 0 in shape:
        return
    inner = 1  # elements of the axes after the one that is cut
    cut = len(shape)
    while cut > 0 and inner * shape[cut - 1] <= most:
        cut -= 1
        inner *= shape[cut]
    whole = tuple(slice(0, n) for n in shape[cut:])
    if cut == 0:
        yield whole or (...,)
        return
    step = most // inner or 1
    n = run = shape[cut - 1]
    if block is not None and axis == cut - 1:
        run = block if step < block else step - step % block
    for outer in np.ndindex(*shape[: cut - 1]):
        fixed = tuple(slice(i, i + 1) for i in outer)
        for first in range(0, n, run):
            end = min(first + run, n)
            for i in range(first, end, step):
                yield (*fixed, slice(i, min(i + step, end)), *whole)


def broadcast_shape(op: str, arrays: dict[str, NDArray[Any]]) -> tuple[int, ...]:
    """Return the shape that named arrays broadcast to; op is for errors."""
    try:
        return np.broadcast_shapes(*(x.shape for x in arrays.values()))
    except ValueError:
        shapes = " and ".join(f"{name} {x.shape}" for name, x in arrays.items())
        raise ValueError(f"{op}: the shapes {shapes} do not broadcast") from None


def part(parameter: Any, axis: int | None, index: Index) -> Any:
    """Return those of the parameters along an axis that a piece needs."""
    return (
        parameter if axis is None or np.ndim(parameter) == 0 else parameter[index[axis]]
    )


def apart(x: NDArray[Any], out: NDArray[Any], in_turn: bool = False) -> NDArray[Any]:
    """Return x, or a copy if writing to out could change what is read later.

    In turn means that each piece is read before it is written, so out may be x.
    """
    if in_turn and (
        x.ctypes.data == out.ctypes.data
        and x.strides == out.strides
        and x.shape == out.shape
        and x.itemsize == out.itemsize
    ):
        return x
    return x.copy(order="K") if np.may_share_memory(x, out) else x


def memory_order(x: NDArray[Any]) -> list[int]:
    """Return the axes of an array, those of the largest strides first."""
    return sorted(range(x.ndim), key=lambda i: -abs(x.strides[i]))


def float_dtype(
    op: str, dtype: DTypeLike | None, name: str, out: NDArray[Any] | None
) -> np.dtype[Any]:
    """Return the dtype of real numbers that are asked for, by default float32."""
    given, words = dtype, f"{name} is"
    if dtype is None:
        given, words = np.float32, ""
        if isinstance(out, np.ndarray):
            given, words = out.dtype.newbyteorder("="), "out has dtype"
    try:
        to = np.dtype(given)
    except TypeError as error:
        raise TypeError(f"{op}: {name} is {dtype!r}, not a dtype") from error
    if to not in (np.float32, np.float64):
        raise TypeError(f"{op}: {words} {to}, not one of float32, float64")
    return to


def result_of(
    op: str, out: NDArray[Any] | None, dtype: DTypeLike, shape: tuple[int, ...]
) -> NDArray[Any]:
    """Return out, checked to have a dtype and a shape, or a new array."""
    if out is None:
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{op}: out is {type(out).__name__}, not an array")
    if out.dtype.newbyteorder("=") != np.dtype(dtype):
        raise TypeError(f"{op}: out has dtype {out.dtype}, not {np.dtype(dtype)}")
    if out.shape != shape:
        raise ValueError(f"{op}: out has shape {out.shape}, not {shape}")
    if not out.flags.writeable:
        raise ValueError(f"{op}: out is read-only, not writeable")
    return out


class Pairs(NamedTuple):
    """Scales and zero points, checked: float64, and int64 or float64 too.

    Each is a number, or an array with one for each channel, or with a block of the rank
    of the codes.
    """

    scale: Any
    zero_point: Any
    axis: int | None
    block: int | None

    def at(self, index: Index) -> dict[str, Any]:
        """Return what `quantize` needs for a piece."""
        return {
            "scale": self._part(self.scale, index),
            "zero_point": self._part(self.zero_point, index),
            "axis": self.axis,
            "block_size": self.block,
        }

    def beside(self, index: Index, ndim: int) -> tuple[Any, Any]:
        """Return scale and zero point that broadcast with a piece; of channels only."""
        shape = [1] * ndim
        if self.axis is not None:
            shape[self.axis] = -1
        s, z = (
            np.reshape(self._part(p, index), shape) if np.ndim(p) else p
            for p in self[:2]
        )
        return s, z

    def _part(self, parameter: Any, index: Index) -> Any:
        if self.axis is None:
            return parameter
        if self.block is None or np.ndim(parameter) == 0:
            return part(parameter, self.axis, index)
        along = index[self.axis]
        blocks = slice(along.start // self.block, -(-along.stop // self.block))
        return parameter[(*index[: self.axis], blocks, *index[self.axis + 1 :])]


def rounded(parameter: Any, double: bool, work: Any) -> NDArray[Any]:
    """Return a parameter in the dtype to work in; as float32 first, unless double."""
    p = np.asarray(parameter)
    return (p if double else p.astype(np.float32)).astype(work)


def check_parameters(
    op: str,
    scale: ArrayLike,
    zero_point: ArrayLike,
    dtype: DTypeLike | None,
    shape: tuple[int, ...],
    axis: int | None,
    block_size: int | None = None,
    *,
    limits: tuple[int, int, str] | None = None,
    double: bool,
) -> Pairs:
    """Check scales and zero points of an array of some shape, as `quantize` does.

    Zero points are of codes of the dtype, or real numbers if there is none. The rest is
    as in `check_pairs`.
    """
    s, z = np.asarray(scale), real_numbers(op, "zero_point", zero_point)
    whole = np.zeros(z.shape, np.int64) if dtype is None else zero_point
    of = np.uint8 if dtype is None else dtype
    options: Any = {"rounded": not double, "limits": limits}
    check_pairs(op, "", scale, whole, of, shape, axis, block_size, **options)
    if dtype is None:
        with np.errstate(over="ignore"):
            good = np.isfinite(z if double else z.astype(np.float32))
        if not good.all():
            at = [int(k) for k in np.argwhere(~good)[0]]
            where = f"zero_point{at or ''}"
            raise ValueError(f"{op}: {where} is {z[tuple(at)]}, not finite")
    s, z = s.astype(np.float64), z.astype(np.float64 if dtype is None else np.int64)
    if not (s.ndim or z.ndim):
        return Pairs(float(s), z.item(), None, None)
    i = 0 if axis is None else axis_of(op, axis, len(shape))
    return Pairs(s if s.ndim else float(s), z if z.ndim else z.item(), i, block_size)


def pair_or(default: tuple[Any, Any], given: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the scale and the zero point given, or a default in place of None."""
    return (
        default[0] if given[0] is None else given[0],
        default[1] if given[1] is None else given[1],
    )


def several(parameter: Any) -> bool:
    """Say whether it is neither a number nor left out; it need not be valid.

    Examples
    --------
    >>> from qops._arrays import several
    >>> several(0.5), several([0.5, 1.0])
    (False, True)
    """
    if parameter is None or isinstance(parameter, (int, float)):
        return False
    return bool(getattr(parameter, "ndim", 1))


def integer(op: str, name: str, value: Any) -> int:
    """Return an integer; name is what it is."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{op}: {name} is {value!r}, not an integer") from None


def real_numbers(op: str, name: str, value: Any) -> NDArray[Any]:
    """Return an array of numbers of any real dtype; name is what they are."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise TypeError(f"{op}: {name} is {array.dtype}, not real numbers")
    return array


def axis_of(op: str, axis: Any, ndim: int, name: str | None = "q") -> int:
    """Return an axis of so many dimensions, those of name, counted from the first."""
    i = integer(op, "axis", axis)
    if not -ndim <= i < ndim:
        where = f"the {ndim} dimensions of {name}" if name else f"{ndim} dimensions"
        raise AxisError(f"{op}: axis is {i}, not within {where}")
    return i % ndim


def axes_of(op: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes that None (for all), an integer or a tuple of them stands for."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(axis_of(op, i, ndim) for i in given)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{op}: axis is {axis}, which has an axis twice")
    return axes
