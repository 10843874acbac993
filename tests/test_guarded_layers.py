"""Layers on arrays that end at a forbidden page: they touch nothing behind the end.

All arrays are contiguous and native, so that nothing is copied before it is read.
"""

import numpy as np
import pytest
from guard import guarded, tail, untouched
from oracles import CODES, same
from test_dequantize import codes
from test_quantize import numbers

import qops

BYTES = [np.uint8, np.int8]
FLOATS = [np.float32, np.float64, np.float16]
# Up to a vector of bytes and over: what is next to parts of vectors and whole ones.
SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 49, 63, 64, 65, 70]

# Each yields calls for a size: arrays, which come first, and arguments by name.
PAIR = {"scale": 0.1, "zero_point": 3}
OTHER = {"out_scale": 0.07, "out_zero_point": 5}
WINDOWS = [
    {"kernel": 1},
    {"kernel": 2, "stride": 1},
    {"kernel": 3, "stride": 2, "padding": 1},
    {"kernel": 3, "stride": 1, "padding": 1, "dilation": 2},
    {"kernel": 5, "stride": 3, "padding": 2, "ceil_mode": True},
]


def images(n, dtype):
    """Yield images in rows or channels of a size, and whether channels come last."""
    for last, shape in (
        (False, (2, 3, n)),
        (False, (1, 2, 4, n)),
        (False, (1, 2, 3, 3, n)),
        (True, (2, 3, n)),
        (True, (1, 3, 4, n)),
        (True, (1, 3, n, 2)),
        (True, (1, 3, 3, 3, n)),
    ):
        q = codes(np.prod(shape), dtype).reshape(shape)
        yield q, PAIR | {"channels_last": last}


def sliding(n, dtype, dilation=True):
    for q, more in images(n, dtype):
        least = min(q.shape[1:-1] if more["channels_last"] else q.shape[2:])
        for own in WINDOWS:
            reach = own.get("dilation", 1) * (own["kernel"] - 1) + 1
            if reach <= least + 2 * own.get("padding", 0):
                yield [q], own | more


def averages(n, dtype):
    for q, own in sliding(n, dtype):
        if "dilation" not in own:
            yield q, own | OTHER
        if own["kernel"] == 2:  # a table instead of a product
            yield q, own | {"dtype": np.int16}


def adaptive(n, dtype):
    for q, own in images(n, dtype):
        for size in (1, 2, 7):
            yield [q], own | {"size": size}


def resized(n, dtype):
    for q, own in images(n, dtype):
        for how in ({"size": 5}, {"scale_factor": 2}):
            mode = {3: "linear", 4: "bilinear", 5: "trilinear"}[q.ndim]
            yield [q], own | how | OTHER
            yield [q], own | how | OTHER | {"mode": mode}
            yield [q], own | how | {"mode": mode, "align_corners": True}


def rows(n, dtype):
    """Yield rows of a size, and ones that are so long that each gets a table."""
    for shape in ((3, n), (2, 4, n), (2, n, 3), (1, 2, 1000 + n)):
        yield codes(np.prod(shape), dtype).reshape(shape)


def layer_norms(n, dtype):
    for q in rows(n, dtype):
        yield [q], PAIR | OTHER
        yield [q], PAIR | {"axis": (-2, -1)}


def batch_norms(n, dtype):
    for q in rows(n, dtype):
        for axis in (1, -1):
            own = {"axis": axis, "relu": True, "mean": np.arange(q.shape[axis])}
            yield [q], PAIR | OTHER | own | {"var": np.ones(q.shape[axis])}


def group_norms(n, dtype):
    for q in rows(n, dtype):
        for axis in (1, -1):
            yield [q], PAIR | OTHER | {"axis": axis, "groups": 2 - q.shape[axis] % 2}


def instance_norms(n, dtype):
    for q, own in group_norms(n, dtype):
        yield q, {k: v for k, v in own.items() if k != "groups"}


def softmaxes(n, dtype):
    for q in rows(n, dtype):
        yield [q], PAIR
        yield [q], PAIR | {"out_scale": 0.001, "dtype": np.int16}


def tops(n, dtype):
    for q in rows(n, dtype):
        for axis in (0, -1):
            yield [q], {"axis": axis, "k": (q.shape[axis] + 1) // 2}


def fakes(n, dtype):
    x = numbers(3 * n, dtype)
    for of in CODES:
        yield [x], PAIR | {"dtype": of, "return_mask": True}
        for axis, shape in enumerate(((3, n), (n, 3))):
            own = {"scale": [0.3, 0.1, 1.7], "dtype": of, "axis": axis}
            yield [x.reshape(shape)], own


def packed(n, dtype):
    for bits in (2, 4):
        for shape in ((n,), (3, n)):
            yield [codes(np.prod(shape), dtype).reshape(shape) % 2], {"bits": bits}


def packed_numbers(n, dtype):
    for bits in (2, 4):
        yield [numbers(n, dtype)], {"scale": 9.0, "bits": bits, "dtype": np.int8}


def unpacked(n, dtype):
    for bits in (2, 4):
        for less in range(8 // bits):
            own = {"shape": n * 8 // bits - less, "bits": bits, "dtype": np.int8}
            yield [codes(n, dtype)], own


def unpacked_numbers(n, dtype):
    for b, own in unpacked(n, dtype):
        yield b, own | {"scale": 0.3, "zero_point": 1}


def joined(n, dtype):
    for axis, shape in ((0, (2, n)), (1, (2, n)), (0, (n, 3)), (1, (n, 3))):
        arrays = [codes(np.prod(shape), dtype, k).reshape(shape) for k in range(3)]
        own = {"scales": [0.1, 0.1, 0.2], "zero_points": 3, "axis": axis}
        own |= {"out_scale": 0.1, "out_zero_point": 3, "relu": n % 2 == 0}
        yield [arrays], own


def filled(n, dtype):
    q = codes(2 * n, dtype)
    yield [q, q % 3 > 0], PAIR | {"value": 0.7}
    yield [q.reshape(2, n), q[:n] > 9], PAIR | {"value": 0.7}


def shuffled(n, dtype):
    q = codes(6 * n, dtype)
    yield [q.reshape(2 * n, 3)], {"groups": 2, "axis": 0}
    yield [q.reshape(2, 3 * n)], {"groups": 3}


CALLS = {
    "qmax_pool": (sliding, BYTES),
    "qavg_pool": (averages, BYTES),
    "qadaptive_max_pool": (adaptive, BYTES),
    "qadaptive_avg_pool": (adaptive, BYTES),
    "qglobal_avg_pool": (lambda *of: (([q], own) for q, own in images(*of)), BYTES),
    "qinterpolate": (resized, [*BYTES, np.uint16, np.int16]),
    "qbatch_norm": (batch_norms, CODES),
    "qlayer_norm": (layer_norms, CODES),
    "qgroup_norm": (group_norms, CODES),
    "qinstance_norm": (instance_norms, CODES),
    "qsoftmax": (softmaxes, CODES),
    "qlog_softmax": (softmaxes, CODES),
    "qtopk": (tops, CODES),
    "fake_quantize": (fakes, FLOATS),
    "pack": (packed, BYTES),
    "unpack": (unpacked, [np.uint8]),
    "quantize_packed": (packed_numbers, FLOATS),
    "dequantize_packed": (unpacked_numbers, [np.uint8]),
    "qconcatenate": (joined, CODES),
    "masked_fill": (filled, CODES),
    "channel_shuffle": (shuffled, CODES),
}


def at_the_end(x):
    """Copy an array, or several, to where forbidden pages begin."""
    if isinstance(x, list):
        return [at_the_end(v) for v in x]
    y = guarded(x.size, x.dtype).reshape(x.shape)
    y[...] = x
    return y


def several(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name, (_, dtypes) in CALLS.items() for dtype in dtypes],
)
def test_nothing_behind_the_end(level, name, dtype):
    f, (calls, _) = getattr(qops, name), CALLS[name]
    for n in SIZES:
        for arrays, own in calls(n, dtype):
            expected = several(f(*arrays, **own))
            given = at_the_end(arrays)
            for got, wanted in zip(several(f(*given, **own)), expected, strict=True):
                same(got, wanted)
            if name == "qtopk":
                continue
            y = guarded(expected[0].size + 99, expected[0].dtype)
            out = tail(y, expected[0].size).reshape(expected[0].shape)
            assert several(f(*given, **own, out=out))[0] is out
            same(out, expected[0])
            assert untouched(y, out.size)
