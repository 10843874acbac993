"""The command `qops`: quantize, dequantize and compare files of arrays."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import qops

from ._files import (
    CODES,
    EXTENSIONS,
    FORMAT,
    Array,
    Failure,
    Npz,
    Step,
    Tensor,
    cuts,
    decode,
    expected_errors,
    extension_of,
    message_of,
    naming,
    open_tensors,
    printable,
    progress,
    replacing,
    values_of,
    write_npy,
    write_safetensors,
)


def _is_float(tensor: Tensor) -> bool:
    """Say whether a tensor is quantized: floats of at most 64 bits, not empty."""
    return tensor.dtype.kind == "f" and tensor.dtype.itemsize <= 8 and tensor.size > 0


def _bounds(tensor: Tensor, dtype: type[np.floating[Any]], step: Step) -> Array:
    """Find the least and the greatest value of a tensor, or of each channel."""
    channels = () if tensor.axis is None else (tensor.shape[tensor.axis],)
    bounds = np.empty((2, *channels), dtype)
    bounds[0], bounds[1] = np.inf, -np.inf
    others = tuple(d for d in range(len(tensor.shape)) if d != tensor.axis)
    for index, piece in tensor.pieces():
        x, part = piece.astype(dtype, copy=False), tensor.part(index)
        low, high = x.min(others), x.max(others)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            at = np.argwhere(~np.isfinite(x))[0]
            where = [s.start + int(i) for s, i in zip(index, at, strict=True)]
            raise ValueError(
                f"value at {tensor.logical(where)} is {x[tuple(at)]}, not finite"
            )
        bounds[0, part] = np.minimum(bounds[0, part], low)
        bounds[1, part] = np.maximum(bounds[1, part], high)
        step(x.size)
    return bounds


def _quantize_tensor(
    archive: Npz, name: str, tensor: Tensor, args: argparse.Namespace, step: Step
) -> None:
    """Write the codes and parameters of a float tensor."""
    work = np.float64 if tensor.dtype.itemsize == 8 else np.float32
    dtype, along = np.dtype(args.dtype), None
    with naming(tensor.label):
        if len(tensor.shape) >= 2:
            tensor.axis, along = tensor.stored_axis(args.axis), 1
        bounds = _bounds(tensor, work, step)
        scale, zero = qops.choose_qparams(
            bounds, dtype, axis=along, symmetric=args.symmetric
        )
    scale, zero = np.asarray(scale), np.asarray(zero, dtype)

    def codes() -> Iterator[Array]:
        for index, piece in tensor.pieces():
            s, z = scale[tensor.part(index)], zero[tensor.part(index)]
            q = qops.quantize(piece, s, z, dtype=dtype, axis=tensor.axis)
            yield np.asarray(q)
            step(piece.size)

    archive.add(f"{name}.codes", tensor, dtype, codes())
    archive.add_small(f"{name}.scale", scale)
    archive.add_small(f"{name}.zero_point", zero)
    if tensor.axis is not None:
        axis = np.asarray(args.axis % len(tensor.shape), np.int64)
        archive.add_small(f"{name}.axis", axis)


def _quantize(args: argparse.Namespace) -> None:
    """Write the codes, scales and zero points of float arrays.

    Arrays of two or more dimensions are quantized per channel along --axis, others per
    tensor, from their least and greatest value. Arrays that are empty or not of floats
    are copied unchanged. OUT holds NAME.codes, NAME.scale, NAME.zero_point and, per
    channel, NAME.axis; or NAME.copy. The array of an .npy is called arr_0.
    """
    extension_of(args.out, ".npz")
    with (
        open_tensors(args.input) as tensors,
        replacing(args.out, args.input) as temporary,
    ):
        if FORMAT in tensors:
            raise Failure(f"{args.input}: is quantized already, not floats")
        n = sum(t.size * (1 + _is_float(t)) for t in tensors.values())
        with progress(n) as step, Npz(temporary, "w") as archive:
            archive.add_small(FORMAT, np.asarray(1))
            for name, t in tensors.items():
                if _is_float(t):
                    _quantize_tensor(archive, name, t, args, step)
                else:
                    archive.add(f"{name}.copy", t, t.dtype, values_of(t, step))
    copied = {name: t for name, t in tensors.items() if not _is_float(t)}
    for name, t in copied.items():
        print(f"{name}: {t.dtype} of shape {t.logical(t.shape)}, copied unchanged")
    counts = f"{len(tensors) - len(copied)} quantized, {len(copied)} copied"
    before, after = (f"{path.stat().st_size:,}" for path in (args.input, args.out))
    print(f"{args.out}: {counts}, {before} -> {after} bytes")


def _dequantize(args: argparse.Namespace) -> None:
    """Write the numbers that codes stand for.

    They are float32, or float64 where the input of quantize was.
    """
    extension_of(args.input, ".npz")
    extension = extension_of(args.out, *EXTENSIONS)
    with (
        open_tensors(args.input) as members,
        replacing(args.out, args.input) as temporary,
    ):
        if FORMAT not in members:
            raise Failure(f"{args.input}: has no {FORMAT}, as qops quantize writes it")
        tensors = decode(args.input, members)
        if extension == ".npy" and len(tensors) != 1:
            raise Failure(f"{args.out}: .npy holds 1 array, not {len(tensors)}")
        with progress(sum(t.size for t in tensors.values())) as step:
            if extension == ".safetensors":
                write_safetensors(temporary, tensors, step)
            elif extension == ".npz":
                with Npz(temporary, "w") as archive:
                    for name, t in tensors.items():
                        archive.add(name, t, t.result, values_of(t, step))
            else:
                with open(temporary, "wb") as file:
                    for t in tensors.values():
                        write_npy(file, t, t.result, values_of(t, step))
    copied = sum(t.scale is None for t in tensors.values())
    print(f"{args.out}: {len(tensors) - copied} dequantized, {copied} copied")


def _in_c_order(tensor: Tensor) -> Tensor:
    """Hold a Fortran-ordered array in memory, to pair it with a C-ordered one."""
    whole, axis = tensor.load().T, tensor.axis
    return dataclasses.replace(
        tensor,
        shape=whole.shape,
        fortran=False,
        axis=None if axis is None else whole.ndim - 1 - axis,
        read=lambda: ((i, whole[i]) for i in cuts(whole.shape, whole.itemsize)),
    )


def _difference(x: Array, y: Array) -> tuple[float, float, float]:
    """Give max |x - y|, sum x^2 and sum (x - y)^2; equal elements differ by zero."""
    if (x.dtype.kind + y.dtype.kind).strip("biufc"):  # strings, times: equal or not
        x, error = np.zeros(1), (x != y).astype(np.float64)
    elif x.dtype == y.dtype and x.dtype.kind in "biu":  # modulo 2**64 it is exact
        ends = np.maximum(x, y).astype(np.uint64), np.minimum(x, y).astype(np.uint64)
        error = (ends[0] - ends[1]).astype(np.float64)
    else:
        wide = np.result_type(x, y, np.float64)
        error = np.abs(x.astype(wide) - y.astype(wide))
        if not np.isfinite(error).all():
            error[(x == y) | ((x != x) & (y != y))] = 0
    signal = np.square(np.abs(x.astype(np.result_type(x, np.float64)))).sum()
    return float(error.max()), float(signal), float(np.square(error).sum())


def _merge(found: Sequence[Sequence[float]]) -> tuple[float, float, float, int]:
    """Join what was found in pieces or tensors: `_difference` and saturated codes."""
    rows = np.reshape(np.array(found, np.float64), (-1, 4))
    most, (signal, noise, saturated) = (
        rows[:, 0].max(initial=0),
        rows[:, 1:].sum(axis=0),
    )
    return float(most), float(signal), float(noise), int(saturated)


def _compare_tensors(x: Tensor, y: Tensor, step: Step) -> Any:
    """Compare two tensors of the same name, in pieces."""
    if x.logical(x.shape) != y.logical(y.shape):
        shapes = f"{x.logical(x.shape)}, not {y.logical(y.shape)}"
        raise Failure(f"{x.label}: shape is {shapes} as in {y.label}")
    if x.fortran != y.fortran:
        x, y = (_in_c_order(t) if t.fortran else t for t in (x, y))
    found = []
    for (index, p), (_, q) in zip(x.pieces(), y.pieces(), strict=True):
        saturated = 0
        for codes in [c for t, c in ((x, p), (y, q)) if t.scale is not None]:
            ends = np.iinfo(codes.dtype)
            at_end = (codes == ends.min) | (codes == ends.max)
            saturated += int(np.count_nonzero(at_end))
        with naming(x.label):
            numbers = _difference(x.values(index, p), y.values(index, q))
        found.append((*numbers, saturated))
        step(p.size)
    return _merge(found)


def _columns(found: tuple[float, float, float, int], *, codes: bool) -> list[str]:
    """Write out the last columns of a line of the table."""
    most, signal, noise, saturated = found
    ratio = math.inf if noise == 0 else -math.inf
    if noise != 0 and signal != 0:
        ratio = 10 * (math.log10(signal) - math.log10(noise))
    return [f"{most:.4g}", f"{ratio:.2f}", str(saturated) if codes else "-"]


def _compare(args: argparse.Namespace) -> None:
    """Print how far the arrays of B are from those of A.

    Quantized files are dequantized on the way. SQNR is 10 log10(sum a^2 / sum (a-b)^2);
    saturated counts the codes at an end of the range of their dtype. In the total,
    sum a^2 is that of the float arrays.
    """
    table = [["name", "shape", "dtype", "max error", "SQNR dB", "saturated"]]
    with open_tensors(args.a) as in_a, open_tensors(args.b) as in_b:
        a = decode(args.a, in_a) if FORMAT in in_a else in_a
        b = decode(args.b, in_b) if FORMAT in in_b else in_b
        if {"arr_0"} in (a.keys(), b.keys()) and len(a) == len(b) == 1:
            b = dict(
                zip(a, b.values(), strict=True)
            )  # the array of an .npy has no name
        for path, absent in (
            (args.a, b.keys() - a.keys()),
            (args.b, a.keys() - b.keys()),
        ):
            if absent:
                raise Failure(f"{path}: has no {', '.join(sorted(absent))}")
        n, all_found, any_codes = sum(t.size for t in a.values()), [], False
        with progress(n) as step:
            for name, x in a.items():
                y, shape = b[name], str(x.logical(x.shape))
                dtypes = "/".join(dict.fromkeys([str(x.dtype), str(y.dtype)]))
                most, signal, *rest = found = _compare_tensors(x, y, step)
                codes = x.scale is not None or y.scale is not None
                table.append([name, shape, dtypes, *_columns(found, codes=codes)])
                all_found.append((most, signal * (x.result.kind in "fc"), *rest))
                any_codes |= codes
    table.append(
        ["total", f"{n} values", "", *_columns(_merge(all_found), codes=any_codes)]
    )
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [c.rjust(w) for c, w in zip(row, widths, strict=True)]
        cells[:3] = [c.ljust(w) for c, w in zip(row[:3], widths[:3], strict=True)]
        print(printable("  ".join(cells)))


def _info(args: argparse.Namespace) -> None:
    """Print how qops was built and what it found on this machine."""
    if args.json:
        config, runtime = (
            qops.show_config(mode="dicts"),
            qops.show_runtime(mode="dicts"),
        )
        print(json.dumps({"config": config, "runtime": runtime}, indent=2))
    else:
        qops.show_config()
        qops.show_runtime()


def _parser() -> argparse.ArgumentParser:
    """Describe the command line; the commands say themselves what they do."""
    parser = argparse.ArgumentParser(
        prog="qops", description="Quantize, dequantize and compare files of arrays."
    )
    parser.add_argument(
        "--version", action="version", version=f"qops {qops.__version__}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(run: Callable[[argparse.Namespace], None], **files: str) -> Any:
        text = run.__doc__ or ""
        name, brief = run.__name__.strip("_"), text.partition(".")[0]
        added = commands.add_parser(name, help=brief, description=text)
        added.set_defaults(run=run)
        for key, text in files.items():
            metavar = "IN" if key == "input" else key.upper()
            added.add_argument(key, type=Path, metavar=metavar, help=text)
        return added

    any_file = "an .npy, .npz or .safetensors file"
    quantize = command(_quantize, input=any_file, out="the .npz file to write")
    quantize.add_argument(
        "--dtype", choices=CODES, default="int8", help="of the codes (default: int8)"
    )
    quantize.add_argument(
        "--axis", type=int, default=0, help="of the channels (default: 0)"
    )
    quantize.add_argument(
        "--symmetric", action="store_true", help="zero point 0 (uint8: 128)"
    )
    command(
        _dequantize,
        input="an .npz file that quantize wrote",
        out="the .npz or .safetensors file to write; .npy for one array",
    )
    command(_compare, a=any_file, b=f"{any_file} with the same array names")
    info = command(_info)
    info.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; give the exit code."""
    args = _parser().parse_args(argv)
    if threading.current_thread() is threading.main_thread():
        signal.signal(
            signal.SIGTERM, signal.default_int_handler
        )  # so that it tidies up
    try:
        with np.errstate(all="ignore"):  # NaN and overflow show in what is printed
            args.run(args)
        print(end="", flush=True)
    except KeyboardInterrupt:
        print(f"qops: {args.command}: interrupted", file=sys.stderr)
        return 130  # as in a shell
    except BrokenPipeError:  # the reader has gone, as `head` does; flush no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except expected_errors() as error:
        print(f"qops: {args.command}: {message_of(error)}", file=sys.stderr)
        return 1
    return 0
