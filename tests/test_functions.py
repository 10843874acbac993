"""Functions of one code against the math module, on all codes and on each level."""

import math

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.exceptions import AxisError
from oracles import CODES, limits, same

import qops
from qops.functions import FUNCTIONS

# Public name -> the function of a Python float, and what parameters it is tested with


def _exp(x):
    return math.exp(x) if x < 709 else math.inf


def _softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _power(x, e):
    if x == 0:
        return 0.0 if e > 0 else 1.0 if e == 0 else math.inf
    return math.nan if x < 0 and e != int(e) else math.pow(x, e)


PLAIN = {
    "qrelu": lambda x: max(x, 0.0),
    "qrelu6": lambda x: min(max(x, 0.0), 6.0),
    "qleaky_relu": lambda x, negative_slope=0.01: (
        x * (1.0 if x > 0 else negative_slope)
    ),
    "qprelu": lambda x, weight: x if x > 0 else x * weight,
    "qelu": lambda x, alpha=1.0: x if x > 0 else alpha * math.expm1(x),
    "qcelu": lambda x, alpha=1.0: x if x > 0 else alpha * math.expm1(x / alpha),
    "qselu": lambda x: (
        1.0507009873554804934193349852946
        * (x if x > 0 else 1.6732632423543772848170429916717 * math.expm1(x))
    ),
    "qgelu": lambda x, approximate="none": (
        x / 2 * math.erfc(-x / math.sqrt(2))
        if approximate == "none"
        else x
        / 2
        * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    ),
    "qsigmoid": lambda x: 1 / (1 + _exp(-x)),
    "qlogsigmoid": lambda x: -_softplus(-x),
    "qhardsigmoid": lambda x: min(max(x + 3, 0), 6) / 6,
    "qtanh": math.tanh,
    "qhardtanh": lambda x, min_val=-1.0, max_val=1.0: min(max(x, min_val), max_val),
    "qhardswish": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "qsilu": lambda x: x / (1 + _exp(-x)),
    "qsoftplus": lambda x, beta=1.0: _softplus(beta * x) / beta,
    "qsoftsign": lambda x: x / (1 + abs(x)),
    "qmish": lambda x: x * math.tanh(_softplus(x)),
    "qexp": _exp,
    "qlog": lambda x: math.log(x) if x > 0 else -math.inf if x == 0 else math.nan,
    "qsqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "qrsqrt": lambda x: 1 / math.sqrt(x) if x > 0 else math.inf if x == 0 else math.nan,
    "qsquare": lambda x: x**2,
    "qabs": abs,
    "qneg": lambda x: 0 - x,
    "qsin": math.sin,
    "qcos": math.cos,
    "qerf": math.erf,
    "qclamp": lambda x, min=-math.inf, max=math.inf: (
        min if x < min else max if x > max else x
    ),
    "qthreshold": lambda x, threshold, value: x if x > threshold else value,
    "qadd_scalar": lambda x, value, relu=False: (
        0.0 if relu and x + value < 0 else x + value
    ),
    "qmul_scalar": lambda x, value, relu=False: (
        0.0 if relu and x * value < 0 else x * value
    ),
    "qpow_scalar": lambda x, exponent: _power(x, exponent),
}
PARAMETERS = {
    "qleaky_relu": [{}, {"negative_slope": 0.3}, {"negative_slope": -2}],
    "qprelu": [{"weight": 0.25}, {"weight": 0.001}, {"weight": -1.5}],
    "qelu": [{}, {"alpha": 0.7}],
    "qcelu": [{}, {"alpha": 2.5}],
    "qgelu": [{}, {"approximate": "tanh"}],
    "qhardtanh": [{}, {"min_val": -3.1, "max_val": 0.7}],
    "qsoftplus": [{}, {"beta": 3.0}],
    "qclamp": [{"min": -0.3}, {"max": 1.7}, {"min": -1, "max": -1}, {}],
    "qthreshold": [{"threshold": 0.0, "value": 20}, {"threshold": -1.1, "value": 0}],
    "qadd_scalar": [{"value": 1.7}, {"value": -0.9, "relu": True}],
    "qmul_scalar": [{"value": 1.7}, {"value": -0.9, "relu": True}],
    "qpow_scalar": [{"exponent": e} for e in (2, 3, 0.5, -1, 0)],
}
CALLS = [
    pytest.param(name, own, id=f"{name}-{i}")
    for name in PLAIN
    for i, own in enumerate(PARAMETERS.get(name, [{}]))
]


def oracle(name, q, scale, zero, out_scale, out_zero, dtype, own):
    """quantize(float32(f(dequantize(q))))."""
    x = oracles.dequantize(q, scale, zero)
    f = PLAIN[name]
    with np.errstate(over="ignore"):
        y = np.array([f(float(v), **own) for v in x.ravel()], np.float64)
        y = y.astype(np.float32).reshape(x.shape)
    return oracles.quantize(y, out_scale, out_zero, dtype)


def all_codes(dtype):
    lo, hi = limits(dtype)
    return np.arange(lo, hi + 1).astype(dtype)


def test_every_function_has_an_oracle():
    assert set(PLAIN) == set(FUNCTIONS)
    assert set(FUNCTIONS) <= set(qops.__all__)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("name", "own"), CALLS)
def test_all_codes(level, name, own, dtype):
    q, f = all_codes(dtype), getattr(qops, name)
    lo, hi = limits(dtype)
    for scale, zero in ((0.05, (lo + hi + 1) // 2), (0.013, lo), (7.7, hi), (1e-6, 5)):
        for out_dtype, out_scale, out_zero in (
            (dtype, 0.04, (lo + hi) // 2),
            (np.int8, 0.5, -128),
            (np.uint8, 1e-3, 255),
            (np.int16, 3e-4, 11),
            (np.int32, 1e-7, -3),
        ):
            got = f(q, scale, zero, out_scale, out_zero, dtype=out_dtype, **own)
            to = (out_scale, out_zero, out_dtype)
            same(got, oracle(name, q, scale, zero, *to, own))


@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
@pytest.mark.parametrize(("name", "own"), CALLS)
def test_16_bits(name, own, dtype):
    """Tables and direct evaluation, which few codes get, give the same."""
    q, f = all_codes(dtype), getattr(qops, name)
    args = 3e-4, 77, 2e-4, 99
    got = f(q, *args, **own)
    some = np.random.default_rng(0).permutation(q.size)[:5000]
    same(f(q[some], *args, **own), got[some])
    few = q[some[:400]]
    same(got[some[:400]], oracle(name, few, *args, dtype, own))


@pytest.mark.parametrize("dtype", CODES)
def test_defaults(dtype):
    lo, hi = limits(dtype)
    q = np.array([lo, lo + 1, 5, hi - 1, hi], dtype)
    steps = 2.0 ** (8 * np.dtype(dtype).itemsize)
    for name, out_scale, zero in (
        ("qsigmoid", 1 / steps, lo),
        ("qhardsigmoid", 1 / steps, lo),
        ("qtanh", 2 / steps, (lo + hi + 1) // 2),
        ("qsin", 0.3, 5),
    ):
        got = getattr(qops, name)(q, 0.3, 5)
        same(got, oracle(name, q, 0.3, 5, out_scale, zero, dtype, {}))
    got = qops.qsigmoid(q, 0.3, 5, dtype=np.int8)
    same(got, oracle("qsigmoid", q, 0.3, 5, 1 / 256, -128, np.int8, {}))
    assert qops.qtanh(np.uint8(255), 1.0) == 255  # 0-d, and saturated


@pytest.mark.parametrize("shape", [(6, 700), (3, 4, 5), (2, 3000, 3)])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16])
def test_channels(level, shape, axis, dtype):
    rng = np.random.default_rng(1)
    q = rng.integers(*limits(dtype), shape, dtype, endpoint=True)
    n = shape[axis]
    wide = [1] * len(shape)
    wide[axis] = n
    s, out_s = rng.uniform(0.01, 0.1, (2, n))
    z, out_z = rng.integers(0, 100, (2, n))
    weight = rng.uniform(-1, 1, n)

    def expected(s, z, out_s, out_z, weight):
        x = oracles.dequantize(q, s, z).astype(np.float64)
        y = np.where(x > 0, x, weight * x).astype(np.float32)
        return oracles.quantize(y, out_s, out_z, dtype)

    w = [p.reshape(wide) for p in (s, z, out_s, out_z, weight)]
    got = qops.qprelu(q, s, z, out_s, out_z, weight=weight, axis=axis)
    same(got, expected(*w))
    got = qops.qprelu(q, 0.1, 7, out_s, 9, weight=0.3, axis=axis)
    same(got, expected(0.1, 7, w[2], 9, 0.3))
    got = qops.qprelu(q, 0.1, 7, 0.2, 9, weight=weight, axis=axis)
    same(got, expected(0.1, 7, 0.2, 9, w[4]))
    line = q.ravel()[:n]
    got = qops.qprelu(line, s, z, 0.2, 9, weight=weight)
    same(got, qops.qprelu(line[:, None], s, z, 0.2, 9, weight=weight, axis=0)[:, 0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32])
def test_layouts(dtype):
    q = np.arange(2 * 30 * 50).reshape(30, 100).astype(dtype)
    args = 0.02, 3, 0.01, 5
    expected = qops.qtanh(np.ascontiguousarray(q[::-1, ::2]), *args)
    same(qops.qtanh(q[::-1, ::2], *args), expected)
    same(qops.qtanh(q[::-1, ::2].astype(q.dtype.newbyteorder()), *args), expected)
    same(qops.qtanh(np.asfortranarray(q)[::-1, ::2], *args), expected)
    v = q.copy()
    assert qops.qtanh(v[::-1, ::2], *args, out=v[:, :50]) is not None
    same(v[:, :50], expected)
    same(qops.qtanh(np.empty((0, 3), dtype), *args), np.empty((0, 3), dtype))
    got = qops.qtanh(dtype(7), *args)
    assert isinstance(got, np.generic)
    same(got, qops.qtanh(np.full(1, 7, dtype), *args)[0])
    wide = np.broadcast_to(q[0], (5, 100))
    same(qops.qtanh(wide, *args), np.tile(qops.qtanh(q[0], *args), (5, 1)))


@given(
    st.sampled_from(sorted(set(PLAIN) - set(PARAMETERS))),
    st.sampled_from(CODES),
    st.lists(st.integers(-100, 100), max_size=70),
    st.floats(1e-3, 1.0),
    st.floats(1e-3, 1.0),
)
def test_properties(name, dtype, values, scale, out_scale):
    q = (np.array(values, np.int64) + (100 if limits(dtype)[0] == 0 else 0)).astype(
        dtype
    )
    got = getattr(qops, name)(q, scale, 3, out_scale, 9)
    same(got, oracle(name, q, scale, 3, out_scale, 9, dtype, {}))


Q = np.arange(6, dtype=np.uint8).reshape(2, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: qops.qtanh(Q * 1.0, 1, 0),
            TypeError,
            "qtanh: q is float64, not a dtype",
        ),
        (
            lambda: qops.qtanh(Q, -1.0, 0),
            ValueError,
            "qtanh: scale is -1.0, not finite",
        ),
        (
            lambda: qops.qtanh(Q, 1.0, 0, 0.0),
            ValueError,
            "qtanh: out_scale is 0.0, not finite",
        ),
        (
            lambda: qops.qtanh(Q, 1.0, 256),
            ValueError,
            "qtanh: zero_point is 256, not within 0..255",
        ),
        (
            lambda: qops.qtanh(Q, [1.0, 2.0], 0),
            ValueError,
            r"qtanh: scale has shape \(2,\) and x has shape \(2, 3\); give the axis",
        ),
        (
            lambda: qops.qtanh(Q, [1.0, 2.0], 0, axis=1),
            ValueError,
            r"qtanh: scale has shape \(2,\), not \(3,\)",
        ),
        (lambda: qops.qtanh(Q, 1.0, axis=2), AxisError, "qtanh: axis is 2, not within"),
        (
            lambda: qops.qtanh(Q, 1.0, out=np.zeros((3, 2), np.uint8)),
            ValueError,
            r"qtanh: out has shape \(3, 2\), not \(2, 3\)",
        ),
        (
            lambda: qops.qtanh(Q, 1.0, dtype=np.int8, out=np.zeros((2, 3), np.uint8)),
            TypeError,
            "qtanh: out has dtype uint8, not int8",
        ),
        (
            lambda: qops.qtanh(Q, 1.0, dtype=np.float32),
            TypeError,
            "qtanh: dtype is float32, not one of",
        ),
        (
            lambda: qops.qtanh(Q, 1.0, alpha=2),
            TypeError,
            "qtanh: alpha is not a parameter",
        ),
        (lambda: qops.qprelu(Q, 1.0), TypeError, "qprelu: weight is not given"),
        (
            lambda: qops.qelu(Q, 1.0, alpha="much"),
            TypeError,
            "qelu: alpha is 'much', not a number",
        ),
        (
            lambda: qops.qelu(Q, 1.0, alpha=math.nan),
            ValueError,
            "qelu: alpha is nan, not without NaN",
        ),
        (
            lambda: qops.qprelu(Q, 1.0, weight=[1.0, 2.0]),
            ValueError,
            r"qprelu: weight has shape \(2,\), not \(\); give the axis",
        ),
        (
            lambda: qops.qprelu(Q, 1.0, weight=[1.0, 2.0], axis=1),
            ValueError,
            r"qprelu: weight has shape \(2,\), not \(3,\), the length of axis 1",
        ),
        (
            lambda: qops.qgelu(Q, 1.0, approximate="erf"),
            ValueError,
            "qgelu: approximate is 'erf', not 'none' or 'tanh'",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()
