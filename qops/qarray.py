"""QArray: codes with their scale and zero point, carried together."""

from typing import Any, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._arrays import axis_of
from ._core import check_pairs, code_array, dequantize, quantize, requantize
from .comparisons import (
    Comparison,
    qequal,
    qgreater,
    qgreater_equal,
    qless,
    qless_equal,
    qnot_equal,
)
from .params import choose_qparams

Array = NDArray[Any]

_COMPARISONS: dict[Any, Comparison] = {
    np.equal: qequal,
    np.not_equal: qnot_equal,
    np.less: qless,
    np.less_equal: qless_equal,
    np.greater: qgreater,
    np.greater_equal: qgreater_equal,
}


class QArray(NDArrayOperatorsMixin):
    """Codes with the scale and the zero point that say what they stand for.

    It stands for the real numbers ``(codes - zero_point) * scale`` and can't be
    changed: `codes` and the arrays of parameters are read-only views.

    Parameters
    ----------
    codes : array_like
        uint8, int8, uint16, int16 or int32, any layout. They are not copied.
    scale, zero_point : scalar or 1-D array_like
        As in `quantize`: numbers, or one for each channel.
    axis : int, optional
        The axis of the channels.

    Attributes
    ----------
    codes : ndarray
        The codes.
    scale, zero_point : float and int, or ndarray
        As given: float64 and int64 arrays where there is one for each channel.
    axis : int or None
        The axis of the channels, counted from the first; None without channels.

    Raises
    ------
    TypeError, ValueError
        As in `dequantize`.

    Notes
    -----
    Indexing gives a QArray, with the parameters of the channels that are left.
    Comparisons compare the real numbers, exactly, and give bools. Any other ufunc or
    operator raises a TypeError: its result would need a scale that nobody gave. Other
    functions of NumPy get the float32 numbers, as from `dequantize`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> a = qops.QArray(np.array([[1, 2], [3, 4]], np.uint8), [0.1, 1.0], 0, axis=1)
    >>> a[:, 1]
    QArray([2, 4], scale=1.0, zero_point=0, dtype=uint8)
    >>> np.asarray(a)
    array([[0.1, 2. ],
           [0.3, 4. ]], dtype=float32)
    >>> a[0] == 2
    array([False,  True])
    """

    __slots__ = ("_axis", "_codes", "_scale", "_zero_point")
    __hash__ = None  # type: ignore[assignment]  # as an array

    def __init__(
        self,
        codes: ArrayLike,
        scale: ArrayLike,
        zero_point: ArrayLike = 0,
        axis: int | None = None,
    ) -> None:
        op = "QArray"
        self._codes = _frozen(code_array(op, "codes", codes))
        shape = self._codes.shape
        check_pairs(op, "", scale, zero_point, self._codes.dtype, shape, axis)
        s, z = np.asarray(scale, np.float64), np.asarray(zero_point)
        several = s.ndim or z.ndim
        if several and axis is None:  # one dimension, as checked
            axis = 0
        self._axis = axis_of(op, axis, len(shape), "codes") if several else None
        self._scale: Any = _frozen(s) if s.ndim else float(s)
        self._zero_point: Any = _frozen(z.astype(np.int64)) if z.ndim else int(z)

    @classmethod
    def from_float(
        cls,
        x: ArrayLike,
        scale: ArrayLike | None = None,
        zero_point: ArrayLike = 0,
        *,
        dtype: DTypeLike,
        axis: int | None = None,
        symmetric: bool = False,
    ) -> Self:
        """Quantize real numbers, by default to parameters chosen from their range.

        Parameters
        ----------
        x, scale, zero_point, dtype, axis
            As in `quantize`. Without `scale`, `choose_qparams` chooses both.
        symmetric : bool, optional
            As in `choose_qparams`.

        Returns
        -------
        QArray
            Of the shape of `x`.

        Raises
        ------
        TypeError, ValueError
            As in `quantize` and `choose_qparams`.

        Examples
        --------
        >>> import numpy as np, qops
        >>> qops.QArray.from_float(np.array([0.0, 0.5, 25.5]), dtype=np.uint8)
        QArray([  0,   5, 255], scale=0.1, zero_point=0, dtype=uint8)
        """
        if scale is None:
            scale, zero_point = choose_qparams(x, dtype, axis=axis, symmetric=symmetric)
        codes = quantize(x, scale, zero_point, dtype=dtype, axis=axis)
        return cls(codes, scale, zero_point, axis)

    @classmethod
    def of_checked(cls, codes: Array, scale: float, zero_point: int) -> Self:
        """Make one of what has been checked; an operation's result, for instance."""
        made = object.__new__(cls)
        made._codes, made._scale = _frozen(codes), scale
        made._zero_point, made._axis = zero_point, None
        return made

    @property
    def codes(self) -> Array:
        """The codes, read-only."""
        return self._codes

    @property
    def scale(self) -> Any:
        """The scale, or one for each channel."""
        return self._scale

    @property
    def zero_point(self) -> Any:
        """The zero point, or one for each channel."""
        return self._zero_point

    @property
    def axis(self) -> int | None:
        """The axis of the channels."""
        return self._axis

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the codes."""
        return self._codes.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the codes."""
        return self._codes.dtype

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return self._codes.ndim

    @property
    def size(self) -> int:
        """How many codes there are."""
        return self._codes.size

    def dequantize(self, dtype: DTypeLike | None = None) -> Any:
        """Return the real numbers: float32, or of a dtype as in `qops.dequantize`."""
        return dequantize(*self.operand(), axis=self._axis, dtype=dtype)

    def requantize(
        self,
        scale: ArrayLike,
        zero_point: ArrayLike,
        *,
        dtype: DTypeLike | None = None,
        axis: int | None = None,
    ) -> "QArray":
        """Return codes of another scale and zero point, as `qops.requantize` does.

        `axis` is that of the new channels; with channels on both sides it has to be
        the same.
        """
        if axis is not None:
            axis = axis_of("requantize", axis, self.ndim, "codes")
        if None not in (axis, self._axis) and axis != self._axis:
            raise ValueError(
                f"requantize: axis is {axis}, not {self._axis}, that of the channels "
                f"there are; dequantize and quantize instead"
            )
        along = self._axis if axis is None else axis
        codes = requantize(*self.operand(), scale, zero_point, dtype=dtype, axis=along)
        return QArray(codes, scale, zero_point, axis)

    def operand(self) -> tuple[Array, Any, Any]:
        """Return codes, scale and zero point, as operations of qops take them."""
        return self._codes, self._scale, self._zero_point

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> Array:
        """Return the real numbers, as NumPy asks for them."""
        if copy is False:
            raise ValueError("QArray: copy is False, but real numbers have to be made")
        y: Array = np.asarray(self.dequantize())
        return y if dtype is None else y.astype(dtype, copy=False)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> Any:
        """Compare, or refuse."""
        if ufunc in _COMPARISONS and method == "__call__" and not options:
            return _compare(ufunc, *inputs)
        raise TypeError(
            f"{ufunc.__name__}: a result of QArrays has no scale and zero point; give "
            f"them to an operation of qops on .codes, or use .dequantize()"
        )

    def __getitem__(self, index: Any) -> "QArray":
        """Return some of the codes, with the parameters of their channels."""
        codes, scale, zero_point = self.operand()
        if self._axis is None:
            return QArray(codes[index], scale, zero_point)
        n = self.shape[self._axis]
        numbers = np.arange(n, dtype=np.min_scalar_type(n))
        shape = [-1 if i == self._axis else 1 for i in range(self.ndim)]
        of_each = np.broadcast_to(numbers.reshape(shape), self.shape)[index]
        of_each = np.asarray(of_each)
        channels, axis = _channels(of_each, np.may_share_memory(of_each, numbers))
        s, z = (p[channels] if np.ndim(p) else p for p in (scale, zero_point))
        return QArray(codes[index], s, z, axis)

    def __len__(self) -> int:
        """Return the length of the first axis."""
        return len(self._codes)

    def __repr__(self) -> str:
        """Show codes and parameters."""
        codes = np.array2string(self._codes, separator=", ", prefix="QArray(")
        axis = "" if self._axis is None else f", axis={self._axis}"
        return (
            f"QArray({codes}, scale={_shown(self._scale)}, "
            f"zero_point={_shown(self._zero_point)}{axis}, dtype={self.dtype})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what makes it."""
        return QArray, (self._codes, self._scale, self._zero_point, self._axis)

    def __copy__(self) -> "QArray":
        """Return itself, which nothing changes."""
        return self

    def __deepcopy__(self, memo: Any) -> "QArray":
        """Return itself."""
        return self


def _frozen(x: Array) -> Array:
    view = x.view()
    view.flags.writeable = False
    return view


def _shown(parameter: Any) -> str:
    return repr(parameter.tolist() if np.ndim(parameter) else parameter)


def _channels(of_each: Array, view: bool) -> tuple[Any, int | None]:
    """Return what channels are left, and the axis that they lie along, if any.

    Given is the number of the channel of each element: a view has a stride where it
    changes, anything else may change anywhere.
    """
    along = [
        i
        for i, n in enumerate(of_each.shape)
        if n > 1
        and (of_each.strides[i] if view else (of_each != of_each.take([0], i)).any())
    ]
    if len(along) > 1:
        raise IndexError(
            f"QArray: the index leaves channels along axes {along}, not along one; "
            f"index .codes instead"
        )
    if not along:
        return of_each.flat[0] if of_each.size else 0, None
    others = [slice(None) if i == along[0] else 0 for i in range(of_each.ndim)]
    return of_each[tuple(others)], along[0]


def _compare(ufunc: Any, a: Any, b: Any) -> Any:
    """Compare two QArrays exactly, or one as float32 with real numbers."""
    if not (isinstance(a, QArray) and isinstance(b, QArray)):
        x, y = (v.dequantize() if isinstance(v, QArray) else v for v in (a, b))
        return ufunc(x, y)
    ndim = max(a.ndim, b.ndim)
    axes = {v.axis + ndim - v.ndim for v in (a, b) if v.axis is not None}
    if len(axes) > 1:
        raise ValueError(
            f"{ufunc.__name__}: channels lie along axes {a.axis} and {b.axis} of "
            f"shapes {a.shape} and {b.shape}; compare .dequantize()"
        )
    along = axes.pop() if axes else None
    return _COMPARISONS[ufunc](*a.operand(), *b.operand(), axis=along)
