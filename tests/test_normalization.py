"""Norms against statistics of Python integers, on each level."""

import math

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.exceptions import AxisError
from oracles import CODES, limits, same
from test_dequantize import codes

import qops

NORMS = ("qbatch_norm", "qlayer_norm", "qgroup_norm", "qinstance_norm")


def statistics(q, scale, zero, eps):
    """Center, gain and shift for mean 0 and deviation 1, by Python's integers.

    The zero point takes part in none: it cancels.
    """
    x = [int(k) - zero for k in q.ravel()]
    n, s = len(x), float(np.float32(scale))
    center = round(float(sum(x) + n * zero) / n)
    spread = n * sum(k * k for k in x) - sum(x) ** 2
    with np.errstate(all="ignore"):
        gain = np.float64(s) / np.sqrt(float(spread) / float(n * n) * s * s + eps)
        shift = -(float(sum(x) + n * (zero - center)) / n * gain)
    return center, gain, shift


def layer_norm(q, scale, zero, to, dtype, weight, bias, eps=1e-5):
    """Normalize over the last axis."""
    y = np.empty(q.shape, dtype)
    for row in np.ndindex(q.shape[:-1]):
        first = statistics(q[row], scale, zero, eps)
        y[row] = oracles.normalize(q[row], *first, weight, bias, *to, dtype)
    return y


def group_norm(q, scale, zero, to, dtype, groups, weight, bias, eps=1e-5):
    """Normalize with channels first."""
    y = np.empty(q.shape, dtype)
    each = q.shape[1] // groups
    for n, c in np.ndindex(q.shape[:2]):
        group = q[n, c // each * each : (c // each + 1) * each]
        first = statistics(group, scale, zero, eps)
        y[n, c] = oracles.normalize(q[n, c], *first, weight[c], bias[c], *to, dtype)
    return y


def batch_norm(q, scale, zero, to, dtype, mean, var, weight, bias, eps=1e-5):
    """Normalize with channels last."""
    gain = weight / np.sqrt(var + eps)
    second = gain, bias - mean * gain
    return oracles.normalize(q, zero, scale, 0, *second, *to, dtype)


def affine(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(1, 0.5, n), rng.normal(0, 1, n)


@pytest.mark.parametrize("n", [1, 2, 31, 64, 65, 127, 1000])
@pytest.mark.parametrize("dtype", CODES)
def test_layer_norm(level, dtype, n):
    lo, hi = limits(dtype)
    q = codes(7 * n, dtype).reshape(7, n)
    q[3] = q[3, 0]
    weight, bias = affine(n)
    zero, scale = max(lo, -100) + 30, 100.0 / (hi - lo)
    for to in ((0.03, max(lo, -128) + 100), (1e-20, 3), (1e-44, 3)):
        got = qops.qlayer_norm(q, scale, zero, *to, weight=weight, bias=bias)
        same(got, layer_norm(q, scale, zero, to, dtype, weight, bias))
    got = qops.qlayer_norm(q.reshape(7, 1, n), scale, zero, 0.1, 2, axis=(1, 2), eps=0)
    same(got[:, 0], layer_norm(q, scale, zero, (0.1, 2), dtype, 1, 0, 0))
    got = qops.qlayer_norm(q, scale, zero, 0.1, 2, dtype=np.int16)
    same(got, layer_norm(q, scale, zero, (0.1, 2), np.int16, 1, 0))


SHAPES = [(2, 6, 5), (3, 66, 7), (2, 4, 16, 17), (1, 6, 2, 3, 40)]


@pytest.mark.parametrize("groups", [1, 2, None])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16])
def test_group_norm(level, dtype, shape, groups):
    q = codes(math.prod(shape), dtype).reshape(shape)
    weight, bias = affine(shape[1])
    to = 0.04, 100
    own = {"weight": weight, "bias": bias}
    expected = group_norm(q, 0.1, 5, to, dtype, groups or shape[1], weight, bias)
    name = "qgroup_norm" if groups else "qinstance_norm"
    norm = getattr(qops, name)
    if groups:
        own["groups"] = groups
    same(norm(q, 0.1, 5, *to, **own), expected)
    last = np.ascontiguousarray(np.moveaxis(q, 1, -1))
    got = norm(last, 0.1, 5, *to, axis=-1, **own)
    same(np.moveaxis(got, -1, 1), expected)
    same(norm(np.moveaxis(last, -1, 1), 0.1, 5, *to, **own), expected)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 66), (2, 70, 3, 4), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", CODES)
def test_batch_norm(level, dtype, shape, relu):
    q = codes(math.prod(shape), dtype).reshape(shape)
    n = shape[1]
    weight, bias = affine(n)
    mean, var = affine(n, 1)
    own = {"mean": mean, "var": var**2, "weight": weight, "bias": bias}
    scale = 25 / float(limits(dtype)[1])
    to = 0.05, 77
    last = np.moveaxis(q, 1, -1)
    expected = batch_norm(last, scale, 9, to, dtype, **own)
    if relu:
        expected = np.maximum(expected, dtype(77))
    same(qops.qbatch_norm(last, scale, 9, *to, axis=-1, relu=relu, **own), expected)
    got = qops.qbatch_norm(q, scale, 9, *to, relu=relu, **own)
    same(np.moveaxis(got, 1, -1), expected)


@pytest.mark.parametrize("positions", [1, 5, 1100])
@pytest.mark.parametrize("channels", [1, 6])
@pytest.mark.parametrize("dtype", CODES)
def test_parameters_of_each_channel(level, dtype, channels, positions):
    """A channel at a time gives the same."""
    rng = np.random.default_rng(0)
    q = codes(2 * channels * positions, dtype).reshape(2, channels, positions)
    scales, to_scales = rng.uniform(0.5, 2, (2, channels)) * 25 / limits(dtype)[1]
    zeros, to_zeros = rng.integers(0, 100, (2, channels))
    weight, bias = affine(channels)
    mean, var = affine(channels, 1)
    last = np.ascontiguousarray(np.moveaxis(q, 1, -1))
    for norm, many, own in (
        (qops.qbatch_norm, {"mean": mean, "var": var**2}, {}),
        (qops.qbatch_norm, {"mean": mean, "var": var**2}, {"relu": True}),
        (qops.qinstance_norm, {}, {}),
    ):
        many = many | {"weight": weight, "bias": bias}
        for pairs in (
            (scales, zeros, to_scales, to_zeros),
            (scales, zeros, 0.05, 7),
            (0.1, zeros, 0.05, 7),
            (0.1, 9, 0.05, to_zeros.tolist()),
        ):
            beside = [np.broadcast_to(p, channels) for p in pairs]
            expected = [
                norm(
                    q[:, [c]],
                    *(p[c] for p in beside),
                    **{key: v[[c]] for key, v in many.items()},
                    **own,
                )
                for c in range(channels)
            ]
            expected = np.concatenate(expected, 1)
            same(norm(q, *pairs, **many, **own), expected)
            got = norm(last, *pairs, **many, **own, axis=-1)
            same(np.moveaxis(got, -1, 1), expected)
    wide = qops.qgroup_norm(q, 0.1, 3, to_scales, to_zeros, groups=1, dtype=np.int16)
    one, none = np.ones(channels), np.zeros(channels)
    for c, to in enumerate(zip(to_scales, to_zeros, strict=True)):
        expected = group_norm(q, 0.1, 3, to, np.int16, 1, one, none)
        same(wide[:, c], expected[:, c])


def test_pieces_get_the_parameters_of_their_channels():
    q = codes(40 * 2000, np.int16).reshape(1, 40, 2000)  # more than one piece
    to = np.linspace(0.01, 2, 40), np.arange(40)
    got = qops.qinstance_norm(q, 0.1, 3, *to)
    for c in range(40):
        expected = qops.qinstance_norm(q[:, [c]], 0.1, 3, to[0][c], to[1][c])
        same(got[:, [c]], expected)


def test_one_pair_for_sums_over_channels():
    with pytest.raises(
        ValueError,
        match=r"^qgroup_norm: scale has shape \(4,\), not \(\): the 2 channels of a",
    ):
        qops.qgroup_norm(Q, np.ones(4), 0, groups=2)
    with pytest.raises(
        ValueError,
        match=r"^qlayer_norm: out_zero_point has shape \(3,\), not \(\): rows have",
    ):
        qops.qlayer_norm(Q, 1.0, 0, 1.0, [0, 0, 0])
    same(qops.qgroup_norm(Q, np.ones(4), [0] * 4, groups=4), Q)


def call(name, q, *args, **kwargs):
    own = {
        "qbatch_norm": {"mean": np.zeros(q.shape[1]), "var": np.ones(q.shape[1])},
        "qgroup_norm": {"groups": 1},
    }.get(name, {})
    return getattr(qops, name)(q, *args, **(own | kwargs))


@pytest.mark.parametrize("name", NORMS)
def test_layouts(name):
    q = codes(6 * 8 * 20, np.uint8).reshape(6, 8, 20)
    args = 0.1, 100, 0.05, 120
    v = q[::-1, ::2, ::-2]
    expected = call(name, np.ascontiguousarray(v), *args)
    same(call(name, v, *args), expected)
    same(call(name, np.asfortranarray(v), *args), expected)
    out = np.zeros((6, 20, 8), np.uint8).transpose(0, 2, 1)[:, ::2, 10:]
    assert call(name, v, *args, out=out) is out
    same(np.ascontiguousarray(out), expected)
    w = q.copy()
    call(name, w[::-1, ::2, ::-2], *args, out=w[:, ::2, :10])
    same(np.ascontiguousarray(w[:, ::2, :10]), expected)
    same(call(name, q[:0], *args), q[:0])
    same(call(name, q[:, :, :0], *args), q[:, :, :0])
    wide = call(name, v, 0.1, 100)
    same(wide, call(name, v, 0.1, 100, 0.1, 100))
    swapped = call(name, v.astype(">i4"), 0.1, 100, 0.05, 120, dtype=np.uint8)
    same(swapped, expected)


@given(st.data(), st.sampled_from([np.uint8, np.int8]), st.sampled_from([1, 2, 4]))
def test_properties(data, dtype, groups):
    samples, each, positions = (data.draw(st.integers(1, 6)) for _ in range(3))
    shape = samples, groups * each, positions
    lo, hi = limits(dtype)
    q = data.draw(
        st.lists(
            st.integers(lo, hi),
            min_size=math.prod(shape),
            max_size=math.prod(shape),
        )
    )
    q = np.array(q, dtype).reshape(shape)
    zero = data.draw(st.integers(lo, hi))
    scale, to = data.draw(st.floats(1e-4, 10)), (data.draw(st.floats(1e-3, 1)), zero)
    got = qops.qgroup_norm(q, scale, zero, *to, groups=groups)
    one = np.ones(shape[1])
    same(got, group_norm(q, scale, zero, to, dtype, groups, one, 0 * one))


Q = np.zeros((2, 4, 3), np.uint8)


@pytest.mark.parametrize(
    ("name", "own", "error", "message"),
    [
        ("qlayer_norm", {"axis": 0}, ValueError, "axis is 0, not the last 1 of 3 dim"),
        ("qlayer_norm", {"axis": 3}, AxisError, "axis is 3, not within the 3 dimensi"),
        ("qlayer_norm", {"eps": -1}, ValueError, "eps is -1, not finite and at least"),
        ("qlayer_norm", {"eps": "no"}, TypeError, "eps is 'no', not a number"),
        (
            "qlayer_norm",
            {"weight": np.ones(4)},
            ValueError,
            r"weight has shape \(4,\), not \(3,\)",
        ),
        (
            "qlayer_norm",
            {"bias": ["a", "b", "c"]},
            TypeError,
            "bias is <U1, not real numbers",
        ),
        ("qgroup_norm", {"groups": 3}, ValueError, "groups is 3, which does not divi"),
        ("qgroup_norm", {"groups": 0}, ValueError, "groups is 0, which does not divi"),
        ("qgroup_norm", {"axis": 0}, ValueError, r"axis is 0, not 1 or the last of q"),
        (
            "qbatch_norm",
            {"mean": np.ones(3)},
            ValueError,
            r"mean has shape \(3,\), not \(4,\)",
        ),
        (
            "qbatch_norm",
            {"var": [1, 1, -1, 1]},
            ValueError,
            r"var\[2\] is -1.0, not at least 0",
        ),
        (
            "qinstance_norm",
            {"out": np.zeros((2, 4), np.uint8)},
            ValueError,
            r"out has shape \(2, 4\), not \(2, 4, 3\)",
        ),
        (
            "qinstance_norm",
            {"out_scale": 0},
            ValueError,
            "out_scale is 0.0, not finite and greater than 0",
        ),
    ],
)
def test_errors(name, own, error, message):
    with pytest.raises(error, match=f"^{name}: {message}"):
        call(name, Q, 0.1, 3, **own)


@pytest.mark.parametrize("name", NORMS)
def test_parameters(name):
    with pytest.raises(ValueError, match=f"^{name}: scale is -1.0, not finite"):
        call(name, Q, -1.0, 0)
    with pytest.raises(ValueError, match=f"^{name}: zero_point is 300, not within"):
        call(name, Q, 1.0, 300)
    with pytest.raises(ValueError, match=rf"^{name}: scale has shape \(5,\), not \("):
        call(name, Q, np.ones(5), 0)
    with pytest.raises(TypeError, match=f"^{name}: q is float32, not a dtype of codes"):
        call(name, Q.astype(np.float32), 1.0, 0)
