"""From the graph of a fused function to the steps of a tile program."""

from typing import Any, NamedTuple

from ._core import TileProgram
from ._graph import DTYPES, Node, Source, storage

# All tiles of a thread: half of a first-level cache of 48 KiB.
TILE_BYTES = 24 << 10
TILE, LEAST_TILE = 1024, 256
_WIDE = ("f32", "i32")
_STORED = {"i8": "u8", "i16": "u16"}  # bytes are cut off alike


class Value(NamedTuple):
    """Where a node's elements are: a tile before it has an address, or an operand."""

    operand: bool
    number: int
    word: str  # the dtype it lies there as


class Step(NamedTuple):
    """An instruction on values."""

    name: str
    to: Value
    inputs: tuple[Value, ...]
    source: str  # the dtype that the kernel takes
    arg: str = ""
    number: int = -1


class Compiled(NamedTuple):
    """A program, and what a call has to give it."""

    program: TileProgram
    steps: list[Step]
    places: dict[Value, int]
    first: int
    numbers: list[Source]
    results: list[Node]
    n_operands: int
    tile: int
    n_tiles: int


class _Lowering:
    """Steps in the order of their being needed."""

    def __init__(self, n_operands: int) -> None:
        self.n_operands = n_operands
        self.steps: list[Step] = []
        self.numbers: list[Source] = []
        self._values: dict[Any, Value] = {}
        self._n_tiles = 0

    def tile(self, word: str) -> Value:
        self._n_tiles += 1
        return Value(False, self._n_tiles - 1, word)

    def add(
        self,
        name: str,
        word: str,
        inputs: tuple[Value, ...] = (),
        source: str = "",
        arg: str = "",
        number: int = -1,
    ) -> Value:
        to = self.tile(word)
        self.steps.append(Step(name, to, inputs, source or word, arg, number))
        return to

    def of(self, node: Node) -> Value:
        """Return the value of a node, as it was made."""
        if id(node) not in self._values:
            self._values[id(node)] = self._lower(node)
        return self._values[id(node)]

    def wide(self, node: Node) -> Value:
        """Return the value of a node with 32 bits for each element."""
        value = self.of(node)
        if value.word in _WIDE:
            return value
        key = "wide", id(node)
        if key not in self._values:
            self._values[key] = self.add("TCVT", "i32", (value,), value.word)
        return self._values[key]

    def pair(self, scale: Node, zero: Node) -> int:
        self.numbers += [scale.number, zero.number]  # type: ignore[list-item]
        return len(self.numbers) - 2

    def _lower(self, node: Node) -> Value:
        if node.operand is not None:
            return Value(True, node.operand, DTYPES[node.dtype])
        name, word = node.opcode.name, storage(node.dtype)  # type: ignore[union-attr]
        if node.number is not None:
            self.numbers.append(node.number)
            return self.add(name, word, number=len(self.numbers) - 1)
        if name == "TDEQUANT":
            codes, scale, zero = node.inputs
            value = self.of(codes)
            return self.add(
                name, "f32", (value,), value.word, number=self.pair(scale, zero)
            )
        if name == "TQUANT":
            x, scale, zero = node.inputs
            pair = self.pair(scale, zero)
            codes_word = DTYPES[node.dtype]
            return self.add(name, codes_word, (self.wide(x),), "f32", number=pair)
        inputs = tuple(map(self.wide, node.inputs))
        if name == "TCVT":
            arg = DTYPES[node.dtype]
            return self.add(name, word, inputs, inputs[0].word, arg)
        if name == "TSEL":
            return self.add(name, word, inputs, "i32")
        return self.add(name, word, inputs, inputs[0].word)

    def store(self, node: Node, result: int) -> None:
        """Put a node into a result."""
        word = DTYPES[node.dtype]
        to = Value(True, self.n_operands + result, word)
        value = self.of(node)
        made = [i for i, s in enumerate(self.steps) if s.to == value]
        if made and value.word == word and not value.operand:
            # The step writes there at once, and others read it from there.
            self.steps = [
                s._replace(
                    to=to if s.to == value else s.to,
                    inputs=tuple(to if v == value else v for v in s.inputs),
                )
                for s in self.steps
            ]
            for key, v in self._values.items():
                if v == value:
                    self._values[key] = to
            return
        value = self.wide(node)
        source = "i32" if value.word == "f32" else value.word
        self.steps.append(Step("TCVT", to, (value,), source, "i32"))


def _hoisted(steps: list[Step]) -> tuple[list[Step], int]:
    """Put first what does not depend on an array, and say how much that is."""
    fixed: set[Value] = set()
    for s in steps:
        if not s.to.operand and all(v in fixed for v in s.inputs):
            fixed.add(s.to)
    first = [s for s in steps if s.to in fixed]
    return first + [s for s in steps if s.to not in fixed], len(first)


def _addresses(steps: list[Step], first: int) -> tuple[dict[Value, int], int]:
    """Give each tile the first address that is free while it lives.

    What is done once lives for ever. A tile may take the place of one that it is made
    of, if the elements are of one size.
    """
    last = {v: i for i, s in enumerate(steps) for v in (*s.inputs, s.to)}
    places: dict[Value, int] = {}
    free: list[int] = []
    n = 0
    for i, s in enumerate(steps):
        dying = {
            v
            for v in s.inputs
            if not v.operand and last[v] == i and i >= first and v in places
        }
        dying = {v for v in dying if not _made_before(v, steps, first)}
        early = {v for v in dying if {v.word, s.to.word} <= set(_WIDE)}
        free += [places[v] for v in early]
        if s.to.operand:
            places[s.to] = -1 - s.to.number
        else:
            free.sort()
            if free:
                places[s.to] = free.pop(0)
            else:
                places[s.to], n = n, n + 1
        free += [places[v] for v in dying - early]
    return places, n


def _made_before(value: Value, steps: list[Step], first: int) -> bool:
    return any(s.to == value for s in steps[:first])


def compile_graph(
    results: list[Node], n_operands: int, tile: int | None = None
) -> Compiled:
    """Make a program of the nodes that are results."""
    lowering = _Lowering(n_operands)
    for i, node in enumerate(results):
        lowering.store(node, i)
    steps, first = _hoisted(lowering.steps)
    places, n_tiles = _addresses(steps, first)
    size = tile or TILE
    while tile is None and size > LEAST_TILE and n_tiles * 4 * size > TILE_BYTES:
        size //= 2

    def place(v: Value) -> int:
        return -1 - v.number if v.operand else places[v]

    program = TileProgram(
        [
            (
                s.name,
                s.arg,
                place(s.to),
                [place(v) for v in s.inputs],
                s.number,
                s.source,
                _kernel_out(s),
            )
            for s in steps
        ],
        first,
        n_tiles,
        size,
        n_operands,
    )
    numbers = lowering.numbers
    return Compiled(
        program, steps, places, first, numbers, results, n_operands, size, n_tiles
    )


def _kernel_out(s: Step) -> str:
    """Return the dtype that the kernel of a step writes."""
    if s.name == "TSEL" or (s.name == "TCVT" and s.source == "i32" and s.arg == "i32"):
        return "i32" if s.to.word in _WIDE else _STORED.get(s.to.word, s.to.word)
    return _STORED.get(s.to.word, s.to.word) if s.name == "TCVT" else s.to.word
