"""Files of arrays for the command line: .npy, .npz and .safetensors, in pieces.

A quantized file is an .npz that plain ``numpy.load`` reads. It holds ``qops.format``
(the number 1) and for each array NAME of the input either ``NAME.codes``,
``NAME.scale``, ``NAME.zero_point`` and, if it is per channel, ``NAME.axis``; or
``NAME.copy``, the array unchanged. The word after the last dot is never part of NAME,
so a name may end in any of these words. The one array of an .npy is ``arr_0``.

Arrays are read, worked on and written in pieces, and no length that a file claims is
believed before it was compared with the size of the file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import itertools
import math
import os
import re
import stat
import struct
import sys
import tempfile
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
CODES = ("int8", "uint8", "int16", "uint16", "int32")
EXTENSIONS = (".npy", ".npz", ".safetensors")
FORMAT = "qops.format"
_SAFETENSORS_DTYPES = {
    "BOOL": "?", "U8": "u1", "U16": "u2", "U32": "u4", "U64": "u8",
    "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8",
    "F16": "f2", "BF16": "f4", "F32": "f4", "F64": "f8", "C64": "c8",
}  # fmt: skip
_UNSAFE_NAME = re.compile(r"^$|^[/\\]|^[A-Za-z]:[/\\]|(^|[/\\])\.\.($|[/\\])")
_CONTROL = re.compile(r"[\0-\x1f\x7f-\x9f]")

Array = np.ndarray[Any, Any]
_Index = tuple[slice, ...]
_Pieces = Iterator[tuple[_Index, Array]]
Step = Callable[[int], object]


class Failure(Exception):
    """An error whose message is ready for the user."""


@dataclasses.dataclass
class Tensor:
    """An array in a file, read in pieces; codes, if it has a scale.

    `shape` and `axis` are those of the file, in C order: a Fortran-ordered array is
    the transpose of what is stored. `read` yields (index, piece) in file order.
    """

    label: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    read: Callable[[], _Pieces]
    scale: Array | None = None
    zero_point: Array | None = None
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
            with naming(self.label):
                yield from self.read()

    def load(self) -> Array:
        """Read the whole array as it is stored, in native byte order."""
        whole = np.empty(self.shape, self.dtype.newbyteorder("="))
        for index, piece in self.pieces():
            whole[index] = piece
        return whole

    def values(self, index: _Index, piece: Array) -> Array:
        """Give the numbers that a piece stands for: codes are dequantized."""
        if self.scale is None or self.zero_point is None:
            return piece
        scale, zero = self.scale[self.part(index)], self.zero_point[self.part(index)]
        with naming(self.label):
            x = qops.dequantize(piece, scale, zero, dtype=scale.dtype, axis=self.axis)
        return np.asarray(x)


# Errors


def expected_errors() -> tuple[type[Exception], ...]:
    """List what bad files, the system and the libraries raise."""
    library = sys.modules.get("safetensors")
    return (
        Failure, OSError, ValueError, TypeError, KeyError, EOFError, MemoryError,
        OverflowError, NotImplementedError, struct.error, zlib.error,
        zipfile.BadZipFile, *([library.SafetensorError] if library else []),
    )  # fmt: skip


def message_of(error: Exception) -> str:
    """Say in one line what went wrong."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror[0].lower() + error.strerror[1:]
    elif isinstance(error, MemoryError):
        text = "out of memory"
    elif isinstance(error, KeyError) and error.args:
        text = str(error.args[0])
    return printable(" ".join(text.split())) or type(error).__name__


def printable(text: str) -> str:
    """Keep what a file calls its arrays from steering the terminal."""
    return _CONTROL.sub("?", text)


@contextlib.contextmanager
def naming(label: object) -> Iterator[None]:
    """Put a file's or tensor's name in front of the message of what goes wrong."""
    try:
        yield
    except Failure:
        raise  # it has its name
    except expected_errors() as error:
        raise Failure(f"{label}: {message_of(error)}") from error


def _library(name: str, purpose: str, source: str) -> Any:
    """Import an optional library, or say how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        what = f"{purpose} needs {name.partition('.')[0]}, which is not installed"
        raise Failure(f"{what}; install {source}") from error


# Reading


def extension_of(path: Path, *supported: str) -> str:
    """Give a file's extension, which must be a supported one."""
    if path.suffix.lower() not in supported:
        expected = " or ".join(supported)
        raise Failure(f"{path}: extension is '{path.suffix}', not {expected}")
    return path.suffix.lower()


def cuts(shape: tuple[int, ...], itemsize: int) -> Iterator[_Index]:
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
        raise ValueError(f"header is not valid: {message_of(error)}") from error
    return tuple(map(int, shape)), fortran, dtype, len(magic) + len(length) + n_bytes


def _stored(
    label: str, size: int, open_stream: Callable[[], Any], *, mapped: bool
) -> Tensor:
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
            for index in cuts(shape, dtype.itemsize):
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

    return Tensor(label, shape, dtype, fortran, read)


def _from_zip(
    path: Path, archive: zipfile.ZipFile, file_bytes: int
) -> dict[str, Tensor]:
    """Find the arrays of an .npz; they are read as streams."""
    tensors: dict[str, Tensor] = {}
    for info in archive.infolist():
        if info.filename.endswith("/"):  # a folder; is_dir() fails for an empty name
            continue
        name = info.filename.removesuffix(".npy")
        with naming(label := f"{path}: {info.filename}"):
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


def _from_safetensors(path: Path, handle: Any) -> dict[str, Tensor]:
    """Find the tensors of a .safetensors; bfloat16 is widened to float32."""

    def read(tensor: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Pieces:
        for index in cuts(shape, dtype.itemsize):
            yield index, tensor[index].astype(dtype, copy=False)

    tensors = {}
    for name in handle.keys():  # noqa: SIM118 - it is no mapping
        with naming(label := f"{path}: {name}"):
            tensor = handle.get_slice(name)
            code, shape = tensor.get_dtype(), tuple(tensor.get_shape())
            if code not in _SAFETENSORS_DTYPES:
                raise ValueError(
                    f"dtype is {code}, not {' '.join(_SAFETENSORS_DTYPES)}"
                )
            if code == "BF16":
                _library("ml_dtypes", f"{label}: bfloat16", "ml_dtypes")
            dtype = np.dtype(_SAFETENSORS_DTYPES[code])
            tensors[name] = Tensor(
                label, shape, dtype, False, partial(read, tensor, shape, dtype)
            )
    return tensors


@contextlib.contextmanager
def open_tensors(path: Path) -> Iterator[dict[str, Tensor]]:
    """Open a file of any supported kind; give its tensors by name."""
    extension = extension_of(path, *EXTENSIONS)
    with contextlib.ExitStack() as stack:
        with naming(path):
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


def _small(tensor: Tensor, shape: tuple[int, ...], kinds: str) -> Array:
    """Read a parameter of a quantized file, which must have this shape."""
    if tensor.shape != shape or tensor.dtype.kind not in kinds:
        found = f"{tensor.dtype} of shape {tensor.shape}"
        word = "float" if kinds == "f" else "integer"
        raise Failure(f"{tensor.label}: is {found}, not {word} of shape {shape}")
    return tensor.load()


def decode(path: Path, members: dict[str, Tensor]) -> dict[str, Tensor]:
    """Join the members of a quantized file to the tensors that they stand for."""
    if (version := int(_small(members[FORMAT], (), "iu"))) != 1:
        raise Failure(f"{path}: {FORMAT} is {version}, not 1")
    groups: dict[str, dict[str, Tensor]] = {}
    for key, member in members.items():
        name, _, kind = key.rpartition(".")
        if key != FORMAT:
            groups.setdefault(name, {})[kind] = member
    tensors = {}
    for name, parts in groups.items():
        with naming(label := f"{path}: {name}"):
            if parts.keys() == {"copy"}:
                tensors[name] = dataclasses.replace(parts["copy"], label=label)
                continue
            if parts.keys() | {"axis"} != {"codes", "scale", "zero_point", "axis"}:
                raise ValueError(f"has {sorted(parts)}, not codes, scale, zero_point")
            codes = dataclasses.replace(parts["codes"], label=label)
            if codes.dtype.name not in CODES:
                raise ValueError(f"codes are {codes.dtype}, not {', '.join(CODES)}")
            channels: tuple[int, ...] = ()
            if "axis" in parts:
                codes.axis = codes.stored_axis(int(_small(parts["axis"], (), "iu")))
                channels = (codes.shape[codes.axis],)
            codes.scale = _small(parts["scale"], channels, "f")
            codes.zero_point = _small(parts["zero_point"], channels, "iu")
            tensors[name] = codes
    return tensors


def values_of(tensor: Tensor, step: Step) -> Iterator[Array]:
    """Give the numbers of a tensor in pieces."""
    for index, piece in tensor.pieces():
        yield tensor.values(index, piece)
        step(piece.size)


# Writing


@contextlib.contextmanager
def replacing(out: Path, source: Path) -> Iterator[Path]:
    """Give a new file beside `out` to write to; at success it becomes `out`."""
    out = Path(os.path.realpath(out))  # write through a symbolic link, not over it
    mode = None
    if out.exists():
        mode = stat.S_IMODE(out.stat().st_mode)
        if not out.is_file() or not os.access(out, os.W_OK):
            raise Failure(f"{out}: is not a file that can be written")
        if out.samefile(source):
            raise Failure(f"{out}: is the input itself, not another file")
    temporary = out.with_name(f".qops-{os.urandom(6).hex()}.tmp")
    try:
        with naming(out.parent), open(temporary, "xb") as file:
            mode = mode or stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        with naming(out):
            yield temporary
            os.chmod(temporary, mode)
            os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


def _write(stream: IO[bytes], pieces: Iterable[Array]) -> None:
    """Write the bytes of arrays, one after the other."""
    for piece in pieces:
        stream.write(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)


def write_npy(
    stream: IO[bytes], like: Tensor, dtype: np.dtype[Any], pieces: Iterable[Array]
) -> None:
    """Write an .npy with the shape and order of a tensor."""
    shape, descr = like.logical(like.shape), npy.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": like.fortran, "shape": shape}
    npy.write_array_header_1_0(stream, header)
    _write(stream, pieces)


class Npz(zipfile.ZipFile):
    """An .npz that is written in pieces."""

    def add(
        self, name: str, like: Tensor, dtype: np.dtype[Any], pieces: Iterable[Array]
    ) -> None:
        """Add an array; without a date, so that equal input gives equal bytes."""
        if _UNSAFE_NAME.search(name) or _CONTROL.search(name):
            raise Failure(f"{like.label}: {name!r} is not safe as a path in a zip")
        with self.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as stream:
            write_npy(stream, like, dtype, pieces)

    def add_small(self, name: str, array: Array) -> None:
        """Add an array that is in memory."""
        like = Tensor(name, array.shape, array.dtype, False, lambda: iter(()))
        self.add(name, like, array.dtype, [array])


def write_safetensors(path: Path, tensors: dict[str, Tensor], step: Step) -> None:
    """Write a .safetensors; the library takes whole arrays, so give it a memory map."""
    library = _library("safetensors.numpy", ".safetensors", "qops[cli]")
    starts, arrays = [], {}
    with tempfile.TemporaryFile(dir=path.parent) as spool:
        for tensor in tensors.values():
            starts.append(spool.tell())
            _write(spool, values_of(tensor, step))
            spool.write(bytes(16 - spool.tell() % 16))  # aligned, and never empty
        spool.flush()
        data = np.asarray(np.memmap(spool, np.uint8, "r"))
        for (name, tensor), start in zip(tensors.items(), starts, strict=True):
            span = data[start : start + tensor.size * tensor.result.itemsize]
            array = span.view(tensor.result).reshape(tensor.shape)
            arrays[name] = np.ascontiguousarray(array.T) if tensor.fortran else array
        library.save_file(arrays, path, metadata={"format": "pt"})


@contextlib.contextmanager
def progress(n_elements: int) -> Iterator[Step]:
    """Show a progress bar on a terminal; give the function that moves it."""
    bar = None
    if sys.stderr is not None and sys.stderr.isatty():
        try:
            tqdm = _library("tqdm", "the progress bar", "qops[cli]").tqdm
            bar = tqdm(total=n_elements, unit_scale=True, leave=False)
        except Failure as note:
            print(f"qops: {note}", file=sys.stderr)
    with bar if bar is not None else contextlib.nullcontext():
        yield bar.update if bar is not None else lambda n: None
