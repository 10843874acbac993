"""fuse: NumPy code on quantized arrays as one pass over memory."""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike, NDArray

from ._arrays import apart
from ._compiler import Compiled, compile_graph
from ._core import code_range, qadd, qdiv, qmaximum, qminimum, qmul, qsub, take
from ._graph import DTYPES, Graph, Node, Source, interpret
from ._opcodes import BY_FUNCTION, OPCODES, Opcode
from .qarray import QArray

Array = NDArray[Any]


class FuseError(ValueError):
    """A function can't be fused, or a fused one not be called so."""


class FuseTypeError(FuseError, TypeError):
    """A dtype or a type is not one that fused functions have."""


class FuseShapeError(FuseError):
    """Shapes do not fit."""


class UnsupportedOpError(FuseError, NotImplementedError):
    """A function is not one that fused functions have."""


_SUPPORTED = sorted(
    {f"np.{f.__name__}" for f in BY_FUNCTION}
    | {"np.clip", "np.where", "qops.erf"}
    | {"qops.sigmoid"}
)


def _unsupported(name: str) -> UnsupportedOpError:
    return UnsupportedOpError(
        f"{name} is not available in a fused function; there are "
        f"{', '.join(_SUPPORTED)}"
    )


class Expr(NDArrayOperatorsMixin):
    """A value in a function that is being traced: what it is made of, and its dtype."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, graph: Graph, node: Node) -> None:
        self._graph, self._node = graph, node

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self._node.dtype

    def __bool__(self) -> bool:
        """Refuse: there are no elements yet."""
        raise FuseTypeError(
            "the truth value of a fused expression is not known while tracing; choose "
            "between values with np.where"
        )

    def __array__(self, *args: Any, **options: Any) -> Array:
        """Refuse: there are no elements yet."""
        raise FuseTypeError(
            "a fused expression has no elements while tracing, so that it can't become "
            "an array; use functions of NumPy on it"
        )

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> Any:
        """Add an operation to the graph."""
        if method != "__call__" or options:
            how = (
                f".{method}" if method != "__call__" else f" with {', '.join(options)}"
            )
            raise _unsupported(f"np.{ufunc.__name__}{how}")
        return _apply(self._graph, ufunc, inputs)

    def __array_function__(
        self, function: Any, types: Any, args: Any, options: Any
    ) -> Any:
        """Add np.where or np.clip to the graph."""
        if function is np.where and len(args) == 3 and not options:
            return _where(self._graph, *args)
        if function is np.clip:
            return _clip(self._graph, *args, **options)
        raise _unsupported(f"np.{function.__name__}")

    def astype(self, dtype: DTypeLike) -> "Expr":
        """Return the values as another dtype: floats saturate, and NaN becomes 0."""
        to = _known(np.dtype(dtype), "astype")
        return Expr(self._graph, self._graph.cast(self._node, to))

    def quantize(
        self,
        scale: Any,
        zero_point: Any = 0,
        *,
        dtype: DTypeLike,
    ) -> "QExpr":
        """Return codes of float32 values, as `qops.quantize` does."""
        if self.dtype != np.float32:
            raise FuseTypeError(
                f"quantize: the expression is {self.dtype}, not float32; use .astype"
            )
        low, high = code_range("quantize", dtype)
        to = np.dtype(dtype).newbyteorder("=")
        s = self._graph.number(*_source("quantize", "scale", scale))
        z = self._graph.number(*_source("quantize", "zero_point", zero_point))
        if z.constant is not None and not low <= z.constant <= high:
            raise FuseError(
                f"quantize: zero_point is {z.constant}, not within {low}..{high}, the "
                f"range of {to}"
            )
        codes = self._graph.quantize(self._node, s, z, to)
        return QExpr(self._graph, codes, s, z)


class QExpr:
    """Quantized values in a function that is being traced."""

    def __init__(self, graph: Graph, codes: Node, scale: Node, zero: Node) -> None:
        self._graph, self._codes, self._scale, self._zero = graph, codes, scale, zero

    @property
    def codes(self) -> Expr:
        """The codes."""
        return Expr(self._graph, self._codes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the codes."""
        return self._codes.dtype

    def dequantize(self) -> Expr:
        """Return float32 values, as `qops.dequantize` does."""
        g, codes, scale, zero = self._graph, self._codes, self._scale, self._zero
        if scale.number is not None and zero.number is not None:
            return Expr(g, g.dequantize(codes, scale, zero))
        if codes.dtype == np.int32:
            raise UnsupportedOpError(
                "int32 codes with parameters of each channel are not available in a "
                "fused function; use qops.dequantize first"
            )
        wide, real = np.dtype(np.int32), np.dtype(np.float32)
        scale, zero = (
            p if p.number is None else g.number(p.number, dtype)
            for p, dtype in ((scale, real), (zero, wide))
        )
        x = g.apply(OPCODES["TSUB"], (g.cast(codes, wide), zero), wide)
        return Expr(g, g.apply(OPCODES["TMUL"], (g.cast(x, real), scale), real))

    def requantize(
        self, scale: Any, zero_point: Any, *, dtype: DTypeLike | None = None
    ) -> "QExpr":
        """Return codes of other parameters, as `qops.requantize` does."""
        to = self.dtype if dtype is None else dtype
        return self.dequantize().quantize(scale, zero_point, dtype=to)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> Any:
        """Refuse, as QArray does."""
        raise FuseTypeError(
            f"{ufunc.__name__}: quantized values take part as .dequantize() or .codes"
        )

    def __array_function__(
        self, function: Any, types: Any, args: Any, options: Any
    ) -> Any:
        """Refuse, as QArray does."""
        raise FuseTypeError(
            f"{function.__name__}: quantized values take part as .dequantize() or "
            f".codes"
        )


def _known(dtype: np.dtype[Any], what: str) -> np.dtype[Any]:
    """Return a dtype, if fused functions have it."""
    native = dtype.newbyteorder("=")
    if native not in DTYPES:
        names = ", ".join(d.name for d in DTYPES)
        raise FuseTypeError(f"{what}: {dtype} is not one of {names}")
    return native


def _source(op: str, name: str, value: Any) -> tuple[Source, np.dtype[Any]]:
    """Return where a scale or a zero point comes from."""
    dtype = np.dtype(np.float64 if name == "scale" else np.int64)
    if isinstance(value, Expr):
        if value._node.number is None:
            raise FuseTypeError(
                f"{op}: {name} is an expression, not a number or a scalar argument"
            )
        return value._node.number, dtype
    if np.ndim(value):
        raise FuseTypeError(
            f"{op}: {name} has shape {np.shape(value)}; in a fused function it is one "
            f"number"
        )
    if name == "scale":
        number: Any = float(value)
        if not 0 < np.float32(number) < np.inf:
            raise FuseError(
                f"{op}: scale is {value}, not finite and greater than 0 in float32"
            )
    else:
        number = operator.index(value)
    return Source("constant", number), dtype


def _operand(graph: Graph, value: Any, like: np.dtype[Any] | None) -> Node:
    """Return the node of an operand; a Python number takes the dtype of its use."""
    if isinstance(value, _Weak):
        return graph.number(value.source, like or value.dtype)
    if isinstance(value, Expr):
        return value._node
    if isinstance(value, (QExpr, QArray)):
        raise FuseTypeError("quantized values take part as .dequantize() or .codes")
    array = np.asarray(value)
    if array.ndim:
        raise FuseTypeError(
            f"an array of shape {array.shape} in a fused function is not an argument; "
            f"make it one"
        )
    if type(value) in (bool, int, float):
        return graph.constant(
            np.asarray(value, like or array.dtype), like or array.dtype
        )
    return graph.constant(value, _known(array.dtype, "a number"))


def _kind(value: Any) -> type | None:
    """Return int or float where a value takes the dtype that it is used with."""
    kind = value.kind if isinstance(value, _Weak) else type(value)
    return kind if kind in (int, float) else None


def _apply(graph: Graph, ufunc: np.ufunc, inputs: Sequence[Any]) -> Expr:
    opcode = BY_FUNCTION.get(ufunc)
    if opcode is None or opcode.arity != len(inputs):
        raise _unsupported(f"np.{ufunc.__name__}")
    kinds = [_kind(v) or _operand(graph, v, None).dtype for v in inputs]
    if all(isinstance(kind, type) for kind in kinds):
        kinds = [np.dtype(np.float32 if float in kinds else np.int32)] * len(kinds)
    try:
        *takes, gives = ufunc.resolve_dtypes((*kinds, None))
    except TypeError as error:
        raise FuseTypeError(f"np.{ufunc.__name__}: {error}") from None
    for dtype in (*takes, gives):
        if dtype not in DTYPES:
            given = ", ".join(
                k.__name__ if isinstance(k, type) else str(k) for k in kinds
            )
            raise FuseTypeError(
                f"np.{ufunc.__name__} of {given} calculates in {dtype}, which fused "
                f"functions do not have; use .dequantize() or .astype(np.float32)"
            )
    nodes = tuple(
        graph.cast(_operand(graph, v, dtype), dtype)
        for v, dtype in zip(inputs, takes, strict=True)
    )
    return Expr(graph, _operation(graph, opcode, nodes, gives))


def _operation(
    graph: Graph, opcode: Opcode, nodes: tuple[Node, ...], dtype: np.dtype[Any]
) -> Node:
    if nodes[0].dtype == np.bool_ and opcode.name == "TNOT":
        return graph.apply(
            OPCODES["TXOR"], (nodes[0], graph.constant(True, dtype)), dtype
        )
    kind = nodes[0].dtype.kind
    if not {"f": opcode.floats, "b": opcode.bools}.get(kind, opcode.integers):
        raise _unsupported(f"{opcode.formula!r} of {nodes[0].dtype}")
    return graph.apply(opcode, nodes, dtype)


def _common(graph: Graph, name: str, values: Sequence[Any]) -> list[Node]:
    """Return nodes of one dtype, that of them all together."""
    kinds = [_kind(v) or _operand(graph, v, None).dtype for v in values]
    *_, to = np.maximum.resolve_dtypes((*kinds, None))
    _known(to, name)
    return [graph.cast(_operand(graph, v, to), to) for v in values]


def _where(graph: Graph, condition: Any, a: Any, b: Any) -> Expr:
    mask = graph.cast(_operand(graph, condition, None), np.dtype(np.bool_))
    x, y = _common(graph, "np.where", (a, b))
    return Expr(graph, graph.apply(OPCODES["TSEL"], (mask, x, y), x.dtype))


def _clip(graph: Graph, a: Any, a_min: Any = None, a_max: Any = None) -> Any:
    if a_min is not None:
        a = _apply(graph, np.maximum, (a, a_min))
    return a if a_max is None else _apply(graph, np.minimum, (a, a_max))


def _function(name: str) -> Callable[[Any], Any]:
    opcode = OPCODES[name]

    def apply(x: Any) -> Any:
        if isinstance(x, Expr):
            node = x._graph.cast(x._node, np.dtype(np.float32))
            return Expr(x._graph, x._graph.apply(opcode, (node,), node.dtype))
        return opcode.calculate(np.asarray(x, np.float32))[()]

    return apply


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) in float32, also in a fused function.

    Calculated in float64 and rounded, the same bits on every CPU.

    Parameters
    ----------
    x : array_like
        Real numbers, which become float32; or an expression of a fused function.

    Returns
    -------
    ndarray
        float32; or an expression.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.sigmoid(np.array([0.0, 2.0]))
    array([0.5      , 0.8807971], dtype=float32)
    """
    return _function("TSIGMOID")(x)


def erf(x: Any) -> Any:
    """Return the error function in float32, also in a fused function.

    Calculated in float64 and rounded, the same bits on every CPU.

    Parameters
    ----------
    x : array_like
        Real numbers, which become float32; or an expression of a fused function.

    Returns
    -------
    ndarray
        float32; or an expression.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.erf(np.array([0.0, 0.5]))
    array([0.       , 0.5204999], dtype=float32)
    """
    return _function("TERF")(x)


class _Weak(Expr):
    """A Python number that is an argument: it takes the dtype it is used with."""

    def __init__(self, graph: Graph, source: Source, kind: type) -> None:
        dtype = np.dtype(np.float32 if kind is float else np.int32)
        super().__init__(graph, graph.number(source, dtype))
        self.source, self.kind = source, kind


class _Numbers:
    """The numbers of a call: constants, and what its arguments give."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._known = [s.value for s in sources]
        self._given = [
            (k, s.value, "" if s.what == "argument" else f"_{s.what}")
            for k, s in enumerate(sources)
            if s.what != "constant"
        ]

    def of(self, args: Sequence[Any]) -> list[Any]:
        """Return them."""
        numbers = self._known.copy()
        for k, i, name in self._given:
            numbers[k] = getattr(args[i], name) if name else args[i]
        return numbers


class _Traced(NamedTuple):
    """What a call with arguments of one kind needs."""

    compiled: Compiled
    numbers: _Numbers
    pairs: _Numbers  # scale and zero point of each quantized result
    quantized: tuple[bool, ...]  # which results are
    single: bool  # not a tuple
    used: tuple[tuple[int, ...], ...]  # operands of each result
    zeros: tuple[tuple[Source, int, int], ...]  # to be within limits
    eager: "_Eager | None"  # one operation does it all
    table: bool  # of one 8-bit code


class Fused:
    """A function that has been fused; see `fuse`."""

    def __init__(self, function: Callable[..., Any], tile: int | None = None) -> None:
        functools.update_wrapper(self, function)
        self._function, self._tile = function, tile
        self._traced: dict[Any, _Traced] = {}

    def __call__(self, *args: Any, out: Any = None) -> Any:
        """Run on arrays, and trace first where their kinds are new."""
        key, operands = _bound(args)
        traced = self._traced.get(key)
        if traced is None:
            traced = self._traced[key] = self._trace(args)
        for source, low, high in traced.zeros:
            zero = _number(source, args)
            if not low <= operator.index(zero) <= high:
                raise FuseError(f"zero_point is {zero}, not within {low}..{high}")
        shape = _shape(traced, operands)
        results = _results(traced, operands, shape, out)
        _run(traced, operands, args, shape, results, out is not None)
        return _made(traced, results, args)

    def interpret(self, *args: Any) -> Any:
        """Return what a call does, calculated by NumPy a step after the other.

        It is the definition of the result, and slow.
        """
        key, operands = _bound(args)
        traced = self._traced.get(key) or self._trace(args)
        shape = _shape(traced, operands)
        nodes = traced.compiled.results
        values = interpret(nodes, operands, lambda source: _number(source, args))
        return _made(traced, [np.broadcast_to(v, shape) for v in values], args)

    def source(self, *args: Any) -> str:
        """Return the steps of the program that a call runs, as text."""
        key, _ = _bound(args)
        traced = self._traced.get(key) or self._trace(args)
        return listing(self.__name__, traced.compiled)  # type: ignore[attr-defined]

    def _trace(self, args: Sequence[Any]) -> _Traced:
        graph = Graph()
        given, n_operands = [], 0
        for i, value in enumerate(args):
            argument, n_operands = _argument(graph, i, n_operands, value)
            given.append(argument)
        made = self._function(*given)
        single = not isinstance(made, tuple)
        results = (made,) if single else made
        if not results:
            raise FuseError(f"{self._name()}: the function returned no result")
        nodes: list[Node] = []
        quantized, pairs = [], []
        for value in results:
            if isinstance(value, QExpr):
                nodes.append(value._codes)
                scale, zero = value._scale.number, value._zero.number
                if scale is None or zero is None:
                    raise FuseTypeError(
                        f"{self._name()}: a result has parameters of each channel; "
                        f"return .codes"
                    )
                quantized.append(True)
                pairs += [scale, zero]
            elif isinstance(value, Expr):
                nodes.append(value._node)
                quantized.append(False)
            else:
                raise FuseTypeError(
                    f"{self._name()}: the function returned {type(value).__name__}, "
                    f"not an expression of its arguments"
                )
        used = tuple(_operands_of(node) for node in nodes)
        if not all(used):
            raise FuseError(f"{self._name()}: a result depends on no array")
        compiled = compile_graph(nodes, n_operands, self._tile)
        zeros = tuple(_zeros_of(nodes))
        return _Traced(
            compiled,
            _Numbers(compiled.numbers),
            _Numbers(pairs),
            tuple(quantized),
            single,
            used,
            zeros,
            _eager(nodes),
            _has_table(nodes, n_operands),
        )

    def _name(self) -> str:
        return getattr(self._function, "__name__", "fuse")


def fuse(function: Any = None, /, *, tile: int | None = None) -> Any:
    """Fuse NumPy code on quantized arrays: one pass over memory for all of it.

    The function is called once for each kind of arguments (dtypes, and whether there
    is a scale for each channel), with expressions in their place; what it does to them
    is compiled to a program on tiles of 1024 elements. Its results equal those of NumPy
    in float32 and in the integer dtypes, bit for bit, a step after the other; but exp,
    log, tanh and powers are calculated in float64 and rounded, and casts from float32
    saturate.

    Parameters
    ----------
    function : callable
        It takes arguments by position and returns an expression or a tuple of them, of
        one shape. There are the operators, the functions of NumPy for them, minimum,
        maximum, clip, where, sign, square, sqrt, reciprocal, rint, floor, ceil, trunc,
        exp, log, tanh, `erf`, `sigmoid`, and of expressions ``.astype(dtype)`` and
        ``.quantize(scale, zero_point, dtype=)``; of quantized arguments ``.codes``,
        ``.dequantize()`` and ``.requantize(scale, zero_point)``.
    tile : int, optional
        Elements of a tile.

    Returns
    -------
    callable
        It takes QArrays, arrays and numbers, and ``out=`` an array or a tuple of them;
        codes in `out` are the codes of the QArray that is returned.

    Raises
    ------
    TypeError
        While tracing: for dtypes that there are not, such as float64.
    ValueError
        For shapes and parameters that do not fit.
    NotImplementedError
        For functions that there are not. All of these are a FuseError too.

    Examples
    --------
    >>> import numpy as np, qops
    >>> @qops.fuse
    ... def add(a, b):
    ...     x = a.dequantize() + b.dequantize()
    ...     return np.maximum(x, 0).quantize(0.5, 3, dtype=np.uint8)
    >>> a = qops.QArray(np.array([1, 2, 30], np.uint8), 0.5, 10)
    >>> add(a, a)
    QArray([ 3,  3, 43], scale=0.5, zero_point=3, dtype=uint8)
    """
    if function is None:
        return functools.partial(Fused, tile=tile)
    return Fused(function, tile)


def _argument(graph: Graph, i: int, n: int, value: Any) -> tuple[Any, int]:
    """Return what stands for an argument, and how many operands there are now."""
    if isinstance(value, QArray):
        codes = graph.operand(n, value.dtype.newbyteorder("="))
        pair = []
        n += 1
        for what, one, each in (
            ("scale", np.float64, np.float32),
            ("zero_point", np.int64, np.int32),
        ):
            if np.ndim(getattr(value, what)):
                pair.append(graph.operand(n, np.dtype(each)))
                n += 1
            else:
                pair.append(graph.number(Source(what, i), np.dtype(one)))
        return QExpr(graph, codes, *pair), n
    if type(value) in (bool, int, float):
        return _Weak(graph, Source("argument", i), type(value)), n
    dtype = _known(np.asarray(value).dtype, f"argument {i}")
    return Expr(graph, graph.operand(n, dtype)), n + 1


def _bound(args: Sequence[Any]) -> tuple[Any, list[Array]]:
    """Return the kinds of arguments, and the arrays among them."""
    key: list[Any] = []
    operands: list[Array] = []
    for value in args:
        if type(value) is np.ndarray:
            key.append(value.dtype)
            operands.append(value)
        elif isinstance(value, QArray):
            codes, scale, zero = value.operand()
            key.append((codes.dtype, type(scale), type(zero)))
            operands.append(codes)
            if value.axis is not None:
                shape = [1] * codes.ndim
                shape[value.axis] = -1
                operands += [
                    p.astype(dtype).reshape(shape)
                    for p, dtype in ((scale, np.float32), (zero, np.int32))
                    if np.ndim(p)
                ]
        elif type(value) in (bool, int, float):
            key.append(type(value))
        elif isinstance(value, (np.ndarray, np.generic)):
            if isinstance(value, np.ma.MaskedArray):
                raise FuseTypeError(
                    f"argument {len(key)} is a masked array, not a plain one; fill it"
                )
            array = np.asarray(value)
            key.append(array.dtype)
            operands.append(array)
        else:
            raise FuseTypeError(
                f"argument {len(key)} is {type(value).__name__}, not a QArray, an "
                f"array or a number"
            )
    return tuple(key), operands


def _number(source: Source, args: Sequence[Any]) -> Any:
    if source.what == "constant":
        return source.value
    value = args[source.value]
    return value if source.what == "argument" else getattr(value, source.what)


def _made(traced: _Traced, results: list[Array], args: Sequence[Any]) -> Any:
    """Return the results as the caller gets them; the run has checked parameters."""
    pairs = iter(traced.pairs.of(args))
    made = [
        QArray.of_checked(y, float(next(pairs)), int(next(pairs)))
        if quantized
        else y
        if y.ndim
        else y[()]
        for y, quantized in zip(results, traced.quantized, strict=True)
    ]
    return made[0] if traced.single else tuple(made)


def _shape(traced: _Traced, operands: list[Array]) -> tuple[int, ...]:
    """Return the shape of all results."""
    first = operands[traced.used[0][0]].shape
    if all(x.shape == first for x in operands):
        return first
    shapes = []
    for used in traced.used:
        given = [operands[i].shape for i in used]
        try:
            shapes.append(np.broadcast_shapes(*given))
        except ValueError:
            words = " ".join(map(str, given))
            raise FuseShapeError(
                f"operands could not be broadcast together with shapes {words}"
            ) from None
    for i, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise FuseShapeError(
                f"result {i} has shape {shape}, result 0 has shape {shapes[0]}: "
                f"results of one function must have the same shape"
            )
    return shapes[0]


def _results(
    traced: _Traced, operands: list[Array], shape: tuple[int, ...], out: Any
) -> list[Array]:
    dtypes = [node.dtype for node in traced.compiled.results]
    if out is None:
        like = next((x for x in operands if x.shape == shape), None)
        if like is None or like.flags.c_contiguous:
            return [np.empty(shape, dtype) for dtype in dtypes]
        return [np.empty_like(like, dtype, subok=False) for dtype in dtypes]
    given = out if isinstance(out, tuple) else (out,)
    if len(given) != len(dtypes):
        raise FuseError(f"out has {len(given)} arrays, not {len(dtypes)}")
    for i, (y, dtype) in enumerate(zip(given, dtypes, strict=True)):
        if not isinstance(y, np.ndarray):
            raise FuseTypeError(f"out is {type(y).__name__}, not an array")
        if y.dtype.newbyteorder("=") != dtype:
            raise FuseTypeError(f"out has dtype {y.dtype}, the expression has {dtype}")
        if y.shape != shape:
            raise FuseShapeError(f"out has shape {y.shape}, not {shape}")
        if not y.flags.writeable:
            raise FuseError("out is read-only, not writeable")
        if any(np.may_share_memory(y, other) for other in given[:i]):
            raise FuseError("the arrays of out overlap each other; give separate ones")
    return list(given)


# From so many elements on, making a table of all codes pays for itself.
_TABLE_ELEMENTS = 2048


def _run(
    traced: _Traced,
    operands: list[Array],
    args: Sequence[Any],
    shape: tuple[int, ...],
    results: list[Array],
    given: bool,
) -> None:
    """Write the results, into arrays that are given or new."""
    eager, program = traced.eager, traced.compiled.program
    if eager is not None:
        a, b = operands[eager.a], operands[eager.b]
        if a.shape == b.shape:
            s, z, t, w, *to = eager.numbers.of(args)
            eager.f(a, s, z, b, t, w, *to, relu=eager.relu, out=results[0])
            return
    numbers = traced.numbers.of(args)
    operands = [x if x.shape == shape else np.broadcast_to(x, shape) for x in operands]
    if traced.table and results[0].size >= _TABLE_ELEMENTS:
        first = np.iinfo(operands[0].dtype).min
        codes = np.arange(first, first + 256).astype(operands[0].dtype)
        table = np.empty(256, results[0].dtype.newbyteorder("="))
        program.run([codes, table], numbers)
        bits = {"?": "u1", "i": "f4"}.get(table.dtype.char, table.dtype.char)
        order = results[0].dtype.byteorder
        y = results[0].view(np.dtype(bits).newbyteorder(order))
        take(operands[0], table.view(bits), out=y)
        return
    if given:
        in_turn = len(results) == 1
        for y in results:
            operands = [apart(x, y, in_turn) for x in operands]
    program.run([*operands, *results], numbers)


def _operands_of(node: Node) -> tuple[int, ...]:
    seen: dict[int, None] = {}
    done: set[int] = set()
    todo = [node]
    while todo:
        n = todo.pop()
        if id(n) in done:
            continue
        done.add(id(n))
        if n.operand is not None:
            seen[n.operand] = None
        todo += n.inputs
    return tuple(sorted(seen))


def _zeros_of(nodes: Sequence[Node]) -> Any:
    """Yield the zero points of quantizations that are not known while tracing."""
    todo, done = list(nodes), set()
    while todo:
        n = todo.pop()
        if id(n) in done:
            continue
        done.add(id(n))
        if n.opcode is OPCODES["TQUANT"]:
            zero = n.inputs[2]
            if zero.number is not None and zero.constant is None:
                info = np.iinfo(n.dtype)
                yield zero.number, int(info.min), int(info.max)
        todo += n.inputs


class _Eager(NamedTuple):
    """quantize(dequantize(a) o dequantize(b)), which has kernels of its own."""

    f: Any
    relu: bool  # negative numbers become zero
    a: int
    b: int
    numbers: _Numbers  # scale and zero point of a, b and the result


_EAGER = {"TADD": qadd, "TSUB": qsub, "TMUL": qmul, "TDIV": qdiv}
_EAGER |= {"TMAX": qmaximum, "TMIN": qminimum}


def _eager(nodes: Sequence[Node]) -> _Eager | None:
    """Recognize one operation of qops."""
    root = nodes[0]
    if len(nodes) > 1 or root.opcode is not OPCODES["TQUANT"]:
        return None
    x, scale, zero = root.inputs
    relu = x.opcode is OPCODES["TMAX"] and x.inputs[1].constant == 0
    if relu:
        x = x.inputs[0]
    f = _EAGER.get(x.opcode.name) if x.opcode else None
    if f is None or any(n.opcode is not OPCODES["TDEQUANT"] for n in x.inputs):
        return None
    (a, *from_a), (b, *from_b) = (n.inputs for n in x.inputs)
    if None in (a.operand, b.operand) or not a.dtype == b.dtype == root.dtype:
        return None
    sources = [n.number for n in (*from_a, *from_b, scale, zero)]
    return _Eager(f, relu, a.operand, b.operand, _Numbers(sources))  # type: ignore[arg-type]


def _has_table(nodes: Sequence[Node], n_operands: int) -> bool:
    """Whether one table of all codes of one argument is all that is needed."""
    if len(nodes) > 1 or n_operands != 1:
        return False
    operand, todo = None, list(nodes)
    while todo:
        n = todo.pop()
        operand = n if n.operand is not None else operand
        todo += n.inputs
    return operand is not None and operand.dtype in (np.uint8, np.int8)


def listing(name: str, compiled: Compiled) -> str:
    """Return the steps of a program as text."""

    def shown(value: Any) -> str:
        if not value.operand:
            return f"t{compiled.places[value]}"
        if value.number < compiled.n_operands:
            return f"in{value.number}"
        return f"out{value.number - compiled.n_operands}"

    lines = [
        f"{name}: tile={compiled.tile} tiles={compiled.n_tiles} "
        f"scratch={compiled.tile * compiled.n_tiles * 4} B"
    ]
    for i, s in enumerate(compiled.steps):
        if i in (0, compiled.first):
            lines.append("  once:" if i < compiled.first else "  each tile:")
        n = 2 if s.name in ("TDEQUANT", "TQUANT") else 1
        sources = compiled.numbers[s.number : s.number + n] if s.number >= 0 else []
        words = [shown(v) for v in s.inputs]
        words += [
            str(c.value) if c.what == "constant" else f"${c.value}.{c.what}"
            for c in sources
        ]
        lines.append(f"    {shown(s.to)}:{s.to.word} = {s.name} {', '.join(words)}")
    return "\n".join(lines)
