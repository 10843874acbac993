"""Time every kernel on every level that has it; list where a lower level is faster.

What is found is for the @targets statements: a level that does not gain from a source
is left out of its statement, or the kernel mended.
"""

import argparse
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from suite.cases import UFUNCS, Call, codes, empty, numbers
from table import Contender, Times, levels, machine, race, ratio, speed

import qops
from qops import _core

N = 1 << 16  # in the L2 cache, where the kernel counts and not the memory
COLUMNS = 1 << 10
LOSS = 0.97  # of the speed of a lower level; less is no noise
DTYPES = {
    "u8": np.dtype(np.uint8),
    "i8": np.dtype(np.int8),
    "u16": np.dtype(np.uint16),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


def _quantize(x: Any, y: Any) -> Call:
    a, out = numbers(x, (N,)), empty(y, (N,))
    return lambda: qops.quantize(a, 0.05, 3, out=out)


def _fake_quantize(x: Any, y: Any) -> Call:
    """Round numbers; where the result is of bytes, only their mask is measured."""
    a = numbers(x, (N,))
    if y.itemsize > 1:
        out = empty(y, (N,))
        return lambda: qops.fake_quantize(a, 0.05, 3, dtype=np.uint8, out=out)
    return lambda: _core.fake_quantize(a, 0.05, 3, np.uint8, None, None, None, True)


def _masked_fill(x: Any, y: Any) -> Call:
    q, out = codes(x, (N,)), empty(y, (N,))
    mask = codes(DTYPES["u8"], (N,)) > 100
    return lambda: qops.masked_fill(q, mask, 0.5, 0.05, 3, out=out)


def _dequantize(x: Any, y: Any) -> Call:
    q, out = codes(x, (N,)), empty(y, (N,))
    return lambda: qops.dequantize(q, 0.05, 3, out=out)


def _binary(function: Callable[..., Any]) -> Callable[[Any, Any], Call]:
    def make(x: Any, y: Any) -> Call:
        x = np.dtype(np.int16) if x == np.float32 else x  # composed of it and others
        a, b, out = codes(x, (N,)), codes(x, (N,), seed=1), empty(x, (N,))
        return lambda: function(a, 0.05, 3, b, 0.08, 5, 0.1, 7, out=out)

    return make


def _sum(function: Callable[..., Any]) -> Callable[[Any, Any], Call]:
    def make(x: Any, y: Any) -> Call:
        q = codes(x, (N,))
        return lambda: function(q)

    return make


def _columns(function: Callable[..., Any]) -> Callable[[Any, Any], Call]:
    def make(x: Any, y: Any) -> Call:
        q = codes(x, (N // COLUMNS, COLUMNS))
        return lambda: function(q, 0)

    return make


def _take(x: Any, y: Any) -> Call:
    q, out = codes(x, (N,)), empty(y, (N,))
    table = np.resize(numbers(y, (256,)), 256 if x.itemsize == 1 else 65536)
    return lambda: qops.take(q, table, out=out)


def _softmax(x: Any, y: Any) -> Call:
    q, out = codes(x, (N // COLUMNS, COLUMNS)), empty(x, (N // COLUMNS, COLUMNS))
    return lambda: qops.qsoftmax(q, 0.05, 3, out=out)


@qops.fuse
def _floats(a: Any, b: Any) -> Any:
    return (a + b) * a - b


@qops.fuse
def _compared(a: Any, b: Any) -> Any:
    return (a < b) != (b > 3)


@qops.fuse
def _cast_to_numbers(a: Any) -> Any:
    return a.astype(np.float32)


@qops.fuse
def _cast_to_codes(a: Any) -> Any:
    return a.astype(np.uint16)


def _tile(x: Any, y: Any, function: Any = _floats) -> Call:
    """Run a fused function in which these kernels do most."""
    a = (numbers if x.kind == "f" else codes)(x, (N,))
    b, out = a[::-1].copy(), empty(function(a, a).dtype, (N,))
    return lambda: function(a, b, out=out)


def _tile_cast(x: Any, y: Any) -> Call:
    """Cast to float32 and from it, which takes all of these kernels."""
    a = (numbers if x.kind == "f" else codes)(x, (N,))
    function = _cast_to_codes if y.itemsize < 4 else _cast_to_numbers
    if x.kind == "f":
        function = _cast_to_codes
    out = empty(function(a).dtype, (N,))
    return lambda: function(a, out=out)


def _normalize(x: Any, y: Any) -> Call:
    q, out = codes(x, (N // COLUMNS, COLUMNS)), empty(y, (N // COLUMNS, COLUMNS))
    return lambda: qops.qlayer_norm(q, 0.05, 3, 0.03, 5, out=out)


def _pool(function: Callable[..., Any]) -> Callable[[Any, Any], Call]:
    def make(x: Any, y: Any) -> Call:
        q = codes(x, (1, 32, N // 32 // 32, 32))
        out = empty(np.dtype(np.int16) if y.itemsize == 2 else x, q.shape)
        own = {"kernel": 3, "stride": 1, "padding": 1, "channels_last": True}
        return lambda: function(q, 0.05, 3, **own, out=out)

    return make


def _interpolate(x: Any, y: Any) -> Call:
    """Enlarge images; both kernels take part."""
    q = codes(y if x == np.float32 else x, (1, 32, N // 32 // 32 // 4, 32))
    out = empty(q.dtype, (1, 64, N // 32 // 32 // 2, 32))
    own: Any = {"scale_factor": 2, "mode": "bilinear", "channels_last": True}
    return lambda: qops.qinterpolate(q, 0.05, 3, **own, out=out)


MAKERS: dict[str, Callable[[Any, Any], Call]] = {
    "quantize": _quantize,
    "dequantize": _dequantize,
    "fake_quantize": _fake_quantize,
    "unsaturated": _fake_quantize,
    "masked_fill": _masked_fill,
    **{op: _binary(getattr(qops, op)) for op in UFUNCS},
    "exponentials": _softmax,
    "tile_cast": _tile_cast,
    "tile_compare": partial(_tile, function=_compared),
    "tile_float": _tile,
    "tile_int": _tile,
    "normalize": _normalize,
    "window_max": _pool(qops.qmax_pool),
    "window_mean": _pool(qops.qavg_pool),
    "window_sum": _pool(partial(qops.qavg_pool, dtype=np.int16)),
    "blend_columns": _interpolate,
    "blend_rows": _interpolate,
    "hsum": _sum(qops.hsum),
    "hsum_sq": _sum(qops.hsum_sq),
    "add_codes": _columns(qops.hsum),
    "add_squares": _columns(qops.hsum_sq),
    "take": _take,
    "take_wide": _take,
    "take_words": _take,
}


def measure(seconds: float) -> dict[str, Times]:
    """Race the levels that have a kernel, kernel by kernel."""
    measured = {}
    for _, op, x, y in _core.kernels():
        name = f"{op}_{x}_{y}"
        having = qops.kernel_info(f"^{name}$")[name]["available"]
        if not {x, y} <= {*DTYPES, "i64"}:  # bfloat16: a type of another package
            continue
        call = MAKERS[op](DTYPES[x], DTYPES.get(y))
        measured[name] = race({v: Contender(call, v) for v in having}, seconds)
    return measured


def main() -> None:
    """Print the table and what loses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="for each kernel")
    measured = measure(parser.parse_args().seconds)
    names = levels()
    at = machine()
    print(f"{at['cpu']}, one thread, {N} elements; qops {at['qops']}.\n")
    print(f"| 10^9 elements/s | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    losing = []
    for kernel, times in measured.items():
        speeds = [f"{speed(times, v, N):.3g}" if v in times else "" for v in names]
        print(f"| {kernel} | {' | '.join(speeds)} |")
        having = list(times)
        for higher, lower in pairwise(having):
            of_lower = ratio(times, higher, lower)
            if of_lower < LOSS:
                losing.append(f"{kernel}: {higher} has {of_lower:.2f} of {lower}")
    print("\nSlower than the next lower level:", "" if losing else "none")
    print("\n".join(losing))


if __name__ == "__main__":
    main()
