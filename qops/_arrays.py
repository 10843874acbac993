"""What functions composed in Python do with arrays: take them in pieces, mostly."""

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.exceptions import AxisError
from numpy.typing import NDArray

# Elements of a piece: temporaries of that many fit the caches, and calls cost little.
PIECE = 1 << 16

Index = tuple[Any, ...]  # slices; of no dimensions, ... for a view and not a scalar


def pieces(shape: tuple[int, ...], most: int = PIECE) -> Iterator[Index]:
    """Yield indices of parts that cover a shape, each of at most so many elements.

    Parts follow each other in C order, and each has all of the axes.

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
    n = shape[cut - 1]
    for outer in np.ndindex(*shape[: cut - 1]):
        fixed = tuple(slice(i, i + 1) for i in outer)
        for i in range(0, n, step):
            yield (*fixed, slice(i, min(i + step, n)), *whole)


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


def apart(x: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
    """Return x, or a copy if writing to out could change what is read later."""
    return x.copy(order="K") if np.may_share_memory(x, out) else x


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
