"""Fused functions: what NumPy says, a step after the other, on each level."""

import math
import re
from pathlib import Path

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import CODES, same
from test_dequantize import codes

import qops
from qops import FuseError, FuseShapeError, FuseTypeError, QArray, UnsupportedOpError
from qops._opcodes import BY_FUNCTION, OPCODES

SPECIAL = np.float32(
    [0, -0.0, 1, -1, 0.5, 2, 3, -2.5, 1e-45, -1e-38, 3e38, -3e38, 88.7, -104, 1e-8]
)
SPECIAL = np.append(SPECIAL, np.float32([np.inf, -np.inf, np.nan, 255.5, 2**31]))
INTEGERS = [np.uint8, np.int8, np.uint16, np.int16, np.int32]


def alike(results, expected):
    """Compare all bits, but that a NaN is a NaN."""
    for a, b in zip(listed(results), listed(expected), strict=True):
        if isinstance(b, QArray):
            assert (a.scale, a.zero_point) == (b.scale, b.zero_point)
            a, b = a.codes, b.codes
        a, b = np.asarray(a), np.asarray(b)
        if b.dtype.kind == "f":
            same(np.isnan(a), np.isnan(b))
            a, b = (np.where(np.isnan(v), np.float32(0), v) for v in (a, b))
        same(a, b)


def listed(x):
    return x if isinstance(x, tuple) else (x,)


def check(f, *args):
    alike(f(*args), f.interpret(*args))


def quantized(shape=(1000,), dtype=np.uint8, seed=0, scale=0.05, zero=5):
    n = math.prod(shape)
    return QArray(np.roll(codes(n + 3, dtype)[3:], seed).reshape(shape), scale, zero)


def pairs_of(values):
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


# ------------------------------------------------------------ operations

WHOLE = [o for o in OPCODES.values() if o.function is not None and o.integers]
FLOATS = [o for o in OPCODES.values() if o.function is not None and o.floats]


@pytest.mark.parametrize("opcode", FLOATS, ids=lambda o: o.name)
def test_floats(level, opcode):
    rng = np.random.default_rng(0)
    values = np.append(SPECIAL, rng.normal(size=50).astype(np.float32) * 4)
    f = qops.fuse(lambda *x: opcode.function(*x))
    check(f, *(pairs_of(values) if opcode.arity == 2 else [values]))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("opcode", WHOLE, ids=lambda o: o.name)
def test_integers(level, opcode, dtype):
    """As NumPy's own, also where they wrap; shifts by any number of bits."""
    info = np.iinfo(dtype)
    ends = [info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, 3, 7, 31, 100]
    values = np.array([*ends, *([-1, -2, -100] if info.min else [])], dtype)
    inputs = pairs_of(values) if opcode.arity == 2 else [values]
    f = qops.fuse(lambda *x: opcode.function(*x))
    with np.errstate(all="ignore"):
        expected = opcode.function(*inputs)
    alike(f(*inputs), expected)
    alike(f.interpret(*inputs), expected)


@pytest.mark.parametrize(
    "function", [np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.equal, np.less]
)
def test_bools(level, function):
    a, b = pairs_of(np.array([False, True]))
    same(qops.fuse(lambda x, y: function(x, y))(a, b), function(a, b))
    same(qops.fuse(lambda x: ~x)(a), ~a)
    same(qops.fuse(lambda x, y: np.where(x, y, x))(a, b), np.where(a, b, a))


@pytest.mark.parametrize("to", [*INTEGERS, np.float32, np.bool_])
@pytest.mark.parametrize("dtype", [*INTEGERS, np.float32, np.bool_])
def test_casts(level, dtype, to):
    if dtype == np.float32:
        values = np.append(SPECIAL, [127.9, -128.9, 65535.4, -0.9]).astype(np.float32)
        exact = [0 if math.isnan(v) else v for v in values.tolist()]
        if to not in (np.float32, np.bool_):
            low, high = oracles.limits(to)
            exact = [
                int(min(max(v, low), high))
                if math.isfinite(v)
                else low
                if v < 0
                else high
                for v in exact
            ]
            exact[17] = 0  # of NaN
        expected = values if to == np.float32 else np.array(exact, to)
        if to == np.bool_:
            expected = values != 0
    else:
        values = codes(300, np.int32).astype(dtype)
        expected = values.astype(to)
    f = qops.fuse(lambda x: x.astype(to))
    alike(f(values), expected)
    alike(f.interpret(values), expected)


@pytest.mark.parametrize("name", ["TEXP", "TLOG", "TTANH", "TERF", "TSIGMOID", "TPOW"])
def test_functions_are_near(name):
    """Within 0.5001 units in the last place of float64's, over all of the range."""
    rng = np.random.default_rng(0)
    x = np.append(rng.normal(size=20000) * 5, 2.0 ** rng.uniform(-126, 6.4, 20000))
    x = x.astype(np.float32)
    wide = x.astype(np.float64)
    y = rng.normal(size=x.size).astype(np.float32)
    x, wide = (np.abs(v) if name in ("TLOG", "TPOW") else v for v in (x, wide))
    with np.errstate(over="ignore"):
        exact = {
            "TEXP": np.exp,
            "TLOG": np.log,
            "TTANH": np.tanh,
            "TERF": np.vectorize(math.erf),
            "TSIGMOID": lambda v: 1 / (1 + np.exp(-v)),
            "TPOW": lambda v: v ** y.astype(np.float64),
        }[name](wide)
    got = OPCODES[name].calculate(*([x, y] if name == "TPOW" else [x]))
    finite = (abs(exact) < 3e38) & (abs(exact) > 1.2e-38)
    unit = np.spacing(np.abs(exact[finite]).astype(np.float32)).astype(np.float64)
    assert (abs(got[finite] - exact[finite]) <= 0.5001 * unit).all()


def test_sigmoid_and_erf_eagerly():
    x = SPECIAL
    f = qops.fuse(lambda v: (qops.sigmoid(v), qops.erf(v)))
    alike(f(x), (qops.sigmoid(x), qops.erf(x)))
    assert qops.sigmoid(0.0) == np.float32(0.5)


# ------------------------------------------------------------ quantized arrays


@pytest.mark.parametrize("dtype", CODES)
def test_quantized(level, dtype):
    a, b = quantized(dtype=dtype), quantized(dtype=dtype, seed=7, scale=0.3)

    @qops.fuse
    def f(a, b, s):
        x = a.dequantize() * b.dequantize() - np.abs(b.dequantize())
        q = np.where(x > 1, x / 3, x).quantize(s, 7, dtype=dtype)
        return q, q.dequantize() + a.dequantize(), q.codes > a.codes

    for s in (0.1, 1e-30, 1e30):
        check(f, a, b, s)
    x = oracles.dequantize(a.codes, 0.05, 5)
    y = oracles.dequantize(b.codes, 0.3, 5)
    x = x * y - abs(y)
    x = np.where(x > 1, x / np.float32(3), x)
    same(f(a, b, 0.1)[0].codes, oracles.quantize(x, 0.1, 7, dtype))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(
    ("ufunc", "eager"),
    [
        (np.add, qops.qadd),
        (np.subtract, qops.qsub),
        (np.multiply, qops.qmul),
        (np.divide, qops.qdiv),
        (np.maximum, qops.qmaximum),
        (np.minimum, qops.qminimum),
    ],
)
def test_one_operation(level, ufunc, eager, relu):
    """It is that of qops, with tiles and without."""
    a, b = quantized((3, 1000)), quantized((3, 1000), seed=9, scale=0.3)

    @qops.fuse
    def f(a, b):
        x = ufunc(a.dequantize(), b.dequantize())
        return (np.maximum(x, 0) if relu else x).quantize(0.2, 3, dtype=np.uint8)

    expected = eager(*a.operand(), *b.operand(), 0.2, 3, relu=relu)
    same(f(a, b).codes, expected)
    check(f, a, b)
    row = b[:1]
    same(f(a, row).codes, eager(*a.operand(), *row.operand(), 0.2, 3, relu=relu))
    out = np.empty((3, 1000), np.uint8)
    got = f(a, b, out=out)
    assert got.codes.base is out
    same(out, expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("n", [16, 2047, 2048, 70001])
def test_one_code(level, n, dtype):
    """A table of all codes is the program on all codes."""
    a = quantized((n,), dtype)

    @qops.fuse
    def f(a):
        x = a.dequantize()
        return (x * qops.sigmoid(x)).quantize(0.1, 3, dtype=np.int8)

    check(f, a)
    check(qops.fuse(lambda a: a.dequantize() ** 2), a)
    check(qops.fuse(lambda a: a.dequantize() > 1), a)
    check(qops.fuse(lambda a: a.codes >> 1), a)
    check(qops.fuse(lambda a: a.requantize(0.3, 4, dtype=np.int16)), a)
    check(qops.fuse(lambda a: a.codes + a.codes.astype(np.int32)), a)


def test_channels(level):
    q = codes(3 * 40 * 5, np.uint8).reshape(3, 40, 5)
    s, z = np.linspace(0.01, 0.5, 40), np.arange(40)
    f = qops.fuse(lambda a, b: a.dequantize() + b.dequantize())
    other = quantized((3, 40, 5))
    for a in (
        QArray(q, s, z, 1),
        QArray(q, s, 3, 1),
        QArray(q, 0.1, z, 1),
        QArray(q.transpose(1, 0, 2), s, z, 0)[:, 0][:, None],
        QArray(q.astype(np.int16) * 100, s, z, 1),
    ):
        b = other if a.ndim == 3 and a.shape == q.shape else quantized((40, 1, 5))
        same(f(a, b), a.dequantize() + b.dequantize())
        check(f, a, b)
    assert len(f._traced) == 4
    with pytest.raises(UnsupportedOpError, match="int32 codes with parameters of each"):
        f(QArray(q.astype(np.int32), s, z, 1), other)
    with pytest.raises(FuseTypeError, match="a result has parameters of each channel"):
        qops.fuse(lambda a: a)(QArray(q, s, z, 1))


def test_nothing_is_traced_again():
    traced = []

    @qops.fuse
    def f(a, s, k):
        traced.append(1)
        return (a.dequantize() * k).quantize(s, 5, dtype=np.uint8)

    for scale in (0.1, 0.2):
        for s in (0.3, 0.4):
            for k in (1.5, 2.5):
                for shape in ((30,), (4, 5)):
                    a = quantized(shape, scale=scale)
                    check(f, a, s, k)
    assert len(traced) == 1
    check(f, quantized(dtype=np.int8), 0.3, 2)
    assert len(traced) == 2


# ------------------------------------------------------------ shapes and layouts


def some(a, b, c):
    x = a.dequantize() * c + b
    return x, np.maximum(x, b).quantize(0.1, 100, dtype=np.uint8), (x > 1) & (b < 1)


@pytest.mark.parametrize("tile", [None, 64, 256, 1024])
def test_layouts(level, tile):
    f = qops.fuse(some, tile=tile) if tile else qops.fuse(some)
    rng = np.random.default_rng(0)
    q = codes(6 * 7 * 50, np.uint8).reshape(6, 7, 50)
    x = rng.normal(size=q.shape).astype(np.float32)
    raw = np.empty(x.nbytes + 1, np.uint8)
    misaligned = raw[1:].view(np.float32).reshape(x.shape)
    misaligned[...] = x
    for v, w in (
        (q, x),
        (q.T, x.T),
        (q[::-1, ::2], x[:, ::-2][:, :4]),
        (q, misaligned),
        (q, x.astype(">f4")),
        (q[:, :1], x[:1]),
        (q[..., 0], x[:, :, 3]),
        (q[:, 0, :][:, None], x),
        (q[:0], x[:0]),
        (q[0, 0, 0], x[0, 0, 0]),
        (q[0, 0], np.float32(2)),
        (np.repeat(q, 400, 2), np.repeat(x, 400, 2)),
        (q.transpose(1, 2, 0), x.transpose(1, 2, 0)),
    ):
        check(f, QArray(v, 0.1, 3), w, 0.7)
    for n in (1, 2, 63, 64, 65, 1023, 1024, 1025, 3000):
        check(f, quantized((n,)), np.float32(0.5), 2.0)


def test_threads_and_sizes(level):
    f = qops.fuse(some)
    a, b = quantized((1 << 20,)), np.linspace(-3, 3, 1 << 20, dtype=np.float32)
    before = qops.get_num_threads()
    try:
        qops.set_num_threads(1)
        expected = f(a, b, 0.7)
        qops.set_num_threads(3)
        alike(f(a, b, 0.7), expected)
        alike(f(a[::-1], b[::-1], 0.7), tuple(v[::-1] for v in expected))
    finally:
        qops.set_num_threads(before)


def test_memory_order():
    f = qops.fuse(lambda a: a.dequantize() + a.codes)
    a = quantized((20, 30))
    assert f(a).flags.c_contiguous
    assert f(QArray(a.codes.T, 0.1)).flags.f_contiguous
    assert isinstance(f(QArray(np.uint8(3), 0.1)), np.float32)


def test_out_and_overlaps():
    f = qops.fuse(lambda x, y: x * 2 + y)
    base = np.linspace(-1, 1, 5000, dtype=np.float32)
    for first in (0, 1, 100, 3000):
        x = base.copy()
        n = x.size - first
        expected = base[:n] * 2 + base[:n][::-1]
        assert f(x[:n], x[:n][::-1], out=x[first:]).base is x
        same(x[first:], expected)
    g = qops.fuse(lambda x, y: (x + y, x * y))
    x, y = base.copy(), base[::-1].copy()
    expected = x + y, x * y
    assert g(x, y, out=(y, x))[0] is y
    alike((y, x), expected)
    for out in (np.empty((3, 4000), "<i2")[:, ::2], np.empty((3, 2000), ">i2")):
        h = qops.fuse(lambda a: a.codes * 3)
        q = codes(6000, np.int16).reshape(3, 2000)
        with np.errstate(over="ignore"):
            h(QArray(q, 1.0), out=out)
        same(out.astype(np.int16), q * np.int16(3))


def test_a_result_that_is_an_argument():
    f = qops.fuse(lambda a, x: (a, x, a.codes, x))
    a, x = quantized((100,)), np.linspace(0, 1, 100, dtype=np.float32)
    got = f(a, x)
    alike(got, (a, x, a.codes, x))
    assert not np.shares_memory(got[1], x)


# ------------------------------------------------------------ graphs by chance


@st.composite
def functions(draw):
    """A function of two QArrays, an array and a number, of random steps."""
    unary = [np.abs, np.negative, np.sign, np.square, np.rint, np.floor, np.exp]
    binary = [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum]
    binary += [np.remainder, np.floor_divide]
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from([*unary, *binary, "where", "cast", "requantize"]),
                *[st.integers(0, 100)] * 3,
            ),
            min_size=1,
            max_size=12,
        )
    )
    wanted = draw(st.integers(1, 3))

    def function(a, b, x, k):
        values = [a.dequantize(), b.dequantize(), x, x + k, a.dequantize() * 0.5]
        for step, i, j, m in steps:
            u, v, w = (values[n % len(values)] for n in (i, j, m))
            if step == "where":
                values.append(np.where(u > v, w, 1.5))
            elif step == "cast":
                c = u.astype(CODES[i % 5])
                values.append((c + c ^ 3).astype(np.float32))
            elif step == "requantize":
                q = u.quantize(0.3, 2, dtype=CODES[i % 5])
                values.append(q.dequantize())
            else:
                values.append(step(u, v) if step in binary else step(u))
        last = values[-1].quantize(0.1, 9, dtype=np.uint8)
        return (last, values[-1], values[-2].astype(np.int16))[:wanted]

    return function


@settings(max_examples=200)
@given(functions(), st.data())
def test_graphs(function, data):
    shape = data.draw(st.sampled_from([(1,), (70,), (3, 1100), (2, 3, 5)]))
    tile = data.draw(st.sampled_from([64, 256, 1024]))
    where = data.draw(st.sampled_from(qops.available_isas()))
    a, b = quantized(shape), quantized(shape, np.int8, 11, 0.3, -3)
    x = np.resize(SPECIAL, shape)
    with qops.use_isa(where):
        check(qops.fuse(function, tile=tile), a, b, x, data.draw(st.floats(-5, 5)))


# ------------------------------------------------------------ the program


def test_the_program_as_text():
    @qops.fuse
    def add(a, b):
        x = a.dequantize() + b.dequantize()
        return (np.abs(x) + np.abs(x)).quantize(0.1, 3, dtype=np.uint8)

    a = quantized()
    assert add.source(a, a).splitlines() == [
        "add: tile=1024 tiles=2 scratch=8192 B",
        "  each tile:",
        "    t0:f32 = TDEQUANT in0, $0.scale, $0.zero_point",
        "    t1:f32 = TDEQUANT in1, $1.scale, $1.zero_point",
        "    t0:f32 = TADD t0, t1",
        "    t0:f32 = TABS t0",
        "    t0:f32 = TADD t0, t0",
        "    out0:u8 = TQUANT t0, 0.1, 3",
    ]


def test_what_does_not_vary_is_done_once():
    f = qops.fuse(lambda x, k: x * np.exp(-k * k) + (2 * 3))
    x = np.linspace(0, 1, 3000, dtype=np.float32)
    text = f.source(x, 0.5)
    once, each = text.split("  each tile:\n")
    assert "TEXP t" in once
    assert each.count("\n") == 1
    check(f, x, 0.5)


def test_tiles_fit_the_cache():
    def wide(x):
        parts = [x * float(k) for k in range(2, 30)]
        y = x
        for p in parts:
            y = y + p
        for p in parts:
            y = y * p
        return y

    f = qops.fuse(wide)
    x = np.linspace(-1, 1, 5000, dtype=np.float32)
    assert "tile=256" in f.source(x)
    check(f, x)


# ------------------------------------------------------------ errors

F32, A = np.ones(3, np.float32), QArray(np.uint8([1, 2, 3]), 0.1, 3)
ERRORS = [
    (lambda a: np.sinh(a.dequantize()), (A,), UnsupportedOpError, "np.sinh is not"),
    (lambda a: np.sum(a.dequantize()), (A,), UnsupportedOpError, "np.sum is not"),
    (lambda x: np.add.reduce(x), (F32,), UnsupportedOpError, r"np.add.reduce is not"),
    (lambda x: np.add(x, x, out=F32), (F32,), UnsupportedOpError, "np.add with out"),
    (lambda x: 1 if x > 0 else x, (F32,), FuseTypeError, "the truth value of a fused"),
    (
        lambda x: np.array(x),
        (F32,),
        FuseTypeError,
        "a fused expression has no elements",
    ),
    (lambda a: a + a, (A,), TypeError, "unsupported operand"),
    (lambda a: np.exp(a), (A,), FuseTypeError, "exp: quantized values take part as"),
    (lambda a: np.where(a, 1, 2), (A,), FuseTypeError, "where: quantized values take"),
    (lambda a: a.dequantize() + A, (A,), FuseTypeError, "quantized values take part"),
    (lambda x: None, (F32,), FuseTypeError, "<lambda>: the function returned NoneType"),
    (lambda x: (), (F32,), FuseError, "<lambda>: the function returned no result"),
    (lambda x: x + F32, (F32,), FuseTypeError, r"an array of shape \(3,\) in a fused"),
    (lambda x, k: k * 2, (F32, 1.0), FuseError, "<lambda>: a result depends on no"),
    (
        lambda a: np.sqrt(a.codes),
        (A,),
        FuseTypeError,
        "np.sqrt of uint8 calculates in float16, which fused functions do not have",
    ),
    (
        lambda x: x + 1,
        (np.ones(3),),
        FuseTypeError,
        "argument 0: float64 is not one of",
    ),
    (lambda x: x, ("text",), FuseTypeError, "argument 0 is str, not a QArray"),
    (lambda x: x, (np.ma.ones(3),), FuseTypeError, "argument 0 is a masked array"),
    (lambda x: x.astype("f8"), (F32,), FuseTypeError, "astype: float64 is not one of"),
    (lambda a: a.codes + 300, (A,), OverflowError, "300 out of bounds for uint8"),
    (
        lambda x: x.quantize(0.0, 0, dtype="u1"),
        (F32,),
        FuseError,
        "quantize: scale is 0.0, not finite and greater than 0 in float32",
    ),
    (
        lambda x: x.quantize(0.1, 256, dtype="u1"),
        (F32,),
        FuseError,
        r"quantize: zero_point is 256, not within 0\.\.255, the range of uint8",
    ),
    (lambda x: x.quantize(0.1, 0, dtype="i8"), (F32,), TypeError, "quantize: dtype is"),
    (
        lambda x: (x > 0).quantize(0.1, dtype="u1"),
        (F32,),
        FuseTypeError,
        "quantize: the expression is bool, not float32",
    ),
    (
        lambda x: x.quantize(x, 0, dtype="u1"),
        (F32,),
        FuseTypeError,
        "quantize: scale is an expression, not a number",
    ),
    (
        lambda x: x.quantize(F32, 0, dtype="u1"),
        (F32,),
        FuseTypeError,
        r"quantize: scale has shape \(3,\); in a fused function it is one number",
    ),
    (lambda x, s: x.quantize(s, 0, dtype="u1"), (F32, -1.0), ValueError, "scale is -1"),
    (
        lambda x, z: x.quantize(0.1, z, dtype="u1"),
        (F32, 256),
        FuseError,
        r"zero_point is 256, not within 0\.\.255",
    ),
    (
        lambda x, y: x + y,
        (F32, np.ones(4, np.float32)),
        FuseShapeError,
        r"operands could not be broadcast together with shapes \(3,\) \(4,\)",
    ),
    (
        lambda x, y: (x + 1, y + 1),
        (F32, np.ones((8, 3), np.float32)),
        FuseShapeError,
        r"result 1 has shape \(8, 3\), result 0 has shape \(3,\)",
    ),
]


@pytest.mark.parametrize(("function", "args", "error", "message"), ERRORS)
def test_errors(function, args, error, message):
    with pytest.raises(error, match=message):
        qops.fuse(function)(*args)


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (
            np.ones(3),
            FuseTypeError,
            "out has dtype float64, the expression has float32",
        ),
        (np.ones(4, np.float32), FuseShapeError, r"out has shape \(4,\), not \(3,\)"),
        ([1, 2, 3], FuseTypeError, "out is list, not an array"),
        ((F32, F32), FuseError, "out has 2 arrays, not 1"),
    ],
)
def test_errors_of_out(out, error, message):
    with pytest.raises(error, match=message):
        qops.fuse(lambda x: x + 1)(F32, out=out)
    y = F32.copy()
    y.flags.writeable = False
    with pytest.raises(FuseError, match="out is read-only, not writeable"):
        qops.fuse(lambda x: x + 1)(F32, out=y)
    y = np.ones(4, np.float32)
    with pytest.raises(FuseError, match="the arrays of out overlap each other"):
        qops.fuse(lambda x: (x, x))(F32, out=(y[1:], y[:-1]))


def test_the_page_about_it():
    text = (Path(__file__).parent.parent / "docs" / "fusion.md").read_text()
    rows = re.findall(r"^\| `(T\w+)` \| `(.*?)` \| `?(.*?)`? \|$", text, re.M)
    listed = [(name, o.formula.replace("|", r"\|")) for name, o in OPCODES.items()]
    assert [row[:2] for row in rows] == listed
    for name, _, words in rows:
        function = OPCODES[name].function
        assert function is None or words == f"np.{function.__name__}"
    there: dict = {}
    exec(re.search(r"```python\n(.*?)```", text, re.S)[1], there)
    text = text[text.index("is that program") :]
    program = re.search(r"```\n(.*?)```", text, re.S)[1]
    assert there["residual"].source(there["a"], there["b"]) + "\n" == program
    check(there["residual"], there["a"], there["b"])


def test_the_table_of_opcodes():
    assert list(OPCODES) == sorted(OPCODES)
    assert len(BY_FUNCTION) == sum(o.function is not None for o in OPCODES.values())
