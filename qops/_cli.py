"""The command `qops`: quantize, dequantize and compare files of arrays.

A quantized file is an .npz that plain ``numpy.load`` reads. It holds ``qops.format``
(the number 1) and for each array NAME of the input either ``NAME.codes``,
``NAME.scale``, ``NAME.zero_point`` and, if it is per channel, ``NAME.axis``; or
``NAME.copy``, the array unchanged. The word after the last dot is never part of NAME,
so a name may end in any of these words. The one array of an .npy is ``arr_0``.

Arrays are read, worked on and written in pieces, and no length that a file claims is
believed before it was compared with the size of the file.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import io
import itertools
import json
import math
import os
import re
import signal
import stat
import struct
import sys
import tempfile
import threading
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.lib.array_utils import normalize_axis_index

import qops

_PIECE = 1 << 18  # elements worked on at a time: they stay in the cache
_HEADER_BYTES = 10_000  # the longest .npy header that is read; NumPy has this limit too
_DEFLATE_RATIO = 1032  # the most bytes that deflate makes out of one
_CODES = ("int8", "uint8", "int16", "uint16", "int32")
_EXTENSIONS = (".npy", ".npz", ".safetensors")
_FORMAT = "qops.format"
_SAFETENSORS_DTYPES = {
    "BOOL": "?", "U8": "u1", "U16": "u2", "U32": "u4", "U64": "u8",
    "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8",
    "F16": "f2", "BF16": "f4", "F32": "f4", "F64": "f8", "C64": "c8",
}  # fmt: skip
_UNSAFE_NAME = re.compile(r"^$|^[/\\]|^[A-Za-z]:[/\\]|(^|[/\\])\.\.($|[/\\])")
_CONTROL = re.compile(r"[\0-\x1f\x7f-\x9f]")

_Array = np.ndarray[Any, Any]
_Index = tuple[slice, ...]
_Pieces = Iterator[tuple[_Index, _Array]]
_Step = Callable[[int], object]


class _Failure(Exception):
    """An error whose message is ready for the user."""


@dataclasses.dataclass
class _Tensor:
    """An array in a file, read in pieces; codes, if it has a scale.

    `shape` and `axis` are those of the file, in C order: a Fortran-ordered array is
    the transpose of what is stored. `read` yields (index, piece) in file order.
    """

    label: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    read: Callable[[], _Pieces]
    scale: _Array | None = None
    zero_point: _Array | None = None
    axis: int | None = None

    @property
    def size(self) -> int:
        """Count the elements."""
        return math.prod(self.shape)

    @property
    def result(self) -> np.dtype[Any]:
        """Give the dtype of `values`."""
        return self.dtype if self.scale is None else self.scale.dtype

    def logical(self, along: Sequence[int]) -> tuple[int, ...]:
        """Turn a shape or position in file order into the user's."""
        return tuple(reversed(along)) if self.fortran else tuple(along)

    def stored_axis(self, axis: int) -> int:
        """Turn the user's axis, which may count from the end, into the file's."""
        axis = normalize_axis_index(axis, len(self.shape))
        return len(self.shape) - 1 - axis if self.fortran else axis

    def part(self, index: _Index) -> Any:
        """Say which of the channels a piece covers."""
        return ... if self.axis is None else index[self.axis]

    def pieces(self) -> _Pieces:
        """Read the array, naming it in the message of what goes wrong."""
        if self.size:
            with _naming(self.label):
                yield from self.read()

    def load(self) -> _Array:
        """Read the whole array as it is stored, in native byte order."""
        whole = np.empty(self.shape, self.dtype.newbyteorder("="))
        for index, piece in self.pieces():
            whole[index] = piece
        return whole

    def values(self, index: _Index, piece: _Array) -> _Array:
        """Give the numbers that a piece stands for: codes are dequantized."""
        if self.scale is None or self.zero_point is None:
            return piece
        scale, zero = self.scale[self.part(index)], self.zero_point[self.part(index)]
        with _naming(self.label):
            x = qops.dequantize(piece, scale, zero, dtype=scale.dtype, axis=self.axis)
        return np.asarray(x)


# Errors


def _expected() -> tuple[type[Exception], ...]:
    """List what bad files, the system and the libraries raise."""
    library = sys.modules.get("safetensors")
    return (
        _Failure, OSError, ValueError, TypeError, KeyError, EOFError, MemoryError,
        OverflowError, NotImplementedError, struct.error, zlib.error,
        zipfile.BadZipFile, *([library.SafetensorError] if library else []),
    )  # fmt: skip


def _message(error: Exception) -> str:
    """Say in one line what went wrong."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror[0].lower() + error.strerror[1:]
    elif isinstance(error, MemoryError):
        text = "out of memory"
    elif isinstance(error, KeyError) and error.args:
        text = str(error.args[0])
    return _plain(" ".join(text.split())) or type(error).__name__


def _plain(text: str) -> str:
    """Keep what a file calls its arrays from steering the terminal."""
    return _CONTROL.sub("?", text)


@contextlib.contextmanager
def _naming(label: object) -> Iterator[None]:
    """Put a file's or tensor's name in front of the message of what goes wrong."""
    try:
        yield
    except _Failure:
        raise  # it has its name
    except _expected() as error:
        raise _Failure(f"{label}: {_message(error)}") from error


def _library(name: str, purpose: str, source: str) -> Any:
    """Import an optional library, or say how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        what = f"{purpose} needs {name.partition('.')[0]}, which is not installed"
        raise _Failure(f"{what}; install {source}") from error


# Reading


def _extension(path: Path, *supported: str) -> str:
    """Give a file's extension, which must be a supported one."""
    if path.suffix.lower() not in supported:
        expected = " or ".join(supported)
        raise _Failure(f"{path}: extension is '{path.suffix}', not {expected}")
    return path.suffix.lower()


def _cuts(shape: tuple[int, ...], itemsize: int) -> Iterator[_Index]:
    """Cut a C-ordered array into contiguous pieces, in file order."""
    count = max(1, _PIECE // max(1, itemsize // 64))  # only strings are that long
    axis, inner = len(shape), 1
    while axis and inner * shape[axis - 1] <= count:
        axis -= 1
        inner *= shape[axis]
    whole = tuple(slice(0, n) for n in shape[axis:])
    if axis == 0:
        yield whole
        return
    n, step = shape[axis - 1], count // inner
    for lead in itertools.product(*map(range, shape[: axis - 1])):
        ones = [slice(i, i + 1) for i in lead]
        for start in range(0, n, step):
            yield (*ones, slice(start, min(start + step, n)), *whole)


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Read the header of an .npy; give shape, order, dtype and where the data start."""
    magic = stream.read(8)
    if magic not in (npy.magic(1, 0), npy.magic(2, 0)):
        raise ValueError(f"starts with {magic!r}, not as .npy version 1.0 or 2.0")
    length = stream.read(2 if magic[6] == 1 else 4)
    n_bytes = int.from_bytes(length, "little")
    if n_bytes > _HEADER_BYTES:  # asked before it is read
        raise ValueError(f"header has {n_bytes} bytes, not at most {_HEADER_BYTES}")
    text = io.BytesIO(length + stream.read(n_bytes))
    read = npy.read_array_header_1_0 if magic[6] == 1 else npy.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about Python 2 and odd literals
            shape, fortran, dtype = read(text)
    except (
        ValueError, TypeError, LookupError, AttributeError, SyntaxError,
        RecursionError, MemoryError, tokenize.TokenError,
    ) as error:  # fmt: skip
        raise ValueError(f"header is not valid: {_message(error)}") from error
    return tuple(map(int, shape)), fortran, dtype, len(magic) + len(length) + n_bytes


def _stored(
    label: str, size: int, open_stream: Callable[[], Any], *, mapped: bool
) -> _Tensor:
    """Find the array of an .npy of `size` bytes; a piece is read or memory-mapped."""
    with open_stream() as stream:
        shape, fortran, dtype, offset = _header(stream)
    if dtype.kind not in "biufcSUmM" or not dtype.itemsize:
        raise ValueError(f"dtype is {dtype}, not numbers, times or strings")
    if not all(0 <= n < 2**63 for n in shape):
        raise ValueError(f"shape is {shape}, not of lengths from 0 to 2**63 - 1")
    claim = math.prod(shape) * dtype.itemsize
    if claim != size - offset:
        claimed = f"the {claim} of shape {shape} and dtype {dtype}"
        raise ValueError(f"has {size - offset} bytes of data, not {claimed}")
    fortran = fortran and len(shape) > 1
    shape = shape[::-1] if fortran else shape

    def read() -> _Pieces:
        with open_stream() as stream:
            stream.read(offset)
            start = offset
            for index in _cuts(shape, dtype.itemsize):
                lengths = tuple(s.stop - s.start for s in index)
                n_bytes = math.prod(lengths) * dtype.itemsize
                if mapped:
                    data = np.memmap(stream, np.uint8, "r", start, (n_bytes,)).data
                else:
                    data = stream.read(n_bytes)
                if len(data) != n_bytes:
                    raise EOFError(f"ends {n_bytes - len(data)} bytes too early")
                yield index, np.frombuffer(data, dtype).reshape(lengths)
                start += n_bytes

    return _Tensor(label, shape, dtype, fortran, read)


def _from_zip(
    path: Path, archive: zipfile.ZipFile, file_bytes: int
) -> dict[str, _Tensor]:
    """Find the arrays of an .npz; they are read as streams."""
    tensors: dict[str, _Tensor] = {}
    for info in archive.infolist():
        if info.filename.endswith("/"):  # a folder; is_dir() fails for an empty name
            continue
        name = info.filename.removesuffix(".npy")
        with _naming(label := f"{path}: {info.filename}"):
            if name == info.filename or name in tensors:
                raise ValueError("comes twice" if name in tensors else "is not an .npy")
            if info.flag_bits & 1:
                raise ValueError("is encrypted, not plain")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"compression is {info.compress_type}, not 0 or 8")
            ratio = _DEFLATE_RATIO if info.compress_type else 1
            most = min(info.compress_size, file_bytes) * ratio
            if info.file_size > most:
                raise ValueError(f"claims {info.file_size} bytes, has at most {most}")
            opener = partial(archive.open, info)
            tensors[name] = _stored(label, info.file_size, opener, mapped=False)
    return tensors


def _from_safetensors(path: Path, handle: Any) -> dict[str, _Tensor]:
    """Find the tensors of a .safetensors; bfloat16 is widened to float32."""

    def read(tensor: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Pieces:
        for index in _cuts(shape, dtype.itemsize):
            yield index, tensor[index].astype(dtype, copy=False)

    tensors = {}
    for name in handle.keys():  # noqa: SIM118 - it is no mapping
        with _naming(label := f"{path}: {name}"):
            tensor = handle.get_slice(name)
            code, shape = tensor.get_dtype(), tuple(tensor.get_shape())
            if code not in _SAFETENSORS_DTYPES:
                raise ValueError(
                    f"dtype is {code}, not {' '.join(_SAFETENSORS_DTYPES)}"
                )
            if code == "BF16":
                _library("ml_dtypes", f"{label}: bfloat16", "ml_dtypes")
            dtype = np.dtype(_SAFETENSORS_DTYPES[code])
            tensors[name] = _Tensor(
                label, shape, dtype, False, partial(read, tensor, shape, dtype)
            )
    return tensors


@contextlib.contextmanager
def _open(path: Path) -> Iterator[dict[str, _Tensor]]:
    """Open a file of any supported kind; give its tensors by name."""
    extension = _extension(path, *_EXTENSIONS)
    with contextlib.ExitStack() as stack:
        with _naming(path):
            file = stack.enter_context(open(path, "rb"))
            n_bytes = os.fstat(file.fileno()).st_size
            if extension == ".npy":
                opener = partial(open, path, "rb")
                tensors = {"arr_0": _stored(str(path), n_bytes, opener, mapped=True)}
            elif extension == ".npz":
                archive = stack.enter_context(zipfile.ZipFile(file))
                tensors = _from_zip(path, archive, n_bytes)
            else:
                library = _library("safetensors.numpy", ".safetensors", "qops[cli]")
                handle = library.safe_open(path, framework="numpy")
                tensors = _from_safetensors(path, stack.enter_context(handle))
        yield tensors


def _small(tensor: _Tensor, shape: tuple[int, ...], kinds: str) -> _Array:
    """Read a parameter of a quantized file, which must have this shape."""
    if tensor.shape != shape or tensor.dtype.kind not in kinds:
        found = f"{tensor.dtype} of shape {tensor.shape}"
        word = "float" if kinds == "f" else "integer"
        raise _Failure(f"{tensor.label}: is {found}, not {word} of shape {shape}")
    return tensor.load()


def _decode(path: Path, members: dict[str, _Tensor]) -> dict[str, _Tensor]:
    """Join the members of a quantized file to the tensors that they stand for."""
    if (version := int(_small(members[_FORMAT], (), "iu"))) != 1:
        raise _Failure(f"{path}: {_FORMAT} is {version}, not 1")
    groups: dict[str, dict[str, _Tensor]] = {}
    for key, member in members.items():
        name, _, kind = key.rpartition(".")
        if key != _FORMAT:
            groups.setdefault(name, {})[kind] = member
    tensors = {}
    for name, parts in groups.items():
        with _naming(label := f"{path}: {name}"):
            if parts.keys() == {"copy"}:
                tensors[name] = dataclasses.replace(parts["copy"], label=label)
                continue
            if parts.keys() | {"axis"} != {"codes", "scale", "zero_point", "axis"}:
                raise ValueError(f"has {sorted(parts)}, not codes, scale, zero_point")
            codes = dataclasses.replace(parts["codes"], label=label)
            if codes.dtype.name not in _CODES:
                raise ValueError(f"codes are {codes.dtype}, not {', '.join(_CODES)}")
            channels: tuple[int, ...] = ()
            if "axis" in parts:
                codes.axis = codes.stored_axis(int(_small(parts["axis"], (), "iu")))
                channels = (codes.shape[codes.axis],)
            codes.scale = _small(parts["scale"], channels, "f")
            codes.zero_point = _small(parts["zero_point"], channels, "iu")
            tensors[name] = codes
    return tensors


# Writing


@contextlib.contextmanager
def _replacing(out: Path, source: Path) -> Iterator[Path]:
    """Give a new file beside `out` to write to; at success it becomes `out`."""
    out = Path(os.path.realpath(out))  # write through a symbolic link, not over it
    mode = None
    if out.exists():
        mode = stat.S_IMODE(out.stat().st_mode)
        if not out.is_file() or not os.access(out, os.W_OK):
            raise _Failure(f"{out}: is not a file that can be written")
        if out.samefile(source):
            raise _Failure(f"{out}: is the input itself, not another file")
    temporary = out.with_name(f".qops-{os.urandom(6).hex()}.tmp")
    try:
        with _naming(out.parent), open(temporary, "xb") as file:
            mode = mode or stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        with _naming(out):
            yield temporary
            os.chmod(temporary, mode)
            os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


def _write(stream: IO[bytes], pieces: Iterable[_Array]) -> None:
    """Write the bytes of arrays, one after the other."""
    for piece in pieces:
        stream.write(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)


def _write_npy(
    stream: IO[bytes], like: _Tensor, dtype: np.dtype[Any], pieces: Iterable[_Array]
) -> None:
    """Write an .npy with the shape and order of a tensor."""
    shape, descr = like.logical(like.shape), npy.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": like.fortran, "shape": shape}
    npy.write_array_header_1_0(stream, header)
    _write(stream, pieces)


class _Npz(zipfile.ZipFile):
    """An .npz that is written in pieces."""

    def add(
        self, name: str, like: _Tensor, dtype: np.dtype[Any], pieces: Iterable[_Array]
    ) -> None:
        """Add an array; without a date, so that equal input gives equal bytes."""
        if _UNSAFE_NAME.search(name) or _CONTROL.search(name):
            raise _Failure(f"{like.label}: {name!r} is not safe as a path in a zip")
        with self.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as stream:
            _write_npy(stream, like, dtype, pieces)

    def add_small(self, name: str, array: _Array) -> None:
        """Add an array that is in memory."""
        like = _Tensor(name, array.shape, array.dtype, False, lambda: iter(()))
        self.add(name, like, array.dtype, [array])


def _write_safetensors(path: Path, tensors: dict[str, _Tensor], step: _Step) -> None:
    """Write a .safetensors; the library takes whole arrays, so give it a memory map."""
    library = _library("safetensors.numpy", ".safetensors", "qops[cli]")
    starts, arrays = [], {}
    with tempfile.TemporaryFile(dir=path.parent) as spool:
        for tensor in tensors.values():
            starts.append(spool.tell())
            _write(spool, _values(tensor, step))
            spool.write(bytes(16 - spool.tell() % 16))  # aligned, and never empty
        spool.flush()
        data = np.asarray(np.memmap(spool, np.uint8, "r"))
        for (name, tensor), start in zip(tensors.items(), starts, strict=True):
            span = data[start : start + tensor.size * tensor.result.itemsize]
            array = span.view(tensor.result).reshape(tensor.shape)
            arrays[name] = np.ascontiguousarray(array.T) if tensor.fortran else array
        library.save_file(arrays, path, metadata={"format": "pt"})


@contextlib.contextmanager
def _progress(n_elements: int) -> Iterator[_Step]:
    """Show a progress bar on a terminal; give the function that moves it."""
    bar = None
    if sys.stderr is not None and sys.stderr.isatty():
        try:
            tqdm = _library("tqdm", "the progress bar", "qops[cli]").tqdm
            bar = tqdm(total=n_elements, unit_scale=True, leave=False)
        except _Failure as note:
            print(f"qops: {note}", file=sys.stderr)
    with bar if bar is not None else contextlib.nullcontext():
        yield bar.update if bar is not None else lambda n: None


# Commands


def _is_float(tensor: _Tensor) -> bool:
    """Say whether a tensor is quantized: floats of at most 64 bits, not empty."""
    return tensor.dtype.kind == "f" and tensor.dtype.itemsize <= 8 and tensor.size > 0


def _values(tensor: _Tensor, step: _Step) -> Iterator[_Array]:
    """Give the numbers of a tensor in pieces."""
    for index, piece in tensor.pieces():
        yield tensor.values(index, piece)
        step(piece.size)


def _bounds(tensor: _Tensor, dtype: type[np.floating[Any]], step: _Step) -> _Array:
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
    archive: _Npz, name: str, tensor: _Tensor, args: argparse.Namespace, step: _Step
) -> None:
    """Write the codes and parameters of a float tensor."""
    work = np.float64 if tensor.dtype.itemsize == 8 else np.float32
    dtype, along = np.dtype(args.dtype), None
    with _naming(tensor.label):
        if len(tensor.shape) >= 2:
            tensor.axis, along = tensor.stored_axis(args.axis), 1
        bounds = _bounds(tensor, work, step)
        scale, zero = qops.choose_qparams(
            bounds, dtype, axis=along, symmetric=args.symmetric
        )
    scale, zero = np.asarray(scale), np.asarray(zero, dtype)

    def codes() -> Iterator[_Array]:
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
    _extension(args.out, ".npz")
    with _open(args.input) as tensors, _replacing(args.out, args.input) as temporary:
        if _FORMAT in tensors:
            raise _Failure(f"{args.input}: is quantized already, not floats")
        n = sum(t.size * (1 + _is_float(t)) for t in tensors.values())
        with _progress(n) as step, _Npz(temporary, "w") as archive:
            archive.add_small(_FORMAT, np.asarray(1))
            for name, t in tensors.items():
                if _is_float(t):
                    _quantize_tensor(archive, name, t, args, step)
                else:
                    archive.add(f"{name}.copy", t, t.dtype, _values(t, step))
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
    _extension(args.input, ".npz")
    extension = _extension(args.out, *_EXTENSIONS)
    with _open(args.input) as members, _replacing(args.out, args.input) as temporary:
        if _FORMAT not in members:
            raise _Failure(
                f"{args.input}: has no {_FORMAT}, as qops quantize writes it"
            )
        tensors = _decode(args.input, members)
        if extension == ".npy" and len(tensors) != 1:
            raise _Failure(f"{args.out}: .npy holds 1 array, not {len(tensors)}")
        with _progress(sum(t.size for t in tensors.values())) as step:
            if extension == ".safetensors":
                _write_safetensors(temporary, tensors, step)
            elif extension == ".npz":
                with _Npz(temporary, "w") as archive:
                    for name, t in tensors.items():
                        archive.add(name, t, t.result, _values(t, step))
            else:
                with open(temporary, "wb") as file:
                    for t in tensors.values():
                        _write_npy(file, t, t.result, _values(t, step))
    copied = sum(t.scale is None for t in tensors.values())
    print(f"{args.out}: {len(tensors) - copied} dequantized, {copied} copied")


def _in_c_order(tensor: _Tensor) -> _Tensor:
    """Hold a Fortran-ordered array in memory, to pair it with a C-ordered one."""
    whole, axis = tensor.load().T, tensor.axis
    return dataclasses.replace(
        tensor,
        shape=whole.shape,
        fortran=False,
        axis=None if axis is None else whole.ndim - 1 - axis,
        read=lambda: ((i, whole[i]) for i in _cuts(whole.shape, whole.itemsize)),
    )


def _difference(x: _Array, y: _Array) -> tuple[float, float, float]:
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


def _compare_tensors(x: _Tensor, y: _Tensor, step: _Step) -> Any:
    """Compare two tensors of the same name, in pieces."""
    if x.logical(x.shape) != y.logical(y.shape):
        shapes = f"{x.logical(x.shape)}, not {y.logical(y.shape)}"
        raise _Failure(f"{x.label}: shape is {shapes} as in {y.label}")
    if x.fortran != y.fortran:
        x, y = (_in_c_order(t) if t.fortran else t for t in (x, y))
    found = []
    for (index, p), (_, q) in zip(x.pieces(), y.pieces(), strict=True):
        saturated = 0
        for codes in [c for t, c in ((x, p), (y, q)) if t.scale is not None]:
            ends = np.iinfo(codes.dtype)
            at_end = (codes == ends.min) | (codes == ends.max)
            saturated += int(np.count_nonzero(at_end))
        with _naming(x.label):
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
    with _open(args.a) as in_a, _open(args.b) as in_b:
        a = _decode(args.a, in_a) if _FORMAT in in_a else in_a
        b = _decode(args.b, in_b) if _FORMAT in in_b else in_b
        if {"arr_0"} in (a.keys(), b.keys()) and len(a) == len(b) == 1:
            b = dict(
                zip(a, b.values(), strict=True)
            )  # the array of an .npy has no name
        for path, absent in (
            (args.a, b.keys() - a.keys()),
            (args.b, a.keys() - b.keys()),
        ):
            if absent:
                raise _Failure(f"{path}: has no {', '.join(sorted(absent))}")
        n, all_found, any_codes = sum(t.size for t in a.values()), [], False
        with _progress(n) as step:
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
        print(_plain("  ".join(cells)))


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
        "--dtype", choices=_CODES, default="int8", help="of the codes (default: int8)"
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
    except _expected() as error:
        print(f"qops: {args.command}: {_message(error)}", file=sys.stderr)
        return 1
    return 0
