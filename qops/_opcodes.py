"""OPCODES: the one table of what fused functions and tile programs can do.

An opcode has PTO's name where PTO has it, the dtypes that it takes, its formula, and
what it is in NumPy: `calculate` is the definition, which the interpreter runs and the C
kernels are tested against.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._core import opcodes

Array = NDArray[Any]
Calculate = Callable[..., Any]


class Opcode(NamedTuple):
    """One instruction on tiles."""

    name: str
    arity: int
    floats: bool  # takes float32 numbers
    integers: bool  # takes integers; bools too where `bools` says so
    bools: bool
    formula: str
    calculate: Calculate
    function: Any = None  # of NumPy, that stands for it in a fused function

    @property
    def compares(self) -> bool:
        """Whether the result is of bools."""
        return self.name.startswith("TCMP")


# ------------------------------------------------------------ functions, in float64

_EXP_TERMS, _LOG_TERMS, _ERF_TERMS = 14, 12, 64
_LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")
_LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
_MAGIC = 1.5 * 2.0**52


def _expm1_series(x: Array) -> Any:
    total: Any = 0.0
    for k in range(_EXP_TERMS, 0, -1):
        total = (total + 1.0) * (x * (1.0 / k))
    return total


def _exp(x: Array) -> Any:
    x = np.where(x < -700, -700.0, np.where(x > 700, 700.0, x))
    k = (x * (1 / math.log(2)) + _MAGIC) - _MAGIC
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    known = np.where(np.isnan(k), 0, k).astype(np.int64)
    return (_expm1_series(r) + 1.0) * np.ldexp(1.0, known)


def _log(x: Array) -> Any:
    m, e = np.frexp(x)
    low = m < math.sqrt(0.5)
    m, e = np.where(low, m * 2, m), e - low
    s = (m - 1) / (m + 1)
    z, total = s * s, np.zeros_like(s)
    for k in range(_LOG_TERMS - 1, -1, -1):
        total = total * z + 1.0 / (2 * k + 1)
    y = e * _LN2_HIGH + (2 * s * total + e * _LN2_LOW)
    y = np.where(x == 0, -np.inf, np.where(x == np.inf, x, y))
    return np.where(x >= 0, y, np.nan)


def _tanh(x: Array) -> Any:
    t = 2 * np.abs(x)
    y = np.where(t < 0.5, _expm1_series(t), _exp(t) - 1)
    return np.copysign(y / (y + 2), x)


def _erf(x: Array) -> Any:
    a = np.where(np.abs(x) > 4, 4.0, np.abs(x))
    y, total = a * a, np.ones_like(x)
    for k in range(_ERF_TERMS, 0, -1):
        total = 1 + total * (y * (2.0 / (2 * k + 1)))
    return np.copysign(2 / math.sqrt(math.pi) * a * _exp(-y) * total, x)


def _power(x: Array, y: Array) -> Any:
    """Follow C99's pow; only ordinary numbers are calculated."""
    special = np.power(x, y)
    a = np.abs(x)
    r = _exp(y * _log(a))
    r = np.where((x < 0) & (np.fmod(y, 2) != 0), -r, r)
    ordinary = np.isfinite(x) & np.isfinite(y) & (x != 0) & (x != 1) & (y != 0)
    ordinary &= (x > 0) | (y == np.rint(y))
    return np.where(ordinary, r, special)


def _double(f: Calculate) -> Calculate:
    """Calculate in float64, and round to float32."""

    def calculate(*x: Any) -> Any:
        with np.errstate(all="ignore"):
            return f(*(np.asarray(v, np.float64) for v in x)).astype(np.float32)

    return calculate


# ------------------------------------------------------------ the rest


def _maximum(a: Any, b: Any) -> Any:
    if np.asarray(a).dtype != np.float32:
        return np.maximum(a, b)
    return np.where((a >= b) | np.isnan(a), a, b)  # of two zeros the second


def _minimum(a: Any, b: Any) -> Any:
    if np.asarray(a).dtype != np.float32:
        return np.minimum(a, b)
    return np.where((a <= b) | np.isnan(a), a, b)


def _sigmoid(x: Array) -> Any:
    return 1 / (1 + _exp(-x))


def _unary(
    name: str, formula: str, function: Any, calculate: Any = None, kinds: str = "fi"
) -> Opcode:
    return _opcode(name, 1, kinds, formula, calculate or function, function)


def _binary(
    name: str, formula: str, function: Any, calculate: Any = None, kinds: str = "fi"
) -> Opcode:
    return _opcode(name, 2, kinds, formula, calculate or function, function)


def _opcode(
    name: str, arity: int, kinds: str, formula: str, calculate: Any, function: Any
) -> Opcode:
    floats, integers, bools = (k in kinds for k in "fib")
    return Opcode(name, arity, floats, integers, bools, formula, calculate, function)


def _no_calculation(*x: Any) -> Any:
    raise NotImplementedError  # its parameters belong to the node: see fusion.py


_LISTED = [
    _unary("TABS", "abs(a)", np.absolute),
    _binary("TADD", "a + b", np.add),
    _binary("TAND", "a & b", np.bitwise_and, kinds="ib"),
    _unary("TCEIL", "ceil(a)", np.ceil, kinds="f"),
    _binary("TCMPEQ", "a == b", np.equal, kinds="fib"),
    _binary("TCMPGE", "a >= b", np.greater_equal, kinds="fib"),
    _binary("TCMPGT", "a > b", np.greater, kinds="fib"),
    _binary("TCMPLE", "a <= b", np.less_equal, kinds="fib"),
    _binary("TCMPLT", "a < b", np.less, kinds="fib"),
    _binary("TCMPNE", "a != b", np.not_equal, kinds="fib"),
    _opcode("TCVT", 1, "fib", "a as another dtype", _no_calculation, None),
    _opcode("TDEQUANT", 1, "i", "(a - zero_point) * scale", _no_calculation, None),
    _binary("TDIV", "a / b", np.true_divide, kinds="f"),
    _opcode("TERF", 1, "f", "erf(a)", _double(_erf), None),
    _unary("TEXP", "exp(a)", np.exp, _double(_exp), "f"),
    _opcode("TEXPANDS", 0, "fib", "a number", _no_calculation, None),
    _unary("TFLOOR", "floor(a)", np.floor, kinds="f"),
    _binary("TFLOORDIV", "floor(a / b)", np.floor_divide),
    _unary("TLOG", "log(a)", np.log, _double(_log), "f"),
    _binary("TMAX", "maximum(a, b)", np.maximum, _maximum),
    _binary("TMIN", "minimum(a, b)", np.minimum, _minimum),
    _binary("TMUL", "a * b", np.multiply),
    _unary("TNEG", "-a", np.negative),
    _unary("TNOT", "~a", np.invert, kinds="ib"),
    _binary("TOR", "a | b", np.bitwise_or, kinds="ib"),
    _binary("TPOW", "a ** b", np.power, _double(_power), "f"),
    _opcode(
        "TQUANT",
        1,
        "f",
        "clip(rint(a / scale), ...) + zero_point",
        _no_calculation,
        None,
    ),
    _unary("TRECIP", "1 / a", np.reciprocal, kinds="f"),
    _binary("TREM", "a - b * floor(a / b)", np.remainder),
    _unary("TRINT", "rint(a)", np.rint, kinds="f"),
    _opcode("TSEL", 3, "fib", "b where a, else c", np.where, None),
    _binary("TSHL", "a << b", np.left_shift, kinds="i"),
    _binary("TSHR", "a >> b", np.right_shift, kinds="i"),
    _opcode("TSIGMOID", 1, "f", "1 / (1 + exp(-a))", _double(_sigmoid), None),
    _unary("TSIGN", "sign(a)", np.sign),
    _unary("TSQRT", "sqrt(a)", np.sqrt, kinds="f"),
    _unary("TSQUARE", "a * a", np.square),
    _binary("TSUB", "a - b", np.subtract),
    _unary("TTANH", "tanh(a)", np.tanh, _double(_tanh), "f"),
    _unary("TTRUNC", "trunc(a)", np.trunc, kinds="f"),
    _binary("TXOR", "a ^ b", np.bitwise_xor, kinds="ib"),
]
OPCODES = {opcode.name: opcode for opcode in _LISTED}
if list(OPCODES) != opcodes():
    raise ImportError(f"opcodes.def has {opcodes()}, and this table {list(OPCODES)}")
BY_FUNCTION = {o.function: o for o in OPCODES.values() if o.function is not None}
