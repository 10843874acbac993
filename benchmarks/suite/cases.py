"""CASES: the one list of what is measured, for the asv suite and for table.py.

A case is one line. Its call writes into an array that exists (reductions have none),
its NumPy expression is what the call equals, and its limit is what the memory allows: a
memcpy of the same traffic, or for reductions the fastest pass that only reads. The
first case of an operation is the one that table.py shows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from timeit import Timer
from typing import Any, NamedTuple

import numpy as np

import qops
from qops import _levels

qops.set_num_threads(1)  # the limits are those of one thread
LEVELS = [level.name for level in _levels.LEVELS]
DTYPES: dict[str, np.dtype[Any]] = {
    "u8": np.dtype(np.uint8),
    "i8": np.dtype(np.int8),
    "i32": np.dtype(np.int32),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
}
SCALE, OTHER_SCALE, OUT_SCALE = 0.05, 0.08, 0.1
BLOCK = 32
Call = Callable[[], object]


class Calls(NamedTuple):
    """A call of qops on arrays of its own, and the NumPy expression that it equals."""

    qops: Call
    numpy: Call


@dataclass(frozen=True)
class Case:
    """A call that is measured; n, of make, is the number of elements."""

    op: str
    name: str
    make: Callable[[int], Calls]
    bytes_read: int  # per element
    bytes_written: int

    @property
    def traffic(self) -> int:
        """Bytes read and written per element."""
        return self.bytes_read + self.bytes_written


# ------------------------------------------------------------------ data


def codes(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int = 0) -> Any:
    """Return codes of all 8-bit values; int32 ones as accumulators have them."""
    low, high = (-20000, 20000) if dtype == np.int32 else (0, 256)
    some = np.random.default_rng(seed).integers(low, high, 1 << 12)
    return np.resize(some.astype(dtype), shape)


def numbers(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Return normal numbers, of which a few saturate at SCALE."""
    some = np.random.default_rng(0).standard_normal(1 << 12, dtype=np.float32)
    return np.resize((some * 3).astype(dtype), shape)


class Layout(NamedTuple):
    """The shape of x, and the scale and zero point as qops and as NumPy take them."""

    shape: tuple[int, ...]
    options: dict[str, int]
    scale: Any
    zero: Any
    numpy_scale: Any
    numpy_zero: Any


def layout(kind: str, n: int, dtype: np.dtype[Any], scale: float = SCALE) -> Layout:
    """Lay out n elements whose codes are of the dtype."""
    zero = 128 if dtype == np.uint8 else 0
    if kind == "per tensor":
        return Layout((n,), {}, scale, zero, np.float32(scale), np.float32(zero))
    columns = min(1024, n // 4)
    rows = n // columns
    shape: tuple[int, ...]
    shape, options = {
        "last axis": ((columns,), {"axis": 1}),
        "first axis": ((rows,), {"axis": 0}),
        "blocked": ((rows, -(-columns // BLOCK)), {"axis": 1, "block_size": BLOCK}),
    }[kind]
    size = int(np.prod(shape))
    scales = np.linspace(scale, 2 * scale, size, dtype=np.float32).reshape(shape)
    zeros = np.full(shape, zero, dtype)

    def widen(a: Any) -> Any:
        if kind == "blocked":
            return np.repeat(a, BLOCK, 1)[:, :columns]
        return a[:, None] if kind == "first axis" else a

    wide = widen(scales), widen(zeros.astype(np.float32))
    return Layout((rows, columns), options, scales, zeros, *wide)


def empty(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Return an array whose memory is there already, not at its first use."""
    return np.full(shape, 1, dtype)


# ------------------------------------------------------------------ NumPy expressions


def np_quantize(x: Any, scale: Any, zero: Any, dtype: np.dtype[Any]) -> Any:
    """Quantize float32 numbers."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return (np.clip(np.rint(x / scale), low - zero, high - zero) + zero).astype(dtype)


def np_dequantize(q: Any, scale: Any, zero: Any) -> Any:
    """Dequantize codes of up to 16 bits to float32."""
    return (q.astype(np.float32) - zero) * scale


# ------------------------------------------------------------------ builders of cases


def _name(op: str, dtypes: list[str], kind: str) -> str:
    return " ".join([op, *dtypes]) + ("" if kind == "per tensor" else f", {kind}")


def quantize(x: str, y: str, kind: str = "per tensor") -> Case:
    """Numbers of dtype x to codes of dtype y."""

    def make(n: int) -> Calls:
        at = layout(kind, n, DTYPES[y])
        a, out = numbers(DTYPES[x], at.shape), empty(DTYPES[y], at.shape)
        return Calls(
            partial(qops.quantize, a, at.scale, at.zero, **at.options, out=out),
            lambda: np_quantize(
                a.astype(np.float32, copy=False),
                at.numpy_scale,
                at.numpy_zero,
                out.dtype,
            ),
        )

    sizes = DTYPES[x].itemsize, DTYPES[y].itemsize
    return Case("quantize", _name("quantize", [x, y], kind), make, *sizes)


def dequantize(x: str, y: str, kind: str = "per tensor") -> Case:
    """Codes of dtype x to numbers of dtype y."""

    def make(n: int) -> Calls:
        at = layout(kind, n, DTYPES[x])
        q, out = codes(DTYPES[x], at.shape), empty(DTYPES[y], at.shape)
        return Calls(
            partial(qops.dequantize, q, at.scale, at.zero, **at.options, out=out),
            lambda: np_dequantize(q, at.numpy_scale, at.numpy_zero),
        )

    sizes = DTYPES[x].itemsize, DTYPES[y].itemsize
    return Case("dequantize", _name("dequantize", [x, y], kind), make, *sizes)


def requantize(x: str, y: str, kind: str = "per tensor") -> Case:
    """Codes of dtype x to codes of dtype y, of one scale for all."""

    def make(n: int) -> Calls:
        at, to = layout(kind, n, DTYPES[x]), layout("per tensor", n, DTYPES[y])
        q, out = codes(DTYPES[x], at.shape), empty(DTYPES[y], at.shape)
        scale, zero = 2 * to.scale, to.zero
        return Calls(
            partial(
                qops.requantize,
                *(q, at.scale, at.zero, scale, zero),
                **at.options,
                out=out,
            ),
            lambda: np_quantize(
                np_dequantize(q, at.numpy_scale, at.numpy_zero),
                2 * to.numpy_scale,
                to.numpy_zero,
                out.dtype,
            ),
        )

    sizes = DTYPES[x].itemsize, DTYPES[y].itemsize
    return Case("requantize", _name("requantize", [x, y], kind), make, *sizes)


def take(x: str, y: str) -> Case:
    """Codes to entries of a table of all codes."""

    def make(n: int) -> Calls:
        q, out = codes(DTYPES[x], (n,)), empty(DTYPES[y], (n,))
        table = numbers(DTYPES[y], (256,))
        low = int(np.iinfo(DTYPES[x]).min)
        return Calls(
            partial(qops.take, q, table, out=out),
            lambda: table[q if low == 0 else q.astype(np.intp) - low],
        )

    size = DTYPES[x].itemsize, DTYPES[y].itemsize
    return Case("take", _name("take", [x, y], "per tensor"), make, *size)


UFUNCS: dict[str, Callable[[Any, Any], Any]] = {
    "qadd": np.add,
    "qsub": np.subtract,
    "qmul": np.multiply,
    "qdiv": np.divide,
    "qmaximum": np.maximum,
    "qminimum": np.minimum,
}


def binary(op: str, dtype: str, kind: str = "per tensor") -> Case:
    """Two arrays of codes to a third; kind is that of the first."""
    function = getattr(qops, op)
    ufunc = UFUNCS[op]

    def make(n: int) -> Calls:
        at = layout(kind, n, DTYPES[dtype])
        by = layout("per tensor", n, DTYPES[dtype], OTHER_SCALE)
        a, b = codes(DTYPES[dtype], at.shape), codes(DTYPES[dtype], at.shape, seed=1)
        out, zero = empty(DTYPES[dtype], at.shape), by.zero
        return Calls(
            partial(
                function,
                *(a, at.scale, at.zero, b, by.scale, by.zero, OUT_SCALE, zero),
                **at.options,
                out=out,
            ),
            lambda: np_quantize(
                ufunc(
                    np_dequantize(a, at.numpy_scale, at.numpy_zero),
                    np_dequantize(b, by.numpy_scale, by.numpy_zero),
                ),
                np.float32(OUT_SCALE),
                by.numpy_zero,
                out.dtype,
            ),
        )

    size = DTYPES[dtype].itemsize
    return Case(op, _name(op, [dtype], kind), make, 2 * size, size)


def reduction(op: str, dtype: str, axis: int | None = None) -> Case:
    """Codes to one number, or to one for each place along the other axis."""
    function = getattr(qops, op)
    power = {"hsum": 1, "hsum_sq": 2}[op]

    def make(n: int) -> Calls:
        q = codes(DTYPES[dtype], layout("last axis", n, DTYPES[dtype]).shape)
        if axis is None:
            q = q.reshape(-1)
        return Calls(
            lambda: function(q, axis),
            lambda: (q.astype(np.int64) ** power if power > 1 else q).sum(
                axis, dtype=np.int64
            ),
        )

    name = f"{op} {dtype}" + ("" if axis is None else f", axis {axis}")
    return Case(op, name, make, DTYPES[dtype].itemsize, 0)


CASES = {
    case.name: case
    for case in [
        quantize("f32", "u8"),
        quantize("f32", "i8"),
        quantize("f16", "i8"),
        quantize("f32", "u8", "last axis"),
        quantize("f32", "u8", "first axis"),
        quantize("f32", "u8", "blocked"),
        dequantize("u8", "f32"),
        dequantize("i8", "f32"),
        dequantize("u8", "f32", "last axis"),
        dequantize("u8", "f32", "first axis"),
        dequantize("u8", "f32", "blocked"),
        requantize("u8", "u8"),
        requantize("i32", "i8"),
        requantize("i32", "i8", "last axis"),
        take("u8", "u8"),
        take("i8", "i8"),
        take("u8", "f32"),
        binary("qadd", "u8"),
        binary("qadd", "i8"),
        binary("qadd", "u8", "last axis"),
        binary("qmul", "u8"),
        binary("qmul", "i8"),
        binary("qsub", "u8"),
        binary("qdiv", "u8"),
        binary("qmaximum", "u8"),
        binary("qminimum", "u8"),
        reduction("hsum", "u8"),
        reduction("hsum", "i8"),
        reduction("hsum", "u8", axis=0),
        reduction("hsum", "u8", axis=1),
        reduction("hsum_sq", "u8"),
        reduction("hsum_sq", "i8"),
        reduction("hsum_sq", "u8", axis=0),
        reduction("hsum_sq", "u8", axis=1),
    ]
}


# ------------------------------------------------------------------ limits


def limit(case: Case, n: int) -> Call:
    """Return a call with the traffic of the case and nothing else.

    A memcpy of half as many bytes reads and writes as many as the case. Where nothing
    is written it is the faster of two passes that only read: NumPy's maximum of bytes,
    and qops.hsum, which starts sooner and so wins on few elements.
    """
    if case.bytes_written:
        a, b = (np.full(case.traffic * n // 2, i, np.uint8) for i in (1, 2))
        return partial(np.copyto, a, b)
    x = np.ones(case.traffic * n, np.uint8)
    passes: list[Call] = [partial(np.maximum.reduce, x), partial(qops.hsum, x)]
    return min(passes, key=lambda call: min(Timer(call).repeat(5, 2)))
