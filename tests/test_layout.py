"""The array nobody mentions: layouts, channels, blocks, overlap, on each level."""

import itertools
import threading

import numpy as np
import oracles
import pytest
from oracles import same
from test_dequantize import codes
from test_quantize import numbers

import qops

SHAPE = (6, 5, 70)


def layouts(x):
    """Give x's values in every layout, by name."""
    n = x.itemsize
    raw = np.zeros(x.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(x.tobytes(), np.uint8)
    wide = np.zeros([2 * k for k in x.shape], x.dtype)
    wide[::2, ::2, ::2] = x
    backwards = np.ascontiguousarray(x[::-1, ::-1, ::-1])
    read_only = x.copy()
    read_only.flags.writeable = False
    return {
        "C": x,
        "F": np.asfortranarray(x),
        "transposed": np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0),
        "steps": wide[::2, ::2, ::2],
        "negative": backwards[::-1, ::-1, ::-1],
        "misaligned": np.ndarray(x.shape, x.dtype, raw, 1) if n > 1 else x,
        "swapped": x.astype(x.dtype.newbyteorder()),
        "read-only": read_only,
        "subclass": x.view(np.matrix if x.ndim == 2 else np.recarray),
    }


LAYOUTS = list(layouts(np.zeros(SHAPE, np.float32)))


def channels(n, axis, ndim, seed=0):
    """Give scales and zero points along an axis, and the same shaped to broadcast."""
    rng = np.random.default_rng(seed)
    s, z = rng.uniform(0.05, 2, n), rng.integers(0, 100, n)
    shape = [n if i == axis % ndim else 1 for i in range(ndim)]
    return s, z, s.reshape(shape), z.reshape(shape)


def blocks(shape, axis, size, seed=0):
    """Give scales and zero points of blocks, and the same for each element."""
    rng = np.random.default_rng(seed)
    axis %= len(shape)
    given = [-(-n // size) if i == axis else n for i, n in enumerate(shape)]
    s, z = rng.uniform(0.05, 2, given), rng.integers(0, 100, given)
    every = tuple(slice(n) for n in shape)
    wide = [np.repeat(p, size, axis)[every] for p in (s, z)]
    return s, z, *wide


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_layouts(level, layout, axis, dtype):
    x = numbers(int(np.prod(SHAPE)), dtype).reshape(SHAPE)
    s = z = wide_s = wide_z = 3
    if axis is not None:
        s, z, wide_s, wide_z = channels(SHAPE[axis], axis, 3)
    expected = oracles.quantize(x, wide_s, wide_z, np.uint8)
    v = layouts(x)[layout]
    got = qops.quantize(v, s, z, dtype=np.uint8, axis=axis)
    same(got, expected)
    assert type(got) is np.ndarray
    q = layouts(expected)[layout]
    same(
        qops.dequantize(q, s, z, axis=axis),
        oracles.dequantize(expected, wide_s, wide_z),
    )
    for out in layouts(np.full(SHAPE, 9, np.int16)).values():
        if out.flags.writeable:
            qops.quantize(v, s, z, axis=axis, out=out)
            same(
                np.asarray(out).astype(np.int16),
                oracles.quantize(x, wide_s, wide_z, np.int16),
            )


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32])
@pytest.mark.parametrize(
    "shape", [(16, 64), (64, 129), (17, 300), (130, 70), (513, 40)]
)
def test_tiles(level, shape, dtype):
    """Inputs that lie across the rows of the output, of each size of elements."""
    q = np.ascontiguousarray(codes(np.prod(shape), dtype).reshape(shape).T).T
    expected = oracles.dequantize(q, 0.3, 7)
    out = np.empty(shape, np.float32)
    same(qops.dequantize(q, 0.3, 7, out=out), expected)
    x = numbers(int(np.prod(shape)), np.float64).reshape(shape[::-1]).T
    s, z, wide_s, wide_z = channels(shape[1], 1, 2)
    out = np.empty(shape, dtype)
    same(
        qops.quantize(x, s, z, axis=1, out=out),
        oracles.quantize(x, wide_s, wide_z, dtype),
    )
    a, b = q[::-1, ::-1], np.ascontiguousarray(q)
    same(
        qops.qadd(a, s, z, b, 0.2, 4, 0.5, 6, axis=1, out=out),
        oracles.qadd(a, wide_s, wide_z, b, 0.2, 4, 0.5, 6, dtype),
    )


@pytest.mark.parametrize("n", [1, 2, 3, 17, 64, 384, 1000])
@pytest.mark.parametrize("inner", [1, 2, 3, 49, 1000])
def test_channels(level, n, inner):
    shape = (3, n, inner)
    x = numbers(int(np.prod(shape)), np.float32).reshape(shape)
    s, z, wide_s, wide_z = channels(n, 1, 3)
    for axis in (1, -2):
        got = qops.quantize(x, s, z, dtype=np.int16, axis=axis)
        same(got, oracles.quantize(x, wide_s, wide_z, np.int16))
        back = qops.dequantize(got, s, z, axis=axis, dtype=np.float64)
        same(back, oracles.dequantize(got, wide_s, wide_z, np.float64))
    got = qops.requantize(got, s, z, 0.3, 5, dtype=np.int8, axis=1)
    again = oracles.quantize(x, wide_s, wide_z, np.int16)
    same(got, oracles.requantize(again, wide_s, wide_z, 0.3, 5, np.int8))


@pytest.mark.parametrize("size", [1, 2, 16, 32, 100, 5000])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(37, 5, 48), (4, 130, 1), (1, 1, 333), (0, 2, 3)])
def test_blocks(level, shape, axis, size):
    x = numbers(int(np.prod(shape)), np.float32).reshape(shape)
    s, z, wide_s, wide_z = blocks(shape, axis, size)
    got = qops.quantize(x, s, z, dtype=np.uint8, axis=axis, block_size=size)
    same(got, oracles.quantize(x, wide_s, wide_z, np.uint8))
    back = qops.dequantize(got, s, z, axis=axis, block_size=size)
    same(back, oracles.dequantize(got, wide_s, wide_z))
    flip = (slice(None, None, -1),) * 3
    if shape[axis] % size == 0:  # so that blocks stay blocks
        flipped = qops.dequantize(got[flip], s[flip], 0, axis=axis, block_size=size)
        same(flipped, oracles.dequantize(got[flip], wide_s[flip], 0))


def test_one_channel_scales_differ_too_much_for_one_limit(level):
    x = numbers(4 * 300, np.float32).reshape(300, 4)
    for s in ([1e-12, 1.0, 1e12, 1e3], [1e-30, 1, 1e30, 1e-45], [1e-4, 1, 2, 3]):
        for dtype in (np.uint8, np.int16):
            got = qops.quantize(x, s, 0, dtype=dtype, axis=1)
            same(got, oracles.quantize(x, s, 0, dtype))


def test_memory_order_is_kept(level):
    x = np.zeros((3, 4, 5), np.float32)
    for v in (x, x.T, x.transpose(1, 0, 2)):
        q = qops.quantize(v, 1.0, dtype=np.int8)
        assert np.argsort(q.strides).tolist() == np.argsort(v.strides).tolist()
        assert qops.dequantize(q, 1.0).strides == v.strides


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 4)])
def test_empty(level, shape):
    x = np.zeros(shape, np.float32)
    q = qops.quantize(x, 1.0, dtype=np.uint8)
    assert (q.shape, q.dtype) == (shape, np.uint8)
    for axis in range(len(shape)):
        s = np.ones(shape[axis])
        assert qops.quantize(x, s, dtype=np.uint8, axis=axis).shape == shape
    assert qops.qadd(q, 1.0, 0, q, 1.0, 0, 1.0, 0).shape == shape
    assert qops.requantize(q, 1.0, 0, 1.0, 0).shape == shape


def test_0d(level):
    x = np.array(2.5, np.float32)
    q = qops.quantize(x, 1.0, 1, dtype=np.uint8)
    assert type(q) is np.uint8
    assert q == 3
    assert type(qops.dequantize(q, 1.0, 1)) is np.float32
    out = np.zeros((), np.uint8)
    assert qops.quantize(x, 1.0, 1, out=out) is out
    assert out == 3
    assert type(qops.qadd(q, 1.0, 0, q, 1.0, 0, 1.0, 0)) is np.uint8


def test_many_dimensions(level):
    shape = (1,) * 30 + (2, 3) + (1,) * 32
    x = numbers(6, np.float32).reshape(shape)
    same(qops.quantize(x, 0.5, dtype=np.int8), oracles.quantize(x, 0.5, 0, np.int8))
    s = np.ones(shape) / 3
    got = qops.quantize(x, s, dtype=np.int8, axis=31, block_size=1)
    same(got, oracles.quantize(x, s, 0, np.int8))


def test_broadcast_input(level):
    x = np.broadcast_to(numbers(70, np.float32), (9, 70))
    same(qops.quantize(x, 0.5, 3, dtype=np.int8), oracles.quantize(x, 0.5, 3, np.int8))


@pytest.mark.parametrize("shift", range(-9, 10))
def test_overlapping_out(level, shift):
    memory = np.zeros(4 * 700 + 128, np.uint8)
    x = memory[64 : 64 + 4 * 600].view(np.float32)
    for dtype, step in itertools.product((np.uint8, np.int16, np.int32), (1, -1)):
        memory[:] = 0
        x[:] = numbers(600, np.float32)
        size = np.dtype(dtype).itemsize
        start = 64 + shift * size
        out = memory[start : start + 600 * size].view(dtype)[::step]
        expected = oracles.quantize(x.copy(), 0.5, 3, dtype)
        qops.quantize(x, 0.5, 3, out=out)
        same(out, expected)


def test_out_is_an_operand_or_overlaps_one(level):
    def fresh():
        return codes(700, np.uint8)

    args = (0.1, 3), (0.2, 5), (0.25, 100)
    expected = oracles.qadd(
        fresh()[:600], *args[0], fresh()[9:609], *args[1], *args[2], np.uint8
    )
    for out_start in (0, 9, 4, 50):
        m = fresh()
        out = m[out_start : out_start + 600]
        qops.qadd(m[:600], *args[0], m[9:609], *args[1], *args[2], out=out)
        same(out, expected)
    m = fresh()
    qops.qmul(m, *args[0], m, *args[1], *args[2], out=m)
    same(m, oracles.qmul(fresh(), *args[0], fresh(), *args[1], *args[2], np.uint8))
    m = fresh().reshape(25, 28)[:25, :25]
    expected = oracles.requantize(m.T.copy(), 0.1, 3, 0.2, 5, np.uint8)
    qops.requantize(m.T, 0.1, 3, 0.2, 5, out=m)
    same(m.copy(), expected)


def test_out_overlaps_the_parameters(level):
    s = np.linspace(0.1, 0.9, 64).astype(np.float32)
    x = numbers(64, np.float32)
    expected = oracles.quantize(x, s.copy(), 0, np.int8)
    out = s.view(np.int8)[64:128]
    qops.quantize(x, s, 0, axis=0, out=out)
    same(out, expected)


def test_threads_agree_while_the_level_changes():
    x = numbers(50_000, np.float32)
    expected = oracles.quantize(x, 0.1, 3, np.uint8)
    failures = []

    def work(i):
        for _ in range(30):
            level = qops.available_isas()[i % len(qops.available_isas())]
            with qops.use_isa(level):
                if not np.array_equal(
                    qops.quantize(x, 0.1, 3, dtype=np.uint8), expected
                ):
                    failures.append(level)

    before = qops.isa()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert qops.isa() == before
