"""qops beside what else does the same work from Python: python -m benchmarks.peers.

One thread for everybody, arrays in memory, results into arrays that exist where a peer
can do that (PyTorch can't). In every round each contender is timed once, in turn; the
numbers are medians. A peer that is not installed has no column.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
from suite.cases import Call, empty, np_dequantize, np_quantize, numbers
from table import Contender, cpu, levels, median, race, ratio, speed

import qops

try:
    import torch
except ImportError:
    torch = None
try:
    import onnx
    import onnxruntime
except ImportError:
    onnx = onnxruntime = None

# numexpr has neither rint nor 8-bit integers, gguf and faiss choose scales of their
# own: none of them does one of these operations.
PEERS = {"PyTorch": torch, "ONNX Runtime": onnxruntime}
SIZES = {"64 Ki": 1 << 16, "1 Mi": 1 << 20, "16 Mi": 1 << 24}
S, S2, S3, Z, Z2, Z3 = 0.05, 0.08, 0.2, 128, 120, 100
COLUMNS = 1024


@dataclass
class Work:
    """One operation on n elements: who can do it, and where the results go."""

    traffic: int  # bytes read and written per element
    calls: dict[str, Call] = field(default_factory=dict)
    results: dict[str, Callable[[], Any]] = field(default_factory=dict)

    def add(self, name: str, call: Call, result: Callable[[], Any]) -> None:
        """Enter a contender; `result` gives its result after a call."""
        self.calls[name], self.results[name] = call, result

    def into(self, name: str, call: Call, out: Any) -> None:
        """Enter a contender that writes into an array."""
        self.add(name, call, lambda: out)


# ------------------------------------------------------------------ ONNX Runtime


def onnx_call(
    op: str, inputs: dict[str, Any], constants: list[Any], out: Any, **attributes: Any
) -> Call:
    """Return a run of a model of one node, its output bound to an array.

    `constants` are the node's inputs in order, with names of `inputs` between them.
    """
    helper, proto = onnx.helper, onnx.TensorProto

    def kind(a: Any) -> int:
        return {"f": proto.FLOAT, "B": proto.UINT8, "b": proto.INT8}[a.dtype.char]

    def value(name: str, a: Any) -> Any:
        return helper.make_tensor_value_info(name, kind(a), a.shape)

    names, tensors = [], []
    for i, constant in enumerate(constants):
        if isinstance(constant, str):
            names.append(constant)
        else:
            names.append(f"c{i}")
            tensors.append(onnx.numpy_helper.from_array(np.asarray(constant), f"c{i}"))
    domain = "com.microsoft" if op.startswith("QLinear") else ""
    node = helper.make_node(op, names, ["y"], domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        op,
        [value(name, a) for name, a in inputs.items()],
        [value("y", out)],
        tensors,
    )
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    bound = session.io_binding()
    for name, a in inputs.items():
        bound.bind_cpu_input(name, a)
    bound.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(out))
    return lambda: session.run_with_iobinding(bound)


# ------------------------------------------------------------------ operations


def codes(dtype: Any, n: int, seed: int = 0) -> Any:
    """Return codes of all values."""
    some = np.random.default_rng(seed).integers(0, 256, 1 << 12)
    return np.resize(some.astype(dtype), n)


def quantize(n: int, dtype: Any, axis: int | None = None) -> Work:
    """Float32 numbers to codes."""
    work = Work(5)
    columns = COLUMNS if axis is not None else n
    shape = (n // columns, columns) if axis is not None else (n,)
    x = numbers(np.dtype(np.float32), shape)
    zero = Z if dtype == np.uint8 else 0
    channels = shape[axis] if axis is not None else 0
    scale = np.linspace(S, 2 * S, channels, dtype=np.float32) if channels else S
    zeros = np.full(channels, zero, dtype) if channels else zero
    kind = np.dtype(dtype)

    out = empty(kind, shape)
    work.into("qops", lambda: qops.quantize(x, scale, zeros, axis=axis, out=out), out)
    wide = np.float32(scale) if axis is None else np.asarray(scale)
    wide = wide[:, None] if axis == 0 else wide
    work.add(
        "NumPy",
        lambda: np_quantize(x, wide, np.float32(zero), kind),
        lambda: np_quantize(x, wide, np.float32(zero), kind),
    )
    low, high = np.iinfo(dtype).min - zero, np.iinfo(dtype).max - zero
    t, np_out = np.empty(shape, np.float32), empty(kind, shape)

    def with_out() -> None:
        np.divide(x, wide, out=t)
        np.rint(t, out=t)
        np.clip(t, low, high, out=t)
        np.add(t, np.float32(zero), out=t)
        np.copyto(np_out, t, casting="unsafe")

    work.into("NumPy out=", with_out, np_out)
    if torch:
        tx = torch.from_numpy(x)
        target = torch.quint8 if dtype == np.uint8 else torch.qint8
        if axis is None:

            def call() -> Any:
                return torch.quantize_per_tensor(tx, S, zero, target)
        else:
            ts, tz = torch.from_numpy(scale), torch.full((channels,), zero)

            def call() -> Any:
                return torch.quantize_per_channel(tx, ts, tz, axis, target)

        work.add("PyTorch", call, lambda: call().int_repr().numpy())
    if onnxruntime:
        ort_out = empty(kind, shape)
        constants = ["x", np.float32(scale), np.asarray(zeros, dtype)]
        attributes = {} if axis is None else {"axis": axis}
        work.into(
            "ONNX Runtime",
            onnx_call("QuantizeLinear", {"x": x}, constants, ort_out, **attributes),
            ort_out,
        )
    return work


def dequantize(n: int) -> Work:
    """Codes to float32 numbers."""
    work = Work(5)
    q, out = codes(np.uint8, n), empty(np.dtype(np.float32), (n,))
    work.into("qops", lambda: qops.dequantize(q, S, Z, out=out), out)
    numpy = lambda: np_dequantize(q, np.float32(S), np.float32(Z))  # noqa: E731
    work.add("NumPy", numpy, numpy)
    np_out = empty(np.dtype(np.float32), (n,))

    def with_out() -> None:
        np.subtract(q, np.float32(Z), out=np_out)
        np.multiply(np_out, np.float32(S), out=np_out)

    work.into("NumPy out=", with_out, np_out)
    if torch:
        tq = torch._make_per_tensor_quantized_tensor(torch.from_numpy(q), S, Z)
        work.add("PyTorch", tq.dequantize, lambda: tq.dequantize().numpy())
    if onnxruntime:
        ort_out = empty(np.dtype(np.float32), (n,))
        constants = ["q", np.float32(S), np.uint8(Z)]
        work.into(
            "ONNX Runtime",
            onnx_call("DequantizeLinear", {"q": q}, constants, ort_out),
            ort_out,
        )
    return work


def binary(n: int, op: str) -> Work:
    """Two arrays of codes to a third."""
    work = Work(3)
    a, b, out = codes(np.uint8, n), codes(np.uint8, n, 1), empty(np.dtype("u1"), (n,))
    function = getattr(qops, op)
    work.into("qops", lambda: function(a, S, Z, b, S2, Z2, S3, Z3, out=out), out)
    ufunc = {"qadd": np.add, "qmul": np.multiply}[op]

    def numpy() -> Any:
        real = [
            np_dequantize(a, np.float32(S), np.float32(Z)),
            np_dequantize(b, np.float32(S2), np.float32(Z2)),
        ]
        return np_quantize(ufunc(*real), np.float32(S3), np.float32(Z3), out.dtype)

    work.add("NumPy", numpy, numpy)
    if torch:
        make = torch._make_per_tensor_quantized_tensor
        ta, tb = make(torch.from_numpy(a), S, Z), make(torch.from_numpy(b), S2, Z2)
        kernel = getattr(torch.ops.quantized, {"qadd": "add", "qmul": "mul"}[op])

        def call() -> Any:
            return kernel(ta, tb, S3, Z3)

        work.add("PyTorch", call, lambda: call().int_repr().numpy())
    if onnxruntime:
        ort_out = empty(np.dtype("u1"), (n,))
        constants = ["a", np.float32(S), np.uint8(Z), "b", np.float32(S2), np.uint8(Z2)]
        constants += [np.float32(S3), np.uint8(Z3)]
        name = {"qadd": "QLinearAdd", "qmul": "QLinearMul"}[op]
        run = onnx_call(name, {"a": a, "b": b}, constants, ort_out)
        work.into("ONNX Runtime", run, ort_out)
    return work


def sigmoid(n: int) -> Work:
    """A function of one code, to codes of 1 / 256."""
    work = Work(2)
    q, out = codes(np.uint8, n), empty(np.dtype("u1"), (n,))

    def f(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    table = qops.lookup_table(f, np.uint8, S, Z, np.uint8, 1 / 256, 0)
    work.into("qops", lambda: qops.qsigmoid(q, S, Z, out=out), out)
    np_out = empty(np.dtype("u1"), (n,))
    work.into("NumPy out=", lambda: np.take(table, q, out=np_out, mode="clip"), np_out)
    if torch:
        tq = torch._make_per_tensor_quantized_tensor(torch.from_numpy(q), S, Z)
        result = lambda: torch.sigmoid(tq).int_repr().numpy()  # noqa: E731
        work.add("PyTorch", lambda: torch.sigmoid(tq), result)
    if onnxruntime:
        ort_out = empty(np.dtype("u1"), (n,))
        constants = ["q", np.float32(S), np.uint8(Z), np.float32(1 / 256), np.uint8(0)]
        run = onnx_call("QLinearSigmoid", {"q": q}, constants, ort_out)
        work.into("ONNX Runtime", run, ort_out)
    return work


def torch_codes(q: Any, channels_last: bool = False) -> Any:
    """Return a quantized tensor of codes."""
    t = torch._make_per_tensor_quantized_tensor(torch.from_numpy(q), S, Z)
    return t.contiguous(memory_format=torch.channels_last) if channels_last else t


def function(
    n: int, name: str, f: Callable[[Any], Any], peer: Callable[[Any], Any]
) -> Work:
    """Another function of one code, to codes of the same scale."""
    work = Work(2)
    q, out = codes(np.uint8, n), empty(np.dtype("u1"), (n,))
    public = getattr(qops, name)
    work.into("qops", lambda: public(q, S, Z, S, Z, out=out), out)

    def numpy() -> Any:
        real = f(np_dequantize(q, np.float32(S), np.float32(Z)))
        return np_quantize(real, np.float32(S), np.float32(Z), out.dtype)

    work.add("NumPy", numpy, numpy)
    if torch:
        tq = torch_codes(q)
        work.add("PyTorch", lambda: peer(tq), lambda: peer(tq).int_repr().numpy())
    return work


def images(n: int, channels_last: bool) -> tuple[Any, Any]:
    """Return codes of images of 64 channels, as qops and as PyTorch take them."""
    x = codes(np.uint8, n).reshape(-1, 64, 128, 128)
    tensor = torch_codes(x, channels_last) if torch else None
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if channels_last else x, tensor


def affine(n: int) -> tuple[Any, Any]:
    """Return a weight and a bias of each channel."""
    rng = np.random.default_rng(0)
    return rng.normal(1, 0.1, n).astype("f4"), rng.normal(0, 0.1, n).astype("f4")


def torch_result(call: Call, channels_last: bool) -> Callable[[], Any]:
    """Return the codes of a quantized tensor in the layout of qops."""

    def result() -> Any:
        y = call().int_repr().contiguous().numpy()  # type: ignore[attr-defined]
        return np.moveaxis(y, 1, -1) if channels_last else y

    return result


def norm(n: int, name: str, channels_last: bool = False) -> Work:
    """A normalization with weight and bias, to another scale."""
    work = Work(2)
    if name == "qlayer_norm":
        x = codes(np.uint8, n).reshape(-1, COLUMNS)
        t = torch_codes(x) if torch else None
        weight, bias = affine(COLUMNS)
        own: dict[str, Any] = {}
    else:
        x, t = images(n, channels_last)
        weight, bias = affine(64)
        own = {"groups": 8} if name == "qgroup_norm" else {"mean": bias, "var": weight}
        own["axis"] = -1 if channels_last else 1
    out, public = empty(x.dtype, x.shape), getattr(qops, name)
    args = S, Z, S2, Z2
    work.into(
        "qops", lambda: public(x, *args, weight=weight, bias=bias, **own, out=out), out
    )
    if torch:
        w, b, ops = (
            torch.from_numpy(weight),
            torch.from_numpy(bias),
            torch.ops.quantized,
        )
        call = {
            "qlayer_norm": lambda: ops.layer_norm(t, [COLUMNS], w, b, 1e-5, S2, Z2),
            "qgroup_norm": lambda: ops.group_norm(t, 8, w, b, 1e-5, S2, Z2),
            "qbatch_norm": lambda: ops.batch_norm2d(t, w, b, b, w, 1e-5, S2, Z2),
        }[name]
        work.add("PyTorch", call, torch_result(call, channels_last))
    return work


def pool(n: int, name: str, channels_last: bool) -> Work:
    """Windows of 3 x 3 with stride 1 and padding."""
    work = Work(2)
    x, t = images(n, channels_last)
    out, public = empty(x.dtype, x.shape), getattr(qops, name)
    own = {"kernel": 3, "stride": 1, "padding": 1, "channels_last": channels_last}
    work.into("qops", lambda: public(x, S, Z, **own, out=out), out)
    if torch:
        by = getattr(torch.nn.functional, name[1:].replace("pool", "pool2d"))

        def call() -> Any:
            return by(t, 3, 1, 1)

        work.add("PyTorch", call, torch_result(call, channels_last))
    return work


def bilinear(n: int, channels_last: bool) -> Work:
    """Images enlarged to n elements, twice as high and wide."""
    work = Work(2)
    x, t = images(n, channels_last)
    small = x[:, ::2, ::2] if channels_last else x[..., ::2, ::2]
    small, out = np.ascontiguousarray(small), empty(x.dtype, x.shape)
    own: Any = {"scale_factor": 2, "mode": "bilinear", "channels_last": channels_last}
    work.into("qops", lambda: qops.qinterpolate(small, S, Z, **own, out=out), out)
    if torch:
        layout = torch.channels_last if channels_last else torch.contiguous_format
        half = t[..., ::2, ::2].contiguous(memory_format=layout)

        def call() -> Any:
            return torch.nn.functional.interpolate(
                half, scale_factor=2, mode="bilinear", align_corners=False
            )

        work.add("PyTorch", call, torch_result(call, channels_last))
    return work


def concatenate(n: int) -> Work:
    """Two arrays of different scales to a third scale."""
    work = Work(2)
    a, b, out = codes(np.uint8, n // 2), codes(np.uint8, n // 2, 1), np.ones(n, "u1")
    args = [S, S2], [Z, Z2], S3, Z3
    work.into("qops", lambda: qops.qconcatenate([a, b], *args, out=out), out)
    if torch:
        make = torch._make_per_tensor_quantized_tensor
        both = [make(torch.from_numpy(q), s, z) for q, s, z in ((a, S, Z), (b, S2, Z2))]

        def call() -> Any:
            return torch.ops.quantized.cat(both, 0, S3, Z3)

        work.add("PyTorch", call, lambda: call().int_repr().numpy())
    return work


def masked_fill(n: int) -> Work:
    """A third of the codes replaced by that of a number."""
    work = Work(3)
    q, out = codes(np.uint8, n), np.ones(n, "u1")
    mask = np.random.default_rng(0).random(n) < 1 / 3
    work.into("qops", lambda: qops.masked_fill(q, mask, 0.5, S, Z, out=out), out)

    np_out = np.ones(n, "u1")

    def numpy() -> None:
        np.copyto(np_out, q)
        np.copyto(np_out, np.uint8(Z + 10), where=mask)

    work.into("NumPy out=", numpy, np_out)
    if torch:
        tq, where = torch_codes(q), torch.from_numpy(mask)
        result = lambda: tq.masked_fill(where, 0.5).int_repr().numpy()  # noqa: E731
        work.add("PyTorch", lambda: tq.masked_fill(where, 0.5), result)
    return work


def squares(n: int) -> Work:
    """The exact sum of squares of codes."""
    work = Work(1)
    q = codes(np.uint8, n)
    for name, call in {
        "qops": lambda: qops.hsum_sq(q),
        "NumPy": lambda: int(np.square(q, dtype=np.int64).sum()),
    }.items():
        work.add(name, call, call)
    return work


WORKS: dict[str, Callable[[int], Work]] = {
    "quantize f32 to u8": lambda n: quantize(n, np.uint8),
    "quantize f32 to i8": lambda n: quantize(n, np.int8),
    "quantize per channel, axis 0": lambda n: quantize(n, np.uint8, 0),
    "quantize per channel, last axis": lambda n: quantize(n, np.uint8, 1),
    "dequantize u8 to f32": dequantize,
    "qadd u8": lambda n: binary(n, "qadd"),
    "qmul u8": lambda n: binary(n, "qmul"),
    "sigmoid u8": sigmoid,
    "hsum_sq u8": squares,
}

# Measured at 1 Mi elements alone
LAYERS: dict[str, Callable[[int], Work]] = {
    "relu": lambda n: function(
        n, "qrelu", lambda x: np.maximum(x, np.float32(0)), lambda t: torch.relu(t)
    ),
    "elu": lambda n: function(
        n,
        "qelu",
        lambda x: np.where(x > 0, x, np.expm1(x)),
        lambda t: torch.ops.quantized.elu(t, S, Z),
    ),
    "hardswish": lambda n: function(
        n,
        "qhardswish",
        lambda x: x * np.clip(x + np.float32(3), 0, 6) / np.float32(6),
        lambda t: torch.ops.quantized.hardswish(t, S, Z),
    ),
    "batch norm": lambda n: norm(n, "qbatch_norm"),
    "batch norm, channels last": lambda n: norm(n, "qbatch_norm", True),
    "layer norm": lambda n: norm(n, "qlayer_norm"),
    "group norm": lambda n: norm(n, "qgroup_norm"),
    "group norm, channels last": lambda n: norm(n, "qgroup_norm", True),
    "max pool 3 x 3": lambda n: pool(n, "qmax_pool", False),
    "max pool 3 x 3, channels last": lambda n: pool(n, "qmax_pool", True),
    "average pool 3 x 3": lambda n: pool(n, "qavg_pool", False),
    "average pool 3 x 3, channels last": lambda n: pool(n, "qavg_pool", True),
    "bilinear x 2": lambda n: bilinear(n, False),
    "bilinear x 2, channels last": lambda n: bilinear(n, True),
    "concatenate and requantize": concatenate,
    "masked_fill": masked_fill,
}


# ------------------------------------------------------------------ measuring


def limit(work: Work, n: int) -> Call:
    """Return a copy of the same traffic; for sums the fastest pass that only reads."""
    if work.traffic == 1:
        x = np.ones(n, np.uint8)
        return lambda: np.maximum.reduce(x)
    a, b = (np.full(work.traffic * n // 2, i, np.uint8) for i in (1, 2))
    return lambda: np.copyto(a, b)


def row(name: str, n: int, seconds: float) -> dict[str, Any] | None:
    """Race everybody on one operation and size; None if there is nobody else."""
    work = (WORKS | LAYERS)[name](n)
    contenders = {level: Contender(work.calls["qops"], level) for level in levels()}
    others = [peer for peer in work.calls if peer != "qops"]
    if not others:
        return None
    contenders |= {peer: Contender(work.calls[peer]) for peer in others}
    contenders["limit"] = Contender(limit(work, n))
    times = race(contenders, seconds)
    best = levels()[0]
    fastest = min(others, key=lambda peer: median(times[peer]))
    work.calls["qops"]()
    right = np.asarray(work.results["qops"]()).copy()
    differing = {}
    for peer in others:
        work.calls[peer]()
        differing[peer] = float(np.mean(np.asarray(work.results[peer]()) != right))
    return {
        "operation": name,
        "n": n,
        "speed": {who: speed(times, who, n) for who in contenders},
        "fastest_peer": fastest,
        "ratio": ratio(times, best, fastest),
        "of_limit": ratio(times, best, "limit"),
        "differing": differing,
    }


def versions() -> dict[str, str]:
    """Return what the numbers belong to."""
    found = {"qops": qops.__version__, "NumPy": np.__version__}
    packages = {"PyTorch": "torch", "ONNX Runtime": "onnxruntime"}
    found |= {p: metadata.version(packages[p]) for p in PEERS if PEERS[p]}
    return found


def markdown(rows: list[dict[str, Any]]) -> str:
    """Lay the numbers out as the README has them."""
    others = ["PyTorch", "ONNX Runtime", "NumPy", "NumPy out=", "limit"]
    columns = [*levels(), *(o for o in others if any(o in r["speed"] for r in rows))]
    sizes = {n: size for size, n in SIZES.items()}
    lines = [
        f"| 10^9 elements/s | elements | {' | '.join(columns)} | qops / best peer |",
        f"|---|---|{'---|' * len(columns)}---|",
    ]
    for r in rows:
        cells = [f"{r['speed'][c]:.3g}" if c in r["speed"] else "" for c in columns]
        lines.append(
            f"| {r['operation']} | {sizes[r['n']]} | {' | '.join(cells)} "
            f"| {r['ratio']:.1f} |"
        )
    mean = exp(sum(log(r["ratio"]) for r in rows) / len(rows))
    lines += ["", f"Geometric mean of the last column: {mean:.1f}."]
    for r in rows:
        if r["n"] == min(SIZES.values()) or r["operation"] in LAYERS:
            for peer, share in r["differing"].items():
                if share:
                    lines.append(
                        f"{r['operation']}: {peer} differs in {share:.2%} of results."
                    )
    return "\n".join(lines)


def plot(rows: list[dict[str, Any]], file: str) -> None:
    """Draw speed against size, one panel for each operation, under the copy limit."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    names = list(WORKS)
    figure, axes = pyplot.subplots(3, 3, figsize=(11, 9), sharex=True)
    best, colors = levels()[0], pyplot.get_cmap("tab10").colors
    shown = {
        f"{best}": ("qops", colors[0], "o-"),
        "avx2": ("qops, avx2", colors[9], "o--"),
        "PyTorch": ("PyTorch", colors[1], "s-"),
        "ONNX Runtime": ("ONNX Runtime", colors[4], "D-"),
        "NumPy": ("NumPy", colors[7], "^-"),
        "limit": ("copy of the same bytes", "black", ":"),
    }
    for axis, name in zip(axes.flat, names, strict=False):
        mine = [r for r in rows if r["operation"] == name]
        for who, (label, color, style) in shown.items():
            points = [(r["n"], r["speed"][who]) for r in mine if who in r["speed"]]
            if points:
                axis.plot(*zip(*points, strict=True), style, color=color, label=label)
        axis.set_title(name, fontsize=10)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks([*SIZES.values()], [*SIZES])
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel("10⁹ elements/s")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=6, frameon=False)
    figure.suptitle(f"{cpu()}, one thread")
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    figure.savefig(file, dpi=80)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write all numbers there")
    parser.add_argument("--plot", metavar="FILE", help="draw a PNG")
    parser.add_argument("--seconds", type=float, default=2, help="for each row")
    arguments = parser.parse_args()
    if torch:
        torch.set_num_threads(1)
    missing = [peer for peer in PEERS if not PEERS[peer]]
    if missing:
        print(f"Not installed: {', '.join(missing)} (pip install '.[peers]').\n")
    at = ", ".join(f"{name} {version}" for name, version in versions().items())
    print(f"{cpu()}, one thread; {at}.\n")
    todo = [(name, n) for name in WORKS for n in SIZES.values()]
    todo += [(name, SIZES["1 Mi"]) for name in LAYERS]
    rows = [r for name, n in todo if (r := row(name, n, arguments.seconds))]
    print(markdown(rows))
    if arguments.json:
        document = {"cpu": cpu(), "versions": versions(), "rows": rows}
        Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n")
    if arguments.plot:
        plot(rows, arguments.plot)


if __name__ == "__main__":
    main()
