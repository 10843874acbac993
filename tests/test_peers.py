"""Beside PyTorch, if installed: never more than a code apart, or a known fault.

The rates of differing results are printed: pytest -s tests/test_peers.py
"""

import numpy as np
import pytest
from test_dequantize import codes

import qops

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
functional = torch.nn.functional
quantized = torch.ops.quantized
pytestmark = pytest.mark.filterwarnings("ignore")  # that it is about to be removed

S, Z, S2, Z2 = 0.05, 100, 0.037, 90


def tensor(q, scale=S, zero=Z):
    return torch._make_per_tensor_quantized_tensor(torch.from_numpy(q), scale, zero)


def unary(name, call, **own):
    """A function of one code to the parameters that PyTorch gives its result."""

    def run(q, t):
        y = call(t)
        to = y.q_scale(), y.q_zero_point()
        return getattr(qops, name)(q, S, Z, *to, **own), y

    return run


UNARY = {
    "qrelu": unary("qrelu", torch.relu),
    "qrelu6": unary("qrelu6", functional.relu6),
    "qleaky_relu": unary(
        "qleaky_relu", lambda t: functional.leaky_relu(t, 0.1), negative_slope=0.1
    ),
    "qelu": unary("qelu", lambda t: quantized.elu(t, S2, Z2)),
    "qcelu": unary("qcelu", lambda t: quantized.celu(t, S2, Z2, 1.3), alpha=1.3),
    "qgelu": unary("qgelu", functional.gelu),
    "qgelu tanh": unary(
        "qgelu",
        lambda t: functional.gelu(t, approximate="tanh"),
        approximate="tanh",
    ),
    "qsigmoid": unary("qsigmoid", torch.sigmoid),
    "qhardsigmoid": unary("qhardsigmoid", functional.hardsigmoid),
    "qtanh": unary("qtanh", torch.tanh),
    "qhardswish": unary("qhardswish", lambda t: quantized.hardswish(t, S2, Z2)),
    "qclamp": unary("qclamp", lambda t: torch.clamp(t, -1.0, 2.0), min=-1, max=2),
    "qthreshold": unary(
        "qthreshold",
        lambda t: functional.threshold(t, 0.52, 2.0),
        threshold=0.52,
        value=2.0,
    ),
}


def apart(name, ours, theirs):
    """Return the largest difference in codes; print how many results differ."""
    difference = np.abs(ours.astype(int) - theirs.int_repr().numpy().astype(int))
    print(f"{name}: {np.mean(difference != 0):.2%} differ")
    return difference.max(initial=0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("name", UNARY)
def test_functions(name, dtype):
    q = np.resize(np.arange(256).astype(dtype), 1000)
    assert apart(name, *UNARY[name](q, tensor(q))) <= 1


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("name", ["add", "mul"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_binary(name, dtype, relu):
    a, b = (np.ascontiguousarray(k) for k in np.indices((256, 256), dtype=dtype))
    call = getattr(quantized, name + "_relu" * relu)
    theirs = call(tensor(a), tensor(b, S2, Z2), 0.1, 77)
    ours = getattr(qops, f"q{name}")(a, S, Z, b, S2, Z2, 0.1, 77, relu=relu)
    assert apart(f"q{name}", ours, theirs) <= 1


def affine(n):
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(1, 0.2, n), rng.normal(0, 0.3, n)
    return weight.astype(np.float32), bias.astype(np.float32)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_norms(dtype):
    q = codes(4 * 6 * 10 * 12, dtype).reshape(4, 6, 10, 12)
    weight, bias = affine(6)
    w, b = torch.from_numpy(weight), torch.from_numpy(bias)
    own = {"weight": weight, "bias": bias}
    theirs = quantized.group_norm(tensor(q), 2, w, b, 1e-5, S2, Z2)
    ours = qops.qgroup_norm(q, S, Z, S2, Z2, groups=2, **own)
    assert apart("qgroup_norm", ours, theirs) <= 1
    theirs = quantized.instance_norm(tensor(q), w, b, 1e-5, S2, Z2)
    ours = qops.qinstance_norm(q, S, Z, S2, Z2, **own)
    assert apart("qinstance_norm", ours, theirs) <= 1
    var = np.abs(weight)
    theirs = quantized.batch_norm2d(
        tensor(q), w, b, b, torch.from_numpy(var), 1e-5, S2, Z2
    )
    ours = qops.qbatch_norm(q, S, Z, S2, Z2, mean=bias, var=var, **own)
    assert apart("qbatch_norm", ours, theirs) <= 1
    weight, bias = affine(12)
    w, b = torch.from_numpy(weight), torch.from_numpy(bias)
    theirs = quantized.layer_norm(tensor(q), [12], w, b, 1e-5, S2, Z2)
    ours = qops.qlayer_norm(q, S, Z, S2, Z2, weight=weight, bias=bias)
    assert apart("qlayer_norm", ours, theirs) <= 1


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_pools(dtype, channels_last):
    q = codes(2 * 20 * 9 * 11, dtype).reshape(2, 20, 9, 11)
    t = tensor(q)
    if channels_last:
        t = t.contiguous(memory_format=torch.channels_last)
        q = np.ascontiguousarray(np.moveaxis(q, 1, -1))

    def compare(name, ours, theirs):
        if channels_last:
            ours = np.moveaxis(ours, -1, 1)
        return apart(name, ours, theirs.contiguous())

    own = {"kernel": 3, "stride": 2, "padding": 1, "channels_last": channels_last}
    for ceil_mode in (False, True):
        theirs = functional.max_pool2d(t, 3, 2, 1, ceil_mode=ceil_mode)
        ours = qops.qmax_pool(q, S, Z, ceil_mode=ceil_mode, **own)
        assert compare("qmax_pool", ours, theirs) == 0
        for pad in (False, True):
            theirs = functional.avg_pool2d(t, 3, 2, 1, ceil_mode, pad)
            how = {"ceil_mode": ceil_mode, "count_include_pad": pad}
            ours = qops.qavg_pool(q, S, Z, **how, **own)
            assert compare("qavg_pool", ours, theirs) <= 1
    theirs = functional.adaptive_avg_pool2d(t, (4, 3))
    ours = qops.qadaptive_avg_pool(q, S, Z, size=(4, 3), channels_last=channels_last)
    assert compare("qadaptive_avg_pool", ours, theirs) <= 1


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_interpolation(dtype, corners, channels_last):
    q = codes(2 * 20 * 9 * 11, dtype).reshape(2, 20, 9, 11)
    t = tensor(q)
    if channels_last:
        t = t.contiguous(memory_format=torch.channels_last)
        q = np.ascontiguousarray(np.moveaxis(q, 1, -1))
    for size in ((18, 22), (5, 4), (20, 3)):
        own = {"size": size, "mode": "bilinear", "align_corners": corners}
        theirs = functional.interpolate(t, **own)
        ours = qops.qinterpolate(q, S, Z, channels_last=channels_last, **own)
        ours = np.moveaxis(ours, -1, 1) if channels_last else ours
        assert apart("qinterpolate", ours, theirs.contiguous()) <= 1
        theirs = functional.interpolate(t, size=size, mode="nearest")
        ours = qops.qinterpolate(q, S, Z, size=size, channels_last=channels_last)
        ours = np.moveaxis(ours, -1, 1) if channels_last else ours
        assert apart("nearest", ours, theirs.contiguous()) == 0


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_moving(dtype):
    a, b = codes(999, dtype), codes(777, dtype, seed=1)
    both = [tensor(a), tensor(b, S2, Z2)]
    theirs = quantized.cat(both, 0, 0.06, 95)
    ours = qops.qconcatenate([a, b], [S, S2], [Z, Z2], 0.06, 95)
    assert apart("qconcatenate", ours, theirs) <= 1
    mask = codes(999, np.uint8, seed=2) > 99
    theirs = tensor(a).masked_fill(torch.from_numpy(mask), -0.7)
    assert apart("masked_fill", qops.masked_fill(a, mask, -0.7, S, Z), theirs) == 0


def test_shuffle():
    """Of uint8, as PyTorch has no other."""
    q = codes(999, np.uint8).reshape(1, 9, 37, 3)
    theirs = torch.channel_shuffle(tensor(q), 3)
    assert apart("channel_shuffle", qops.channel_shuffle(q, 3), theirs) == 0


def test_fault_prelu():
    """Positive numbers are multiplied by the nearest code of 1, here of 0.127."""
    q = np.full(64, 120, np.int8)
    weight = torch.quantize_per_tensor(torch.full((1,), 0.05), 0.001, 0, torch.qint8)
    theirs = quantized.prelu(tensor(q, S, 20), weight, S, 20).int_repr().numpy()
    assert (theirs == 20 + round(100 * 0.127)).all()
    assert (qops.qprelu(q, S, 20, weight=0.05) == q).all()


def test_fault_threshold():
    """A code equal to the zero point is not quite zero in vectors, but in the rest."""
    scale, zero = 0.1, 100
    q = np.full(67, zero, np.uint8)
    theirs = functional.threshold(tensor(q, scale, zero), 0.0, 2.0).int_repr().numpy()
    assert len(np.unique(theirs)) == 2
    ours = qops.qthreshold(q, scale, zero, threshold=0.0, value=2.0)
    assert (ours == zero + 20).all()


def test_fault_outlier():
    """Variances in float32: -22.5 instead of -31.98."""
    q = np.full((1, 1024), 255, np.uint8)
    q[0, 0] = 254
    theirs = quantized.layer_norm(tensor(q, 1.0, 0), [1024], None, None, 0.0, 0.25, 200)
    ours = qops.qlayer_norm(q, 1.0, 0, 0.25, 200, eps=0)
    assert apart("an outlier", ours, theirs) > 20
    assert (int(ours[0, 0]) - 200) * 0.25 == -32
