"""The command line: files in, files out, messages, and what hostile files do to it."""

import importlib.util
import io
import json
import os
import signal
import stat
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import qops
from qops import _cli, _files

SAMPLE = Path(__file__).parent / "data" / "minilm-word-embeddings.npy"
HAS_SAFETENSORS = importlib.util.find_spec("safetensors") is not None
OUTPUTS = ["y.npy", "y.npz", *(["y.safetensors"] if HAS_SAFETENSORS else [])]
CODES = ["int8", "uint8", "int16", "uint16", "int32"]
SRC = np.random.default_rng(20).standard_normal((6, 5, 4))


@pytest.fixture
def run(capsys):
    """Give a function that runs the command in this process."""

    def call(*argv):
        code = _cli.main([str(a) for a in argv])
        return SimpleNamespace(code=code, **capsys.readouterr()._asdict())

    return call


@pytest.fixture
def ok(run):
    """Give a function that runs the command and gives stdout; it must succeed."""

    def call(*argv):
        result = run(*argv)
        assert (result.code, result.err) == (0, "")
        return result.out

    return call


@pytest.fixture
def fails(run, tmp_path):
    """Give a function that runs the command, which must leave every file as it was."""

    def files():
        return {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    def call(*argv):
        before = files()
        result = run(*argv)
        assert result.code == 1
        assert result.out == ""
        assert result.err.startswith(f"qops: {argv[0]}: ")
        assert result.err.count("\n") == 1
        assert "Traceback" not in result.err
        assert files() == before
        return result.err

    return call


def module(*argv, **options):
    """Run ``python -m qops`` as a user does."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "qops", *map(str, argv)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def save(path, arrays):
    """Write arrays to a file of the kind that its extension says."""
    if path.suffix == ".npy":
        (array,) = arrays.values()
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        safetensors = pytest.importorskip("safetensors.numpy")
        arrays = {name: np.ascontiguousarray(a) for name, a in arrays.items()}
        safetensors.save_file(arrays, path)
    return path


def load(path):
    """Read a file with NumPy or safetensors alone."""
    if path.suffix == ".npy":
        return {"arr_0": np.load(path, allow_pickle=False)}
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as f:
            return dict(f)
    return pytest.importorskip("safetensors.numpy").load_file(path)


def npy(header, data=b"", version=1):
    """Build an .npy byte by byte."""
    text = header.encode("latin1") + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def header(descr="'<f4'", shape="(3,)", order="False"):
    """Write the header of an .npy from Python literals."""
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def npz(members, path, compression=zipfile.ZIP_STORED):
    """Build an .npz from the bytes of its members."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def bytes_of(array):
    """Give the .npy of an array as bytes."""
    stream = io.BytesIO()
    np.save(stream, np.asarray(array))
    return stream.getvalue()


def same(a, b):
    """Ask whether two arrays are the same in dtype, shape and every element."""
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)


def by_library(x, dtype, axis, symmetric=False):
    """Give codes, scale and zero point from the public functions."""
    scale, zero = qops.choose_qparams(x, dtype, axis=axis, symmetric=symmetric)
    codes = qops.quantize(x, scale, zero, dtype=dtype, axis=axis)
    return codes, np.asarray(scale), np.asarray(zero, dtype)


# Round trips


@pytest.mark.parametrize("out", [".npz", ".npy", ".safetensors"])
@pytest.mark.parametrize("source", [".npy", ".npz", ".safetensors"])
@pytest.mark.parametrize("floats", ["float16", "float32", "float64"])
@pytest.mark.parametrize("dtype", CODES)
def test_round_trip(ok, tmp_path, dtype, floats, source, out):
    x = SRC.astype(floats)
    path = save(tmp_path / f"x{source}", {"w": x})
    name = "arr_0" if source == ".npy" else "w"
    if out == ".safetensors":
        pytest.importorskip("safetensors")
    ok("quantize", path, tmp_path / "q.npz", "--dtype", dtype)
    codes, scale, zero = by_library(x, dtype, 0)
    q = load(tmp_path / "q.npz")
    assert same(q.pop(f"{name}.codes"), codes)
    assert same(q.pop(f"{name}.scale"), scale)
    assert same(q.pop(f"{name}.zero_point"), zero)
    assert q.pop(f"{name}.axis") == 0
    assert q.pop("qops.format") == 1
    assert not q
    ok("dequantize", tmp_path / "q.npz", tmp_path / f"back{out}")
    (back,) = load(tmp_path / f"back{out}").values()
    result = np.float64 if floats == "float64" else np.float32
    assert same(back, qops.dequantize(codes, scale, zero, dtype=result, axis=0))


def test_independent_numpy(ok, tmp_path):
    x = SRC[0].astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    ok("quantize", tmp_path / "x.npy", tmp_path / "q.npz")
    low = np.minimum(x.min(axis=1), 0).astype(np.float64)
    high = np.maximum(x.max(axis=1), 0).astype(np.float64)
    scale = ((high - low) / 255).astype(np.float32)
    zero = np.clip(np.rint(-128 - low / scale.astype(np.float64)), -128, 127)
    t = np.rint(x / scale[:, None])
    codes = np.clip(t, -128 - zero[:, None], 127 - zero[:, None]) + zero[:, None]
    q = load(tmp_path / "q.npz")
    assert same(q["arr_0.scale"], scale)
    assert same(q["arr_0.zero_point"], zero.astype(np.int8))
    assert same(q["arr_0.codes"], codes.astype(np.int8))
    ok("dequantize", tmp_path / "q.npz", tmp_path / "y.npy")
    y = (codes.astype(np.float32) - zero.astype(np.float32)[:, None]) * scale[:, None]
    assert same(np.load(tmp_path / "y.npy"), y)


def test_many_tensors(ok, tmp_path):
    arrays = {
        "m/w": SRC.astype(np.float32),
        "b": SRC[0, 0].astype(np.float32),
        "s": np.float32(-2.5),
        "position_ids": np.arange(7).reshape(1, 7),
        "mask": np.array([True, False]),
        "empty": np.zeros((0, 3), np.float32),
        "big": SRC.astype(">f4"),
        "z": SRC[0, 0] + 1j,
        "words": np.array(["to", "was", "he"]),
        "zeros": np.zeros((2, 3), np.float32),
    }
    save(tmp_path / "x.npz", arrays)
    out = ok("quantize", tmp_path / "x.npz", tmp_path / "q.npz")
    assert "position_ids: int64 of shape (1, 7), copied unchanged\n" in out
    assert "empty: float32 of shape (0, 3), copied unchanged\n" in out
    assert f"{tmp_path / 'q.npz'}: 5 quantized, 5 copied, " in out
    q = load(tmp_path / "q.npz")
    for name in ("position_ids", "mask", "empty", "z", "words"):
        assert same(q[f"{name}.copy"], arrays[name])
    for name in ("b", "s"):
        assert q[f"{name}.scale"].shape == q[f"{name}.zero_point"].shape == ()
        assert f"{name}.axis" not in q
    assert same(q["b.codes"], by_library(arrays["b"], "int8", None)[0])
    assert same(q["big.codes"], q["m/w.codes"])
    ok("dequantize", tmp_path / "q.npz", tmp_path / "y.npz")
    y = load(tmp_path / "y.npz")
    assert list(y) == list(arrays)
    assert y["s"] == np.float32(-2.5)
    assert not y["zeros"].any()
    out = ok("compare", tmp_path / "y.npz", tmp_path / "q.npz")
    assert out.splitlines()[-1].split()[-3:-1] == ["0", "inf"]


def test_bfloat16(ok, fails, tmp_path, monkeypatch):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = SRC.astype(ml_dtypes.bfloat16)
    empty = np.zeros((2, 0), ml_dtypes.bfloat16)
    path = save(tmp_path / "x.safetensors", {"w": x, "e": empty})
    ok("quantize", path, tmp_path / "q.npz")
    q = load(tmp_path / "q.npz")
    assert same(q["w.codes"], by_library(x.astype(np.float32), "int8", 0)[0])
    assert same(q["e.copy"], np.zeros((2, 0), np.float32))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    error = fails("quantize", path, tmp_path / "r.npz")
    assert (
        "bfloat16 needs ml_dtypes, which is not installed; install ml_dtypes" in error
    )


def test_sample(ok, tmp_path):
    x = np.load(SAMPLE)
    ok("quantize", SAMPLE, tmp_path / "q.npz")
    codes, scale, zero = by_library(x, "int8", 0)
    assert same(load(tmp_path / "q.npz")["arr_0.codes"], codes)
    out = ok("compare", SAMPLE, tmp_path / "q.npz")
    y = qops.dequantize(codes, scale, zero, axis=0)
    most, ratio = errors(x, y)
    row = out.splitlines()[1].split()
    assert row[0] == "arr_0"
    assert row[3:5] == ["float32/int8", f"{most:.4g}"]
    assert float(row[5]) == pytest.approx(ratio, abs=0.006)
    assert ratio > 40
    ok("dequantize", tmp_path / "q.npz", tmp_path / "y.npy")
    assert same(np.load(tmp_path / "y.npy"), y)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_axis(ok, tmp_path, axis, order):
    x = np.array(SRC, np.float32, order=order)
    np.save(tmp_path / "x.npy", x)
    ok("quantize", tmp_path / "x.npy", tmp_path / "q.npz", "--axis", axis)
    q, (codes, scale, zero) = load(tmp_path / "q.npz"), by_library(x, "int8", axis)
    assert same(q["arr_0.codes"], codes)
    assert same(q["arr_0.scale"], scale)
    assert q["arr_0.codes"].flags.f_contiguous == (order == "F")
    assert q["arr_0.axis"] == axis % 3
    y = qops.dequantize(codes, scale, zero, axis=axis)
    for name in OUTPUTS:
        ok("dequantize", tmp_path / "q.npz", tmp_path / name)
        assert same(load(tmp_path / name)["arr_0"], y)
        out = ok("compare", tmp_path / "q.npz", tmp_path / name)
        assert out.splitlines()[1].split()[-3:-1] == ["0", "inf"]


def test_axis_out_of_bounds(fails, tmp_path):
    save(tmp_path / "x.npz", {"a": SRC, "w": SRC[0]})
    error = fails("quantize", tmp_path / "x.npz", tmp_path / "q.npz", "--axis", 2)
    assert "x.npz: w: axis 2 is out of bounds" in error.replace(".npy", "")


@pytest.mark.parametrize("dtype", CODES)
def test_symmetric(ok, tmp_path, dtype):
    x = SRC.astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    ok(
        "quantize",
        tmp_path / "x.npy",
        tmp_path / "q.npz",
        "--symmetric",
        "--dtype",
        dtype,
    )
    q = load(tmp_path / "q.npz")
    codes, scale, zero = by_library(x, dtype, 0, symmetric=True)
    assert same(q["arr_0.codes"], codes)
    assert same(q["arr_0.scale"], scale)
    assert same(q["arr_0.zero_point"], zero)
    assert (
        zero == (0 if np.iinfo(dtype).min else (np.iinfo(dtype).max + 1) // 2)
    ).all()


def test_names(ok, tmp_path):
    names = [
        "a",
        "a.codes",
        "a.scale",
        "a.copy",
        "a.axis",
        "b/c",
        "x:0",
        "\N{SNOWMAN}",
        ".",
    ]
    arrays = {n: SRC[i % 6].astype(np.float32) for i, n in enumerate(names)}
    arrays |= {f"i{n}": np.arange(i) for i, n in enumerate(names)}
    save(tmp_path / "x.npz", arrays)
    ok("quantize", tmp_path / "x.npz", tmp_path / "q.npz")
    ok("dequantize", tmp_path / "q.npz", tmp_path / "y.npz")
    y = load(tmp_path / "y.npz")
    assert list(y) == list(arrays)
    for name, x in arrays.items():
        assert y[name].shape == x.shape
        assert np.allclose(y[name], x, atol=0.02)


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a/../../x", "a/../x", "..\\x", "C:\\x", "\\x", "a\nb"]
)
def test_unsafe_names(fails, tmp_path, name):
    path = save(tmp_path / "x.safetensors", {name: SRC.astype(np.float32)})
    error = fails("quantize", path, tmp_path / "q.npz")
    assert "is not safe as a path in a zip" in error
    members = {"qops.format.npy": bytes_of(1), f"{name}.copy.npy": bytes_of([1, 2])}
    path = npz(members, tmp_path / "q.npz")
    assert "not safe" in fails("dequantize", path, tmp_path / "y.npz")


# Pieces


@pytest.mark.parametrize("piece", [1, 3, 5, 7, 40])
def test_pieces_do_not_change_a_byte(ok, tmp_path, monkeypatch, piece):
    arrays = {
        "c": SRC.astype(np.float32),
        "f": np.asfortranarray(SRC.astype(np.float16)),
        "v": SRC.ravel(),
        "s": np.float32(1.5),
        "i": np.arange(24).reshape(2, 3, 4),
        "u": np.array(["x" * 300, "y"]),
    }
    save(tmp_path / "x.npz", arrays)
    with zipfile.ZipFile(tmp_path / "z.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", bytes_of(array))
    del arrays["u"]
    del arrays["f"]
    save(tmp_path / "x.npy", {"c": arrays["c"]})
    sources = [tmp_path / "x.npz", tmp_path / "z.npz", tmp_path / "x.npy"]
    if HAS_SAFETENSORS:
        sources.append(save(tmp_path / "x.safetensors", arrays))

    def results():
        for path in sources:
            for axis in (0, 1, -1):
                ok("quantize", path, tmp_path / "q.npz", "--axis", axis)
                yield (tmp_path / "q.npz").read_bytes()
                ok("dequantize", tmp_path / "q.npz", tmp_path / "y.npz")
                yield (tmp_path / "y.npz").read_bytes()
                yield ok("compare", path, tmp_path / "q.npz")

    whole = list(results())
    monkeypatch.setattr(_files, "_PIECE", piece)
    assert list(results()) == whole


@pytest.mark.parametrize("piece", [1, 2, 5, 6, 7, 24, 1000])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3, 4), (5, 1, 1), (1, 1, 9)])
def test_cuts(monkeypatch, shape, piece):
    monkeypatch.setattr(_files, "_PIECE", piece)
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    pieces = [x[index] for index in _files.cuts(shape, 4)]
    assert max(p.size for p in pieces) <= piece
    assert np.array_equal(np.concatenate([p.ravel() for p in pieces]), x.ravel())


@pytest.mark.slow
def test_memory_is_bounded(tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "x.npy"
    n = 1 << 28  # 1 GiB of float32, all of it a hole
    path.write_bytes(npy(header(shape=f"({n // 1024}, 1024)")))
    os.truncate(path, path.stat().st_size + 4 * n)
    script = (
        "import resource, sys; from qops._cli import main; code = main();"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss); sys.exit(code)"
    )
    for argv in (
        ["quantize", path, tmp_path / "q.npz"],
        ["compare", path, tmp_path / "q.npz"],
    ):
        done = subprocess.run(
            [sys.executable, "-P", "-c", script, *map(str, argv)],
            capture_output=True,
            text=True,
            check=True,
        )
        unit = 1 if sys.platform == "darwin" else 1024
        assert int(done.stdout.split()[-1]) * unit < 300e6
    assert resource


# Comparing


def errors(x, y):
    """Give the greatest error and the SQNR in dB, independently of qops."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    noise = np.sum((x - y) ** 2)
    return np.abs(x - y).max(), 10 * np.log10(np.sum(x**2) / noise)


def test_compare_numbers(ok, tmp_path):
    arrays = {"w": SRC.astype(np.float32), "b": SRC[1, 2], "i": np.arange(1000)}
    path = save(tmp_path / "x.npz", arrays)
    ok("quantize", path, tmp_path / "q.npz", "--dtype", "uint8")
    ok("dequantize", tmp_path / "q.npz", tmp_path / "y.npz")
    q, y = load(tmp_path / "q.npz"), load(tmp_path / "y.npz")
    head, *lines = ok("compare", path, tmp_path / "q.npz").splitlines()
    assert head.split("  ")[0] == "name"
    assert head.endswith("  max error  SQNR dB  saturated")
    rows = [line.rsplit(None, 3) for line in lines]
    total_saturated = 0
    for name, row in zip(arrays, rows[:3], strict=True):
        if name == "i":
            assert row[1:] == ["0", "inf", "-"]
            continue
        most, ratio = errors(arrays[name], y[name])
        assert row[0].split()[-1] == f"{arrays[name].dtype}/uint8"
        assert row[1] == f"{most:.4g}"
        assert row[2] == f"{ratio:.2f}"
        saturated = np.count_nonzero(np.isin(q[f"{name}.codes"], [0, 255]))
        assert row[3] == str(saturated)
        total_saturated += saturated
    x, y = (np.concatenate([a["w"].ravel(), a["b"]]) for a in (arrays, y))
    most, ratio = errors(x, y)
    assert rows[3][0].split() == ["total", "1124", "values"]
    assert rows[3][1:] == [f"{most:.4g}", f"{ratio:.2f}", str(total_saturated)]
    swapped = ok("compare", tmp_path / "q.npz", path).splitlines()
    assert "uint8/float32" in swapped[1]


def numbers(out):
    """Give the last three columns of the first row."""
    return out.splitlines()[1].split()[-3:]


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], ["0", "inf", "-"]),
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], ["0", "inf", "-"]),
        ([1.0, np.nan], [1.0, 2.0], ["nan", "nan", "-"]),
        ([0.0, 0.0], [0.0, 2.0], ["2", "-inf", "-"]),
        ([3.0, 4.0], [3.0, 4.5], ["0.5", "20.00", "-"]),
        ([2**63 - 1, 5], [2**63 - 2, 5], ["1", "379.30", "-"]),
        ([-(2**63), 0], [2**63 - 1, 0], ["1.845e+19", "-6.02", "-"]),
        ([True, False], [False, False], ["1", "0.00", "-"]),
        ([1 + 1j], [1 - 1j], ["2", "-3.01", "-"]),
        (["a", "b"], ["a", "c"], ["1", "-inf", "-"]),
        ([[1e-300]], [[2e-300]], ["1e-300", "inf", "-"]),
        (np.zeros((0, 2)), np.zeros((0, 2)), ["0", "inf", "-"]),
        (np.float32(2), np.float64(1), ["1", "6.02", "-"]),
    ],
)
def test_compare_special(ok, tmp_path, x, y, expected):
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    assert numbers(ok("compare", tmp_path / "x.npy", tmp_path / "y.npy")) == expected


def test_compare_quantized_with_quantized(ok, tmp_path):
    np.save(tmp_path / "x.npy", SRC)
    ok("quantize", tmp_path / "x.npy", tmp_path / "a.npz")
    ok(
        "quantize",
        tmp_path / "x.npy",
        tmp_path / "b.npz",
        "--axis",
        2,
        "--dtype",
        "int16",
    )
    a, b = load(tmp_path / "a.npz"), load(tmp_path / "b.npz")
    saturated = np.isin(a["arr_0.codes"], [-128, 127]).sum()
    saturated += np.isin(b["arr_0.codes"], [-32768, 32767]).sum()
    row = numbers(ok("compare", tmp_path / "a.npz", tmp_path / "b.npz"))
    assert row[2] == str(saturated)


def test_compare_names(ok, fails, tmp_path):
    one = save(tmp_path / "one.npz", {"w": SRC})
    two = save(tmp_path / "two.npz", {"w": SRC, "b": SRC, "c": SRC})
    nameless = save(tmp_path / "n.npy", {"w": SRC})
    assert fails("compare", one, two) == f"qops: compare: {one}: has no b, c\n"
    assert fails("compare", two, one) == f"qops: compare: {one}: has no b, c\n"
    assert numbers(ok("compare", nameless, one)) == ["0", "inf", "-"]
    assert numbers(ok("compare", one, nameless)) == ["0", "inf", "-"]
    assert "n.npy: has no b, c, w\n" in fails("compare", nameless, two)
    other = save(tmp_path / "other.npz", {"w": SRC[0]})
    assert "shape is (6, 5, 4), not (5, 4)" in fails("compare", one, other)


# Hostile files

NPY = {
    "empty": (b"", "starts with b''"),
    "foreign": (b"PK\x03\x04 is not an npy", "starts with"),
    "version 3": (
        npy(header(), bytes(12), version=3),
        "not as .npy version 1.0 or 2.0",
    ),
    "short magic": (b"\x93NUMPY\x01", "starts with"),
    "no length": (b"\x93NUMPY\x01\x00v", "header is not valid"),
    "short header": (npy(header())[:40], "header is not valid"),
    "truncated": (npy(header(), bytes(11)), "has 11 bytes of data, not the 12"),
    "longer": (npy(header(), bytes(13)), "has 13 bytes of data, not the 12"),
    "no data": (npy(header()), "has 0 bytes of data, not the 12"),
    "huge": (npy(header(shape="(10**15,)")), "header is not valid"),
    "huge literal": (
        npy(header(shape="(1000000000000000, 1)"), bytes(99)),
        "has 99 bytes of data, not the 4000000000000000",
    ),
    "overflow": (
        npy(header(shape="(4294967296, 4294967296)"), bytes(8)),
        "has 8 bytes of data, not the 73786976294838206464",
    ),
    "beyond 64 bits": (
        npy(header(shape="(0, 36893488147419103232)")),
        "not of lengths from 0 to 2**63 - 1",
    ),
    "negative": (npy(header(shape="(-3, -1)"), bytes(12)), "not of lengths from 0"),
    "float length": (npy(header(shape="(3.0,)"), bytes(12)), "header is not valid"),
    "long header": (npy(" " * 20000 + header(), bytes(12)), "not at most 10000"),
    "4 GB header": (
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
        "header has 4294967295 bytes, not at most 10000",
    ),
    "object": (npy(header("'|O'"), bytes(24)), "dtype is object"),
    "pickle": (npy(header("'|O'"), b"cos\nsystem\n(S'x'\ntR."), "dtype is object"),
    "structure": (npy(header("[('a', '<f4')]"), bytes(12)), "dtype is [('a', '<f4')]"),
    "void": (npy(header("'|V4'"), bytes(12)), "dtype is |V4"),
    "no bytes": (npy(header("'|S0'", "(1000000000,)")), "dtype is |S0"),
    "long strings": (npy(header("'<U500000000'", "(1,)"), b"abcd"), "has 4 bytes"),
    "no dtype": (npy(header("'qops'"), bytes(12)), "header is not valid"),
    "odd dtype": (npy(header("((), [])"), bytes(12)), "header is not valid"),
    "code": (npy("__import__('os').abort()"), "header is not valid"),
    "number": (npy("3"), "header is not valid"),
    "deep": (npy("[" * 9000), "header is not valid"),
    "deep sum": (npy("-" * 9000 + "1"), "header is not valid"),
    "open": (npy("{'descr': '''"), "header is not valid"),
    "65 dimensions": (npy(header(shape=str((1,) * 65)), bytes(4)), "dimension"),
    "nan": (bytes_of(np.array([[1, 2], [3, np.nan]])), "value at (1, 1) is nan"),
    "inf": (
        bytes_of(np.array([-np.inf], np.float16)),
        "value at (0,) is -inf, not fin",
    ),
    "signalling nan": (
        npy(header("'<f2'", "(1, 2)"), b"\0\0\1\x7c"),
        "value at (0, 1) is nan, not finite",
    ),
    "nan in F order": (
        bytes_of(np.array([[1, 2, 3], [np.nan, 5, 6]], order="F")),
        "value at (1, 0) is nan, not finite",
    ),
}


@pytest.mark.parametrize("case", NPY)
def test_hostile_npy(fails, tmp_path, case):
    data, message = NPY[case]
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    error = fails("quantize", path, tmp_path / "q.npz")
    assert message in error
    assert str(path) in error
    path = npz({"good.npy": bytes_of(1), "w.npy": data}, tmp_path / "x.npz")
    assert f"{path}: w.npy: " in fails("quantize", path, tmp_path / "q.npz")
    npz({"w.npy": data}, path, zipfile.ZIP_DEFLATED)
    assert f"{path}: w.npy: " in fails("quantize", path, tmp_path / "q.npz")
    if "finite" not in message and "value" not in message:
        fails("compare", path, path)


def patched(path, name, **fields):
    """Change what the central directory of a zip says of a member."""
    data = bytearray(path.read_bytes())
    start = data.index(b"PK\x01\x02")
    while data[start + 46 : start + 46 + len(name)] != name.encode():
        start = data.index(b"PK\x01\x02", start + 4)
    layout = {
        "flags": (8, "<H"),
        "method": (10, "<H"),
        "packed": (20, "<I"),
        "size": (24, "<I"),
    }
    for field, value in fields.items():
        offset, form = layout[field]
        struct.pack_into(form, data, start + offset, value)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": 2**32 - 2}, "claims 4294967294 bytes, has at most "),
        (
            {"size": 2**32 - 2, "packed": 2**32 - 2},
            "claims 4294967294 bytes, has at most ",
        ),
        ({"flags": 1}, "is encrypted, not plain"),
        ({"method": 14}, "compression is 14, not 0 or 8"),
        ({"method": 99}, "compression is 99, not 0 or 8"),
        ({"method": 8}, ""),
        ({"flags": 0x20}, ""),
    ],
)
def test_hostile_directory(fails, tmp_path, fields, message):
    big = npy(header(shape="(1073741792,)"), bytes(12))
    path = npz({"w.npy": big}, tmp_path / "x.npz")
    patched(path, "w.npy", **fields)
    error = fails("quantize", path, tmp_path / "q.npz")
    assert f"{path}: w.npy: " in error
    assert message in error


def test_bomb(fails, tmp_path):
    # 1 GB is claimed by header and directory alike; 100 kB of zeros are there.
    data = npy(header(shape="(250000000, 1)"), bytes(100_000))
    path = npz({"w.npy": data}, tmp_path / "x.npz", zipfile.ZIP_DEFLATED)
    size = len(data) - 100_000 + 10**9
    patched(path, "w.npy", size=size)
    assert "claims" in fails("quantize", path, tmp_path / "q.npz")
    patched(path, "w.npy", packed=path.stat().st_size)
    fails("quantize", path, tmp_path / "q.npz")


def test_hostile_npz(fails, tmp_path):
    path, out = tmp_path / "x.npz", tmp_path / "q.npz"
    good = npz({"w.npy": bytes_of(SRC)}, path).read_bytes()
    for data in (
        b"",
        b"PK\x05\x06",
        b"text\n" * 99,
        good[:-30],
        good[:300],
        good[500:],
    ):
        path.write_bytes(data)
        fails("quantize", path, out)
    damaged = bytearray(good)
    damaged[900] ^= 1
    path.write_bytes(damaged)
    assert "w.npy: " in fails("quantize", path, out)
    npz({"w.txt": b"words"}, path)
    assert f"{path}: w.txt: is not an .npy" in fails("quantize", path, out)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", bytes_of(SRC))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("w.npy", bytes_of(SRC))
    assert "w.npy: comes twice" in fails("quantize", path, out)
    npz({"w.npy": bytes_of(SRC)}, path, zipfile.ZIP_LZMA)
    assert "compression is 14, not 0 or 8" in fails("quantize", path, out)


def test_member_without_a_name(fails, tmp_path):
    path = npz({"x": b""}, tmp_path / "x.npz")
    data = bytearray(path.read_bytes())
    start = data.index(b"PK\x01\x02")
    data[start + 28] = 0  # the length of the name, which becomes extra data
    data[start + 30] = 1
    path.write_bytes(data)
    assert "is not an .npy" in fails("quantize", path, tmp_path / "q.npz")


def test_folders_in_a_zip_are_skipped(ok, tmp_path):
    npz({"m/": b"", "m/w.npy": bytes_of(SRC)}, tmp_path / "x.npz")
    ok("quantize", tmp_path / "x.npz", tmp_path / "q.npz")
    assert "m/w.codes" in load(tmp_path / "q.npz")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 100,
        struct.pack("<Q", 10**15) + b"{}",
        struct.pack("<Q", 2) + b"{]",
        struct.pack("<Q", 4) + b"null",
        struct.pack("<Q", 65)
        + b'{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,99999999999]}}',
        struct.pack("<Q", 64)
        + b'{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets"',
    ],
)
def test_hostile_safetensors(fails, tmp_path, data):
    pytest.importorskip("safetensors")
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    assert str(path) in fails("quantize", path, tmp_path / "q.npz")
    fails("compare", path, path)


def test_safetensors_dtypes(fails, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    path = save(tmp_path / "x.safetensors", {"w": SRC.astype(ml_dtypes.float8_e4m3fn)})
    error = fails("quantize", path, tmp_path / "q.npz")
    assert f"{path}: w: dtype is F8_E4M3, not BOOL " in error


GOOD = {
    "qops.format": np.int64(1),
    "w.codes": np.arange(6, dtype=np.int8).reshape(2, 3),
    "w.scale": np.ones(2, np.float32),
    "w.zero_point": np.zeros(2, np.int8),
    "w.axis": np.int64(0),
}
DROP = object()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"qops.format": DROP}, "has no qops.format"),
        ({"qops.format": np.int64(2)}, "qops.format is 2, not 1"),
        (
            {"qops.format": np.ones(3)},
            "is float64 of shape (3,), not integer of shape ()",
        ),
        ({"w.codes": DROP}, "w: has ['axis', 'scale', 'zero_point'], not codes"),
        ({"w.scale": DROP}, "not codes, scale, zero_point"),
        ({"w.more": np.ones(1)}, "not codes, scale, zero_point"),
        ({"w": np.ones(1)}, "not codes, scale, zero_point"),
        ({"w.codes": np.ones((2, 3))}, "w: codes are float64, not int8, "),
        ({"w.codes": np.ones((2, 3), np.int64)}, "w: codes are int64, not int8, "),
        ({"w.axis": DROP}, "is float32 of shape (2,), not float of shape ()"),
        ({"w.axis": np.int64(1)}, "is float32 of shape (2,), not float of shape (3,)"),
        ({"w.axis": np.int64(2)}, "w: axis 2 is out of bounds"),
        ({"w.axis": np.float32(0)}, "is float32 of shape (), not integer"),
        ({"w.scale": np.ones(3, np.float32)}, "of shape (3,), not float of shape (2,)"),
        (
            {"w.scale": np.ones(2, int)},
            "is int64 of shape (2,), not float of shape (2,)",
        ),
        ({"w.scale": np.zeros(2, np.float32)}, "w: "),
        ({"w.scale": np.array([1, np.nan], np.float32)}, "w: "),
        ({"w.scale": np.ones(2, np.float16)}, "w: "),
        ({"w.zero_point": np.array([0, 300])}, "w: "),
        ({"w.zero_point": np.zeros(2)}, "is float64 of shape (2,), not integer"),
    ],
)
def test_hostile_quantized(fails, tmp_path, changes, message):
    arrays = {k: a for k, a in (GOOD | changes).items() if a is not DROP}
    path = save(tmp_path / "q.npz", arrays)
    for out in OUTPUTS:
        assert message in fails("dequantize", path, tmp_path / out)
    if "qops.format" in arrays:
        fails("compare", path, path)


def test_random_damage(run, tmp_path):
    save(tmp_path / "x.npz", {"w": SRC[0].astype(np.float32), "i": np.arange(3)})
    assert run("quantize", tmp_path / "x.npz", tmp_path / "q.npz").code == 0
    with zipfile.ZipFile(tmp_path / "q.npz") as archive:
        good = {info.filename: archive.read(info) for info in archive.infolist()}
    rng = np.random.default_rng(7)
    codes = set()
    for _ in range(300):
        members = dict(good)
        name = rng.choice(list(members))
        data = bytearray(members[name])
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] = rng.choice(
                list(b"\0\1\x7f\x80\xff()[]{}'-9,")
            )
        members[name] = bytes(data[: rng.choice([None, rng.integers(len(data))])])
        npz(members, tmp_path / "d.npz")
        for argv in (
            ("dequantize", tmp_path / "d.npz", tmp_path / "y.npz"),
            ("compare", tmp_path / "d.npz", tmp_path / "q.npz"),
        ):
            result = run(*argv)
            assert result.code in (0, 1)
            assert result.err.count("\n") == result.code
            codes.add(result.code)
    assert codes == {0, 1}
    assert {p.name for p in tmp_path.iterdir()} <= {"x.npz", "q.npz", "d.npz", "y.npz"}


# Output files


def test_paths(fails, ok, tmp_path):
    x = save(tmp_path / "x.npy", {"w": SRC})
    out = tmp_path / "q.npz"
    assert "nothing.npy: no such file or dir" in fails(
        "quantize", tmp_path / "nothing.npy", out
    )
    assert f"{tmp_path / 'no'}: no such file" in fails(
        "quantize", x, tmp_path / "no" / "q.npz"
    )
    assert "not .npz" in fails("quantize", x, tmp_path / "q.npy")
    error = fails("quantize", x.rename(tmp_path / "x.bin"), out)
    assert "extension is '.bin', not .npy or .npz or .safetensors" in error
    x = (tmp_path / "x.bin").rename(x)
    (tmp_path / "folder.npz").mkdir()
    assert "is not a file" in fails("quantize", x, tmp_path / "folder.npz")
    assert "is a directory" in fails("quantize", tmp_path / "folder.npz", out)
    ok("quantize", x, out)
    assert "not .npz" in fails("dequantize", x, out)
    assert "extension is ''" in fails("dequantize", out, tmp_path / "y")
    assert "is quantized already" in fails("quantize", out, tmp_path / "qq.npz")
    for same_file in (out, tmp_path / "folder.npz" / ".." / "q.npz"):
        assert "is the input itself" in fails("dequantize", out, same_file)
    two = save(tmp_path / "two.npz", {"a": SRC, "b": SRC})
    ok("quantize", two, out)
    assert "y.npy: .npy holds 1 array, not 2" in fails(
        "dequantize", out, tmp_path / "y.npy"
    )


def test_unwritable_folder(fails, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("this user, such as root, may write everywhere")
    x = save(tmp_path / "x.npy", {"w": SRC})
    assert f"{folder}: permission denied" in fails("quantize", x, folder / "q.npz")
    out = save(tmp_path / "q.npz", {"w": SRC})
    out.chmod(0o400)
    assert "is not a file that can be written" in fails("quantize", x, out)


@pytest.mark.skipif(os.name != "posix", reason="file modes are of POSIX")
def test_modes(ok, tmp_path):
    x = save(tmp_path / "x.npy", {"w": SRC})
    old = os.umask(0o027)
    try:
        ok("quantize", x, tmp_path / "q.npz")
        for name in OUTPUTS:
            ok("dequantize", tmp_path / "q.npz", tmp_path / name)
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o640
        assert stat.S_IMODE((tmp_path / "q.npz").stat().st_mode) == 0o640
        (tmp_path / "q.npz").chmod(0o600)
        (tmp_path / "link.npz").symlink_to("q.npz")
        ok("quantize", x, tmp_path / "link.npz", "--dtype", "uint8")
    finally:
        os.umask(old)
    assert (tmp_path / "link.npz").is_symlink()
    assert stat.S_IMODE((tmp_path / "q.npz").stat().st_mode) == 0o600
    assert load(tmp_path / "q.npz")["arr_0.codes"].dtype == np.uint8


def test_interrupt(run, tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    x = save(tmp_path / "x.npz", {"w": SRC})
    assert run("quantize", x, tmp_path / "q.npz").code == 0
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    for name in ("quantize", "dequantize"):
        monkeypatch.setattr(qops, name, interrupted)
    for argv in (
        ("quantize", x, tmp_path / "q.npz"),
        ("quantize", x, tmp_path / "new.npz"),
        ("dequantize", tmp_path / "q.npz", tmp_path / "y.npy"),
        ("dequantize", tmp_path / "q.npz", tmp_path / "y.npz"),
    ):
        result = run(*argv)
        assert result.code == 130
        assert result.err == f"qops: {argv[0]}: interrupted\n"
        assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.skipif(os.name != "posix", reason="signals are of POSIX")
def test_termination(tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(npy(header(shape="(16, 2147483648)")))
    os.truncate(path, path.stat().st_size + 2**37)  # a hole: it takes no space
    argv = [sys.executable, "-P", "-m", "qops", "quantize", path, tmp_path / "q.npz"]
    child = subprocess.Popen(list(map(str, argv)), stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if len(list(tmp_path.iterdir())) > 1:
            break
        time.sleep(0.1)
    assert len(list(tmp_path.iterdir())) == 2
    child.send_signal(signal.SIGTERM)
    assert child.communicate(timeout=60)[1] == "qops: quantize: interrupted\n"
    assert child.returncode == 130
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk(fails, tmp_path, monkeypatch):
    x = save(tmp_path / "x.npz", {"w": SRC})
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "qops", "compare", x, x],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr.startswith("qops: compare: no space left on device\n")

    def no_space(stream, pieces):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_files, "_write", no_space)
    error = fails("quantize", x, tmp_path / "q.npz")
    assert error == f"qops: quantize: {tmp_path / 'q.npz'}: no space left on device\n"


# Extras and messages


def test_without_safetensors(ok, fails, tmp_path, monkeypatch):
    source = save(tmp_path / "x.safetensors", {"w": SRC})
    for name in ("safetensors", "safetensors.numpy", "tqdm"):
        monkeypatch.setitem(sys.modules, name, None)
    error = fails("quantize", source, tmp_path / "q.npz")
    assert ".safetensors needs safetensors, which is not installed" in error
    assert error.endswith("; install qops[cli]\n")
    x = save(tmp_path / "x.npy", {"w": SRC})
    ok("quantize", x, tmp_path / "q.npz")
    ok("dequantize", tmp_path / "q.npz", tmp_path / "y.npy")
    error = fails("dequantize", tmp_path / "q.npz", tmp_path / "y.safetensors")
    assert error.endswith("; install qops[cli]\n")


def test_progress(run, tmp_path, monkeypatch):
    x = save(tmp_path / "x.npy", {"w": SRC})
    assert run("quantize", x, tmp_path / "q.npz").err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with monkeypatch.context() as context:
        context.setitem(sys.modules, "tqdm", None)
        result = run("quantize", x, tmp_path / "q.npz")
    assert result.code == 0
    assert result.err == (
        "qops: the progress bar needs tqdm, which is not installed; install qops[cli]\n"
    )
    pytest.importorskip("tqdm")
    for argv in (
        ("quantize", x, tmp_path / "q.npz"),
        ("dequantize", tmp_path / "q.npz", tmp_path / "y.npz"),
        ("compare", x, tmp_path / "q.npz"),
    ):
        result = run(*argv)
        assert result.code == 0
        assert "0%" in result.err
        assert "%" not in result.out


def test_module(tmp_path):
    done = module("--version")
    assert (done.returncode, done.stdout) == (0, f"qops {qops.__version__}\n")
    done = module("quantize", SAMPLE, tmp_path / "q.npz")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 quantized, 0 copied, 983,168 -> " in done.stdout
    done = module("quantize", tmp_path / "nothing.npy", tmp_path / "q.npz")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"qops: quantize: {tmp_path / 'nothing.npy'}: no such file or directory\n"
    )


def test_reader_of_the_table_may_leave(tmp_path):
    x = save(tmp_path / "x.npz", {f"tensor{i}": np.zeros(1) for i in range(3000)})
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "qops", "compare", x, x],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait(60) == 1


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nothing"],
        ["quantize"],
        ["quantize", "a.npy"],
        ["quantize", "a.npy", "b.npz", "--dtype", "int4"],
        ["quantize", "a.npy", "b.npz", "--axis", "x"],
        ["compare", "a.npy"],
        ["info", "a.npy"],
    ],
)
def test_usage(capsys, argv):
    with pytest.raises(SystemExit) as error:
        _cli.main(argv)
    assert error.value.code == 2
    assert capsys.readouterr().err.startswith("usage: qops")


def test_names_do_not_reach_the_terminal_raw(ok, fails, tmp_path):
    name = "\x1b[2J\x9b2J"
    x = save(tmp_path / "x.safetensors", {name: SRC})
    assert "?[2J?2J  (6, 5, 4)" in ok("compare", x, x)
    assert "\x1b" not in fails("quantize", x, tmp_path / "q.npz")
    y = save(tmp_path / "y.safetensors", {name: SRC[0]})
    assert f"{x}: ?[2J?2J: shape is" in fails("compare", x, y)


@pytest.mark.skipif(os.name != "posix", reason="closes descriptors by a POSIX shell")
def test_closed_streams(tmp_path):
    command = (
        f"{sys.executable} -P -m qops quantize {SAMPLE} {tmp_path / 'q.npz'} >&- 2>&-"
    )
    assert subprocess.run(command, shell=True, check=False).returncode == 0
    assert "arr_0.codes" in load(tmp_path / "q.npz")


@pytest.mark.parametrize("command", ["quantize", "dequantize", "compare", "info"])
def test_help(capsys, command):
    with pytest.raises(SystemExit) as error:
        _cli.main([command, "--help"])
    assert error.value.code == 0
    assert command in capsys.readouterr().out


def test_help_says_the_rule(capsys):
    with pytest.raises(SystemExit):
        _cli.main(["quantize", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "two or more dimensions are quantized per channel along --axis" in text
    assert "NAME.codes, NAME.scale, NAME.zero_point" in text


def test_info(ok):
    assert ok("info")
    document = json.loads(ok("info", "--json"))
    assert document["config"] == qops.show_config(mode="dicts")
    assert document["runtime"] == qops.show_runtime(mode="dicts")
