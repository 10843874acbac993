"""No operation makes temporaries larger than its result and 1 MiB, but those named."""

import inspect
import re
import tracemalloc

import numpy as np
import pytest
from test_docs import NO_OPERATIONS

import qops
from qops.functions import FUNCTIONS

MIB = 1 << 20
U8, I16, I32, F32 = np.uint8, np.int16, np.int32, np.float32
A, B = (0.1, 3), (0.2, 5)  # pairs
EACH = np.full(4096, 0.1)

# Arrays of 8 Mi elements: shapes and dtypes
CODES = ((2048, 4096), U8)
WORDS = ((2048, 4096), I32)
REALS = ((2048, 4096), F32)
SHORT = ((1 << 20, 8), U8)  # of many short rows
IMAGES = ((2, 16, 512, 512), U8)
PACKED = ((1 << 22,), U8)


def one(name, *args, of=CODES, **own):
    """Return a call of an operation with an array, then args."""
    return (of,), lambda q, **out: getattr(qops, name)(q, *args, **own, **out)


def two(name, *args, of=CODES, **own):
    """Return a call of an operation with two arrays and pairs."""
    f = getattr(qops, name)
    return (of, of), lambda a, b, **out: f(a, *A, b, *B, *args, **own, **out)


BINARY = "qadd", "qsub", "qmul", "qdiv", "qmaximum", "qminimum"
COMPARISONS = "qequal", "qnot_equal", "qless", "qless_equal", "qgreater"
REDUCTIONS = "qsum", "qmean", "qvar", "qstd", "qmin", "qmax"
GIVEN = {
    "qprelu": {"weight": 0.2},
    "qthreshold": {"threshold": 0.1, "value": 1.0},
    "qadd_scalar": {"value": 1.0},
    "qmul_scalar": {"value": 2.0},
    "qpow_scalar": {"exponent": 2.0},
}

# Arrays and a call of them; the first word of a name is the operation.
CALLS = {
    "quantize": one("quantize", *A, of=REALS, dtype=U8),
    "quantize raise": one("quantize", *A, of=REALS, dtype=U8, nan="raise"),
    "quantize channels": one("quantize", EACH, of=REALS, dtype=U8, axis=1),
    "dequantize": one("dequantize", *A),
    "requantize": one("requantize", *A, *B),
    "requantize channels": one("requantize", EACH, 0, *B, axis=1),
    "take": one("take", np.arange(256).astype(U8)),
    "take channels": one("take", np.zeros((16, 256), U8), of=IMAGES, axis=1),
    "lookup_table": ((), lambda: qops.lookup_table(np.tanh, U8, EACH, 0, U8, 0.1)),
    "lookup_table words": (
        (),
        lambda: qops.lookup_table(np.tanh, I16, EACH[:64], 0, I16, 0.1),
    ),
    "choose_qparams": one("choose_qparams", U8, of=REALS),
    "choose_qparams channels": one("choose_qparams", U8, of=REALS, axis=1),
    "fake_quantize": one("fake_quantize", *A, of=REALS, dtype=U8, return_mask=True),
    "fake_quantize channels": one("fake_quantize", EACH, of=REALS, dtype=U8, axis=1),
    "fake_quantize_gradients": (
        (REALS, REALS),
        lambda x, g: qops.fake_quantize_gradients(x, *A, g, dtype=U8),
    ),
    "saturate_cast": one("saturate_cast", U8, of=REALS),
    "pack": one("pack", 4),
    "unpack": (
        (PACKED,),
        lambda b, **out: qops.unpack(b, CODES[0], U8, 4, **out),
    ),
    "quantize_packed": one("quantize_packed", *A, of=REALS, bits=4, dtype=U8),
    "dequantize_packed": (
        (PACKED,),
        lambda b, **out: qops.dequantize_packed(
            b, CODES[0], *A, bits=4, dtype=U8, **out
        ),
    ),
    "quantize_float_zero_point": one(
        "quantize_float_zero_point", 0.1, 3.5, of=REALS, dtype=U8
    ),
    "dequantize_float_zero_point": one("dequantize_float_zero_point", 0.1, 3.5),
    **{name: two(name, *A) for name in BINARY},
    "qadd words": two("qadd", *A, of=WORDS),
    **{name: two(name) for name in COMPARISONS},
    "qgreater_equal": two("qgreater_equal", of=WORDS),
    "qwhere": (
        (((2048, 4096), bool), CODES, CODES),
        lambda c, a, b, **out: qops.qwhere(c, a, *A, b, *B, *A, **out),
    ),
    **{name: one(name, *A, **GIVEN.get(name, {})) for name in FUNCTIONS},
    "qrelu words": one("qrelu", *A, of=WORDS),
    "qprelu channels": one("qprelu", *A, of=IMAGES, axis=1, weight=np.ones(16)),
    **{name: one(name) for name in ("hsum", "hsum_sq", "qargmin", "qargmax")},
    "hsum rows": one("hsum", 1, of=SHORT),
    "hsum_sq rows": one("hsum_sq", 1, of=SHORT),
    **{name: one(name, *A) for name in REDUCTIONS},
    **{f"{name} rows": one(name, *A, *B, axis=1, of=SHORT) for name in REDUCTIONS},
    **{f"{name} columns": one(name, *A, axis=0) for name in REDUCTIONS},
    "qargmax rows": one("qargmax", 1),
    "qargmax columns": one("qargmax", 0),
    "qcumsum": one("qcumsum", *A),
    "qcumsum rows": one("qcumsum", *A, axis=1),
    "qcumsum columns": one("qcumsum", *A, axis=0),
    "qsoftmax": one("qsoftmax", *A),
    "qsoftmax rows": one("qsoftmax", *A, of=SHORT),
    "qlog_softmax": one("qlog_softmax", *A, axis=0),
    "qtopk": one("qtopk", 5),
    "qtopk columns": one("qtopk", 1000, axis=0),
    "qsort": one("qsort"),
    "qsort flat": one("qsort", axis=None),
    "qmax_pool": one("qmax_pool", *A, of=IMAGES, kernel=3, stride=1, padding=1),
    "qmax_pool small": one("qmax_pool", *A, of=IMAGES, kernel=2),
    "qavg_pool": one("qavg_pool", *A, of=IMAGES, kernel=3, stride=1, padding=1),
    "qavg_pool small": one("qavg_pool", *A, of=IMAGES, kernel=2),
    "qadaptive_max_pool": one("qadaptive_max_pool", *A, of=IMAGES, size=100),
    "qadaptive_avg_pool": one("qadaptive_avg_pool", *A, of=IMAGES, size=100),
    "qglobal_avg_pool": one("qglobal_avg_pool", *A, of=IMAGES),
    "qinterpolate": one("qinterpolate", *A, of=IMAGES, size=600),
    "qinterpolate last": one(
        "qinterpolate", *A, *B, of=IMAGES, size=(20, 800), channels_last=True
    ),
    "qinterpolate small": one("qinterpolate", *A, of=IMAGES, size=100),
    "qinterpolate blend": one("qinterpolate", *A, of=IMAGES, size=600, mode="bilinear"),
    "qbatch_norm": one(
        "qbatch_norm", *A, of=IMAGES, mean=np.zeros(16), var=np.ones(16)
    ),
    "qgroup_norm": one("qgroup_norm", *A, of=IMAGES, groups=4),
    "qinstance_norm": one("qinstance_norm", *A, of=IMAGES),
    "qlayer_norm": one("qlayer_norm", *A),
    "qlayer_norm rows": one("qlayer_norm", *A, of=SHORT),
    "qconcatenate": (
        (CODES, CODES),
        lambda a, b, **out: qops.qconcatenate([a, b], (0.1, 0.2), 3, *A, **out),
    ),
    "qstack": (
        (CODES, CODES),
        lambda a, b, **out: qops.qstack([a, b], (0.1, 0.2), 3, *A, **out),
    ),
    "masked_fill": (
        (CODES, ((2048, 4096), bool)),
        lambda q, mask, **out: qops.masked_fill(q, mask, 1.0, *A, **out),
    ),
    "index_put": one("index_put", np.s_[::2], 1.0, *A),
    "index_put values": (
        (CODES, REALS),
        lambda q, x, **out: qops.index_put(q, np.s_[:], x, *A, **out),
    ),
    "qpad": one("qpad", 3, *A),
    "channel_shuffle": one("channel_shuffle", 4, of=IMAGES),
}

# What temporaries take besides: so many times the bytes of the arrays, for contiguous
# ones and others. The docstrings say so.
TEMPORARIES = {
    "hsum rows": (1, 0),
    "hsum_sq rows": (1, 0),
    "index_put values": (0.2, 0.2),
    "qadaptive_avg_pool": (0, 1),
    "qadaptive_max_pool": (0, 1),
    "qargmax": (0, 1),
    "qargmax columns": (1, 0),
    "qargmax rows": (0, 1),
    "qargmin": (0, 1),
    "qavg_pool small": (0, 1),
    "qcumsum": (0, 1),
    "qglobal_avg_pool": (0, 1),
    "qinterpolate small": (0, 1),
    "qlayer_norm rows": (7, 8),
    "qmax_pool small": (0, 1),
}


def test_every_operation_is_measured():
    assert {name.split()[0] for name in CALLS} == set(qops.__all__) - NO_OPERATIONS


def test_temporaries_are_documented():
    for name in TEMPORARIES:
        notes = getattr(qops, name.split()[0]).__doc__.partition("Notes\n")[2]
        assert re.search(r"\b(copies|copied|take \d+ bytes)\b", notes), name


@pytest.fixture(autouse=True)
def _two_threads():
    """Each thread has buffers of its own, and the first call starts them."""
    before = qops.get_num_threads()
    qops.set_num_threads(2)
    qops.hsum(np.zeros(8 * MIB, U8))
    yield
    qops.set_num_threads(before)


def n_bytes(result):
    if isinstance(result, tuple):
        return sum(map(n_bytes, result))
    return np.asarray(result).nbytes


def traced(call, *arrays, **out):
    """Return the result and how many bytes were taken at most."""
    tracemalloc.start()
    try:
        return call(*arrays, **out), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def array(shape, dtype, turned):
    """Return an array of a shape; turned, it lies in memory the other way round."""
    x = np.empty(shape[:-2] + shape[-2:][::-1] if turned else shape, dtype)
    x.reshape(-1, 4)[:] = range(4)
    if not turned:
        return x
    return x[::-1] if x.ndim == 1 else x.swapaxes(-1, -2)


@pytest.mark.parametrize("turned", [False, True], ids=["contiguous", "turned"])
@pytest.mark.parametrize("name", CALLS)
def test_temporaries(name, turned):
    specs, call = CALLS[name]
    arrays = [array(*spec, turned) for spec in specs]
    times = TEMPORARIES.get(name, (0, 0))[turned]
    more = MIB + times * sum(x.nbytes for x in arrays)
    result, peak = traced(call, *arrays)
    size = n_bytes(result)
    assert peak - size <= size + more
    function = getattr(qops, name.split()[0])
    if "out" in inspect.signature(function).parameters:
        first = result[0] if isinstance(result, tuple) else result
        out = np.empty(np.shape(first), first.dtype)
        del result, first
        _, peak = traced(call, *arrays, out=out)
        assert peak - (size - out.nbytes) <= size + more  # a mask is new as before
