"""Any shape, layout, dtype and parameters: hypothesis looks for what differs."""

import numpy as np
import oracles
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from oracles import BINARY, CODES, FLOATS, limits, same

import qops

# The level is set once for all examples, which is what is meant.
many = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=40)
SCALES = st.floats(2.0**-60, 2.0**60) | st.sampled_from([0.1, 0.25, 1 / 3, 1.0])


@st.composite
def arrays(draw, dtype):
    """Draw an array, and a view of the same values in another layout."""
    shape = draw(SHAPES)
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    if dtype in CODES:
        x = rng.integers(*limits(dtype), shape, dtype, endpoint=True)
    else:
        x = (rng.normal(size=shape) * draw(st.sampled_from([1, 100, 1e4]))).astype(
            dtype
        )
    x = np.asarray(x)
    steps = tuple(draw(st.sampled_from([1, 1, 2, -1, -3])) for _ in shape)
    wide = np.zeros([n * abs(s) for n, s in zip(shape, steps, strict=True)], dtype)
    view = wide[(*(slice(None, None, s) for s in steps), ...)]
    view[...] = x
    order = draw(st.permutations(range(len(shape))))
    return x.transpose(order), view.transpose(order)


@st.composite
def parameters(draw, shape, dtype):
    """Draw options, scale and zero point, and both again for each element."""
    lo, hi = limits(dtype)
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    if not shape or draw(st.booleans()):
        scale, zero = draw(SCALES), draw(st.integers(lo, hi))
        return {}, scale, zero, scale, zero
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    i, options = axis % len(shape), {"axis": axis}
    given_shape, reach = (shape[i],), 1
    if draw(st.booleans()):
        options["block_size"] = reach = draw(st.integers(1, 50))
        given_shape = tuple(
            -(-n // reach) if k == i else n for k, n in enumerate(shape)
        )
    scale = 2.0 ** rng.uniform(-8, 8, given_shape)
    zero = rng.integers(lo, hi, given_shape, endpoint=True)
    if "block_size" in options:
        whole = tuple(slice(n) for n in shape)
        wide = [np.repeat(p, reach, i)[whole] for p in (scale, zero)]
    else:
        along = [-1 if k == i else 1 for k in range(len(shape))]
        wide = [p.reshape(along) for p in (scale, zero)]
    return options, scale, zero, *wide


@many
@given(st.data(), st.sampled_from(FLOATS), st.sampled_from(CODES))
def test_quantize(level, data, dtype, out_dtype):
    x, view = data.draw(arrays(dtype))
    options, scale, zero, s, z = data.draw(parameters(x.shape, out_dtype))
    got = qops.quantize(view, scale, zero, dtype=out_dtype, **options)
    same(got, oracles.quantize(x, s, z, out_dtype))


@many
@given(st.data(), st.sampled_from(CODES), st.sampled_from([np.float32, np.float64]))
def test_dequantize(level, data, dtype, out_dtype):
    q, view = data.draw(arrays(dtype))
    options, scale, zero, s, z = data.draw(parameters(q.shape, dtype))
    got = qops.dequantize(view, scale, zero, dtype=out_dtype, **options)
    same(got, oracles.dequantize(q, s, z, out_dtype))


@many
@given(st.data(), st.sampled_from(CODES), st.sampled_from(CODES))
def test_requantize(level, data, dtype, out_dtype):
    q, view = data.draw(arrays(dtype))
    options, scale, zero, s, z = data.draw(parameters(q.shape, dtype))
    to = data.draw(SCALES), data.draw(st.integers(*limits(out_dtype)))
    got = qops.requantize(view, scale, zero, *to, dtype=out_dtype, **options)
    same(got, oracles.requantize(q, s, z, *to, out_dtype))


@many
@given(st.data(), st.sampled_from(CODES), st.booleans(), st.sampled_from(BINARY))
def test_binary(level, data, dtype, relu, op):
    a, view = data.draw(arrays(dtype))
    options, scale, zero, s, z = data.draw(parameters(a.shape, dtype))
    b, b_zero = a[::-1] if a.ndim else a, data.draw(st.integers(*limits(dtype)))
    rest = (b, data.draw(SCALES), b_zero, data.draw(SCALES), b_zero)
    got = getattr(qops, op)(view, scale, zero, *rest, relu=relu, **options)
    same(got, getattr(oracles, op)(a, s, z, *rest, dtype, relu))


@many
@given(st.data(), st.sampled_from(CODES))
def test_sums(level, data, dtype):
    q, view = data.draw(arrays(dtype))
    axes = data.draw(st.sets(st.integers(0, max(q.ndim - 1, 0)), max_size=q.ndim))
    for op in ("hsum", "hsum_sq"):
        got = getattr(qops, op)(view, axis=tuple(axes))
        assert np.array_equal(got, getattr(oracles, op)(q, tuple(axes)))
