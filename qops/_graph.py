"""Graphs of fused functions: nodes that are the same are one, and constants are folded.

A node is an operation on others. Its dtype is what NumPy gives it; integers narrower
than 32 bits and bools are int32 in tiles, so that a node after an operation that may
leave its dtype wraps it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._opcodes import OPCODES, Opcode

Array = NDArray[Any]

DTYPES = {
    np.dtype(name): word
    for name, word in (
        ("bool", "u8"),
        *(("uint8", "u8"), ("int8", "i8"), ("uint16", "u16"), ("int16", "i16")),
        *(("int32", "i32"), ("float32", "f32")),
    )
}
FLOAT, INT, BOOL = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.bool_)
# Operations whose results may be beyond a dtype that their operands are within.
_LEAVING = {"TABS", "TADD", "TFLOORDIV", "TMUL", "TNEG", "TNOT", "TSHL", "TSQUARE"}
_LEAVING |= {"TSUB"}


class Source(NamedTuple):
    """Where a number of a call comes from: a constant, or what of which argument."""

    what: str  # "constant", "argument", "scale" or "zero_point"
    value: Any  # of a constant; else the argument's number


class Node(NamedTuple):
    """An operation on other nodes."""

    opcode: Opcode | None  # None: an array that is given, or a number
    inputs: tuple["Node", ...]
    dtype: np.dtype[Any]
    operand: int | None = None  # the number of the array
    number: Source | None = None

    @property
    def constant(self) -> Any:
        """The value, if it is known while tracing; else None."""
        known = self.number is not None and self.number.what == "constant"
        return self.number.value if known else None  # type: ignore[union-attr]


def storage(dtype: np.dtype[Any]) -> str:
    """Return how a dtype lies in tiles."""
    return "f32" if dtype == FLOAT else "i32"


class Graph:
    """The nodes of one function, each there only once."""

    def __init__(self) -> None:
        self._nodes: dict[Any, Node] = {}

    def _add(self, node: Node) -> Node:
        key = (
            node.opcode and node.opcode.name,
            tuple(id(n) for n in node.inputs),
            node.dtype,
            node.operand,
            node.number and (node.number.what, repr(node.number.value)),
        )
        return self._nodes.setdefault(key, node)

    def operand(self, i: int, dtype: np.dtype[Any]) -> Node:
        """Return an array that a call is given."""
        return self._add(Node(None, (), dtype, operand=i))

    def number(self, source: Source, dtype: np.dtype[Any]) -> Node:
        """Return a number of a dtype."""
        return self._add(Node(OPCODES["TEXPANDS"], (), dtype, number=source))

    def constant(self, value: Any, dtype: np.dtype[Any]) -> Node:
        """Return a number that is known."""
        return self.number(Source("constant", np.asarray(value, dtype)[()]), dtype)

    def apply(self, opcode: Opcode, inputs: tuple[Node, ...], dtype: Any) -> Node:
        """Return the result of an opcode, wrapped to its dtype."""
        known = [n.constant for n in inputs]
        if inputs and all(v is not None for v in known):
            with np.errstate(all="ignore"):
                return self.constant(opcode.calculate(*known), dtype)
        node = self._add(Node(opcode, inputs, dtype))
        narrow = dtype.kind in "iu" and dtype.itemsize < 4
        if narrow and opcode.name in _LEAVING:
            return self._add(Node(OPCODES["TCVT"], (node,), dtype))
        return node

    def cast(self, node: Node, dtype: np.dtype[Any]) -> Node:
        """Return a node as another dtype."""
        if node.dtype == dtype:
            return node
        if dtype == BOOL:
            return self.apply(
                OPCODES["TCMPNE"], (node, self.constant(0, node.dtype)), BOOL
            )
        if node.constant is not None:
            return self.constant(casted(node.constant, dtype), dtype)
        return self._add(Node(OPCODES["TCVT"], (node,), dtype))

    def dequantize(self, codes: Node, scale: Node, zero: Node) -> Node:
        """Return (codes - zero) * scale."""
        return self._add(Node(OPCODES["TDEQUANT"], (codes, scale, zero), FLOAT))

    def quantize(self, x: Node, scale: Node, zero: Node, dtype: Any) -> Node:
        """Return codes of float32 numbers."""
        return self._add(Node(OPCODES["TQUANT"], (x, scale, zero), dtype))


def casted(x: Any, dtype: np.dtype[Any]) -> Any:
    """Cast as fused functions do: floats saturate to integers, and NaN becomes 0."""
    x = np.asarray(x)
    if x.dtype.kind == "f" and dtype.kind in "iu":
        info = np.iinfo(dtype)
        wide = np.where(np.isnan(x), 0, x).astype(np.float64)
        return np.trunc(np.clip(wide, info.min, info.max)).astype(dtype)[()]
    return x.astype(dtype)[()]


def _dequantized(q: Any, scale: Any, zero: Any) -> Any:
    if q.dtype.itemsize == 4:  # in float64, rounded once
        return ((q.astype(np.float64) - zero) * np.float64(np.float32(scale))).astype(
            np.float32
        )
    return (q.astype(np.float32) - np.float32(zero)) * np.float32(scale)


def _quantized(x: Any, scale: Any, zero: Any, dtype: np.dtype[Any]) -> Any:
    work = np.float64 if dtype.itemsize == 4 else np.float32
    info = np.iinfo(dtype)
    t = np.rint(x.astype(work) / work(np.float32(scale))).astype(np.float64)
    t = np.where(np.isnan(t), 0, np.clip(t, info.min - zero, info.max - zero))
    return (t + zero).astype(dtype)


def interpret(results: list[Node], operands: list[Array], numbers: Any) -> list[Array]:
    """Run a graph in NumPy, a node after the other: the definition of the results.

    `numbers` gives the value of a source.
    """
    values: dict[int, Any] = {}

    def of(node: Node) -> Any:
        if id(node) not in values:
            values[id(node)] = calculate(node)
        return values[id(node)]

    def calculate(node: Node) -> Any:
        if node.operand is not None:
            return operands[node.operand]
        if node.number is not None:
            return np.asarray(numbers(node.number)).astype(node.dtype)[()]
        name = node.opcode.name  # type: ignore[union-attr]
        inputs = [of(n) for n in node.inputs]
        if name == "TCVT":
            return casted(inputs[0], node.dtype)
        if name == "TDEQUANT":
            return _dequantized(*inputs)
        if name == "TQUANT":
            x, scale, zero = inputs
            return _quantized(x, scale, zero, node.dtype)
        y = node.opcode.calculate(*inputs)  # type: ignore[union-attr]
        return np.asarray(y).astype(node.dtype, copy=False)

    with np.errstate(all="ignore"):
        return [np.asarray(of(node)) for node in results]
