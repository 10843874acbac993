"""qops beside what else does the same work from Python: python -m benchmarks.peers.

One thread for everybody, arrays in memory, results into arrays that exist where a peer
can do that (PyTorch can't). In every round each contender is timed once, in turn; the
numbers are medians. A peer that is not installed has no column.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from math import exp, log, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from suite.cases import (
    DTYPES,
    UFUNCS,
    Call,
    empty,
    layout,
    np_dequantize,
    np_quantize,
    numbers,
)
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
U8, F32 = DTYPES["u8"], DTYPES["f32"]
COLUMNS = 1024


@dataclass
class Work:
    """One operation on n elements: who can do it, and where the results go."""

    traffic: float  # bytes read and written per element
    calls: dict[str, Call] = field(default_factory=dict)
    results: dict[str, Callable[[], Any]] = field(default_factory=dict)

    def add(self, name: str, call: Call, channels_last: bool = False) -> None:
        """Enter a contender whose call returns the result."""
        self.calls[name] = call
        self.results[name] = lambda: plain(call(), channels_last)

    def into(self, name: str, call: Call, out: Any) -> None:
        """Enter a contender that writes into an array."""
        self.calls[name], self.results[name] = call, lambda: out

    def by_torch(self, call: Call, channels_last: bool = False) -> None:
        """Enter PyTorch, if installed; it gives channels in its own order."""
        if torch:
            self.add("PyTorch", call, channels_last)

    def by_onnx(
        self,
        op: str,
        inputs: dict[str, Any],
        constants: list[Any],
        out: Any,
        **own: Any,
    ) -> None:
        """Enter ONNX Runtime, if installed; see `onnx_call`."""
        if onnxruntime:
            call = onnx_call(op, inputs, constants, out, **own)
            self.into("ONNX Runtime", call, out)


def plain(y: Any, channels_last: bool = False) -> Any:
    """Return a result as an array: of tensors the codes, of several all in a row."""
    if isinstance(y, tuple):
        return np.hstack([plain(part).reshape(-1) for part in y])
    if torch and isinstance(y, torch.Tensor):
        y = (y.int_repr() if y.is_quantized else y.detach()).contiguous().numpy()
    return np.moveaxis(y, 1, -1) if channels_last else np.asarray(y)


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


def codes(n: int, seed: int = 0) -> Any:
    """Return codes of all values."""
    return np.random.default_rng(seed).integers(0, 256, n, "u1")


def rows(n: int, columns: int = COLUMNS) -> Any:
    """Return codes in rows."""
    return codes(n).reshape(-1, columns)


def images(n: int, channels_last: bool) -> tuple[Any, Any]:
    """Return codes of images of 64 channels, as qops and as PyTorch take them."""
    x = codes(n).reshape(-1, 64, 128, 128)
    t = tensor(x)
    if torch and channels_last:
        t = t.contiguous(memory_format=torch.channels_last)
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if channels_last else x, t


def tensor(q: Any, scale: float = S, zero: int = Z) -> Any:
    """Return a quantized tensor of codes, if there is PyTorch."""
    if torch is None:
        return None
    return torch._make_per_tensor_quantized_tensor(torch.from_numpy(q), scale, zero)


def real(q: Any, scale: float = S, zero: int = Z) -> Any:
    """Dequantize with NumPy."""
    return np_dequantize(q, np.float32(scale), np.float32(zero))


def coded(x: Any, scale: float = S, zero: int = Z) -> Any:
    """Quantize with NumPy."""
    return np_quantize(x, np.float32(scale), np.float32(zero), U8)


def constants(*pairs: tuple[float, int]) -> list[Any]:
    """Return scales and zero points as a node of ONNX takes them."""
    return [p for s, z in pairs for p in (np.float32(s), np.uint8(z))]


def work_of(
    traffic: float, ours: Call, numpy: Call | None = None, out: Any = None
) -> Work:
    """Enter qops, with an array to write to if it takes one, and NumPy."""
    work = Work(traffic)
    work.add("qops", ours if out is None else partial(ours, out=out))
    if numpy:
        work.add("NumPy", numpy)
    return work


def quantize(n: int, dtype: str, kind: str = "per tensor") -> Work:
    """Float32 numbers to codes."""
    to = DTYPES[dtype]
    at = layout(kind, n, to)
    x, zero = numbers(F32, at.shape), np.float32(Z if dtype == "u8" else 0)
    (scale, zeros), wide, own = at.pair, at.numpy[0], at.options
    work = work_of(
        5,
        partial(qops.quantize, x, scale, zeros, **own),
        lambda: np_quantize(x, wide, zero, to),
        empty(to, at.shape),
    )
    low, high = np.iinfo(to).min - zero, np.iinfo(to).max - zero
    t, np_out = empty(F32, at.shape), empty(to, at.shape)

    def with_out() -> None:
        np.divide(x, wide, out=t)
        np.rint(t, out=t)
        np.clip(t, low, high, out=t)
        np.add(t, zero, out=t)
        np.copyto(np_out, t, casting="unsafe")

    work.into("NumPy out=", with_out, np_out)
    if torch:
        target = {"u8": torch.quint8, "i8": torch.qint8}[dtype]
        args: tuple[Any, ...] = torch.from_numpy(x), scale, zeros, target
        by = torch.quantize_per_tensor
        if own:
            pair = (torch.from_numpy(p) for p in (scale, zeros.astype(int)))
            args, by = (args[0], *pair, own["axis"], target), torch.quantize_per_channel
        work.by_torch(lambda: by(*args))
    given = ["x", np.float32(scale), np.asarray(zeros, to)]
    work.by_onnx("QuantizeLinear", {"x": x}, given, empty(to, at.shape), **own)
    return work


def dequantize(n: int) -> Work:
    """Codes to float32 numbers."""
    q, np_out, t = codes(n), empty(F32, (n,)), tensor(codes(n))
    ours = partial(qops.dequantize, q, S, Z)
    work = work_of(5, ours, lambda: real(q), ours())

    def with_out() -> None:
        np.subtract(q, np.float32(Z), out=np_out)
        np.multiply(np_out, np.float32(S), out=np_out)

    work.into("NumPy out=", with_out, np_out)
    work.by_torch(lambda: t.dequantize())
    given = ["q", *constants((S, Z))]
    work.by_onnx("DequantizeLinear", {"q": q}, given, empty(F32, (n,)))
    return work


def binary(n: int, op: str) -> Work:
    """Two arrays of codes to a third; of 0 / 0 NumPy makes any code."""
    a, b = codes(n), codes(n, 1)
    ours = partial(getattr(qops, op), a, S, Z, b, S2, Z2, S3, Z3)

    def numpy() -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return coded(UFUNCS[op](real(a), real(b, S2, Z2)), S3, Z3)

    work = work_of(3, ours, numpy, ours())
    if op in {"qadd", "qmul"}:
        name, ta, tb = op[1:], tensor(a), tensor(b, S2, Z2)
        kernel = torch and getattr(torch.ops.quantized, name)
        work.by_torch(lambda: kernel(ta, tb, S3, Z3))
        given = ["a", *constants((S, Z)), "b", *constants((S2, Z2), (S3, Z3))]
        name = f"QLinear{name.title()}"
        work.by_onnx(name, {"a": a, "b": b}, given, empty(U8, (n,)))
    return work


def function(
    n: int,
    name: str,
    f: Callable[[Any], Any],
    peer: Callable[[Any], Any],
    to: tuple[float, int] = (S, Z),
    onnx_name: str = "",
    onnx_own: Any = None,
    **own: Any,
) -> Work:
    """A function of one code, in float32 by others; NumPy has the table of qops too."""
    q, t, public = codes(n), tensor(codes(n)), getattr(qops, name)
    ours = partial(public, q, S, Z, *to, **own)
    work = work_of(2, ours, lambda: coded(f(real(q)), *to), ours())
    table = public(np.arange(256, dtype=U8), S, Z, *to, **own)
    np_out = empty(U8, (n,))
    work.into("NumPy out=", lambda: np.take(table, q, out=np_out, mode="clip"), np_out)
    work.by_torch(lambda: peer(t))
    if onnx_name:
        given, out = ["q", *constants((S, Z), to)], empty(U8, (n,))
        work.by_onnx(onnx_name, {"q": q}, given, out, **(onnx_own or {}))
    return work


def affine(n: int) -> tuple[Any, Any]:
    """Return a weight and a bias of each channel."""
    rng = np.random.default_rng(0)
    return rng.normal(1, 0.1, n).astype("f4"), rng.normal(0, 0.1, n).astype("f4")


def norm(n: int, channels_last: bool, name: str) -> Work:
    """A normalization with weight and bias, to another scale."""
    own: dict[str, Any] = {}
    if name == "qlayer_norm":
        x, t, (weight, bias) = rows(n), tensor(rows(n)), affine(COLUMNS)
    else:
        (x, t), (weight, bias) = images(n, channels_last), affine(64)
        own["axis"] = -1 if channels_last else 1
    own |= {
        "qgroup_norm": {"groups": 8},
        "qbatch_norm": {"mean": bias, "var": weight},
    }.get(name, {})
    own |= {"weight": weight, "bias": bias}
    ours = partial(getattr(qops, name), x, S, Z, S2, Z2, **own)
    work = work_of(2, ours, out=ours())
    if torch:
        w, b = torch.from_numpy(weight), torch.from_numpy(bias)
        ops, to = torch.ops.quantized, (1e-5, S2, Z2)
        call = {
            "qlayer_norm": lambda: ops.layer_norm(t, [COLUMNS], w, b, *to),
            "qgroup_norm": lambda: ops.group_norm(t, 8, w, b, *to),
            "qinstance_norm": lambda: ops.instance_norm(t, w, b, *to),
            "qbatch_norm": lambda: ops.batch_norm2d(t, w, b, b, w, *to),
        }[name]
        work.by_torch(call, channels_last)
    return work


# Windows of 3 x 3, as qops and as ONNX take them
WINDOW: Any = {"kernel": 3, "padding": 1}
ONNX_WINDOW: Any = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


def pool(
    n: int,
    channels_last: bool,
    name: str,
    peer: Callable[[Any], Any],
    onnx_name: str = "",
    onnx_own: Any = None,
    traffic: float = 1,
    **own: Any,
) -> Work:
    """Windows of images; that of ONNX for maxima has channels first alone."""
    x, t = images(n, channels_last)
    ours = partial(getattr(qops, name), x, S, Z, channels_last=channels_last, **own)
    work = work_of(traffic, ours, out=ours())
    work.by_torch(lambda: peer(t), channels_last)
    given, attributes = ["x"], dict(onnx_own or {})
    if onnx_name.startswith("QLinear"):
        given += constants((S, Z), (S, Z))
        attributes["channels_last"] = int(channels_last)
    elif channels_last:
        return work
    if onnx_name:
        out = empty(U8, ours().shape)
        work.by_onnx(onnx_name, {"x": x}, given, out, **attributes)
    return work


def bilinear(n: int, channels_last: bool) -> Work:
    """Images enlarged to n elements, twice as high and wide."""
    x, t = images(n, channels_last)
    small = x[:, ::2, ::2] if channels_last else x[..., ::2, ::2]
    small = np.ascontiguousarray(small)
    own: Any = {"scale_factor": 2, "mode": "bilinear"}
    ours = partial(qops.qinterpolate, small, S, Z, channels_last=channels_last, **own)
    work = work_of(2, ours, out=ours())
    if torch:
        order = torch.channels_last if channels_last else torch.contiguous_format
        half = t[..., ::2, ::2].contiguous(memory_format=order)
        resize = partial(torch.nn.functional.interpolate, align_corners=False, **own)
        work.by_torch(lambda: resize(half), channels_last)
    return work


def concatenate(n: int) -> Work:
    """Two arrays of different scales to a third scale."""
    both = [codes(n // 2), codes(n // 2, 1)]
    args, to = ([S, S2], [Z, Z2]), (S3, Z3)
    ours = partial(qops.qconcatenate, both, *args, *to)
    work = work_of(2, ours, out=ours())
    tensors = [tensor(*of) for of in zip(both, *args, strict=True)]
    work.by_torch(lambda: torch.ops.quantized.cat(tensors, 0, *to))
    return work


def masked_fill(n: int) -> Work:
    """A third of the codes replaced by that of a number."""
    q, t = codes(n), tensor(codes(n))
    mask = np.random.default_rng(0).random(n) < 1 / 3
    ours = partial(qops.masked_fill, q, mask, 0.5, S, Z)
    work = work_of(3, ours, out=ours())
    np_out = empty(U8, (n,))

    def numpy() -> None:
        np.copyto(np_out, q)
        np.copyto(np_out, np.uint8(Z + 10), where=mask)

    work.into("NumPy out=", numpy, np_out)
    where = torch and torch.from_numpy(mask)
    work.by_torch(lambda: t.masked_fill(where, 0.5))
    return work


def squares(n: int) -> Work:
    """The exact sum of squares of codes."""
    q = codes(n)
    numpy = lambda: int(np.square(q, dtype=np.int64).sum())  # noqa: E731
    return work_of(1, partial(qops.hsum_sq, q), numpy)


def fake_quantize(n: int, kind: str = "per tensor", mask: bool = False) -> Work:
    """Numbers rounded to those of codes, and the mask of those that don't saturate.

    PyTorch multiplies by 1 / scale, and adds the zero point before it rounds.
    """
    at = layout(kind, n, U8)
    x, (scale, zero) = numbers(F32, at.shape), at.pair
    own: Any = {"dtype": U8, "return_mask": mask, **at.options}
    ours = partial(qops.fake_quantize, x, scale, zero, **own)

    def numpy() -> Any:
        y = np_dequantize(np_quantize(x, *at.numpy, U8), *at.numpy)
        if not mask:
            return y
        t = np.rint(x / at.numpy[0]) + at.numpy[1]
        return y, (t >= 0) & (t <= 255)

    work = work_of(8 + mask, ours, numpy, empty(F32, at.shape))
    if torch:
        name = f"fake_quantize_per_{'channel' if at.options else 'tensor'}_affine"
        peer = getattr(torch.ops.aten, name + "_cachemask" * mask)
        args = [torch.from_numpy(x), scale, zero]
        if at.options:
            args[1:] = map(torch.from_numpy, (scale, zero.astype(np.int32)))
        args += [*at.options.values(), 0, 255]
        work.by_torch(lambda: peer(*args))
    return work


def gradients(n: int) -> Work:
    """Gradients of numbers, scale and zero point of fake quantization.

    PyTorch's sums are float32, and its zero point is added before it rounds.
    """
    x, g = numbers(F32, (n,)), np.random.default_rng(0).normal(size=n).astype(F32)

    def numpy() -> Any:
        v = x / np.float32(S)
        t = np.rint(v)
        d = np.clip(t, -Z, 255 - Z)
        mask = t == d
        dx = g * mask
        return dx, np.sum(g * (d - v * mask)), -np.float32(S) * np.sum(g - dx)

    ours = partial(qops.fake_quantize_gradients, x, S, Z, g, dtype=U8)
    work = work_of(12, ours, numpy)
    if torch:
        at = [torch.from_numpy(x), torch.tensor([S]), torch.tensor([float(Z)])]
        at = [t.requires_grad_() for t in at]
        y = torch._fake_quantize_learnable_per_tensor_affine(*at, 0, 255)
        tg, grad = torch.from_numpy(g), torch.autograd.grad
        work.by_torch(lambda: grad(y, at, tg, retain_graph=True))
    return work


def statistic(n: int, name: str, axis: int) -> Work:
    """Mean, or standard deviation of samples, of codes in rows."""
    q, t, own = rows(n), tensor(rows(n)), {"correction": 1} if name == "std" else {}
    ours = partial(getattr(qops, "q" + name), q, S, Z, axis=axis, **own)
    numpy, peer = getattr(np, name), torch and getattr(torch, name)
    work = work_of(1, ours, lambda: coded(numpy(real(q), axis, **own)), ours())
    work.by_torch(lambda: peer(t, axis))
    return work


def softmax(n: int, columns: int) -> Work:
    """Softmax of rows, to codes of 1 / 256."""
    q, t, to = rows(n, columns), tensor(rows(n, columns)), (1 / 256, 0)

    def numpy() -> Any:
        x = real(q)
        e = np.exp(x - x.max(1, keepdims=True))
        return coded(e / e.sum(1, keepdims=True), *to)

    ours = partial(qops.qsoftmax, q, S, Z, *to)
    work = work_of(2, ours, numpy, ours())
    work.by_torch(lambda: torch.ops.quantized.softmax(t, 1, *to))
    given, out = ["q", *constants((S, Z), to)], empty(U8, q.shape)
    work.by_onnx("QLinearSoftmax", {"q": q}, given, out, axis=1, opset=13)
    return work


def topk(n: int) -> Work:
    """The 10 largest of rows and where they are; of equal codes PyTorch takes any.

    So values are compared alone.
    """
    q, t = rows(n), tensor(rows(n))

    def numpy() -> Any:
        i = np.argpartition(q, -10)[:, -10:]
        v = np.take_along_axis(q, i, 1)
        order = np.argsort(v)[:, ::-1]
        return np.take_along_axis(v, order, 1), np.take_along_axis(i, order, 1)

    work = work_of(1, lambda: qops.qtopk(q, 10)[0], lambda: numpy()[0])
    work.by_torch(lambda: torch.topk(t, 10)[0])
    return work


def sort(n: int) -> Work:
    """Sorted rows; PyTorch gives indices too."""
    q, t = rows(n), tensor(rows(n))
    numpy = partial(np.sort, q, kind="stable")
    work = work_of(2, partial(qops.qsort, q), numpy, empty(U8, q.shape))
    work.by_torch(lambda: torch.sort(t)[0])
    return work


def pack(n: int) -> Work:
    """Codes of 4 bits to bytes; NumPy does not look whether they have 4."""
    q = codes(n) & 15
    ours = partial(qops.pack, q, 4)
    return work_of(1.5, ours, lambda: q[::2] | q[1::2] << 4, ours())


def unpack(n: int) -> Work:
    """Bytes to codes of 4 bits."""
    q = codes(n // 2)
    numpy = lambda: np.stack([q & 15, q >> 4], -1).reshape(-1)  # noqa: E731
    return work_of(1.5, partial(qops.unpack, q, n, U8, 4), numpy, empty(U8, (n,)))


def both_layouts(
    name: str, make: Callable[..., Work], *args: Any, **own: Any
) -> dict[str, Callable[[int], Work]]:
    """Return rows of images with channels first and last."""
    return {
        name + ", channels last" * last: lambda n, last=last: make(
            n, last, *args, **own
        )
        for last in (False, True)
    }


def arithmetic(x: Any, y: Any) -> Any:
    """Do six operations on real numbers."""
    z = np.abs((x + y) * np.float32(0.5) - y)
    return np.maximum(z, np.float32(0.1)) * x


@qops.fuse
def fused_arithmetic(a: Any, b: Any) -> Any:
    """Do them on quantized arrays."""
    return arithmetic(a.dequantize(), b.dequantize()).quantize(S3, Z3, dtype=U8)


@qops.fuse
def fused_add(a: Any, b: Any) -> Any:
    """Add, and set what is negative to zero."""
    x = a.dequantize() + b.dequantize()
    return np.maximum(x, 0).quantize(S3, Z3, dtype=U8)


def fused(n: int, function: Any) -> Work:
    """A fused function; "eager" does each operation by itself with qops and NumPy."""
    a, b = codes(n), codes(n, 1)
    qa, qb, out = qops.QArray(a, S, Z), qops.QArray(b, S2, Z2), empty(U8, (n,))
    work = Work(3)
    work.into("qops", lambda: function(qa, qb, out=out), out)
    if function is fused_add:
        own = {"relu": True, "out": empty(U8, (n,))}
        call = lambda: qops.qadd(a, S, Z, b, S2, Z2, S3, Z3, **own)  # noqa: E731
        work.into("eager", call, own["out"])
        return work
    x, y, z, t = (empty(F32, (n,)) for _ in range(4))

    def by_qops() -> Any:
        qops.dequantize(a, S, Z, out=x)
        qops.dequantize(b, S2, Z2, out=y)
        return qops.quantize(arithmetic(x, y), S3, Z3, dtype=U8)

    def with_out() -> None:
        for q, real, scale, zero in ((a, x, S, Z), (b, y, S2, Z2)):
            np.subtract(q, np.float32(zero), out=real)
            np.multiply(real, np.float32(scale), out=real)
        np.add(x, y, out=z)
        np.multiply(z, np.float32(0.5), out=z)
        np.subtract(z, y, out=z)
        np.abs(z, out=z)
        np.maximum(z, np.float32(0.1), out=z)
        np.multiply(z, x, out=z)
        np.divide(z, np.float32(S3), out=t)
        np.rint(t, out=t)
        np.clip(t, -Z3, 255 - Z3, out=t)
        np.add(t, Z3, out=t)
        np.copyto(np_out, t, casting="unsafe")

    np_out = empty(U8, (n,))
    work.add("eager", by_qops)
    work.into("NumPy out=", with_out, np_out)
    return work


WORKS: dict[str, Callable[[int], Work]] = {
    "quantize f32 to u8": lambda n: quantize(n, "u8"),
    "quantize f32 to i8": lambda n: quantize(n, "i8"),
    "quantize per channel, axis 0": lambda n: quantize(n, "u8", "first axis"),
    "quantize per channel, last axis": lambda n: quantize(n, "u8", "last axis"),
    "dequantize u8 to f32": dequantize,
    "qadd u8": lambda n: binary(n, "qadd"),
    "qmul u8": lambda n: binary(n, "qmul"),
    "sigmoid u8": lambda n: function(
        n,
        "qsigmoid",
        lambda x: 1 / (1 + np.exp(-x)),
        lambda t: torch.sigmoid(t),
        to=(1 / 256, 0),
        onnx_name="QLinearSigmoid",
    ),
    "hsum_sq u8": squares,
}

# Measured at 1 Mi elements alone
LAYERS: dict[str, Callable[[int], Work]] = {
    "relu": lambda n: function(
        n, "qrelu", lambda x: np.maximum(x, np.float32(0)), lambda t: torch.relu(t)
    ),
    "leaky_relu": lambda n: function(
        n,
        "qleaky_relu",
        lambda x: np.where(x > 0, x, x * np.float32(0.1)),
        lambda t: torch.nn.functional.leaky_relu(t, 0.1),
        onnx_name="QLinearLeakyRelu",
        onnx_own={"alpha": 0.1},
        negative_slope=0.1,
    ),
    "clamp": lambda n: function(
        n,
        "qclamp",
        lambda x: np.clip(x, -1, 2),
        lambda t: torch.clamp(t, -1.0, 2.0),
        min=-1.0,
        max=2.0,
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
    "tanh": lambda n: function(
        n, "qtanh", np.tanh, lambda t: torch.tanh(t), to=(2 / 256, 128)
    ),
    "gelu, its form with tanh": lambda n: function(
        n,
        "qgelu",
        lambda x: x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))) / 2,
        lambda t: torch.nn.functional.gelu(t, approximate="tanh"),
        approximate="tanh",
    ),
    **{
        f"{op} u8": lambda n, op=op: binary(n, op)
        for op in ("qsub", "qdiv", "qmaximum", "qminimum")
    },
    **both_layouts("batch norm", norm, "qbatch_norm"),
    "layer norm": lambda n: norm(n, False, "qlayer_norm"),
    **both_layouts("group norm", norm, "qgroup_norm"),
    **both_layouts("instance norm", norm, "qinstance_norm"),
    **both_layouts(
        "max pool 3 x 3",
        pool,
        "qmax_pool",
        lambda t: torch.nn.functional.max_pool2d(t, 3, 1, 1),
        "MaxPool",
        ONNX_WINDOW,
        traffic=2,
        stride=1,
        **WINDOW,
    ),
    **both_layouts(
        "max pool 3 x 3, stride 2",
        pool,
        "qmax_pool",
        lambda t: torch.nn.functional.max_pool2d(t, 3, 2, 1),
        "MaxPool",
        {**ONNX_WINDOW, "strides": [2, 2]},
        traffic=1.25,
        stride=2,
        **WINDOW,
    ),
    **both_layouts(
        "average pool 3 x 3",
        pool,
        "qavg_pool",
        lambda t: torch.nn.functional.avg_pool2d(t, 3, 1, 1),
        "QLinearAveragePool",
        {**ONNX_WINDOW, "count_include_pad": 1},
        traffic=2,
        stride=1,
        **WINDOW,
    ),
    **both_layouts(
        "average pool to 7 x 7",
        pool,
        "qadaptive_avg_pool",
        lambda t: torch.nn.functional.adaptive_avg_pool2d(t, 7),
        size=7,
    ),
    **both_layouts(
        "global average pool",
        pool,
        "qglobal_avg_pool",
        lambda t: torch.nn.functional.adaptive_avg_pool2d(t, 1),
        "QLinearGlobalAveragePool",
    ),
    **both_layouts("bilinear x 2", bilinear),
    "concatenate and requantize": concatenate,
    "masked_fill": masked_fill,
    "fake_quantize": fake_quantize,
    "fake_quantize and mask": lambda n: fake_quantize(n, mask=True),
    "fake_quantize per channel, axis 0": lambda n: fake_quantize(n, "first axis"),
    "fake_quantize per channel, last axis": lambda n: fake_quantize(n, "last axis"),
    "fake_quantize_gradients": gradients,
    **{
        f"{name}, axis {axis}": lambda n, name=name, axis=axis: statistic(n, name, axis)
        for name in ("mean", "std")
        for axis in (0, 1)
    },
    "softmax of rows of 1024": lambda n: softmax(n, 1024),
    "softmax of rows of 128": lambda n: softmax(n, 128),
    "topk, 10 of rows of 1024": topk,
    "sort rows of 1024": sort,
    "fused add and relu": lambda n: fused(n, fused_add),
    "fused, six operations": lambda n: fused(n, fused_arithmetic),
    "pack 4 bits": pack,
    "unpack 4 bits": unpack,
}


# ------------------------------------------------------------------ measuring


def limit(work: Work, n: int) -> Call:
    """Return a copy of the same traffic; for sums the fastest pass that only reads."""
    if work.traffic == 1:
        x = np.ones(n, np.uint8)
        return lambda: np.maximum.reduce(x)
    a, b = (np.full(int(work.traffic * n / 2), i, np.uint8) for i in (1, 2))
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
    right = work.results["qops"]().copy()
    differing = {}
    for peer in others:
        work.calls[peer]()
        differing[peer] = float(np.mean(work.results[peer]() != right))
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
    others = ["PyTorch", "ONNX Runtime", "NumPy", "NumPy out=", "eager", "limit"]
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
