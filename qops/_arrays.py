"""What functions composed in Python do with arrays: take them in pieces, mostly."""

import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.exceptions import AxisError
from numpy.typing import ArrayLike, DTypeLike, NDArray

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
    shape: tuple[int, ...],
    axis: int | None,
    block_size: int | None = None,
    *,
    limits: tuple[int, int, str] | None,
    double: bool,
) -> Pairs:
    """Check scales and zero points of an array of some shape, as `quantize` does.

    Limits are those of zero points, and what they are the range of; None for zero
    points that are real numbers. Scales must be valid as float32 unless double.
    """
    i = None if axis is None else _index(op, "axis", axis)
    if i is not None and not -len(shape) <= i < len(shape):
        raise AxisError(
            f"{op}: axis is {i}, not within {-len(shape)}..{len(shape) - 1}, "
            f"the axes of {len(shape)} dimensions"
            if shape
            else f"{op}: axis is {i}, but there are no dimensions"
        )
    block = None if block_size is None else _index(op, "block_size", block_size)
    if block is not None and block < 1:
        raise ValueError(f"{op}: block_size is {block}, not 1 or more")
    if block is not None and i is None:
        raise ValueError(
            f"{op}: block_size is {block} and axis is None; "
            f"give the axis that the blocks lie along"
        )
    s, z = _real(op, "scale", scale), _real(op, "zero_point", zero_point)
    if s.ndim and z.ndim and s.shape != z.shape:
        raise ValueError(
            f"{op}: zero_point has shape {z.shape}, not {s.shape}, that of scale"
        )
    if s.ndim or z.ndim:
        i = _check_shape(
            op,
            "scale" if s.ndim else "zero_point",
            s.shape or z.shape,
            shape,
            None if i is None else i % len(shape),
            block,
        )
    else:
        i = block = None
    with np.errstate(over="ignore", under="ignore"):
        used: Any = s.astype(np.float64 if double else np.float32)
    good = (used > 0) & (used < np.inf)
    _refuse(op, "scale", s, good, "finite and greater than 0", used)
    if limits is None:
        with np.errstate(over="ignore"):
            good = np.isfinite(z.astype(used.dtype))
        _refuse(op, "zero_point", z, good, "finite")
        z = z.astype(np.float64)
    else:
        least, most, what = limits
        with np.errstate(invalid="ignore"):
            _refuse(op, "zero_point", z, z == np.rint(z), "an integer")
        good = (z >= least) & (z <= most)
        expected = f"within {least}..{most}, the range of {what}"
        _refuse(op, "zero_point", z, good, expected)
        z = z.astype(np.int64)
    s = s.astype(np.float64)
    return Pairs(s if s.ndim else float(s), z if z.ndim else z.item(), i, block)


def _index(op: str, name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{op}: {name} is {value!r}, not an integer") from None


def _real(op: str, name: str, value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise TypeError(f"{op}: {name} is {array.dtype}, not real numbers")
    return array


def _check_shape(
    op: str,
    name: str,
    given: tuple[int, ...],
    shape: tuple[int, ...],
    axis: int | None,
    block: int | None,
) -> int:
    """Check the shape of parameters, and return the axis they belong to."""
    if block is not None and axis is not None:
        expected = tuple(
            -(-n // block) if i == axis else n for i, n in enumerate(shape)
        )
        if given != expected:
            raise ValueError(
                f"{op}: {name} has shape {given}, not {expected}, that of x with shape "
                f"{shape} in blocks of {block} along axis {axis}"
            )
        return axis
    if len(given) != 1:
        raise ValueError(
            f"{op}: {name} has shape {given}, not one dimension (per channel)"
        )
    if axis is None and given != shape:
        raise ValueError(
            f"{op}: {name} has shape {given} and x has shape {shape}; "
            f"give the axis that it belongs to"
        )
    if axis is not None and given[0] != shape[axis]:
        raise ValueError(
            f"{op}: {name} has shape {given}, not ({shape[axis]},), the length of "
            f"axis {axis} of x with shape {shape}"
        )
    return axis or 0


def _refuse(
    op: str,
    name: str,
    value: NDArray[Any],
    good: Any,
    expected: str,
    used: NDArray[Any] | None = None,
) -> None:
    """Refuse the first value that is not good; used are the values once rounded."""
    if not np.all(good):
        i = tuple(int(k) for k in np.argwhere(~np.asarray(good))[0])
        where = f"{name}{list(i)}" if i else name
        rounded = ""
        if used is not None and 0 < value[i] < np.inf:
            rounded = f", in {used.dtype} {used[i]}"
        raise ValueError(f"{op}: {where} is {value[i]}{rounded}, not {expected}")


def axis_of(op: str, axis: Any, ndim: int, name: str = "q") -> int:
    """Return an axis of so many dimensions, counted from the first."""
    try:
        i = operator.index(axis)
    except TypeError:
        raise TypeError(f"{op}: axis is {axis!r}, not an integer") from None
    if not -ndim <= i < ndim:
        raise AxisError(
            f"{op}: axis is {i}, not within the {ndim} dimensions of {name}"
        )
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
