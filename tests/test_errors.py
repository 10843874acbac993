"""Wrong arguments: the exception, the op's name, both values, and `out` untouched."""

import numpy as np
import pytest
from oracles import BINARY

import qops

X = np.zeros((2, 3), np.float32)
Q = np.zeros((2, 3), np.uint8)

BAD_SCALES = [
    (0.0, ValueError, "is 0.0, not finite and greater than 0"),
    (-1.5, ValueError, "is -1.5, not finite"),
    (np.nan, ValueError, "is nan, not finite"),
    (np.inf, ValueError, "is inf, not finite"),
    (10**400, ValueError, "is inf, not finite"),
    (1e-50, ValueError, "is 1e-50, in float32 0.0, not finite and greater than 0"),
    (1e300, ValueError, "is 1e\\+300, in float32 inf"),
    ([1, 0, 2], ValueError, "\\[1\\] is 0.0"),
    ([1, 2], ValueError, "has shape \\(2,\\), not \\(3,\\)"),
    ([[1.0]], ValueError, "has shape \\(1, 1\\), not one dimension"),
    (True, TypeError, "is bool, not real numbers"),
    ("a", TypeError, "is <U1, not real numbers"),
    (1j, TypeError, "is complex128, not real numbers"),
    (None, TypeError, "is object, not real numbers"),
]
BAD_ZEROS = [
    (300, ValueError, "is 300, not within 0..255, the range of uint8"),
    (-1, ValueError, "is -1, not within 0..255"),
    (10**30, ValueError, "is 10{30}, not within 0..255"),
    (np.uint64(2**64 - 1), ValueError, "is 18446744073709551615, not within 0..255"),
    (np.int64(-1), ValueError, "is -1, not within 0..255"),
    (0.5, ValueError, "is 0.5, not an integer"),
    (np.nan, ValueError, "is nan, not an integer"),
    ([0, 1, 256], ValueError, "\\[2\\] is 256, not within"),
    ([0, 1], ValueError, "has shape \\(2,\\), not \\(3,\\)"),
    (True, TypeError, "is bool, not integers"),
    ("a", TypeError, "is <U1, not integers"),
    (None, TypeError, "is object, not integers"),
]
BAD_OUTS = [
    (
        lambda: np.zeros((3, 2), np.uint8),
        ValueError,
        "shape \\(3, 2\\), not \\(2, 3\\)",
    ),
    (
        lambda: np.zeros((1, 3), np.uint8),
        ValueError,
        "shape \\(1, 3\\), not \\(2, 3\\)",
    ),
    (lambda: np.zeros((2, 3)), TypeError, "dtype float64, not one of uint8"),
    (lambda: np.zeros((2, 3), np.int64), TypeError, "dtype int64, not one of uint8"),
    (lambda: [[0, 0, 0]] * 2, TypeError, "out is list, not an array"),
    (lambda: np.broadcast_to(np.zeros(3, np.uint8), (2, 3)), ValueError, "read-only"),
]


def call(op, scale=1.0, zero=0, **options):
    """Call an op with the scale and the zero point of its result as given."""
    axis = {"axis": 1} if np.ndim(scale) or np.ndim(zero) else {}
    options = axis | options
    if op == "quantize":
        return qops.quantize(X, scale, zero, **options)
    if op == "dequantize":
        options.pop("dtype", None)
        return qops.dequantize(Q, scale, zero, **options)
    if op == "requantize":
        return qops.requantize(Q, 1.0, 0, scale, zero, **options)
    return getattr(qops, op)(Q, 1.0, 0, Q, 1.0, 0, scale, zero, **options)


OPS = ["quantize", "dequantize", "requantize", *BINARY]


@pytest.mark.parametrize(("scale", "error", "message"), BAD_SCALES)
@pytest.mark.parametrize("op", OPS)
def test_scale(op, scale, error, message):
    out = np.full((2, 3), 7, np.float32 if op == "dequantize" else np.uint8)
    with pytest.raises(error, match=f"^{op}: (out_)?scale ?{message}"):
        call(op, scale, out=out)
    assert (out == 7).all()


@pytest.mark.parametrize(("zero", "error", "message"), BAD_ZEROS)
@pytest.mark.parametrize("op", OPS)
def test_zero_point(op, zero, error, message):
    out = np.full((2, 3), 7, np.float32 if op == "dequantize" else np.uint8)
    with pytest.raises(error, match=f"^{op}: (out_)?zero_point ?{message}"):
        call(op, 1.0, zero, out=out)
    assert (out == 7).all()


@pytest.mark.parametrize(("make", "error", "message"), BAD_OUTS)
@pytest.mark.parametrize("op", [op for op in OPS if op != "dequantize"])
def test_out(op, make, error, message):
    out = make()
    with pytest.raises(error, match=f"^{op}: .*{message}"):
        call(op, out=out)
    assert not np.any(out)


def test_out_of_dequantize():
    for out, message in (
        (np.zeros((2, 3), np.float16), "dtype float16, not one of float32, float64"),
        (np.zeros((2, 3), np.uint8), "dtype uint8, not one of float32, float64"),
    ):
        with pytest.raises(TypeError, match=f"^dequantize: out has {message}"):
            qops.dequantize(Q, 1.0, out=out)
    with pytest.raises(TypeError, match=r"dtype float32, not float64"):
        qops.dequantize(Q, 1.0, dtype=np.float64, out=np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("name", ["a_scale", "b_scale", "a_zero_point", "b_zero_point"])
@pytest.mark.parametrize("op", BINARY)
def test_parameters_of_operands_are_named(op, name):
    given = {"a": Q, "a_scale": 1.0, "a_zero_point": 0, "b": Q, "b_scale": 1.0}
    given |= {"b_zero_point": 0, "scale": 1.0, "zero_point": 0, name: -2}
    with pytest.raises(ValueError, match=f"^{op}: {name} is -2"):
        getattr(qops, op)(**given)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X.astype(int), "x is int64, not one of float16.*requantize takes codes"),
        (X.astype(bool), "x is bool, .*requantize takes codes"),
        (X.astype(complex), "x is complex128, not one of float16"),
        (X.astype(np.longdouble), "x is .*, not one of float16"),
        (X.astype(object), "x is object, not one of"),
        (["a"], "x is <U1, not one of"),
        (np.ma.array(X), "x is a masked array, not a plain one"),
    ],
)
def test_dtype_of_x(x, message):
    for function in (qops.quantize, qops.choose_qparams):
        args = (1.0,) if function is qops.quantize else ()
        with pytest.raises(TypeError, match=f"^{function.__name__}: {message}"):
            function(x, *args, dtype=np.uint8)


@pytest.mark.parametrize("dtype", [float, bool, np.int64, np.uint32])
def test_dtype_of_codes(dtype):
    q = X.astype(dtype)
    message = f"is {q.dtype}, not a dtype of codes"
    with pytest.raises(TypeError, match=f"^dequantize: q {message}"):
        qops.dequantize(q, 1.0)
    with pytest.raises(TypeError, match=f"^requantize: q {message}"):
        qops.requantize(q, 1.0, 0, 1.0, 0)
    with pytest.raises(TypeError, match=f"^qadd: b {message}"):
        qops.qadd(Q, 1.0, 0, q, 1.0, 0, 1.0, 0)
    with pytest.raises(TypeError, match=f"^hsum: q {message}"):
        qops.hsum(q)
    with pytest.raises(TypeError, match=f"^quantize: dtype is {q.dtype}, not one of"):
        qops.quantize(X, 1.0, dtype=dtype)
    with pytest.raises(TypeError, match=f"^choose_qparams: dtype is {q.dtype}, not"):
        qops.choose_qparams(X, dtype)


def test_dtype_of_the_result():
    with pytest.raises(TypeError, match=r"^quantize: dtype is not given, and neither"):
        qops.quantize(X, 1.0)
    with pytest.raises(TypeError, match=r"^quantize: dtype is 'zz', not a dtype"):
        qops.quantize(X, 1.0, dtype="zz")
    with pytest.raises(TypeError, match=r"^quantize: out has dtype uint8, not int8"):
        qops.quantize(X, 1.0, dtype=np.int8, out=Q.copy())
    with pytest.raises(TypeError, match=r"^dequantize: dtype is float16, not one of"):
        qops.dequantize(Q, 1.0, dtype=np.float16)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"axis": 2}, np.exceptions.AxisError, "axis is 2, not within -2..1"),
        ({"axis": -3}, np.exceptions.AxisError, "axis is -3, not within -2..1"),
        ({"axis": 1.0}, TypeError, "axis is 1.0, not an integer"),
        ({"block_size": 2}, ValueError, "block_size is 2 and axis is None"),
        ({"block_size": 0, "axis": 0}, ValueError, "block_size is 0, not 1 or more"),
        (
            {"block_size": 2.0, "axis": 0},
            TypeError,
            "block_size is 2.0, not an integer",
        ),
        ({"nan": "drop"}, ValueError, "nan is 'drop', not 'zero_point' or 'raise'"),
    ],
)
def test_options(options, error, message):
    with pytest.raises(error, match=f"^quantize: {message}"):
        qops.quantize(X, 1.0, dtype=np.uint8, **options)


def test_a_scale_that_says_not_where():
    with pytest.raises(
        ValueError, match=r"^quantize: scale has shape \(3,\) and x has sh"
    ):
        qops.quantize(X, [1.0, 2.0, 3.0], dtype=np.uint8)
    got = qops.quantize(X[0], [1.0, 2.0, 3.0], dtype=np.uint8)
    assert got.shape == (3,)


def test_blocked_shapes():
    with pytest.raises(ValueError, match=r"shape \(2, 3\), not \(2, 2\).*blocks of 2"):
        qops.quantize(X, np.ones((2, 3)), dtype=np.uint8, axis=1, block_size=2)
    with pytest.raises(
        ValueError, match=r"zero_point has shape \(2, 1\), not \(2, 2\)"
    ):
        qops.quantize(
            X, np.ones((2, 2)), np.zeros((2, 1), int), dtype="u1", axis=1, block_size=2
        )


def test_shapes_that_do_not_broadcast():
    with pytest.raises(
        ValueError, match=r"^qadd: a has shape \(2, 3\) and b has shape"
    ):
        qops.qadd(Q, 1.0, 0, Q.T, 1.0, 0, 1.0, 0)


def test_ragged_lists():
    with pytest.raises(ValueError, match=r"^quantize: x is not an array"):
        qops.quantize([[1.0], [1.0, 2.0]], 1.0, dtype=np.uint8)


def test_axes_of_sums():
    with pytest.raises(np.exceptions.AxisError, match=r"^hsum: axis is 2, not within"):
        qops.hsum(Q, axis=2)
    with pytest.raises(ValueError, match=r"^hsum_sq: axis is \(0, -2\), which has"):
        qops.hsum_sq(Q, axis=(0, -2))
    with pytest.raises(TypeError, match=r"^hsum: axis is 'a', not an integer"):
        qops.hsum(Q, axis="a")
