"""CASES: the one list of what is measured, for the asv suite and for table.py.

A case is one line. Its call writes into an array that exists (if it can), its NumPy
expression is what the call equals, and its limit is what the memory allows: a memcpy of
the same traffic, or for reductions the fastest pass that only reads. Of KERNELS, the
operations that are one pass, table.py shows the first case of each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt
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
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
}
SCALE, OTHER_SCALE, OUT_SCALE = 0.05, 0.08, 0.1
BLOCK = 32
FIRST, LAST = "channels first", "channels last"
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
    bytes_read: float  # per element
    bytes_written: float

    @property
    def traffic(self) -> float:
        """Bytes read and written per element."""
        return self.bytes_read + self.bytes_written


# ------------------------------------------------------------------ data


def codes(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int = 0) -> Any:
    """Return codes of all 8-bit values; wider ones as accumulators have them."""
    low, high = (-20000, 20000) if dtype.itemsize > 1 else (0, 256)
    some = np.random.default_rng(seed).integers(low, high, 1 << 12)
    return np.resize(some.astype(dtype), shape)


def numbers(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Return normal numbers, of which a few saturate at SCALE."""
    some = np.random.default_rng(0).standard_normal(1 << 12, dtype=np.float32)
    return np.resize((some * 3).astype(dtype), shape)


def rows(n: int) -> tuple[int, int]:
    """Return the shape of n elements in rows, whose length is a multiple of 4."""
    columns = min(1024, n // 16 * 4)
    return n // columns, columns


class Layout(NamedTuple):
    """The shape of x, and scale and zero point as qops and as NumPy take them."""

    shape: tuple[int, ...]
    options: dict[str, int]
    pair: tuple[Any, Any]
    numpy: tuple[Any, Any]


def layout(kind: str, n: int, dtype: np.dtype[Any], scale: float = SCALE) -> Layout:
    """Lay out n elements whose codes are of the dtype."""
    zero = 128 if dtype == np.uint8 else 0
    if kind == "per tensor":
        return Layout((n,), {}, (scale, zero), (np.float32(scale), np.float32(zero)))
    m, columns = rows(n)
    shape: tuple[int, ...]
    shape, options = {
        "last axis": ((columns,), {"axis": 1}),
        "first axis": ((m,), {"axis": 0}),
        "blocked": ((m, -(-columns // BLOCK)), {"axis": 1, "block_size": BLOCK}),
    }[kind]
    size = int(np.prod(shape))
    scales = np.linspace(scale, 2 * scale, size, dtype=np.float32).reshape(shape)
    zeros = np.full(shape, zero, dtype)

    def widen(a: Any) -> Any:
        if kind == "blocked":
            return np.repeat(a, BLOCK, 1)[:, :columns]
        return a[:, None] if kind == "first axis" else a

    wide = widen(scales), widen(zeros.astype(np.float32))
    return Layout((m, columns), options, (scales, zeros), wide)


def image(n: int, kind: str) -> tuple[int, ...]:
    """Return the shape of a square image whose sides are multiples of 4."""
    channels = 64 if n >= 1024 else 1
    side = isqrt(n // channels) // 4 * 4
    return (1, channels, side, side) if kind == FIRST else (1, side, side, channels)


def empty(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Return an array whose memory is there already, not at its first use."""
    return np.full(shape, 1, dtype)


def into(function: Callable[..., Any], *args: Any, **own: Any) -> Call:
    """Return a call that writes into an array that exists, what the first returns."""
    y = function(*args, **own)
    out = np.asarray(y[0] if isinstance(y, tuple) else y)
    return partial(function, *args, **own, out=out)


# ------------------------------------------------------------------ NumPy expressions


def np_quantize(x: Any, scale: Any, zero: Any, dtype: np.dtype[Any]) -> Any:
    """Quantize float32 numbers."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return (np.clip(np.rint(x / scale), low - zero, high - zero) + zero).astype(dtype)


def np_dequantize(q: Any, scale: Any, zero: Any) -> Any:
    """Dequantize codes of up to 16 bits to float32."""
    return (q.astype(np.float32) - zero) * scale


def np_requantize(q: Any, of: Layout, to: Layout) -> Any:
    """Requantize codes of up to 16 bits, to the same dtype."""
    return np_quantize(np_dequantize(q, *of.numpy), *to.numpy, q.dtype)


def np_standardize(q: Any, scale: Any, _: Any) -> Any:
    """Make mean 0 and deviation 1 of the last two dimensions of codes."""
    n, s = q.shape[-2] * q.shape[-1], float(scale)
    sums, squares = (
        (q.astype(np.int64) ** k).sum((-2, -1), keepdims=True) for k in (1, 2)
    )
    center = np.rint(sums / n)
    variance = (n * squares - sums * sums) / float(n * n)
    gain = s / np.sqrt(variance * s * s + 1e-5)
    shift = -((sums - n * center) / n * gain)
    c, g, h = (v.astype(np.float32) for v in (center, gain, shift))
    return (q.astype(np.float32) - c) * g + h


def np_double(x: Any, axis: int) -> Any:
    """Blend neighbours along an axis to twice as many."""
    n = x.shape[axis]
    at = np.maximum((np.arange(2 * n) + 0.5) / 2 - 0.5, 0)
    low = at.astype(int)
    b = (at - low).astype(np.float32).reshape(-1, *[1] * (x.ndim - 1 - axis))
    high = np.take(x, np.minimum(low + 1, n - 1), axis)
    return (1 - b) * np.take(x, low, axis) + b * high


def np_pack(q: Any) -> Any:
    """Pack codes of 4 bits."""
    return q[::2] | np.pad(q[1::2], (0, q.size % 2)) << 4


def np_unpack(packed: Any, n: int) -> Any:
    """Unpack n codes of 4 bits."""
    return np.stack([packed & 15, packed >> 4], -1).reshape(-1)[:n]


# ------------------------------------------------------------------ builders of cases


def _name(op: str, dtypes: list[str], kind: str) -> str:
    return " ".join([op, *dtypes]) + ("" if kind == "per tensor" else f", {kind}")


def quantize(x: str, y: str, kind: str = "per tensor") -> Case:
    """Numbers of dtype x to codes of dtype y."""

    def make(n: int) -> Calls:
        at = layout(kind, n, DTYPES[y])
        a, out = numbers(DTYPES[x], at.shape), empty(DTYPES[y], at.shape)
        return Calls(
            partial(qops.quantize, a, *at.pair, **at.options, out=out),
            lambda: np_quantize(a.astype(np.float32, copy=False), *at.numpy, out.dtype),
        )

    sizes = DTYPES[x].itemsize, DTYPES[y].itemsize
    return Case("quantize", _name("quantize", [x, y], kind), make, *sizes)


def dequantize(x: str, y: str, kind: str = "per tensor") -> Case:
    """Codes of dtype x to numbers of dtype y."""

    def make(n: int) -> Calls:
        at = layout(kind, n, DTYPES[x])
        q, out = codes(DTYPES[x], at.shape), empty(DTYPES[y], at.shape)
        return Calls(
            partial(qops.dequantize, q, *at.pair, **at.options, out=out),
            lambda: np_dequantize(q, *at.numpy),
        )

    sizes = DTYPES[x].itemsize, DTYPES[y].itemsize
    return Case("dequantize", _name("dequantize", [x, y], kind), make, *sizes)


def requantize(x: str, y: str, kind: str = "per tensor") -> Case:
    """Codes of dtype x to codes of dtype y, of one scale for all."""

    def make(n: int) -> Calls:
        at, to = layout(kind, n, DTYPES[x]), layout("per tensor", n, DTYPES[y])
        q, out = codes(DTYPES[x], at.shape), empty(DTYPES[y], at.shape)
        scale, zero = 2 * to.pair[0], to.pair[1]
        return Calls(
            partial(
                qops.requantize,
                *(q, *at.pair, scale, zero),
                **at.options,
                out=out,
            ),
            lambda: np_quantize(
                np_dequantize(q, *at.numpy),
                2 * to.numpy[0],
                to.numpy[1],
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
        out, zero = empty(DTYPES[dtype], at.shape), by.pair[1]
        return Calls(
            partial(
                function,
                *(a, *at.pair, b, *by.pair, OUT_SCALE, zero),
                **at.options,
                out=out,
            ),
            lambda: np_quantize(
                ufunc(
                    np_dequantize(a, *at.numpy),
                    np_dequantize(b, *by.numpy),
                ),
                np.float32(OUT_SCALE),
                by.numpy[1],
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
        q = codes(DTYPES[dtype], rows(n))
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


# Makers of what is composed of kernels, each of a group: what is named is given.


def of_code(op: str, dtype: np.dtype[Any], _: str, n: int) -> Calls:
    """A function of one code, whose results lie between -1 and 1."""
    at, q, f = layout("per tensor", n, dtype), codes(dtype, (n,)), getattr(np, op[1:])
    to = np.float32(2.0 ** (1 - 8 * dtype.itemsize)), at.numpy[1]

    def numpy() -> Any:
        x = np_dequantize(q, *at.numpy).astype(np.float64)
        return np_quantize(f(x).astype(np.float32), *to, dtype)

    return Calls(into(getattr(qops, op), q, *at.pair), numpy)


def of_two(op: str, dtype: np.dtype[Any], _: str, n: int) -> Calls:
    """A comparison, exact in float64, or a choice, for which b is requantized."""
    a, b = codes(dtype, (n,)), codes(dtype, (n,), seed=1)
    at, by = (layout("per tensor", n, dtype, s) for s in (SCALE, OTHER_SCALE))
    args: Any = a, *at.pair, b, *by.pair
    if op == "qwhere":
        chosen = codes(DTYPES["u8"], (n,), seed=2) < 85
        args = chosen, *args, *at.pair

    def numpy() -> Any:
        if op == "qwhere":
            return np.where(chosen, a, np_requantize(b, by, at))
        (s, z), (t, y) = (np.asarray(p.numpy, np.float64) for p in (at, by))
        return getattr(np, op[1:])((a - z) * s, (b - y) * t)

    return Calls(into(getattr(qops, op), *args), numpy)


def norm(op: str, dtype: np.dtype[Any], kind: str, n: int) -> Calls:
    """A normalization of rows, or of an image."""
    at, axis = layout("per tensor", n, dtype), -1 if kind == LAST else 1
    q = codes(dtype, rows(n) if op == "qlayer_norm" else image(n, kind))
    channels, given = q.shape[axis], op == "qbatch_norm"
    groups = {"qlayer_norm": 1, "qgroup_norm": -(-channels // 8)}.get(op, channels)
    weight, bias, mean = (numbers(DTYPES["f32"], (channels,)) * s for s in (1, -1, 2))
    var, own = mean * mean, {"axis": axis, "weight": weight, "bias": bias}
    own |= {"mean": mean, "var": var} if given else {}
    own |= {"groups": groups} if op == "qgroup_norm" else {}

    def numpy() -> Any:
        moved = np.moveaxis(q, axis, 1)
        x = moved.reshape(len(q), groups, channels // groups, -1)
        gain, shift = weight, bias
        if given:
            gain = weight / np.sqrt(var.astype(np.float64) + 1e-5)
            shift = bias - mean * gain
        x = np_dequantize(x, *at.numpy) if given else np_standardize(x, *at.numpy)
        a, b = (v.astype(np.float32).reshape(groups, -1, 1) for v in (gain, shift))
        y = np_quantize(x * a + b, *at.numpy, dtype)
        return np.moveaxis(y.reshape(moved.shape), 1, axis)

    return Calls(into(getattr(qops, op), q, *at.pair, **own), numpy)


def pool(op: str, dtype: np.dtype[Any], kind: str, n: int) -> Calls:
    """Windows of 3 x 3, a sixteenth of an image, or all of it."""
    at, q = layout("per tensor", n, dtype), codes(dtype, image(n, kind))
    last, side = kind == LAST, q.shape[2]
    beyond = np.iinfo(dtype).min if op == "qmax_pool" else at.pair[1]
    size, step, padding, own = {
        "qglobal_avg_pool": (side, side, 0, {}),
        "qadaptive_avg_pool": (side // 4, side // 4, 0, {"size": 4}),
    }.get(op, (3, 1, 1, {"kernel": 3, "stride": 1, "padding": 1}))

    def numpy() -> Any:
        axes = (1, 2) if last else (2, 3)
        width = [(padding * (i in axes),) * 2 for i in range(4)]
        x = np.pad(q, width, constant_values=beyond)
        x = np.lib.stride_tricks.sliding_window_view(x, (size, size), axes)
        x = x[:, ::step, ::step] if last else x[:, :, ::step, ::step]
        if op == "qmax_pool":
            return x.max((-2, -1))
        sums = x.sum((-2, -1), np.int64) - size * size * at.pair[1]
        means = sums * float(at.numpy[0]) / (size * size)
        return np_quantize(means.astype(np.float32), *at.numpy, dtype)

    public = partial(getattr(qops, op), channels_last=last)
    return Calls(into(public, q, *at.pair, **own), numpy)


def enlarge(op: str, dtype: np.dtype[Any], kind: str, n: int) -> Calls:
    """An image made twice as high and wide."""
    mode, _, order = kind.partition(", ")
    at, axis = layout("per tensor", n, dtype), 1 if order == LAST else 2
    q = codes(dtype, image(n, order))
    q = (q[:, ::2, ::2] if order == LAST else q[..., ::2, ::2]).copy()
    own: Any = {"scale_factor": 2, "mode": mode, "channels_last": order == LAST}

    def numpy() -> Any:
        if mode == "nearest":
            return q.repeat(2, axis).repeat(2, axis + 1)
        x = q.astype(np.float32) - at.numpy[1]
        x = np_double(np_double(x, axis + 1), axis)
        return np_quantize(x * at.numpy[0], *at.numpy, dtype)

    return Calls(into(qops.qinterpolate, q, *at.pair, **own), numpy)


def move(op: str, dtype: np.dtype[Any], _: str, n: int) -> Calls:
    """Codes joined, filled, padded or shuffled."""
    q, chosen = codes(dtype, rows(n)), codes(DTYPES["u8"], rows(n), seed=1) < 85
    at, by = (layout("per tensor", n, dtype, s) for s in (SCALE, OTHER_SCALE))
    pairs, both = zip(at.pair, by.pair, strict=True), np.array_split(q, 2)
    code = np_quantize(np.float32(0.5), *at.numpy, dtype)
    return {
        "qconcatenate": lambda: Calls(
            into(qops.qconcatenate, both, *pairs, *at.pair),
            lambda: np.concatenate([both[0], np_requantize(both[1], by, at)]),
        ),
        "masked_fill": lambda: Calls(
            into(qops.masked_fill, q, chosen, 0.5, *at.pair),
            lambda: np.where(chosen, code, q),
        ),
        "qpad": lambda: Calls(
            partial(qops.qpad, q, 1, *at.pair),
            lambda: np.pad(q, 1, constant_values=at.pair[1]),
        ),
        "channel_shuffle": lambda: Calls(
            into(qops.channel_shuffle, q, 4),
            lambda: q.reshape(len(q), 4, -1).swapaxes(1, 2).reshape(q.shape),
        ),
    }[op]()


def packed(op: str, dtype: np.dtype[Any], _: str, n: int) -> Calls:
    """Codes of 4 bits, without a sign."""
    x, q = numbers(DTYPES["f32"], (n,)), codes(dtype, (n,)) & 15
    p, pair = np_pack(q), (np.float32(1), np.float32(8))
    own: Any = {"bits": 4, "dtype": dtype}
    return {
        "pack": lambda: Calls(into(qops.pack, q, 4), lambda: np_pack(q)),
        "unpack": lambda: Calls(
            into(qops.unpack, p, n, **own), lambda: np_unpack(p, n)
        ),
        "quantize_packed": lambda: Calls(
            into(qops.quantize_packed, x, 1, 8, **own),
            lambda: np_pack(np.minimum(np_quantize(x, *pair, dtype), 15)),
        ),
        "dequantize_packed": lambda: Calls(
            into(qops.dequantize_packed, p, n, 1, 8, **own),
            lambda: np_dequantize(np_unpack(p, n), *pair),
        ),
    }[op]()


def reals(op: str, dtype: np.dtype[Any], _: str, n: int) -> Calls:
    """Zero points that are real numbers, and a cast without any."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x, q = numbers(DTYPES["f32"], (n,)), codes(dtype, (n,))
    scale, zero = np.float32(SCALE), np.float32(100.25)
    wide = x * 50
    return {
        "quantize_float_zero_point": lambda: Calls(
            into(qops.quantize_float_zero_point, x, scale, zero, dtype=dtype),
            lambda: np.clip(np.rint(x / scale + zero), low, high).astype(dtype),
        ),
        "dequantize_float_zero_point": lambda: Calls(
            into(qops.dequantize_float_zero_point, q, scale, zero),
            lambda: np_dequantize(q, scale, zero),
        ),
        "saturate_cast": lambda: Calls(
            into(qops.saturate_cast, wide, dtype),
            lambda: np.clip(np.rint(wide), low, high).astype(dtype),
        ),
    }[op]()


def fake(op: str, dtype: np.dtype[Any], kind: str, n: int) -> Calls:
    """Numbers rounded to those of codes, of a kind of layout or with the mask."""
    mask, low, high = kind == "mask", np.iinfo(dtype).min, np.iinfo(dtype).max
    at = layout("per tensor" if mask else kind, n, dtype)
    x, (scale, zero) = numbers(DTYPES["f32"], at.shape), at.numpy

    def numpy() -> Any:
        y = np_dequantize(np_quantize(x, scale, zero, dtype), scale, zero)
        if not mask:
            return y
        t = np.rint(x / scale) + zero
        return y, (t >= low) & (t <= high)

    own = {"dtype": dtype, "return_mask": mask, **at.options}
    return Calls(into(qops.fake_quantize, x, *at.pair, **own), numpy)


def gradients(op: str, dtype: np.dtype[Any], _: str, n: int) -> Calls:
    """Gradients, of quarters of steps: their sums are exact in any order."""
    zero = int(layout("per tensor", n, dtype).pair[1])
    scale, low, high = 1 / 16, np.iinfo(dtype).min - zero, np.iinfo(dtype).max - zero
    some = numbers(DTYPES["f32"], (n,))
    x, g = np.rint(some * 64) / 64, np.rint(some[::-1] * 4) / 4

    def numpy() -> Any:
        v = x / np.float32(scale)
        t = np.rint(v)
        d = np.clip(t, low, high)
        mask = t == d
        dx = g * mask
        sums = (np.sum(p, dtype=np.float64) for p in (g * (d - v * mask), g - dx))
        return dx, *(np.float32(s * p) for s, p in zip((1, -scale), sums, strict=True))

    return Calls(
        partial(qops.fake_quantize_gradients, x, scale, zero, g, dtype=dtype), numpy
    )


def along(op: str, dtype: np.dtype[Any], kind: str, n: int) -> Calls:
    """A reduction or a sum up to each code; the kind may be an axis."""
    axis = None if kind == "per tensor" else int(kind[-1])
    q, at = codes(dtype, rows(n)), layout("per tensor", n, dtype)
    m, s = q.size if axis is None else q.shape[axis], float(at.numpy[0])
    if op == "qargmax":
        return Calls(partial(qops.qargmax, q, axis), lambda: np.argmax(q, axis))
    if op in {"qmin", "qmax"}:
        own = partial(getattr(qops, op), q, *at.pair, axis=axis)
        return Calls(own, lambda: getattr(q, op[1:])(axis))
    to = (0.2 * m**0.5 if "sum" in op else 0.2), at.pair[1]

    def variance(d: Any) -> Any:
        return (m * np.square(d).sum(axis) - d.sum(axis) ** 2) / float(m * m) * s * s

    f = {
        "qsum": lambda d: d.sum(axis) * s,
        "qmean": lambda d: d.sum(axis) * s / m,
        "qvar": variance,
        "qstd": lambda d: np.sqrt(variance(d)),
        "qcumsum": lambda d: d.cumsum(axis) * s,
    }[op]
    call = partial(getattr(qops, op), q, *at.pair, *to, axis=axis)
    return Calls(
        into(call) if op == "qcumsum" else call,
        lambda: np_quantize(
            f(q.astype(np.int64) - to[1]).astype(np.float32),
            np.float32(to[0]),
            at.numpy[1],
            dtype,
        ),
    )


def by_rows(op: str, dtype: np.dtype[Any], _: str, n: int) -> Calls:
    """What orders rows, or makes them shares of a whole."""
    q, at = codes(dtype, rows(n)), layout("per tensor", n, dtype)
    k, s = min(10, q.shape[1]), float(at.numpy[0])

    def largest() -> Any:
        i = np.argsort(~q, kind="stable")[:, :k]
        return np.take_along_axis(q, i, 1), i

    def softmax() -> Any:
        below = (q - q.max(1, keepdims=True).astype(np.int64)) * s
        e = np.exp(below)
        sums = np.rint(e * 2.0**30).sum(1, keepdims=True) / 2.0**30
        if op == "qlog_softmax":
            return np_quantize((below - np.log(sums)).astype(np.float32), *to)
        scales = (sums / 256).astype(np.float32)
        return np_quantize(e.astype(np.float32), scales, np.float32(0), dtype)

    to = np.float32(OUT_SCALE), np.float32(255), dtype
    return {
        "qtopk": lambda: Calls(partial(qops.qtopk, q, k), largest),
        "qsort": lambda: Calls(into(qops.qsort, q), lambda: np.sort(q, kind="stable")),
        "qsoftmax": lambda: Calls(
            into(qops.qsoftmax, q, *at.pair, 1 / 256, 0), softmax
        ),
        "qlog_softmax": lambda: Calls(
            into(qops.qlog_softmax, q, *at.pair, OUT_SCALE, 255), softmax
        ),
    }[op]()


@qops.fuse
def _residual(a: Any, b: Any) -> Any:
    x = np.abs(a.dequantize() + b.dequantize()) * np.float32(0.5)
    return x.quantize(OUT_SCALE, 128, dtype=np.uint8)


def fused(op: str, dtype: np.dtype[Any], _: str, n: int) -> Calls:
    """Two quantized arrays, four operations and one result."""
    at, by = (layout("per tensor", n, dtype, s) for s in (SCALE, OTHER_SCALE))
    a, b = codes(dtype, (n,)), codes(dtype, (n,), seed=1)
    qa, qb = qops.QArray(a, *at.pair), qops.QArray(b, *by.pair)
    half = np.float32(0.5)
    out = empty(dtype, (n,))
    return Calls(
        lambda: _residual(qa, qb, out=out).codes,
        lambda: np_quantize(
            np.abs(np_dequantize(a, *at.numpy) + np_dequantize(b, *by.numpy)) * half,
            np.float32(OUT_SCALE),
            np.float32(128),
            dtype,
        ),
    )


def composed(
    make: Callable[[str, np.dtype[Any], str, int], Calls],
    op: str,
    dtype: str,
    kind: str = "per tensor",
    read: float = 1,
    written: float = 1,
) -> Case:
    """Return a case that reads and writes so many bytes for each byte of a code."""
    size = DTYPES[dtype].itemsize
    return Case(
        op,
        _name(op, [dtype], kind),
        partial(make, op, DTYPES[dtype], kind),
        read * size,
        written * size,
    )


KERNELS = {
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


# Operations of several passes, or in Python for each part of the codes
COMPOSED = {
    case.name: case
    for case in [
        composed(of_code, "qtanh", "u8"),
        composed(of_code, "qtanh", "i16"),
        composed(of_two, "qless", "u8", read=2),
        composed(of_two, "qless", "i16", read=2, written=1 / 2),
        composed(of_two, "qequal", "u8", read=2),
        composed(of_two, "qwhere", "u8", read=3),
        composed(norm, "qlayer_norm", "u8"),
        composed(norm, "qlayer_norm", "i16"),
        *(
            composed(norm, op, "u8", order)
            for op in ("qbatch_norm", "qgroup_norm", "qinstance_norm")
            for order in (FIRST, LAST)
        ),
        *(
            composed(pool, op, "u8", order)
            for op in ("qmax_pool", "qavg_pool")
            for order in (FIRST, LAST)
        ),
        *(
            composed(pool, op, "u8", order, written=0)
            for op in ("qadaptive_avg_pool", "qglobal_avg_pool")
            for order in (FIRST, LAST)
        ),
        *(
            composed(enlarge, "qinterpolate", "u8", f"{mode}, {order}", read=1 / 4)
            for mode in ("bilinear", "nearest")
            for order in (FIRST, LAST)
        ),
        composed(move, "qconcatenate", "u8"),
        composed(move, "masked_fill", "u8", read=2),
        composed(move, "qpad", "u8"),
        composed(move, "channel_shuffle", "u8"),
        composed(packed, "pack", "u8", "4 bits", written=1 / 2),
        composed(packed, "unpack", "u8", "4 bits", read=1 / 2),
        composed(packed, "quantize_packed", "u8", "4 bits", read=4, written=1 / 2),
        composed(packed, "dequantize_packed", "u8", "4 bits", read=1 / 2, written=4),
        composed(reals, "quantize_float_zero_point", "u8", read=4),
        composed(reals, "dequantize_float_zero_point", "u8", written=4),
        composed(reals, "saturate_cast", "i8", read=4),
        composed(fake, "fake_quantize", "u8", read=4, written=4),
        composed(fake, "fake_quantize", "u8", "last axis", read=4, written=4),
        composed(fake, "fake_quantize", "u8", "mask", read=4, written=5),
        composed(gradients, "fake_quantize_gradients", "u8", read=8, written=4),
        *(
            composed(along, op, "u8", kind, written=0)
            for op in ("qsum", "qmean", "qvar", "qstd", "qmin", "qmax", "qargmax")
            for kind in ("per tensor", "axis 0", "axis 1")
        ),
        *(
            composed(along, "qcumsum", "u8", kind)
            for kind in ("per tensor", "axis 0", "axis 1")
        ),
        composed(fused, "fuse", "u8", read=2),
        composed(by_rows, "qtopk", "u8", written=0),
        composed(by_rows, "qsort", "u8"),
        composed(by_rows, "qsoftmax", "u8"),
        composed(by_rows, "qlog_softmax", "u8"),
    ]
}
CASES = KERNELS | COMPOSED


# ------------------------------------------------------------------ limits


def limit(case: Case, n: int) -> Call:
    """Return a call with the traffic of the case and nothing else.

    A memcpy of half as many bytes reads and writes as many as the case. Where nothing
    is written it is the faster of two passes that only read: NumPy's maximum of bytes,
    and qops.hsum, which starts sooner and so wins on few elements.
    """
    if case.bytes_written:
        a, b = (np.full(int(case.traffic * n / 2), i, np.uint8) for i in (1, 2))
        return partial(np.copyto, a, b)
    x = np.ones(int(case.traffic * n), np.uint8)
    passes: list[Call] = [partial(np.maximum.reduce, x), partial(qops.hsum, x)]
    return min(passes, key=lambda call: min(Timer(call).repeat(5, 2)))
