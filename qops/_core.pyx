"""The array boundary: dtypes, shapes, strides and the GIL; and the operations on top.

Arguments are checked here, once, before anything is written. A call with contiguous
arrays and plain numbers takes the short path at the top of its function; whatever is
unusual there, errors among it, is left to the long one.
"""

cimport cython
cimport numpy as cnp
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_AsDouble, PyFloat_Check
from cpython.long cimport PyLong_AsLongAndOverflow, PyLong_CheckExact
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

import operator
from functools import partial
from time import perf_counter

import numpy as np
from numpy.exceptions import AxisError

from . import threads

cnp.import_array()

cdef extern from "qops.h" nogil:
    ctypedef enum qops_dtype:
        u8, i8, u16, i16, i32, i64, f16, bf16, f32, f64, QOPS_N_DTYPES
    ctypedef enum qops_family:
        convert, binary, reduce, accumulate, table, window, neighbors, blend, rows, tile
    ctypedef struct qops_pairs:
        const float *scale
        const int32_t *zero
        float limit
        bint per_element
    ctypedef struct qops_affine:
        const float *gain
        const float *shift
        const int32_t *center
        bint per_element
        Py_ssize_t row_step
    ctypedef struct qops_params:
        qops_pairs a, b, y
        qops_affine first, second
        size_t row
        Py_ssize_t a_step, y_step
        bint divide, small, relu, stream
        qops_dtype codes
    ctypedef struct qops_total:
        uint64_t low
        int64_t high
    ctypedef void qops_any_fn() noexcept
    ctypedef void qops_convert_fn(
        const void *, void *, size_t, const qops_params *) noexcept
    ctypedef void qops_binary_fn(
        const void *, const void *, void *, size_t, const qops_params *) noexcept
    ctypedef void qops_reduce_fn(const void *, size_t, qops_total *) noexcept
    ctypedef void qops_accumulate_fn(
        const void *, Py_ssize_t, size_t, int64_t *, size_t) noexcept
    ctypedef void qops_table_fn(
        const void *, void *, size_t, const void *) noexcept
    ctypedef struct qops_mean:
        float factor
        int32_t offset, zero
    ctypedef void qops_window_fn(
        const void *const *, size_t, Py_ssize_t, void *, size_t, size_t,
        const void *) noexcept
    ctypedef void qops_neighbors_fn(
        const void *, const void *, float *, size_t, size_t) noexcept
    ctypedef void qops_blend_fn(
        const void *, void *, size_t, const qops_params *) noexcept
    ctypedef void qops_rows_fn(
        const void *, void *, size_t, size_t, const int32_t *, int64_t *) noexcept
    ctypedef struct qops_kernel:
        const char *op
        qops_family family
        qops_dtype x "in"
        qops_dtype out
        qops_any_fn *fn
    ctypedef struct qops_library:
        int abi, n_kernels
        const char *version
        const char *level
        const qops_kernel *kernels
    enum: QOPS_ABI, QOPS_N_KERNELS
    const char *QOPS_CAPSULE
    int32_t code_min(qops_dtype)
    int32_t code_max(qops_dtype)

cdef extern from "_cpu_dispatch.h":
    const char *QOPS_VERSION

cdef extern from "tables.h" nogil:
    ctypedef struct kernel_table:
        qops_any_fn **fn
    const qops_kernel *listed
    const kernel_table *table_in_use()
    void use_table(const kernel_table *)

cdef extern from "pairs.h" nogil:
    ctypedef struct one_pair:
        float scale
    bint prepare_pair(one_pair *, double, int32_t, bint)
    qops_pairs pairs_of_one(const one_pair *)
    size_t PAIRS_BYTES(size_t)
    qops_pairs pairs_in(void *, size_t)
    bint pairs_fill(
        qops_pairs, size_t, const double *, bint, const int64_t *, bint, bint)
    bint zeros_within(const int64_t *, size_t, int32_t, int32_t)
    void pairs_range(qops_pairs, size_t, float *, float *)
    qops_pairs pairs_from(qops_pairs, Py_ssize_t)
    bint pairs_ordinary(float, float)
    bint pairs_limit(qops_pairs *, qops_dtype, float, float)
    float largest_size(const float *, size_t)
    float LARGEST_QUOTIENT, FLT_MAX

cdef extern from "runs.h" nogil:
    enum: RUN_DIMS
    ctypedef struct run_array:
        char *data
        Py_ssize_t *strides
        size_t size
        bint swapped, aligned
    ctypedef struct run_pairs:
        qops_pairs pairs
        Py_ssize_t *strides
    ctypedef struct runs
    ctypedef void run_fn(
        const runs *, void *const *, size_t, const qops_params *) noexcept
    ctypedef struct runs:
        int ndim
        size_t *shape
        int n_arrays, n_inputs
        run_array *arrays
        run_pairs *pairs
        bint relu, divide
        qops_dtype codes
        run_fn *fn
        const void *context
    ctypedef struct run_buffers:
        pass
    void plan_runs(runs *)
    void do_runs(const runs *, char *const *, run_buffers *)

cdef extern from "programs.h" nogil:
    ctypedef struct program:
        qops_convert_fn *dequantize_a
        qops_convert_fn *dequantize_b
        qops_convert_fn *quantize
        qops_binary_fn *binary
        qops_table_fn *take
        const void *entries
        size_t a_size, b_size, y_size
    void run_program(
        const program *, void *const *, size_t, const qops_params *) noexcept
    void take_channels(
        const program *, const char *, char *, size_t, size_t, size_t, size_t)
    void run_elementwise(
        const runs *, void *const *, size_t, const qops_params *) noexcept

cdef extern from "reductions.h" nogil:
    size_t MOST_ACCUMULATED
    ctypedef struct reduction:
        qops_reduce_fn *reduce
        qops_accumulate_fn *accumulate
    ctypedef struct columns:
        qops_accumulate_fn *add
        const run_array *x
        Py_ssize_t stride
        int n_reduced
        size_t *shape
        Py_ssize_t *strides
    run_fn run_reduce
    bint total_fits_int64(const qops_total *)
    void totals_of_runs(
        runs *, int, const size_t *, const Py_ssize_t *, qops_total *, run_buffers *)
    void sums_of_columns(
        const columns *, int, const size_t *, const Py_ssize_t *, const Py_ssize_t *,
        int64_t *, run_buffers *)

cdef extern from "pooling.h" nogil:
    enum: POOL_DIMS, POOL_FEW, POOL_WIDE
    ctypedef struct pool_dim:
        size_t n_in "in"
        size_t out
        Py_ssize_t dilation
        const int64_t *first
        const int64_t *taps
        const int64_t *kind
        size_t kinds, most, extent
    ctypedef struct pool_count:
        int64_t taps
        double divisor
    ctypedef struct pool_means:
        qops_accumulate_fn *add
        qops_reduce_fn *reduce
        qops_convert_fn *quantize
        const double *scale
        const int64_t *zero
        qops_params params
        size_t channels
    ctypedef struct pooling:
        const pool_means *means
        qops_window_fn *fn
        qops_table_fn *take
        const void *const *how
        pool_dim dim[3]
        size_t channels, x_size, y_size
        qops_dtype dtype
        const int64_t *runs
        char *columns
        const void **taps
        char *padded
        const char **held
        int32_t pad
        size_t kernel, stride, padding, phase
    size_t pool_slots(const pooling *)
    size_t pool_slot_bytes(const pooling *)
    void pool_clear(const pooling *)
    float pool_mean(int64_t, double, double)
    void pool_rows "pool"(const pooling *, const char *, char *, size_t, size_t)
ctypedef union pool_how:
    qops_mean mean
    pool_count count

cdef extern from "interpolation.h" nogil:
    ctypedef struct blend_dim:
        size_t n_in "in"
        size_t out
        const int64_t *low
        const int64_t *high
        const float *low_weight
        const float *high_weight
    ctypedef struct interpolation:
        qops_neighbors_fn *columns
        qops_blend_fn *rows
        qops_params params
        int32_t zero
        blend_dim dim[3]
        size_t channels, x_size, y_size
    void interpolate_rows "interpolate"(
        const interpolation *, const char *, char *, size_t, size_t)

cdef extern from "softmax.h" nogil:
    ctypedef struct softmax_rows:
        qops_rows_fn *exponentials
        qops_table_fn *take_numbers
        qops_table_fn *take
        qops_convert_fn *quantize
        const int32_t *units
        const float *numbers
        double unit
        float scale
        int32_t zero
        qops_dtype out
    void softmax_of "softmax"(
        const softmax_rows *, const uint8_t *, uint8_t *, size_t, size_t)

cdef extern from "tiles.h" nogil:
    enum: QOPS_N_OPCODES
    const char *const *opcode_names
    ctypedef struct tile_step:
        int opcode, arg, to
        int *source "from"
        int number
        int x "in"
        int out
        qops_any_fn *fn
    ctypedef struct tile_operand:
        char *data
        Py_ssize_t *strides
        size_t size
        bint direct, swapped, result
    ctypedef struct tile_program:
        const tile_step *steps
        size_t n_steps, n_first
        const double *numbers
        const one_pair *pairs
        const uint8_t *divide
        const float *limit
        tile_operand *operands
        size_t n_operands
        int ndim
        size_t *shape
        size_t tile
    size_t tile_bytes(const tile_program *, size_t)
    void tiles_run(const tile_program *, size_t, size_t, char *, size_t)


# From so many elements on, making a table of all 256 codes pays for itself.
cdef enum:
    TABLE_ELEMENTS = 2048


# From so many elements on, releasing the GIL (some 50 ns) costs nothing that counts.
cdef enum:
    NOGIL_ELEMENTS = 4096


# A large call runs so many elements first, to see how long they take; the rest goes to
# as many threads as get enough to do. Parts begin at multiples of PART_UNIT elements,
# so that no two write to one cache line of an aligned array. What is not large takes
# less than two threads' work even on the slowest level.
cdef enum:
    LARGE_ELEMENTS = 524288
    LARGE_SUM = 4194304
    MEASURED_ELEMENTS = 131072
    PART_UNIT = 4096


# ------------------------------------------------------------ kernels and levels

cdef tuple _DTYPE_WORDS = (
    "u8", "i8", "u16", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")
cdef tuple _DTYPE_NAMES = (
    "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "bfloat16",
    "float32", "float64")
cdef tuple _FAMILY_WORDS = (
    "convert", "binary", "reduce", "accumulate", "table", "window", "neighbors",
    "blend", "rows", "tile")
cdef dict _libraries = {}  # level -> capsule
cdef dict _tables = {}  # chain of levels -> address of its table, kept for good


cdef str _kernel_name(const qops_kernel *k):
    return f"{k.op.decode()}_{_DTYPE_WORDS[k.x]}_{_DTYPE_WORDS[k.out]}"


def kernels():
    """List the kernels as (family, op, in, out), in the order of kernels.def."""
    return [
        (
            _FAMILY_WORDS[listed[i].family],
            listed[i].op.decode(),
            _DTYPE_WORDS[listed[i].x],
            _DTYPE_WORDS[listed[i].out],
        )
        for i in range(QOPS_N_KERNELS)
    ]


def version():
    """Return the version that the module was built for."""
    return QOPS_VERSION.decode()


cdef const qops_library *_library(str level) except NULL:
    return <const qops_library *>PyCapsule_GetPointer(
        _libraries[level], QOPS_CAPSULE)


def add_library(str level not None, object capsule):
    """Take in a level's library; its module is imported only where the CPU runs it."""
    cdef const qops_library *library = <const qops_library *>PyCapsule_GetPointer(
        capsule, QOPS_CAPSULE)
    if library.abi != QOPS_ABI or library.n_kernels != QOPS_N_KERNELS:
        raise RuntimeError(
            f"{level}: the library has ABI {library.abi} and {library.n_kernels} "
            f"kernels, not {QOPS_ABI} and {QOPS_N_KERNELS}; rebuild or reinstall qops")
    if library.version.decode() != version():
        raise RuntimeError(
            f"{level}: the library is of qops {library.version.decode()}, "
            f"not {version()}; rebuild or reinstall qops")
    if library.level.decode() != level:
        raise RuntimeError(
            f"{level}: the library is for level {library.level.decode()!r}, "
            f"not {level!r}; rebuild or reinstall qops")
    _libraries[level] = capsule


def library_kernels(str level not None):
    """Return the names of the kernels that a level's library has."""
    cdef const qops_library *library = _library(level)
    return {
        _kernel_name(&library.kernels[i])
        for i in range(QOPS_N_KERNELS) if library.kernels[i].fn is not NULL
    }


def select(tuple levels not None):
    """Use for each kernel, in the order of the list, the library of its level."""
    cdef kernel_table *table
    cdef int i
    if levels not in _tables:
        if len(levels) != QOPS_N_KERNELS:
            raise ValueError(f"{len(levels)} levels for {QOPS_N_KERNELS} kernels")
        for i in range(QOPS_N_KERNELS):
            if _library(levels[i]).kernels[i].fn is NULL:
                raise RuntimeError(
                    f"{levels[i]}: the library lacks {_kernel_name(&listed[i])}")
        table = <kernel_table *>PyMem_RawMalloc(sizeof(kernel_table))
        if table is NULL:
            raise MemoryError
        for i in range(QOPS_N_KERNELS):
            table.fn[i] = _library(levels[i]).kernels[i].fn
        _tables[levels] = <size_t>table
    use_table(<const kernel_table *><size_t>_tables[levels])


@cython.final
cdef class _Op:
    """The places of an operation's kernels in the tables, by dtypes in and out."""

    cdef int index[10][10]  # QOPS_N_DTYPES squared
    cdef str name

    def __cinit__(self, str name):
        cdef int i, j
        self.name = name
        for i in range(10):
            for j in range(10):
                self.index[i][j] = -1
        for i in range(QOPS_N_KERNELS):
            if listed[i].op.decode() == name:
                j = listed[i].x
                self.index[j][<int>listed[i].out] = i

    cdef qops_any_fn *find(self, const kernel_table *table, int x, int out) noexcept:
        """Return the kernel in use, or NULL if there is none for these dtypes."""
        cdef int i = self.index[x][out]
        return table.fn[i] if i >= 0 else NULL


cdef _Op _quantize = _Op("quantize")
cdef _Op _dequantize = _Op("dequantize")
cdef _Op _qadd = _Op("qadd")
cdef _Op _qsub = _Op("qsub")
cdef _Op _qmul = _Op("qmul")
cdef _Op _qdiv = _Op("qdiv")
cdef _Op _qmaximum = _Op("qmaximum")
cdef _Op _qminimum = _Op("qminimum")
cdef _Op _fake_quantize = _Op("fake_quantize")
cdef _Op _unsaturated = _Op("unsaturated")
cdef _Op _masked_fill = _Op("masked_fill")
cdef _Op _normalize = _Op("normalize")
cdef _Op _take = _Op("take")
cdef _Op _take_wide = _Op("take_wide")
cdef _Op _take_words = _Op("take_words")
cdef _Op _window_max = _Op("window_max")
cdef _Op _window_sum = _Op("window_sum")
cdef _Op _window_mean = _Op("window_mean")
cdef _Op _blend_columns = _Op("blend_columns")
cdef _Op _blend_rows = _Op("blend_rows")
cdef _Op _exponentials = _Op("exponentials")
cdef _Op _hsum = _Op("hsum")
cdef _Op _hsum_sq = _Op("hsum_sq")
cdef _Op _add_codes = _Op("add_codes")
cdef _Op _add_squares = _Op("add_squares")


# ------------------------------------------------------------ dtypes and arrays

cdef tuple _CODES = (u8, i8, u16, i16, i32)
cdef tuple _FLOATS = (f16, bf16, f32, f64)


cdef int _code_of(cnp.ndarray x) noexcept:
    """Return the qops_dtype of an array in any byte order, -1 if there is none."""
    cdef int t = cnp.PyArray_TYPE(x)
    cdef Py_ssize_t size = cnp.PyArray_ITEMSIZE(x)
    if t == cnp.NPY_UBYTE:
        return u8
    if t == cnp.NPY_BYTE:
        return i8
    if t == cnp.NPY_FLOAT:
        return f32
    if t == cnp.NPY_DOUBLE:
        return f64
    if t == cnp.NPY_FLOAT16:
        return f16
    if t == cnp.NPY_USHORT:
        return u16
    if t == cnp.NPY_SHORT:
        return i16
    if t == cnp.NPY_INT or t == cnp.NPY_LONG or t == cnp.NPY_LONGLONG:
        return i32 if size == 4 else i64
    # ml_dtypes' type, which NumPy knows by name only
    return bf16 if size == 2 and (<object>x).dtype.name == "bfloat16" else -1


cdef int _dtype_of(object dtype):
    return _code_of(np.empty(0, dtype))


cdef object _numpy_dtype(int code):
    return np.dtype(_DTYPE_NAMES[code])


# NumPy's type numbers; bfloat16 has none that is known beforehand.
cdef int _TYPE_NUMBERS[10]
for _code, _name in enumerate(_DTYPE_NAMES):
    _TYPE_NUMBERS[_code] = -1 if _name == "bfloat16" else np.dtype(_name).num


cdef str _words(tuple codes):
    return ", ".join([_DTYPE_NAMES[c] for c in codes])


cdef object _as_array(str op, str name, object x):
    if type(x) is cnp.ndarray:
        return <cnp.ndarray>x
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"{op}: {name} is a masked array, not a plain one; fill it or take .data")
    try:
        return np.asarray(x)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{op}: {name} is not an array: {error}") from error


def real_array(str op not None, x):
    """Return x as an array of real numbers; op is named in errors."""
    array = _as_array(op, "x", x)
    if _code_of(array) not in _FLOATS:
        hint = "; requantize takes codes" if array.dtype.kind in "iub" else ""
        raise TypeError(f"{op}: x is {array.dtype}, not one of {_words(_FLOATS)}{hint}")
    return array


def code_array(str op not None, str name not None, x):
    """Return x as an array of codes; op and name are for errors."""
    array = _as_array(op, name, x)
    _code_dtype(op, name, array)
    return array


def result_array(str op not None, out, dtype, default, tuple shape not None):
    """Return out, checked, or a new array of codes of the dtype, or of the default."""
    code = -1 if default is None else _dtype_of(default)
    code = _result_dtype(op, dtype, out, code, _CODES)
    _check_out(op, out, shape)
    return np.empty(shape, _numpy_dtype(code)) if out is None else out


def check_pairs(
    str op not None, str prefix not None, scale, zero_point, dtype,
    tuple shape not None, axis, block_size=None, *, rounded=True, limits=None
):
    """Check scales and zero points of codes of a dtype; prefix is of their names.

    Scales must be valid as float32 if rounded to it. Limits are those of zero points,
    and what they are the range of; by default of the dtype.
    """
    code = _result_dtype(op, dtype, None, -1, _CODES)
    i = None if axis is None else _axis_of(op, axis, len(shape))
    block = _block(op, block_size, axis)
    _pairs(op, prefix, scale, zero_point, code, rounded, shape, i, block, limits)


def code_range(str op not None, dtype):
    """Return the lowest and the highest code of a dtype; op is named in errors."""
    cdef int code
    if dtype is None:  # NumPy's word for float64
        raise TypeError(f"{op}: dtype is None, not one of {_words(_CODES)}")
    code = _result_dtype(op, dtype, None, -1, _CODES)
    return code_min(<qops_dtype>code), code_max(<qops_dtype>code)


def refuse_nan(str op not None, cnp.ndarray x not None):
    """Raise a ValueError that says where the first NaN is, if there is one."""
    bad = np.isnan(x)
    if bad.any():
        i = [int(k) for k in np.argwhere(bad)[0]]
        raise ValueError(f"{op}: x{i if i else ''} is nan, not a number")


cdef int _code_dtype(str op, str name, object x) except -1:
    cdef int code = _code_of(x)
    if code not in _CODES:
        raise TypeError(
            f"{op}: {name} is {x.dtype}, not a dtype of codes ({_words(_CODES)})")
    return code


cdef int _result_dtype(
    str op, object dtype, object out, int default, tuple allowed
) except -1:
    """Return the dtype that `dtype` and `out` ask for, else the default (-1: none)."""
    cdef int code = default
    if out is not None and not isinstance(out, cnp.ndarray):
        raise TypeError(f"{op}: out is {type(out).__name__}, not an array")
    if dtype is not None:
        try:
            asked = np.dtype(dtype)
        except TypeError as error:
            raise TypeError(f"{op}: dtype is {dtype!r}, not a dtype") from error
        code = _dtype_of(asked)
        if code not in allowed:
            raise TypeError(f"{op}: dtype is {asked}, not one of {_words(allowed)}")
        if out is not None and _dtype_of(out.dtype) != code:
            raise TypeError(f"{op}: out has dtype {out.dtype}, not {asked}")
    elif out is not None:
        code = _dtype_of(out.dtype)
        if code not in allowed:
            raise TypeError(
                f"{op}: out has dtype {out.dtype}, not one of {_words(allowed)}")
    elif code < 0:
        raise TypeError(f"{op}: dtype is not given, and neither is out; "
                        f"give one of {_words(allowed)}")
    return code


cdef object _check_out(str op, object out, tuple shape):
    if out is None:
        return
    if out.shape != shape:
        raise ValueError(f"{op}: out has shape {out.shape}, not {shape}")
    if not cnp.PyArray_ISWRITEABLE(out):
        raise ValueError(f"{op}: out is read-only, not writeable")


cdef object _axis_of(str op, object axis, int ndim):
    try:
        i = operator.index(axis)
    except TypeError:
        raise TypeError(f"{op}: axis is {axis!r}, not an integer") from None
    if not -ndim <= i < ndim:
        raise AxisError(f"{op}: axis is {i}, not within {-ndim}..{ndim - 1}, "
                        f"the axes of {ndim} dimensions"
                        if ndim else f"{op}: axis is {i}, but there are no dimensions")
    return i % ndim


# ------------------------------------------------------------ scales and zero points

cdef object _floating = np.floating
cdef object _integer = np.integer
cdef object _number_kinds = "iuf"


cdef bint _one_pair(
    one_pair *p, object scale, object zero, qops_dtype code, bint rounded
) noexcept:
    """Prepare plain, valid numbers; false (and no error) for anything else."""
    cdef double s
    cdef long z
    cdef int overflow = 0
    if PyFloat_Check(scale):
        s = PyFloat_AS_DOUBLE(scale)
    elif isinstance(scale, _floating):
        s = PyFloat_AsDouble(scale)
    else:
        return False
    if isinstance(zero, _integer):
        zero = int(zero)
    if not PyLong_CheckExact(zero):
        return False
    z = PyLong_AsLongAndOverflow(zero, &overflow)
    if overflow != 0 or z < code_min(code) or z > code_max(code):
        return False
    return prepare_pair(p, s, <int32_t>z, rounded)


@cython.final
cdef class _Pairs:
    """The scales and zero points of one operand: one pair, per channel or blocked."""

    cdef qops_pairs pairs
    cdef one_pair one
    cdef void *memory
    cdef float smallest, largest
    cdef bint blocked
    cdef tuple strides  # in pairs, per axis; blocked: from block to block

    def __cinit__(self):
        self.memory = NULL

    def __dealloc__(self):
        PyMem_RawFree(self.memory)

    cdef bint one_for_all(self):
        """Is there a single value, whatever the shape it was given in?"""
        return not any(self.strides)

    cdef bint ordinary(self):
        return pairs_ordinary(self.smallest, self.largest)


cdef object _scales(str op, str name, object scale):
    if isinstance(scale, int) and not isinstance(scale, bool):
        try:
            scale = float(scale)
        except OverflowError:
            scale = np.inf
    s = _as_array(op, name, scale)
    if s.dtype.kind not in _number_kinds and _dtype_of(s.dtype) < 0:
        raise TypeError(f"{op}: {name} is {s.dtype}, not real numbers")
    return s.astype(np.float64, order="C")


cdef object _zeros(
    str op, str name, object zero, object least, object most, str what
):
    """Return zero points as int64, all integers within the range of what they are."""
    if isinstance(zero, int) and not isinstance(zero, bool):  # of any size
        if least <= zero <= most:
            return np.asarray(zero, dtype=np.int64)
        zero = np.asarray(zero, dtype=object)
        good = np.asarray(least <= zero[()] <= most)
        whole = np.asarray(True)
    else:
        zero = _as_array(op, name, zero)
        if zero.dtype.kind in "iu" and zero.itemsize < 8 or zero.dtype.kind == "i":
            # the usual case, without a detour
            whole = zero.astype(np.int64, order="C")
            if zeros_within(
                <int64_t *>cnp.PyArray_DATA(whole), whole.size, least, most
            ):
                return whole
        if _dtype_of(zero.dtype) < 0 and zero.dtype.kind not in _number_kinds:
            raise TypeError(f"{op}: {name} is {zero.dtype}, not integers")
        whole = np.asarray(zero == np.rint(zero)) & np.isfinite(zero)
        good = whole & (zero >= least) & (zero <= most)
    if not good.all():
        i = tuple(int(k) for k in np.argwhere(~good)[0]) if zero.ndim else ()
        where = f"{name}{list(i)}" if i else name
        value = zero[i] if zero.ndim else zero[()]
        if not np.asarray(whole[i]).all():
            raise ValueError(f"{op}: {where} is {value}, not an integer")
        raise ValueError(f"{op}: {where} is {value}, not within {least}..{most}, "
                         f"the range of {what}")
    return zero.astype(np.int64, order="C")


cdef tuple _pair_strides(
    str op, str what, tuple given, tuple shape, object axis, object block
):
    """Check the shape of scales or zero points against x's; return their strides."""
    ndim = len(shape)
    if block is not None:
        expected = tuple(
            -(-n // block) if i == axis else n for i, n in enumerate(shape))
        if given != expected:
            raise ValueError(
                f"{op}: {what} has shape {given}, not {expected}, that of x with shape "
                f"{shape} in blocks of {block} along axis {axis}")
        strides = [1] * ndim
        for i in range(ndim - 2, -1, -1):
            strides[i] = strides[i + 1] * given[i + 1]
        return tuple(strides)
    if len(given) != 1:
        raise ValueError(
            f"{op}: {what} has shape {given}, not one dimension (per channel); "
            f"more are for block_size")
    if axis is None:
        if shape != given:
            raise ValueError(
                f"{op}: {what} has shape {given} and x has shape {shape}; "
                f"give the axis that it belongs to")
        axis = 0
    elif given[0] != shape[axis]:
        raise ValueError(
            f"{op}: {what} has shape {given}, not ({shape[axis]},), the length of "
            f"axis {axis} of x with shape {shape}")
    return tuple(1 if i == axis else 0 for i in range(ndim))


cdef _Pairs _pairs(
    str op, str prefix, object scale, object zero, int code, bint rounded,
    tuple shape, object axis, object block, tuple limits=None
):
    """Check and prepare the pairs of an operand; code is the dtype of its codes."""
    cdef _Pairs p = _Pairs()
    cdef size_t n
    if limits is None and _one_pair(&p.one, scale, zero, <qops_dtype>code, rounded):
        p.pairs, p.strides = pairs_of_one(&p.one), (0,) * len(shape)
        p.smallest = p.largest = p.one.scale
        return p
    s_name, z_name = prefix + "scale", prefix + "zero_point"
    least, most, what = limits or (
        code_min(<qops_dtype>code), code_max(<qops_dtype>code), _DTYPE_NAMES[code])
    scales = _scales(op, s_name, scale)
    zeros = _zeros(op, z_name, zero, least, most, what)
    if scales.ndim and zeros.ndim and scales.shape != zeros.shape:
        raise ValueError(f"{op}: {z_name} has shape {zeros.shape}, not "
                         f"{scales.shape}, that of {s_name}")
    given = scales.shape if scales.ndim else zeros.shape
    if given:
        p.strides = _pair_strides(
            op, s_name if scales.ndim else z_name, given, shape, axis, block)
        p.blocked = block is not None
    else:
        p.strides = (0,) * len(shape)
        p.blocked = False
    n = scales.size if scales.ndim else zeros.size
    p.memory = PyMem_RawMalloc(PAIRS_BYTES(n if n else 1))
    if p.memory is NULL:
        raise MemoryError
    p.pairs = pairs_in(p.memory, n)
    if not pairs_fill(
        p.pairs, n, <double *>cnp.PyArray_DATA(scales), scales.ndim != 0,
        <int64_t *>cnp.PyArray_DATA(zeros), zeros.ndim != 0, rounded
    ):
        _refuse_scale(op, s_name, scales, rounded)
    pairs_range(p.pairs, n, &p.smallest, &p.largest)
    return p


cdef object _refuse_scale(str op, str name, object scales, bint rounded):
    used = scales
    if rounded:
        with np.errstate(over="ignore", under="ignore"):
            used = scales.astype(np.float32)
    i = tuple(int(k) for k in np.argwhere(~((used > 0) & (used < np.inf)))[0]) \
        if scales.ndim else ()
    value = float(scales[i])
    in_float32 = f", in float32 {used[i]}" if 0 < value < np.inf else ""
    raise ValueError(f"{op}: {name}{list(i) if i else ''} is {value}{in_float32}, "
                     f"not finite and greater than 0")


cdef object _block(str op, object block_size, object axis):
    if block_size is None:
        return None
    try:
        block = operator.index(block_size)
    except TypeError:
        raise TypeError(
            f"{op}: block_size is {block_size!r}, not an integer") from None
    if block < 1:
        raise ValueError(f"{op}: block_size is {block}, not 1 or more")
    if axis is None:
        raise ValueError(f"{op}: block_size is {block} and axis is None; "
                         f"give the axis that the blocks lie along")
    return block


# ------------------------------------------------------------ elementwise operations

cdef run_buffers *_new_buffers() except NULL:
    cdef run_buffers *buffers = <run_buffers *>PyMem_RawMalloc(sizeof(run_buffers))
    if buffers is NULL:
        raise MemoryError
    return buffers


cdef void _set_array(run_array *to, cnp.ndarray x):
    to.data = cnp.PyArray_BYTES(x)
    to.size = cnp.PyArray_ITEMSIZE(x)
    to.swapped = not cnp.PyArray_ISNOTSWAPPED(x)
    to.aligned = cnp.PyArray_CHKFLAGS(x, cnp.NPY_ARRAY_ALIGNED)


cdef class _Call:
    """An elementwise operation on arrays and pairs that have been checked."""

    cdef str op
    cdef tuple shape
    cdef object axis, block
    cdef list arrays  # inputs and the output, broadcast to the shape
    cdef list pairs  # of a, b and the result; None where there are none
    cdef program kernels
    cdef bint relu, divide
    cdef qops_dtype codes  # in between, for fake quantization
    cdef size_t n_elements

    cdef void part(self, runs *r, Py_ssize_t first, Py_ssize_t length):
        """Set up `length` elements of the block axis, or all if it is not blocked."""
        cdef int i, k, d = 0
        cdef cnp.ndarray x
        cdef _Pairs p
        cdef Py_ssize_t block = 0
        memset(r, 0, sizeof(runs))
        for k, x in enumerate(self.arrays):
            _set_array(&r.arrays[k], x)
        for k, p in enumerate(self.pairs):
            if p is not None:
                r.pairs[k].pairs = p.pairs
        for i in range(len(self.shape)):
            r.shape[d] = self.shape[i]
            if self.block is not None and i == self.axis:
                block = self.block if length >= self.block else max(length, 1)
                r.shape[d], r.shape[d + 1] = length // block, block
            for k, x in enumerate(self.arrays):
                r.arrays[k].strides[d] = cnp.PyArray_STRIDE(x, i)
                if block:
                    r.arrays[k].data += first * cnp.PyArray_STRIDE(x, i)
                    r.arrays[k].strides[d] = block * cnp.PyArray_STRIDE(x, i)
                    r.arrays[k].strides[d + 1] = cnp.PyArray_STRIDE(x, i)
            for k, p in enumerate(self.pairs):
                if p is None:
                    continue
                r.pairs[k].strides[d] = p.strides[i]
                if block:
                    r.pairs[k].strides[d + 1] = 0
                    r.pairs[k].pairs = pairs_from(
                        r.pairs[k].pairs, first // self.block * p.strides[i])
            d += 2 if block else 1
            block = 0
        r.ndim = d
        r.n_arrays, r.n_inputs = len(self.arrays), len(self.arrays) - 1
        r.relu, r.divide, r.codes = self.relu, self.divide, self.codes
        r.fn, r.context = run_elementwise, &self.kernels

    cdef object run(self):
        cdef runs r
        cdef run_buffers *buffers
        cdef char *data[3]
        cdef int k
        cdef Py_ssize_t first, length = 1
        if 0 in self.shape:
            return
        self.n_elements = 1
        for n in self.shape:
            self.n_elements *= n
        parts = [(0, 1)]
        if self.block is not None:
            n = self.shape[self.axis]
            whole = n // self.block * self.block
            parts = [(i, m) for i, m in ((0, whole), (whole, n - whole)) if m]
        buffers = _new_buffers()
        try:
            for first, length in parts:
                self.part(&r, first, length)
                plan_runs(&r)
                if (
                    self.n_elements > LARGE_ELEMENTS
                    and threads.get_num_threads() > 1
                ):
                    self.run_large(&r)
                    continue
                with nogil:
                    for k in range(r.n_arrays):
                        data[k] = r.arrays[k].data
                    do_runs(&r, data, buffers)
        finally:
            PyMem_RawFree(buffers)

    cdef object run_large(self, const runs *r):
        """Run the rows of the outermost dimension in as many threads as it pays."""
        cdef size_t rows = r.shape[r.ndim - 1], i, step
        cdef double start
        i = min(rows, 1 + MEASURED_ELEMENTS * rows // self.n_elements)
        first = _runs_part(r, 0, i)
        start = perf_counter()
        first()
        if i == rows:
            return
        unit = PART_UNIT if r.ndim == 1 else 1
        step = _part_size(perf_counter() - start, i, rows - i, unit)
        parts = []
        while i < rows:
            parts.append(_runs_part(r, i, min(step, rows - i)))
            i += step
        threads.run_parts(parts)


@cython.final
cdef class _RunsPart:
    """A range of the outermost dimension of planned runs."""

    cdef runs r
    cdef char *data[3]

    def __call__(self):
        cdef run_buffers *buffers = _new_buffers()
        with nogil:
            do_runs(&self.r, self.data, buffers)
        PyMem_RawFree(buffers)


cdef _RunsPart _runs_part(const runs *r, Py_ssize_t first, size_t rows):
    cdef _RunsPart part = _RunsPart()
    cdef int k, outermost = r.ndim - 1
    memcpy(&part.r, r, sizeof(runs))
    part.r.shape[outermost] = rows
    for k in range(3):
        if k < r.n_arrays:
            part.data[k] = r.arrays[k].data + first * r.arrays[k].strides[outermost]
        if r.pairs[k].pairs.scale != NULL:
            part.r.pairs[k].pairs = pairs_from(
                r.pairs[k].pairs, first * r.pairs[k].strides[outermost])
    return part


cdef object _apart(object x, object out):
    """Return x, or a copy where writing to out could change it before its time."""
    if not np.may_share_memory(x, out):
        return x
    if (
        cnp.PyArray_BYTES(x) == cnp.PyArray_BYTES(out)
        and x.dtype.itemsize == out.dtype.itemsize
        and x.strides == out.strides
        and x.shape == out.shape
    ):
        return x  # each element is read before it is written
    return x.copy(order="K")


cdef object _finish(
    _Call call, list inputs, object out, int out_code, bint scalar
):
    """Make or take the output, run, and return what the caller gets."""
    if out is None:
        like = next((x for x in inputs if x.shape == call.shape), None)
        y = (np.empty(call.shape, _numpy_dtype(out_code)) if like is None else
             np.empty_like(like, _numpy_dtype(out_code), "K", False))
    else:
        y = out
    inputs = [_apart(x, y) for x in inputs]
    call.arrays = [
        x if x.shape == call.shape else np.broadcast_to(x, call.shape) for x in inputs
    ] + [y]
    call.run()
    if out is not None:
        return out
    return y[()] if scalar else y


cdef inline bint _plain(object x) noexcept:
    """Is x a plain array that a kernel can read as it stands?"""
    return type(x) is cnp.ndarray and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>x)


# What dtype= mostly is.
cdef dict _known_dtypes = {
    k: i for i, name in enumerate(_DTYPE_NAMES) if name != "bfloat16"
    for k in (name, np.dtype(name), np.dtype(name).type)}


cdef object _plain_out(object out, object dtype, int default, cnp.ndarray x):
    """Return out, or a new array like x, if a kernel can write it as it is; or None."""
    cdef int code = default
    if out is not None:
        return out if (
            dtype is None and type(out) is cnp.ndarray
            and cnp.PyArray_ISCARRAY(<cnp.ndarray>out) and _fits(x, out)) else None
    if cnp.PyArray_NDIM(x) == 0:
        return None
    if dtype is not None:
        if type(dtype) is not type and not isinstance(dtype, (str, np.dtype)):
            return None
        code = _known_dtypes.get(dtype, -1)
    if code < 0 or _TYPE_NUMBERS[code] < 0:
        return None
    return cnp.PyArray_EMPTY(
        cnp.PyArray_NDIM(x), cnp.PyArray_DIMS(x), _TYPE_NUMBERS[code], 0)


cdef bint _fits(cnp.ndarray x, cnp.ndarray out) noexcept:
    """Same shape, and no overlap but of an array with itself."""
    cdef int ndim = cnp.PyArray_NDIM(x)
    cdef char *a = cnp.PyArray_BYTES(x)
    cdef char *y = cnp.PyArray_BYTES(out)
    if ndim != cnp.PyArray_NDIM(out) or memcmp(
        cnp.PyArray_DIMS(x), cnp.PyArray_DIMS(out), ndim * sizeof(cnp.npy_intp)
    ):
        return False
    if a == y and cnp.PyArray_ITEMSIZE(x) == cnp.PyArray_ITEMSIZE(out):
        return True
    return y >= a + cnp.PyArray_NBYTES(x) or a >= y + cnp.PyArray_NBYTES(out)


cdef object _run_plain(const program *k, void **x, size_t n, qops_params *p):
    p.row = n
    if n > LARGE_ELEMENTS:
        p.stream = _beyond_caches(k, x, n)
    if n > LARGE_ELEMENTS and threads.get_num_threads() > 1:
        _run_large(k, x, n, p)
    elif n >= NOGIL_ELEMENTS:
        with nogil:
            run_program(k, x, n, p)
    elif n > 0:
        run_program(k, x, n, p)


cdef bint _beyond_caches(const program *k, void **x, size_t n):
    """Would a conversion drive its own result out of the caches?"""
    cdef size_t cache = threads.CACHE_BYTES
    return n * (k.a_size + k.y_size) > cache // 4 * 3 and x[0] != x[1]


cdef object _run_large(const program *k, void **x, size_t n, qops_params *p):
    cdef size_t i = MEASURED_ELEMENTS, step
    cdef double start = perf_counter()
    p.row = i
    with nogil:
        run_program(k, x, i, p)
    step = _part_size(perf_counter() - start, i, n - i, PART_UNIT)
    parts = []
    while i < n:
        parts.append(_plain_part(k, x, i, min(step, n - i), p))
        i += step
    threads.run_parts(parts)


cdef size_t _part_size(double seconds, size_t done, size_t rest, size_t unit):
    """Return how many elements (or rows) a thread gets, from the time of the first."""
    cdef double worth = seconds / done * rest / <double>threads.SECONDS
    cdef size_t n = min(threads.get_num_threads(), int(min(worth, 2.0**31)))
    return rest if n <= 1 else (rest // n + unit) // unit * unit


def run_rows(part, size_t rows, size_t n_elements):
    """Call part(first, end) for all rows, in as many threads as it pays."""
    cdef size_t i, step
    cdef double start
    if n_elements <= LARGE_ELEMENTS or threads.get_num_threads() == 1 or rows < 2:
        part(0, rows)
        return
    i = min(rows, 1 + MEASURED_ELEMENTS * rows // n_elements)
    start = perf_counter()
    part(0, i)
    if i == rows:
        return
    step = _part_size(perf_counter() - start, i, rows - i, 1)
    threads.run_parts([
        partial(part, first, min(first + step, rows)) for first in range(i, rows, step)
    ])


@cython.final
cdef class _PlainPart:
    """A range of the elements of a call on contiguous arrays."""

    cdef program k
    cdef void *data[3]
    cdef size_t n
    cdef qops_params p

    def __call__(self):
        with nogil:
            run_program(&self.k, self.data, self.n, &self.p)


cdef _PlainPart _plain_part(
    const program *k, void **x, size_t first, size_t n, const qops_params *p
):
    cdef _PlainPart part = _PlainPart()
    part.k, part.p, part.n = k[0], p[0], n
    part.p.row = n
    part.data[0] = <char *>x[0] + first * k.a_size
    if k.binary != NULL:
        part.data[1] = <char *>x[1] + first * k.b_size
        part.data[2] = <char *>x[2] + first * k.y_size
    else:
        part.data[1] = <char *>x[1] + first * k.y_size
    return part


def quantize(x, scale, zero_point=0, *, dtype=None, axis=None, block_size=None,
             nan="zero_point", out=None):
    """Quantize real numbers to integer codes.

    ``q = clip(rint(x / scale), qmin - zero_point, qmax - zero_point) + zero_point``
    in float32, or in float64 where `x` is float64 or the codes are int32. Ties go to
    even, infinities and overflow saturate to their own side.

    Parameters
    ----------
    x : array_like
        Real numbers: float32, float16, float64 or ml_dtypes' bfloat16, any layout.
    scale : float or array_like
        Size of a step, in units of `x`; finite and > 0. A number (per tensor), a 1-D
        array along `axis` (per channel), or with `block_size` an array of the rank of
        `x` (blocked). It is rounded to float32 unless `x` is float64.
    zero_point : int or array_like, optional
        The code of real zero; a number or of the shape of `scale`.
    dtype : dtype, optional
        Of the codes: uint8, int8, uint16, int16 or int32. Required unless `out` is
        given.
    axis : int, optional
        The axis of the channels, or that blocks lie along.
    block_size : int, optional
        How many elements along `axis` share a pair; the last block may be shorter.
    nan : {'zero_point', 'raise'}, optional
        What NaN becomes: the zero point, or a ValueError.
    out : ndarray, optional
        Where to write the codes, of the shape of `x`; it may overlap `x`.

    Returns
    -------
    ndarray
        Codes, in the memory order of `x`; a scalar for 0-d `x`; or `out`.

    Raises
    ------
    TypeError
        For a dtype that is none of these. Integers are a matter of `requantize`.
    ValueError
        For a scale, zero point, shape or `out` that does not fit.

    Notes
    -----
    The formula is that of ONNX QuantizeLinear: the zero point is added after rounding.

    Examples
    --------
    >>> import numpy as np, qops
    >>> x = np.array([-1.0, 0.24, 0.25, 9.0], np.float32)
    >>> qops.quantize(x, 0.1, 10, dtype=np.uint8)
    array([  0,  12,  12, 100], dtype=uint8)
    """
    cdef program kernels
    cdef qops_params p
    cdef one_pair pair
    cdef void *data[2]
    cdef int in_code, out_code
    cdef object y
    cdef _Pairs pairs
    cdef _Call call
    memset(&kernels, 0, sizeof(kernels))
    if axis is None and block_size is None and nan == "zero_point" and _plain(x):
        y = _plain_out(out, dtype, -1, x)
        in_code = _code_of(<cnp.ndarray>x)
        out_code = -1 if y is None else _code_of(<cnp.ndarray>y)
        if in_code in _FLOATS and out_code in _CODES and _one_pair(
            &pair, scale, zero_point, <qops_dtype>out_code, in_code != f64
        ):
            kernels.a_size, kernels.y_size = _size_of(in_code), _size_of(out_code)
            kernels.quantize = <qops_convert_fn *>_quantize.find(
                table_in_use(), in_code, out_code)
            memset(&p, 0, sizeof(p))
            p.y = pairs_of_one(&pair)
            p.divide = not pairs_limit(
                &p.y, <qops_dtype>out_code, pair.scale, pair.scale)
            data[0] = cnp.PyArray_DATA(x)
            data[1] = cnp.PyArray_DATA(y)
            _run_plain(&kernels, data, cnp.PyArray_SIZE(x), &p)
            return y

    array = real_array("quantize", x)
    in_code = _code_of(array)
    out_code = _result_dtype("quantize", dtype, out, -1, _CODES)
    if nan not in ("zero_point", "raise"):
        raise ValueError(f"quantize: nan is {nan!r}, not 'zero_point' or 'raise'")
    call = _new_call("quantize", array.shape, axis, block_size)
    pairs = _pairs("quantize", "", scale, zero_point, out_code, in_code != f64,
                   call.shape, call.axis, call.block)
    _check_out("quantize", out, call.shape)
    if nan == "raise":
        refuse_nan("quantize", array)
    call.pairs = [None, None, pairs]
    call.divide = not pairs_limit(
        &pairs.pairs, <qops_dtype>out_code, pairs.smallest, pairs.largest)
    call.kernels.quantize = <qops_convert_fn *>_quantize.find(
        table_in_use(), in_code, out_code)
    return _finish(call, [array], out, out_code, True)


def fake_quantize(
    cnp.ndarray x not None, scale, zero_point, dtype, axis, block_size, out, bint mask
):
    """Return the numbers that the codes of x stand for, or where none saturates.

    x is a real array; see training.fake_quantize.
    """
    cdef str op = "fake_quantize"
    cdef int codes, in_code = _code_of(x), out_code = f64 if in_code == f64 else f32
    cdef _Op kernels = _unsaturated if mask else _fake_quantize
    cdef _Call call
    cdef _Pairs pairs
    code_range(op, dtype)  # checks it
    codes = _dtype_of(dtype)
    if mask:
        out_code = u8
    else:
        _result_dtype(op, _numpy_dtype(out_code), out, out_code, (out_code,))
    call = _new_call(op, (<object>x).shape, axis, block_size)
    pairs = _pairs(op, "", scale, zero_point, codes, in_code != f64, call.shape,
                   call.axis, call.block)
    _check_out(op, out, call.shape)
    call.pairs = [None, None, pairs]
    call.codes = <qops_dtype>codes
    call.divide = not pairs_limit(
        &pairs.pairs, call.codes, pairs.smallest, pairs.largest)
    call.kernels.quantize = <qops_convert_fn *>kernels.find(
        table_in_use(), in_code, out_code)
    return _finish(call, [x], out, out_code, True)


cdef _Call _new_call(str op, tuple shape, object axis, object block_size):
    cdef _Call call = _Call()
    call.op, call.shape = op, shape
    call.axis = None if axis is None else _axis_of(op, axis, len(shape))
    call.block = _block(op, block_size, axis)
    memset(&call.kernels, 0, sizeof(program))
    return call


def dequantize(q, scale, zero_point=0, *, dtype=None, axis=None, block_size=None,
               out=None):
    """Turn integer codes back into real numbers.

    ``x = (q - zero_point) * scale``: in float32 for codes of up to 16 bits, whose
    difference is exact; in float64 for int32 codes, rounded once at the end; in float64
    where the result is.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32, any layout.
    scale, zero_point, axis, block_size
        As in `quantize`. The scale is rounded to float32 unless the result is float64.
    dtype : dtype, optional
        float32 (default) or float64; of `out` where that is given.
    out : ndarray, optional
        Where to write the numbers, of the shape of `q`; it may overlap `q`.

    Returns
    -------
    ndarray
        Real numbers, in the memory order of `q`; a scalar for 0-d `q`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `quantize`.

    Notes
    -----
    The formula is that of ONNX DequantizeLinear. Real zero is exactly 0.0.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.dequantize(np.array([0, 10, 255], np.uint8), 0.5, 10)
    array([ -5. ,   0. , 122.5], dtype=float32)
    """
    cdef program kernels
    cdef qops_params p
    cdef one_pair pair
    cdef void *data[2]
    cdef int in_code, out_code
    cdef _Pairs a
    cdef _Call call
    if axis is None and block_size is None and _plain(q):
        x = _plain_out(out, dtype, f32, q)
        in_code = _code_of(<cnp.ndarray>q)
        out_code = -1 if x is None else _code_of(<cnp.ndarray>x)
        if in_code in _CODES and (out_code == f32 or out_code == f64) and _one_pair(
            &pair, scale, zero_point, <qops_dtype>in_code, out_code == f32
        ):
            memset(&kernels, 0, sizeof(kernels))
            kernels.a_size, kernels.y_size = _size_of(in_code), _size_of(out_code)
            kernels.dequantize_a = <qops_convert_fn *>_dequantize.find(
                table_in_use(), in_code, out_code)
            memset(&p, 0, sizeof(p))
            p.a = pairs_of_one(&pair)
            data[0] = cnp.PyArray_DATA(q)
            data[1] = cnp.PyArray_DATA(x)
            _run_plain(&kernels, data, cnp.PyArray_SIZE(q), &p)
            return x

    array = _as_array("dequantize", "q", q)
    in_code = _code_dtype("dequantize", "q", array)
    out_code = _result_dtype("dequantize", dtype, out, f32, (f32, f64))
    call = _new_call("dequantize", array.shape, axis, block_size)
    a = _pairs("dequantize", "", scale, zero_point, in_code, out_code == f32,
               call.shape, call.axis, call.block)
    _check_out("dequantize", out, call.shape)
    call.pairs = [a, None, None]
    call.kernels.dequantize_a = <qops_convert_fn *>_dequantize.find(
        table_in_use(), in_code, out_code)
    return _finish(call, [array], out, out_code, True)


def requantize(q, scale, zero_point, out_scale, out_zero_point, *, dtype=None,
               axis=None, block_size=None, out=None):
    """Turn codes of one scale and zero point into codes of another.

    ``quantize(dequantize(q, scale, zero_point), out_scale, out_zero_point)``, through
    float32 and bit for bit.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32 (accumulators), any layout.
    scale, zero_point
        Of `q`, as in `quantize`; rounded to float32.
    out_scale, out_zero_point
        Of the result. Each pair is per tensor, per channel or blocked by itself.
    dtype : dtype, optional
        Of the result; by default that of `out`, or else of `q`.
    axis, block_size
        As in `quantize`.
    out : ndarray, optional
        Where to write the codes, of the shape of `q`; it may overlap `q`.

    Returns
    -------
    ndarray
        Codes, in the memory order of `q`; a scalar for 0-d `q`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `quantize`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> sums = np.array([-70000, 0, 1234], np.int32)
    >>> qops.requantize(sums, 0.001, 0, 0.5, 128, dtype=np.uint8)
    array([  0, 128, 130], dtype=uint8)
    """
    cdef const kernel_table *table = table_in_use()
    cdef program kernels
    cdef qops_params p
    cdef one_pair a_pair, y_pair
    cdef void *data[2]
    cdef char entries[256 * 4]
    cdef int in_code, out_code
    cdef _Pairs a, y
    cdef _Call call
    if axis is None and block_size is None and _plain(q):
        in_code = _code_of(<cnp.ndarray>q)
        result = _plain_out(out, dtype, in_code, q)
        out_code = -1 if result is None else _code_of(<cnp.ndarray>result)
        if (
            in_code in _CODES and out_code in _CODES
            and _one_pair(&a_pair, scale, zero_point, <qops_dtype>in_code, True)
            and _one_pair(
                &y_pair, out_scale, out_zero_point, <qops_dtype>out_code, True)
        ):
            memset(&kernels, 0, sizeof(kernels))
            _set_composed(&kernels, table, in_code, in_code, out_code)
            memset(&p, 0, sizeof(p))
            p.a, p.y = pairs_of_one(&a_pair), pairs_of_one(&y_pair)
            p.divide = not pairs_limit(
                &p.y, <qops_dtype>out_code, y_pair.scale, y_pair.scale)
            if cnp.PyArray_SIZE(q) >= TABLE_ELEMENTS and in_code in (u8, i8):
                _make_table(&kernels, entries, table, out_code, &p)
            data[0] = cnp.PyArray_DATA(q)
            data[1] = cnp.PyArray_DATA(result)
            _run_plain(&kernels, data, cnp.PyArray_SIZE(q), &p)
            return result

    array = _as_array("requantize", "q", q)
    in_code = _code_dtype("requantize", "q", array)
    out_code = _result_dtype("requantize", dtype, out, in_code, _CODES)
    call = _new_call("requantize", array.shape, axis, block_size)
    a = _pairs("requantize", "", scale, zero_point, in_code, True,
               call.shape, call.axis, call.block)
    y = _pairs("requantize", "out_", out_scale, out_zero_point, out_code, True,
               call.shape, call.axis, call.block)
    _check_out("requantize", out, call.shape)
    call.pairs = [a, None, y]
    call.divide = not pairs_limit(
        &y.pairs, <qops_dtype>out_code, y.smallest, y.largest)
    _set_composed(&call.kernels, table, in_code, in_code, out_code)
    if (
        array.size >= TABLE_ELEMENTS and in_code in (u8, i8)
        and a.one_for_all() and y.one_for_all()
    ):
        memset(&p, 0, sizeof(p))
        p.a, p.y, p.divide = a.pairs, y.pairs, call.divide
        _make_table(&call.kernels, entries, table, out_code, &p)
        call.pairs = [None, None, None]
    return _finish(call, [array], out, out_code, True)


cdef uint8_t _all_bytes[256]
for _code in range(256):
    _all_bytes[_code] = _code


cdef void _make_table(
    program *k, char *entries, const kernel_table *table, int out, qops_params *p
) noexcept:
    """Put a table in the place of a program on 8-bit codes with one pair each."""
    cdef void *data[3]
    data[0], data[1], data[2] = _all_bytes, entries, NULL
    p.row = 256
    run_program(k, data, 256, p)
    _set_take(k, entries, table, 1, _size_of(out))


cdef void _set_take(
    program *k, const void *entries, const kernel_table *table, size_t x, size_t y
) noexcept:
    """Choose the kernel for codes and entries of so many bytes."""
    cdef int entry = u8 if y == 1 else u16 if y == 2 else f32 if y == 4 else f64
    memset(k, 0, sizeof(program))
    k.take = <qops_table_fn *>(
        _take.find(table, u8, u8) if x == 1 and y == 1 else
        _take_words.find(table, u8, f32) if x == 1 and y == 4 else
        _take_wide.find(table, u8 if x == 1 else u16, entry))
    k.entries, k.a_size, k.y_size = entries, x, y


def take(q, table, *, axis=None, out=None):
    """Replace each code by its entry in a table.

    ``y = table[q - qmin]``, or with `axis` ``table[c, q - qmin]`` for channel c.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16 or int16, any layout.
    table : array_like
        An entry for each code from the lowest, 256 or 65 536 of them, of any dtype of
        codes or real numbers; with `axis` such a row for each channel.
    axis : int, optional
        The axis of the channels.
    out : ndarray, optional
        Where to write; of the shape of `q` and the dtype of `table`.

    Returns
    -------
    ndarray or numpy scalar
        Of the shape of `q` and the dtype of `table`; `out` if that is given.

    Raises
    ------
    TypeError
        For an array of another dtype.
    ValueError
        If the table does not fit the codes, or `out` does not fit or is read-only.
    AxisError
        If there is no such axis.

    See Also
    --------
    lookup_table : Makes a table of a function.

    Examples
    --------
    >>> import numpy as np, qops
    >>> table = np.arange(256, dtype=np.uint8)[::-1]
    >>> qops.take(np.array([0, 1, 255], np.uint8), table)
    array([255, 254,   0], dtype=uint8)
    >>> qops.take(np.array([-128, 127], np.int8), table)
    array([255,   0], dtype=uint8)
    """
    cdef const kernel_table *kernels = table_in_use()
    cdef program k
    cdef qops_params p
    cdef void *data[2]
    cdef char entries[256 * 8]
    cdef const char *given
    cdef int in_code, code
    cdef size_t size
    cdef _Call call
    if axis is None and _plain(q) and _plain(table) and cnp.PyArray_NDIM(table) == 1:
        in_code, code = _code_of(<cnp.ndarray>q), _code_of(<cnp.ndarray>table)
        size = cnp.PyArray_ITEMSIZE(table)
        if (
            (in_code == u8 or in_code == i8) and code >= 0
            and cnp.PyArray_SIZE(table) == 256
            and (out is None or _apart_plain(table, out))
        ):
            result = _plain_out(out, None, code, q)
            if result is not None and _code_of(<cnp.ndarray>result) == code:
                given = cnp.PyArray_BYTES(table)
                if in_code == i8:  # 0 comes first among patterns of bits
                    memcpy(entries, given + 128 * size, 128 * size)
                    memcpy(entries + 128 * size, given, 128 * size)
                    given = entries
                _set_take(&k, given, kernels, 1, size)
                data[0] = cnp.PyArray_DATA(q)
                data[1] = cnp.PyArray_DATA(result)
                memset(&p, 0, sizeof(p))
                _run_plain(&k, data, cnp.PyArray_SIZE(q), &p)
                return result

    array, rows = _as_array("take", "q", q), _as_array("take", "table", table)
    in_code, code = _code_of(array), _code_of(rows)
    if in_code not in (u8, i8, u16, i16):
        raise TypeError(
            f"take: q is {array.dtype}, not one of uint8, int8, uint16, int16")
    if code < 0:
        raise TypeError(
            f"take: table is {rows.dtype}, not codes or real numbers")
    call = _new_call("take", array.shape, axis, None)
    half = 128 if array.itemsize == 1 else 32768
    shape = (2 * half,) if call.axis is None else (array.shape[call.axis], 2 * half)
    if rows.shape != shape:
        channel = "" if call.axis is None else f" and channel of axis {call.axis}"
        raise ValueError(
            f"take: table has shape {rows.shape}, not {shape}, an entry for each code "
            f"of {array.dtype}{channel}")
    _result_dtype("take", rows.dtype.newbyteorder("="), out, code, tuple(range(10)))
    _check_out("take", out, call.shape)
    rows = rows.astype(rows.dtype.newbyteorder("="), order="C", copy=False)
    if in_code == i8 or in_code == i16:
        rows = np.concatenate((rows[..., half:], rows[..., :half]), axis=-1)
    elif out is not None and np.may_share_memory(rows, out):
        rows = rows.copy()
    _set_take(
        &call.kernels, cnp.PyArray_DATA(rows), kernels, array.itemsize, rows.itemsize)
    if call.axis is None:
        call.pairs = [None, None, None]
        return _finish(call, [array], out, code, True)
    return _take_by_channel(call, array, rows, out)


cdef object _take_by_channel(_Call call, object array, object rows, object out):
    cdef Py_ssize_t outer = 1, inner = 1, channels = array.shape[call.axis]
    cdef size_t entry_bytes = rows.itemsize * rows.shape[1]
    cdef const char *x
    cdef char *y
    for i, n in enumerate(array.shape):
        if i < call.axis:
            outer *= n
        elif i > call.axis:
            inner *= n
    x_array = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
    if out is None:
        y_array = np.empty(array.shape, rows.dtype)
    else:
        direct = _plain(out) and not np.may_share_memory(x_array, out)
        y_array = out if direct else np.empty(array.shape, rows.dtype)
    x, y = cnp.PyArray_BYTES(x_array), cnp.PyArray_BYTES(y_array)
    if inner > 0:
        with nogil:
            take_channels(&call.kernels, x, y, outer, channels, inner, entry_bytes)
    if out is None:
        return y_array
    if y_array is not out:
        out[...] = y_array
    return out


cdef Py_ssize_t _step(cnp.ndarray x, int i) noexcept:
    """Return the stride of a dimension that broadcasts."""
    return 0 if cnp.PyArray_DIM(x, i) == 1 else cnp.PyArray_STRIDE(x, i)


cdef void _set_affine(
    qops_affine *to, cnp.ndarray gain, cnp.ndarray shift, Py_ssize_t *outer_step
) noexcept:
    """Point to gains and shifts, which are laid out alike; steps are in numbers."""
    to.gain = <const float *>cnp.PyArray_DATA(gain)
    to.shift = <const float *>cnp.PyArray_DATA(shift)
    outer_step[0] = _step(gain, 0) // 4
    to.row_step = _step(gain, 1) // 4
    to.per_element = _step(gain, 2) != 0


cdef float _largest(cnp.ndarray x) noexcept:
    return largest_size(<const float *>cnp.PyArray_DATA(x), cnp.PyArray_SIZE(x))


cdef void _move_affine(qops_affine *to, Py_ssize_t i) noexcept nogil:
    to.gain += i
    to.shift += i
    if to.center != NULL:
        to.center += i


# From so many elements on, a table of all codes is faster than to normalize each.
cdef enum:
    NORMALIZED_ROW = 1024


@cython.final
cdef class _NormPart:
    """A normalization; a call does a range of its rows."""

    cdef qops_params p
    cdef Py_ssize_t first_outer, second_outer  # from outer index to outer index
    cdef qops_convert_fn *fn
    cdef qops_table_fn *take
    cdef const char *x
    cdef char *y
    cdef size_t rows, row

    def __call__(self, size_t first, size_t end):
        cdef qops_params p = self.p
        cdef size_t outer, i, n, row = self.row
        cdef bint one_each = not (p.first.per_element or p.second.per_element)
        with nogil:
            while first < end:
                outer, i = first // self.rows, first % self.rows
                n = min(self.rows - i, end - first)
                p.first, p.second = self.p.first, self.p.second
                _move_affine(
                    &p.first, outer * self.first_outer + i * p.first.row_step)
                _move_affine(
                    &p.second, outer * self.second_outer + i * p.second.row_step)
                if row >= NORMALIZED_ROW and one_each:
                    self.by_tables(first, n, &p)
                else:
                    p.row = p.a_step = p.y_step = row
                    self.fn(self.x + first * row, self.y + first * row, n * row, &p)
                first += n

    cdef void by_tables(self, size_t first, size_t n, qops_params *p) noexcept nogil:
        """Normalize rows with one number each of everything."""
        cdef char entries[256]
        cdef size_t r
        p.row = 256
        for r in range(first, first + n):
            self.fn(_all_bytes, entries, 256, p)
            self.take(self.x + r * self.row, self.y + r * self.row, self.row, entries)
            _move_affine(&p.first, p.first.row_step)
            _move_affine(&p.second, p.second.row_step)


def normalize(
    cnp.ndarray q not None, cnp.ndarray center not None, cnp.ndarray gain not None,
    cnp.ndarray shift not None, cnp.ndarray weight not None, cnp.ndarray bias not None,
    out_scale, out_zero_point, cnp.ndarray out not None
):
    """Write quantize(((q - center) * gain + shift) * weight + bias) to out.

    All are contiguous, of three dimensions, of which those of the numbers broadcast;
    the first three have one shape, and so have weight and bias; where those have a
    number per element, so have these. q and out are of one 8-bit dtype, center is
    int32, the others are float32. Arguments are as normalization.py has checked and
    made them.
    """
    cdef const kernel_table *table = table_in_use()
    cdef _NormPart part = _NormPart()
    cdef qops_params *p = &part.p
    cdef one_pair pair
    cdef int code = _code_of(q)
    cdef double inner, largest  # of what is rounded on the way, and of the results
    memset(p, 0, sizeof(qops_params))
    part.fn = <qops_convert_fn *>_normalize.find(table, code, code)
    part.take = <qops_table_fn *>_take.find(table, u8, u8)
    if part.fn is NULL or not _one_pair(
        &pair, out_scale, out_zero_point, <qops_dtype>code, True
    ):
        raise ValueError("normalize: arguments are not as it needs them")
    p.y = pairs_of_one(&pair)
    p.divide = not pairs_limit(&p.y, <qops_dtype>code, pair.scale, pair.scale)
    if q.size == 0:
        return
    inner = 1.001 * (256.0 * _largest(gain) + _largest(shift))
    largest = 1.001 * (inner * _largest(weight) + _largest(bias))
    p.small = inner < FLT_MAX and largest < LARGEST_QUOTIENT * pair.scale
    _set_affine(&p.first, gain, shift, &part.first_outer)
    p.first.center = <const int32_t *>cnp.PyArray_DATA(center)
    _set_affine(&p.second, weight, bias, &part.second_outer)
    part.x, part.y = cnp.PyArray_BYTES(q), cnp.PyArray_BYTES(out)
    part.rows, part.row = cnp.PyArray_DIM(q, 1), cnp.PyArray_DIM(q, 2)
    run_rows(part, cnp.PyArray_DIM(q, 0) * part.rows, q.size)


FEW_CHANNELS = POOL_FEW


@cython.final
cdef class _PoolPart:
    """A pooling; a call does a range of its rows, with buffers of its own."""

    cdef pooling p
    cdef const char *x
    cdef char *y
    cdef bint columns

    def __call__(self, size_t first, size_t end):
        cdef pooling p = self.p
        cdef size_t rows = p.dim[0].most * p.dim[1].most, slots = pool_slots(&p)
        cdef size_t taps = rows * max(p.dim[2].most, p.kernel)
        if p.means is not NULL:
            taps = 0
        elif self.columns:
            taps = max(rows, p.dim[2].most)
            p.columns = <char *>PyMem_RawMalloc(p.dim[2].n_in * p.channels * p.x_size)
        p.taps = <const void **>PyMem_RawMalloc(taps * sizeof(void *))
        if slots > 0:
            p.held = <const char **>PyMem_RawMalloc(slots * sizeof(char *))
            p.padded = <char *>PyMem_RawMalloc(slots * pool_slot_bytes(&p))
        try:
            if (
                p.taps is NULL or self.columns and p.columns is NULL
                or slots > 0 and (p.held is NULL or p.padded is NULL)
            ):
                raise MemoryError
            with nogil:
                pool_clear(&p)
                pool_rows(&p, self.x, self.y, first, end)
        finally:
            PyMem_RawFree(p.columns)
            PyMem_RawFree(p.taps)
            PyMem_RawFree(p.held)
            PyMem_RawFree(p.padded)


def pool(
    cnp.ndarray q not None, list windows not None, int pad, list how not None,
    cnp.ndarray out not None, tuple pairs=None
):
    """Pool q (outer, depth, height, width, channels) to out, both contiguous.

    The windows are those of pooling.py for depth, height and width; pad is the code of
    padding if rows are to be padded. how has for each kind of depth, height and width

    - None for maxima, if out has the dtype of q;
    - a (factor, offset, zero) for means (`qops_mean`), likewise, or a table of results
      for all sums of codes minus the lowest one, both of 8-bit codes;
    - a (taps, divisor) for means with pairs: arrays of float64 scales and int64 zero
      points of all channels of q, and scale and zero point of out, each one or many.

    Arguments are as pooling.py has checked and made them.
    """
    cdef const kernel_table *kernels = table_in_use()
    cdef _PoolPart part = _PoolPart()
    cdef pooling *p = &part.p
    cdef pool_means means
    cdef program k
    cdef cnp.ndarray first, taps, kind, runs, table, scales, zeros
    cdef _Pairs y
    cdef const void **pointers
    cdef pool_how *entries
    cdef int d, code = _code_of(q), y_code = _code_of(out)
    cdef Py_ssize_t i
    cdef size_t span
    memset(p, 0, sizeof(pooling))
    for d in range(POOL_DIMS):
        dilation, first, taps, most, kind, kinds, runs, padded = windows[d]
        p.dim[d].n_in, p.dim[d].out = cnp.PyArray_DIM(q, d + 1), first.size
        p.dim[d].dilation, p.dim[d].most, p.dim[d].kinds = dilation, most, len(kinds)
        p.dim[d].extent = dilation * (most - 1) + 1
        p.dim[d].first = <const int64_t *>cnp.PyArray_DATA(first)
        p.dim[d].taps = <const int64_t *>cnp.PyArray_DATA(taps)
        p.dim[d].kind = <const int64_t *>cnp.PyArray_DATA(kind)
    p.runs = <const int64_t *>cnp.PyArray_DATA(runs)
    p.channels, p.dtype = cnp.PyArray_DIM(q, 4), <qops_dtype>code
    p.x_size, p.y_size = cnp.PyArray_ITEMSIZE(q), cnp.PyArray_ITEMSIZE(out)
    if padded is not None:
        p.kernel, p.stride, p.padding = padded
        p.pad = pad
        span = (p.dim[2].out - 1) * p.stride + p.dim[2].dilation * (p.kernel - 1) + 1
        p.phase = (span + p.stride - 1) // p.stride
    if pairs is not None:
        scales, zeros, out_scale, out_zero = pairs
        memset(&means, 0, sizeof(means))
        means.channels = scales.size
        means.scale = <const double *>cnp.PyArray_DATA(scales)
        means.zero = <const int64_t *>cnp.PyArray_DATA(zeros)
        y = _pairs("pool", "out_", out_scale, out_zero, y_code, True,
                   (scales.size,), 0, None)
        means.params.y = y.pairs
        means.params.y.per_element = not y.one_for_all()
        means.params.divide = not pairs_limit(
            &means.params.y, <qops_dtype>y_code, y.smallest, y.largest)
        means.add = <qops_accumulate_fn *>_add_codes.find(kernels, code, i64)
        means.reduce = <qops_reduce_fn *>_hsum.find(kernels, code, i64)
        means.quantize = <qops_convert_fn *>_quantize.find(kernels, f32, y_code)
        p.means = &means
    elif how[0] is None:
        p.fn = <qops_window_fn *>_window_max.find(kernels, code, code)
        part.columns = (
            p.stride == 0 and (p.channels < POOL_FEW or p.dim[2].most > POOL_WIDE))
    elif isinstance(how[0], tuple):
        p.fn = <qops_window_fn *>_window_mean.find(kernels, code, code)
    else:
        p.fn = <qops_window_fn *>_window_sum.find(kernels, code, u16)
        _set_take(&k, NULL, kernels, 2, p.y_size)
        p.take = k.take
    pointers = <const void **>PyMem_RawMalloc(len(how) * sizeof(void *))
    entries = <pool_how *>PyMem_RawMalloc(len(how) * sizeof(pool_how))
    try:
        if pointers is NULL or entries is NULL:
            raise MemoryError
        for i, of in enumerate(how):
            pointers[i] = &entries[i]
            if pairs is not None:
                entries[i].count.taps, entries[i].count.divisor = of
            elif isinstance(of, tuple):
                (entries[i].mean.factor, entries[i].mean.offset,
                 entries[i].mean.zero) = of
            elif of is not None:
                table = of
                pointers[i] = cnp.PyArray_DATA(table)
        p.how = pointers
        part.x, part.y = cnp.PyArray_BYTES(q), cnp.PyArray_BYTES(out)
        run_rows(part, cnp.PyArray_DIM(q, 0) * p.dim[0].out * p.dim[1].out, q.size)
    finally:
        PyMem_RawFree(pointers)
        PyMem_RawFree(entries)


def real_means(cnp.ndarray sums not None, double scale, double divisor):
    """Return float32(float64(sum) * scale / divisor) of int64 sums."""
    cdef cnp.ndarray means = np.empty(sums.size, np.float32)
    cdef const int64_t *x = <const int64_t *>cnp.PyArray_DATA(sums)
    cdef float *y = <float *>cnp.PyArray_DATA(means)
    cdef Py_ssize_t i
    for i in range(sums.size):
        y[i] = pool_mean(x[i], scale, divisor)
    return means


@cython.final
cdef class _InterpolationPart:
    """An interpolation; a call does a range of its rows."""

    cdef interpolation p
    cdef _Pairs a, b
    cdef const char *x
    cdef char *y
    cdef size_t x_bytes, y_bytes, n_pairs

    def __call__(self, size_t first, size_t end):
        cdef interpolation p = self.p
        cdef size_t image, row, n, c, rows = p.dim[0].out * p.dim[1].out
        cdef bint each_a = not self.a.one_for_all(), each_b = not self.b.one_for_all()
        with nogil:
            while first < end:
                image, row = first // rows, first % rows
                n = min(rows - row, end - first)
                c = image % self.n_pairs
                p.params.a = pairs_from(self.a.pairs, c if each_a else 0)
                p.params.y = pairs_from(self.b.pairs, c if each_b else 0)
                p.zero = p.params.a.zero[0]
                interpolate_rows(
                    &p, self.x + image * self.x_bytes, self.y + image * self.y_bytes,
                    row, row + n)
                first += n


def interpolate(
    cnp.ndarray q not None, list dims not None, Py_ssize_t channels,
    scale, zero_point, out_scale, out_zero_point, cnp.ndarray out not None
):
    """Blend neighbours of q (outer, depth, height, codes of a row) to out, laid out so.

    Each of dims is (low, high, low_weight, high_weight), int64 and float32 arrays for
    the indices of an output dimension; those of the last are of columns, which have so
    many channels, and count codes. Both arrays are contiguous, of 8- or 16-bit codes.
    Where there are many scales or zero points, each outer index is one channel.
    Arguments are as resizing.py has checked and made them.
    """
    cdef const kernel_table *kernels = table_in_use()
    cdef _InterpolationPart part = _InterpolationPart()
    cdef interpolation *p = &part.p
    cdef cnp.ndarray low, high, low_weight, high_weight
    cdef int d, x_code = _code_of(q), y_code = _code_of(out)
    cdef Py_ssize_t n_outer = cnp.PyArray_DIM(q, 0)
    memset(p, 0, sizeof(interpolation))
    p.columns = <qops_neighbors_fn *>_blend_columns.find(kernels, x_code, f32)
    p.rows = <qops_blend_fn *>_blend_rows.find(kernels, f32, y_code)
    if p.columns is NULL or p.rows is NULL:
        raise ValueError("interpolate: arguments are not as it needs them")
    shape = np.broadcast_shapes(*map(np.shape, (
        np.ravel(scale), zero_point, out_scale, out_zero_point)))
    part.n_pairs = shape[0]
    part.a = _pairs("interpolate", "", scale, zero_point, x_code, True, shape, 0, None)
    part.b = _pairs(
        "interpolate", "out_", out_scale, out_zero_point, y_code, True, shape, 0, None)
    for d in range(3):
        low, high, low_weight, high_weight = dims[d]
        p.dim[d].n_in, p.dim[d].out = cnp.PyArray_DIM(q, d + 1), low.size
        p.dim[d].low = <const int64_t *>cnp.PyArray_DATA(low)
        p.dim[d].high = <const int64_t *>cnp.PyArray_DATA(high)
        p.dim[d].low_weight = <const float *>cnp.PyArray_DATA(low_weight)
        p.dim[d].high_weight = <const float *>cnp.PyArray_DATA(high_weight)
    p.channels = channels
    p.x_size, p.y_size = cnp.PyArray_ITEMSIZE(q), cnp.PyArray_ITEMSIZE(out)
    p.params.divide = not pairs_limit(
        &part.b.pairs, <qops_dtype>y_code, part.b.smallest, part.b.largest)
    if out.size == 0:
        return
    part.x, part.y = cnp.PyArray_BYTES(q), cnp.PyArray_BYTES(out)
    part.x_bytes, part.y_bytes = q.nbytes // n_outer, out.nbytes // n_outer
    run_rows(part, n_outer * p.dim[0].out * p.dim[1].out, out.size)


@cython.final
cdef class _SoftmaxPart:
    """A softmax; a call does a range of its rows."""

    cdef softmax_rows p
    cdef const uint8_t *x
    cdef uint8_t *y
    cdef size_t n

    def __call__(self, size_t first, size_t end):
        cdef size_t i = first * self.n
        with nogil:
            softmax_of(&self.p, self.x + i, self.y + i, end - first, self.n)


def softmax(
    cnp.ndarray q not None, cnp.ndarray units not None, double unit,
    cnp.ndarray numbers not None, scale, zero_point, cnp.ndarray out not None
):
    """Write the softmax of rows (the first dimension) of 8-bit codes to out.

    Both are contiguous. units and numbers, int32 and float32, hold e for each
    difference from the highest code of a row: units are so many. Arguments are as
    softmax.py has checked and made them.
    """
    cdef const kernel_table *kernels = table_in_use()
    cdef _SoftmaxPart part = _SoftmaxPart()
    cdef softmax_rows *p = &part.p
    cdef one_pair pair
    cdef int x_code = _code_of(q), y_code = _code_of(out)
    memset(p, 0, sizeof(softmax_rows))
    p.exponentials = <qops_rows_fn *>_exponentials.find(kernels, x_code, u8)
    p.take = <qops_table_fn *>_take.find(kernels, u8, u8)
    p.take_numbers = <qops_table_fn *>_take_words.find(kernels, u8, f32)
    p.quantize = <qops_convert_fn *>_quantize.find(kernels, f32, y_code)
    if p.exponentials is NULL or p.quantize is NULL or not _one_pair(
        &pair, scale, zero_point, <qops_dtype>y_code, True
    ):
        raise ValueError("softmax: arguments are not as it needs them")
    p.units = <const int32_t *>cnp.PyArray_DATA(units)
    p.numbers = <const float *>cnp.PyArray_DATA(numbers)
    p.unit, p.scale, p.zero = unit, pair.scale, zero_point
    p.out = <qops_dtype>y_code
    part.x = <const uint8_t *>cnp.PyArray_DATA(q)
    part.y = <uint8_t *>cnp.PyArray_DATA(out)
    part.n = cnp.PyArray_DIM(q, 1)
    run_rows(part, cnp.PyArray_DIM(q, 0), q.size)


cdef bint _apart_plain(cnp.ndarray x, object y) noexcept:
    """Do contiguous arrays have no byte in common?"""
    cdef const char *a
    cdef const char *b
    if type(y) is not cnp.ndarray:
        return False
    a, b = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(<cnp.ndarray>y)
    return a + cnp.PyArray_NBYTES(x) <= b or b + cnp.PyArray_NBYTES(<cnp.ndarray>y) <= a


cdef void _set_composed(
    program *k, const kernel_table *table, int a, int b, int y
) noexcept:
    """Choose the kernels between codes and float32, and the sizes of the codes."""
    k.dequantize_a = <qops_convert_fn *>_dequantize.find(table, a, f32)
    k.dequantize_b = <qops_convert_fn *>_dequantize.find(table, b, f32)
    k.quantize = <qops_convert_fn *>_quantize.find(table, f32, y)
    k.a_size, k.b_size, k.y_size = _size_of(a), _size_of(b), _size_of(y)


cdef size_t _size_of(int code) noexcept:
    """Return the bytes of an element."""
    if code == u8 or code == i8:
        return 1
    if code == i32 or code == f32:
        return 4
    return 8 if code == i64 or code == f64 else 2


cdef object _binary(
    _Op op, object a, object a_scale, object a_zero, object b, object b_scale,
    object b_zero, object scale, object zero, object dtype, object axis,
    object block_size, bint relu, object out
):
    """quantize(dequantize(a) o dequantize(b)), by one kernel or composed of four."""
    cdef const kernel_table *table = table_in_use()
    cdef program kernels
    cdef qops_params p
    cdef one_pair a_pair, b_pair, y_pair
    cdef void *data[3]
    cdef int a_code, b_code, out_code
    cdef object y
    cdef _Pairs pa, pb, py
    cdef _Call call
    if axis is None and block_size is None and _plain(a) and _plain(b):
        a_code = _code_of(<cnp.ndarray>a)
        b_code = _code_of(<cnp.ndarray>b)
        y = _plain_out(out, dtype, a_code, a)
        out_code = -1 if y is None else _code_of(<cnp.ndarray>y)
        if (
            y is not None and _fits(b, y) and a_code == out_code and b_code == out_code
            and (out_code == u8 or out_code == i8)
            and _one_pair(&a_pair, a_scale, a_zero, <qops_dtype>a_code, True)
            and _one_pair(&b_pair, b_scale, b_zero, <qops_dtype>b_code, True)
            and _one_pair(&y_pair, scale, zero, <qops_dtype>out_code, True)
            and pairs_ordinary(a_pair.scale, a_pair.scale)
            and pairs_ordinary(b_pair.scale, b_pair.scale)
        ):
            memset(&p, 0, sizeof(p))
            p.a, p.b = pairs_of_one(&a_pair), pairs_of_one(&b_pair)
            p.y, p.relu = pairs_of_one(&y_pair), relu
            if pairs_limit(&p.y, <qops_dtype>out_code, y_pair.scale, y_pair.scale):
                memset(&kernels, 0, sizeof(kernels))
                kernels.a_size = kernels.b_size = kernels.y_size = 1
                kernels.binary = <qops_binary_fn *>op.find(table, a_code, out_code)
                data[0] = cnp.PyArray_DATA(a)
                data[1] = cnp.PyArray_DATA(b)
                data[2] = cnp.PyArray_DATA(y)
                _run_plain(&kernels, data, cnp.PyArray_SIZE(a), &p)
                return y

    x1, x2 = _as_array(op.name, "a", a), _as_array(op.name, "b", b)
    a_code = _code_dtype(op.name, "a", x1)
    b_code = _code_dtype(op.name, "b", x2)
    out_code = _result_dtype(op.name, dtype, out, a_code, _CODES)
    try:
        shape = np.broadcast_shapes(x1.shape, x2.shape)
    except ValueError:
        raise ValueError(
            f"{op.name}: a has shape {x1.shape} and b has shape "
            f"{x2.shape}, which do not broadcast") from None
    call = _new_call(op.name, shape, axis, block_size)
    pa = _pairs(op.name, "a_", a_scale, a_zero, a_code, True,
                call.shape, call.axis, call.block)
    pb = _pairs(op.name, "b_", b_scale, b_zero, b_code, True,
                call.shape, call.axis, call.block)
    py = _pairs(op.name, "", scale, zero, out_code, True,
                call.shape, call.axis, call.block)
    _check_out(op.name, out, call.shape)
    call.pairs, call.relu = [pa, pb, py], relu
    call.divide = not pairs_limit(
        &py.pairs, <qops_dtype>out_code, py.smallest, py.largest)
    if (
        op.index[a_code][out_code] >= 0 and a_code == b_code and not call.divide
        and pa.ordinary() and pb.ordinary()
    ):
        call.kernels.binary = <qops_binary_fn *>op.find(table, a_code, out_code)
    else:
        _set_composed(&call.kernels, table, a_code, b_code, out_code)
        call.kernels.binary = <qops_binary_fn *>op.find(table, f32, f32)
    return _finish(call, [x1, x2], out, out_code, True)


def qadd(a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point, *,
         dtype=None, axis=None, block_size=None, relu=False, out=None):
    """Add two quantized arrays.

    ``quantize(dequantize(a) + dequantize(b), scale, zero_point)`` in float32, bit for
    bit; with `relu`, ``maximum(., 0)`` before it is quantized.

    Parameters
    ----------
    a, b : array_like
        Codes: uint8, int8, uint16, int16 or int32, any layout. They broadcast.
    a_scale, a_zero_point, b_scale, b_zero_point
        Of the operands, as in `quantize`; rounded to float32.
    scale, zero_point
        Of the result. Each pair is per tensor, per channel or blocked by itself.
    dtype : dtype, optional
        Of the result; by default that of `out`, or else of `a`.
    axis, block_size
        As in `quantize`; they refer to the shape that `a` and `b` broadcast to.
    relu : bool, optional
        Set negative sums to zero.
    out : ndarray, optional
        Where to write the codes, of the shape that `a` and `b` broadcast to; it may
        overlap them.

    Returns
    -------
    ndarray
        Codes; a scalar for 0-d `a` and `b`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `quantize`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> a = np.array([10, 20, 250], np.uint8)
    >>> qops.qadd(a, 0.1, 0, a, 0.1, 0, 0.2, 0)
    array([ 10,  20, 250], dtype=uint8)
    """
    return _binary(_qadd, a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale,
                   zero_point, dtype, axis, block_size, relu, out)


def qmul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point, *,
         dtype=None, axis=None, block_size=None, relu=False, out=None):
    """Multiply two quantized arrays.

    ``quantize(dequantize(a) * dequantize(b), scale, zero_point)`` in float32, bit for
    bit; with `relu`, ``maximum(., 0)`` before it is quantized.

    Parameters
    ----------
    a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point
        As in `qadd`.
    dtype, axis, block_size, relu, out
        As in `qadd`.

    Returns
    -------
    ndarray
        Codes; a scalar for 0-d `a` and `b`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `quantize`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> a = np.array([-10, 0, 20], np.int8)
    >>> qops.qmul(a, 0.1, 0, a, 0.1, 0, 0.05, 0)
    array([20,  0, 80], dtype=int8)
    """
    return _binary(_qmul, a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale,
                   zero_point, dtype, axis, block_size, relu, out)


def qsub(a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point, *,
         dtype=None, axis=None, block_size=None, relu=False, out=None):
    """Subtract one quantized array from another.

    ``quantize(dequantize(a) - dequantize(b), scale, zero_point)`` in float32, bit
    for bit; with `relu`, ``maximum(., 0)`` before it is quantized.

    Parameters
    ----------
    a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point
        As in `qadd`.
    dtype, axis, block_size, relu, out
        As in `qadd`.

    Returns
    -------
    ndarray
        Codes; a scalar for 0-d `a` and `b`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `quantize`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> a = np.array([10, 20, 250], np.uint8)
    >>> qops.qsub(a, 0.1, 0, a[::-1], 0.1, 0, 0.2, 128)
    array([  8, 128, 248], dtype=uint8)
    """
    return _binary(_qsub, a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale,
                   zero_point, dtype, axis, block_size, relu, out)


def qdiv(a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point, *,
         dtype=None, axis=None, block_size=None, relu=False, out=None):
    """Divide one quantized array by another.

    ``quantize(dequantize(a) / dequantize(b), scale, zero_point)`` in float32, bit
    for bit; with `relu`, ``maximum(., 0)`` before it is quantized.

    Parameters
    ----------
    a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point
        As in `qadd`.
    dtype, axis, block_size, relu, out
        As in `qadd`.

    Returns
    -------
    ndarray
        Codes; a scalar for 0-d `a` and `b`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `quantize`.

    Notes
    -----
    As in NumPy a quotient by zero is infinite, and saturates; 0 / 0 is NaN, and becomes
    the zero point.

    Examples
    --------
    >>> import numpy as np, qops
    >>> a = np.array([10, 20, -30, 0], np.int8)
    >>> b = np.array([5, 0, 0, 0], np.int8)
    >>> qops.qdiv(a, 0.1, 0, b, 0.1, 0, 0.5, 1)
    array([   5,  127, -128,    1], dtype=int8)
    """
    return _binary(_qdiv, a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale,
                   zero_point, dtype, axis, block_size, relu, out)


def qmaximum(a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point,
             *, dtype=None, axis=None, block_size=None, relu=False, out=None):
    """Take the larger of each two quantized numbers.

    ``quantize(maximum(dequantize(a), dequantize(b)), scale, zero_point)`` in float32,
    bit for bit; with `relu`, ``maximum(., 0)`` before it is quantized.

    Parameters
    ----------
    a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point
        As in `qadd`.
    dtype, axis, block_size, relu, out
        As in `qadd`.

    Returns
    -------
    ndarray
        Codes; a scalar for 0-d `a` and `b`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `quantize`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> a = np.array([-10, 0, 20], np.int8)
    >>> qops.qmaximum(a, 0.1, 0, np.int8(4), 0.05, 0, 0.1, 0)
    array([ 2,  2, 20], dtype=int8)
    """
    return _binary(_qmaximum, a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale,
                   zero_point, dtype, axis, block_size, relu, out)


def qminimum(a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point,
             *, dtype=None, axis=None, block_size=None, relu=False, out=None):
    """Take the smaller of each two quantized numbers.

    ``quantize(minimum(dequantize(a), dequantize(b)), scale, zero_point)`` in float32,
    bit for bit; with `relu`, ``maximum(., 0)`` before it is quantized.

    Parameters
    ----------
    a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale, zero_point
        As in `qadd`.
    dtype, axis, block_size, relu, out
        As in `qadd`.

    Returns
    -------
    ndarray
        Codes; a scalar for 0-d `a` and `b`; or `out`.

    Raises
    ------
    TypeError, ValueError
        As in `quantize`.

    Examples
    --------
    >>> import numpy as np, qops
    >>> a = np.array([-10, 0, 20], np.int8)
    >>> qops.qminimum(a, 0.1, 0, np.int8(4), 0.05, 0, 0.1, 0)
    array([-10,   0,   2], dtype=int8)
    """
    return _binary(_qminimum, a, a_scale, a_zero_point, b, b_scale, b_zero_point, scale,
                   zero_point, dtype, axis, block_size, relu, out)


def masked_fill(
    cnp.ndarray q not None, cnp.ndarray mask not None, int code, out
):
    """Return codes, replaced by one where a mask is true that broadcasts to them."""
    cdef str op = "masked_fill"
    cdef int q_code = _code_of(q), size = cnp.PyArray_ITEMSIZE(q)
    cdef int word = u8 if size == 1 else u16 if size == 2 else i32
    cdef _Call call = _new_call(op, (<object>q).shape, None, None)
    _result_dtype(op, _numpy_dtype(q_code), out, q_code, _CODES)
    _check_out(op, out, call.shape)
    call.pairs = [None, None, _pairs(op, "", 1.0, code, q_code, True, call.shape,
                                     None, None)]
    call.kernels.binary = <qops_binary_fn *>_masked_fill.find(
        table_in_use(), word, word)
    return _finish(call, [q, mask], out, q_code, True)


# ------------------------------------------------------------ reductions

cdef object _int_of(const qops_total *t):
    return (<object>t.high << 64) | t.low


cdef list _sorted_dims(cnp.ndarray x, list axes, tuple y_strides):
    """Return [length, stride in x, stride in y] of axes, outermost in memory first,
    those merged that can be walked as one."""
    dims = [
        [cnp.PyArray_DIM(x, i), cnp.PyArray_STRIDE(x, i), s]
        for i, s in zip(axes, y_strides, strict=True) if cnp.PyArray_DIM(x, i) != 1
    ]
    dims.sort(key=lambda d: -abs(d[1]))
    merged = []
    for n, sx, sy in dims:
        if merged and merged[-1][1:] == [n * sx, n * sy]:
            merged[-1] = [merged[-1][0] * n, sx, sy]
        else:
            merged.append([n, sx, sy])
    return merged


cdef object _totals(
    reduction *kernels, cnp.ndarray x, list kept, list reduced, object y, str op
):
    """Sum over the reduced axes of x to y (int64 or objects), or return one int."""
    cdef runs r
    cdef qops_total *totals = NULL
    cdef run_buffers *buffers = NULL
    cdef size_t kept_shape[RUN_DIMS]
    cdef Py_ssize_t kept_strides[RUN_DIMS]
    cdef int k, n_kept = len(kept)
    cdef size_t i, n = 1
    cdef int64_t *to
    memset(&r, 0, sizeof(r))
    _set_array(&r.arrays[0], x)
    r.n_arrays = r.n_inputs = 1
    r.ndim = len(reduced)
    r.fn, r.context = run_reduce, kernels
    for k, axis in enumerate(reduced):
        r.shape[k] = cnp.PyArray_DIM(x, axis)
        r.arrays[0].strides[k] = cnp.PyArray_STRIDE(x, axis)
    for k, axis in enumerate(kept):
        kept_shape[k] = cnp.PyArray_DIM(x, axis)
        kept_strides[k] = cnp.PyArray_STRIDE(x, axis)
        n *= kept_shape[k]
    try:
        buffers = _new_buffers()
        totals = <qops_total *>PyMem_RawMalloc(n * sizeof(qops_total))
        if totals is NULL:
            raise MemoryError
        with nogil:
            plan_runs(&r)
            totals_of_runs(&r, n_kept, kept_shape, kept_strides, totals, buffers)
        if y is None:
            return _int_of(&totals[0])
        if y.dtype == object:
            flat = y.reshape(-1)
            for i in range(n):
                flat[i] = _int_of(&totals[i])
            return y
        to = <int64_t *>cnp.PyArray_DATA(y)
        for i in range(n):
            if not total_fits_int64(&totals[i]):
                raise OverflowError(
                    f"{op}: a sum is {_int_of(&totals[i])}, beyond int64; sum over "
                    f"fewer elements, or over all with axis=None")
            to[i] = <int64_t>totals[i].low
    finally:
        PyMem_RawFree(buffers)
        PyMem_RawFree(totals)
    return y


cdef object _columns(
    qops_accumulate_fn *add, cnp.ndarray x, list kept, list reduced, object y
):
    """Sum over the reduced axes of x to y, int64, along memory's rows."""
    cdef columns c
    cdef run_array array
    cdef run_buffers *buffers
    cdef size_t shape[RUN_DIMS]
    cdef Py_ssize_t strides[RUN_DIMS]
    cdef Py_ssize_t y_strides[RUN_DIMS]
    cdef int64_t *to = <int64_t *>cnp.PyArray_DATA(y)
    cdef int k, n_kept
    y_steps = tuple(s // 8 for s in y.strides)
    kept_dims = _sorted_dims(x, kept, y_steps)
    reduced_dims = _sorted_dims(x, reduced, (0,) * len(reduced))
    n_kept = len(kept_dims)
    for k in range(n_kept):
        shape[k], strides[k], y_strides[k] = kept_dims[k]
    memset(&c, 0, sizeof(c))
    _set_array(&array, x)
    c.add, c.x = add, &array
    c.stride, c.n_reduced = strides[n_kept - 1], len(reduced_dims)
    for k in range(c.n_reduced):
        c.shape[k], c.strides[k], _ = reduced_dims[k]
    buffers = _new_buffers()
    with nogil:
        sums_of_columns(&c, n_kept, shape, strides, y_strides, to, buffers)
    PyMem_RawFree(buffers)
    return y


cdef Py_ssize_t _smallest_stride(cnp.ndarray x, list axes):
    return min([abs(cnp.PyArray_STRIDE(x, i)) for i in axes
                if cnp.PyArray_DIM(x, i) != 1], default=np.iinfo(np.intp).max)


cdef list _reduced_axes(str op, object axis, int ndim):
    if axis is None:
        return list(range(ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    axes = [_axis_of(op, i, ndim) for i in given]
    if len(set(axes)) != len(axes):
        raise ValueError(f"{op}: axis is {axis}, which has an axis twice")
    return axes


@cython.final
cdef class _SumPart:
    """A range of the elements of an exact sum."""

    cdef qops_reduce_fn *reduce
    cdef const char *x
    cdef size_t n
    cdef qops_total total

    def __call__(self):
        with nogil:
            self.reduce(self.x, self.n, &self.total)


cdef _SumPart _sum_part(
    qops_reduce_fn *reduce, const char *x, size_t first, size_t n, size_t size
):
    cdef _SumPart part = _SumPart()
    part.reduce, part.x, part.n = reduce, x + first * size, n
    return part


cdef object _sum_large(qops_reduce_fn *reduce, const char *x, size_t n, size_t size):
    cdef size_t i = MEASURED_ELEMENTS, step
    cdef double start
    cdef _SumPart part
    parts = [_sum_part(reduce, x, 0, i, size)]
    start = perf_counter()
    parts[0]()
    step = _part_size(perf_counter() - start, i, n - i, PART_UNIT)
    while i < n:
        parts.append(_sum_part(reduce, x, i, min(step, n - i), size))
        i += step
    threads.run_parts(parts[1:])
    return sum([_int_of(&part.total) for part in parts])


cdef object _sum(
    _Op op, _Op columns_op, object q, object axis, bint keepdims
):
    cdef const kernel_table *table = table_in_use()
    cdef reduction kernels
    cdef qops_total total
    cdef object x = _as_array(op.name, "q", q)
    cdef int code = _code_dtype(op.name, "q", x)
    cdef size_t n = cnp.PyArray_SIZE(x)
    cdef const void *data = cnp.PyArray_DATA(x)
    kernels.reduce = <qops_reduce_fn *>op.find(table, code, i64)
    kernels.accumulate = <qops_accumulate_fn *>columns_op.find(table, code, i64)
    if axis is None and not keepdims and (n == 0 or cnp.PyArray_ISCARRAY_RO(x)):
        total.low = total.high = 0
        if n > LARGE_SUM and threads.get_num_threads() > 1:
            return _sum_large(kernels.reduce, <const char *>data, n, x.itemsize)
        if n:
            with nogil:
                kernels.reduce(data, n, &total)
        return _int_of(&total)

    ndim = x.ndim
    reduced = _reduced_axes(op.name, axis, ndim)
    kept = [i for i in range(ndim) if i not in reduced]
    if axis is None and not keepdims:
        return _totals(&kernels, x, kept, reduced, None, op.name)
    count = 1
    for i in reduced:
        count *= x.shape[i]
    shape = tuple([x.shape[i] for i in kept])
    wide = op is _hsum_sq and code == i32
    y = np.zeros(shape, dtype=object if wide else np.int64)
    if n:
        if (
            kernels.accumulate is not NULL and count <= MOST_ACCUMULATED
            and _smallest_stride(x, kept) < _smallest_stride(x, reduced)
        ):
            _columns(kernels.accumulate, x, kept, reduced, y)
        else:
            _totals(&kernels, x, kept, reduced, y, op.name)
    if keepdims:
        return y.reshape([1 if i in reduced else x.shape[i] for i in range(ndim)])
    return y[()] if y.ndim == 0 else y


def hsum(q, axis=None, *, keepdims=False):
    """Sum codes exactly.

    ``sum(q)`` in integers, for any length; zero points are not subtracted.

    Parameters
    ----------
    q : array_like
        Codes: uint8, int8, uint16, int16 or int32, any layout.
    axis : int or tuple of int, optional
        The axes to sum over; all by default.
    keepdims : bool, optional
        Keep the axes summed over, with length 1.

    Returns
    -------
    int or ndarray
        A Python int for ``axis=None``; otherwise int64.

    Raises
    ------
    TypeError
        If `q` is not of codes.
    ValueError
        For an axis that is not there, or there twice.
    OverflowError
        If a sum is beyond int64 (more than 2**32 int32 codes).

    Notes
    -----
    Along an axis, temporaries take 16 bytes for each result.

    Examples
    --------
    >>> import numpy as np, qops
    >>> q = np.array([[1, 2], [3, 255]], np.uint8)
    >>> qops.hsum(q)
    261
    >>> qops.hsum(q, axis=0)
    array([  4, 257])
    """
    return _sum(_hsum, _add_codes, q, axis, keepdims)


def hsum_sq(q, axis=None, *, keepdims=False):
    """Sum the squares of codes exactly.

    ``sum(q**2)`` in integers, for any length; zero points are not subtracted.

    Parameters
    ----------
    q, axis, keepdims
        As in `hsum`.

    Returns
    -------
    int or ndarray
        A Python int for ``axis=None``; otherwise int64, or Python ints in an object
        array for int32 codes: two squares of -2**31 are beyond int64.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As in `hsum`.

    Notes
    -----
    Along an axis, temporaries take 16 bytes for each result.

    Examples
    --------
    >>> import numpy as np, qops
    >>> qops.hsum_sq(np.full(3, -(2**31), np.int32))
    13835058055282163712
    """
    return _sum(_hsum_sq, _add_squares, q, axis, keepdims)


# ------------------------------------------------------------ tile programs

cdef _Op _tile_float = _Op("tile_float")
cdef _Op _tile_int = _Op("tile_int")
cdef _Op _tile_compare = _Op("tile_compare")
cdef _Op _tile_cast = _Op("tile_cast")


def opcodes():
    """List the opcodes of tile programs, in the order of opcodes.def."""
    return [opcode_names[i].decode() for i in range(QOPS_N_OPCODES)]


cdef _Op _op_of_step(str name, int x, int out):
    """Return the kernels that do an opcode; None for TEXPANDS, which has none."""
    if name == "TEXPANDS":
        return None
    if name == "TDEQUANT":
        return _dequantize
    if name == "TQUANT":
        return _quantize
    if name.startswith("TCMP"):
        return _tile_compare
    if name == "TCVT" and x != out:
        return _tile_cast
    return _tile_float if x == f32 and name != "TSEL" else _tile_int


@cython.final
cdef class TileProgram:
    """A list of steps on tiles, with an address for each tile.

    Each step is (opcode, arg, place to write, places to read, number of its first
    parameter or -1, dtype in, dtype out). Places are tiles from 0 on, or -1 - k for
    operand k: inputs first, then results. The steps, of which some are to be done once
    only, are those of a program that tile.py has checked.
    """

    cdef tile_step *steps
    cdef size_t n_steps, n_first, n_tiles, size
    cdef list ops
    cdef int n_inputs

    def __cinit__(self, list steps, int n_first, int n_tiles, int tile, int n_inputs):
        cdef int i
        cdef size_t k
        cdef tile_step *s
        names = opcodes()
        self.n_steps, self.n_first, self.n_tiles = len(steps), n_first, n_tiles
        self.size, self.n_inputs = tile, n_inputs
        self.steps = <tile_step *>PyMem_RawMalloc(
            (self.n_steps + 1) * sizeof(tile_step))
        if self.steps is NULL:
            raise MemoryError
        memset(self.steps, 0, (self.n_steps + 1) * sizeof(tile_step))
        self.ops = []
        for k, (name, arg, to, places, number, x, out) in enumerate(steps):
            s = &self.steps[k]
            s.opcode, s.to, s.number = names.index(name), to, number
            s.arg = _DTYPE_WORDS.index(arg) if arg else 0
            s.x, s.out = _DTYPE_WORDS.index(x), _DTYPE_WORDS.index(out)
            for i, place in enumerate(places):
                s.source[i] = place
            self.ops.append(_op_of_step(name, s.x, s.out))

    def __dealloc__(self):
        PyMem_RawFree(self.steps)

    def run(self, list operands not None, list numbers not None):
        """Run on arrays that have been broadcast to one shape; numbers are of steps."""
        cdef _TileCall call = _TileCall()
        cdef cnp.ndarray x
        cdef tile_operand *operand
        cdef Py_ssize_t n = 1, step, start_n
        cdef size_t k
        cdef double start
        call.prepare(self, numbers, len(operands))
        for k, x in enumerate(operands):
            operand = &call.operands[k]
            operand.data = cnp.PyArray_BYTES(x)
            operand.size = cnp.PyArray_ITEMSIZE(x)
            operand.swapped = not cnp.PyArray_ISNOTSWAPPED(x)
            operand.result = <int>k >= self.n_inputs
        x = operands[len(operands) - 1]
        n = cnp.PyArray_SIZE(x)
        if all([cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>y) for y in operands]):
            call.p.ndim, call.p.shape[0] = 1, n
            for k in range(call.p.n_operands):
                call.operands[k].direct = True
        else:
            self.lay_out(call, operands)
        if n == 0:
            return
        if n <= LARGE_ELEMENTS or threads.get_num_threads() == 1:
            _TilePart.make(call, 0, n)()
            return
        start = perf_counter()
        _TilePart.make(call, 0, MEASURED_ELEMENTS)()
        start_n = MEASURED_ELEMENTS
        step = _part_size(perf_counter() - start, start_n, n - start_n, PART_UNIT)
        parts = []
        while start_n < n:
            parts.append(_TilePart.make(call, start_n, min(start_n + step, n)))
            start_n += step
        threads.run_parts(parts)

    cdef lay_out(self, _TileCall call, list operands):
        """Set dimensions in the memory order of the last result, merged where all can
        be, and strides."""
        cdef tile_program *p = &call.p
        cdef cnp.ndarray x, last = operands[len(operands) - 1]
        cdef size_t k
        cdef Py_ssize_t inner
        cdef int d
        order = [i for i in range(last.ndim) if last.shape[i] != 1]
        order.sort(key=lambda i: -abs((<object>last).strides[i]))
        dims = []  # [length, strides], outermost first
        for i in order:
            length = last.shape[i]
            strides = [y.strides[i] for y in operands]
            if dims and dims[-1][1] == [length * s for s in strides]:
                dims[-1] = [dims[-1][0] * length, strides]
            else:
                dims.append([length, strides])
        dims = dims or [[1, [y.itemsize for y in operands]]]
        p.ndim = len(dims)
        for d in range(p.ndim):
            p.shape[d] = dims[d][0]
            for k in range(p.n_operands):
                call.operands[k].strides[d] = dims[d][1][k]
        for k, x in enumerate(operands):
            inner = cnp.PyArray_ITEMSIZE(x)
            direct = cnp.PyArray_ISNOTSWAPPED(x) and cnp.PyArray_CHKFLAGS(
                x, cnp.NPY_ARRAY_ALIGNED)
            for d in range(p.ndim - 1, -1, -1):
                direct = direct and call.operands[k].strides[d] == inner
                inner *= p.shape[d]
            call.operands[k].direct = direct


@cython.final
cdef class _TileCall:
    """What all parts of a run share."""

    cdef TileProgram program
    cdef tile_program p
    cdef void *memory
    cdef tile_operand *operands

    def __dealloc__(self):
        PyMem_RawFree(self.memory)

    cdef prepare(self, TileProgram program, list numbers, size_t n_operands):
        cdef size_t n = program.n_steps, k, at
        cdef const kernel_table *table = table_in_use()
        cdef tile_step *steps
        cdef double *values
        cdef one_pair *pairs
        cdef float *limit
        cdef uint8_t *divide
        cdef qops_pairs pair
        cdef _Op op
        self.program = program
        self.memory = PyMem_RawMalloc(
            n * (sizeof(tile_step) + sizeof(one_pair) + sizeof(float) + sizeof(uint8_t))
            + len(numbers) * sizeof(double) + n_operands * sizeof(tile_operand) + 64)
        if self.memory is NULL:
            raise MemoryError
        self.operands = <tile_operand *>self.memory
        values = <double *>(self.operands + n_operands)
        steps = <tile_step *>(values + len(numbers))
        pairs = <one_pair *>(steps + n)
        limit = <float *>(pairs + n)
        divide = <uint8_t *>(limit + n)
        for k, number in enumerate(numbers):
            values[k] = number
        memcpy(steps, program.steps, n * sizeof(tile_step))
        for k in range(n):
            op = program.ops[k]
            if op is None:
                continue
            steps[k].fn = op.find(table, steps[k].x, steps[k].out)
            if steps[k].fn is NULL:
                raise ValueError(f"{op.name}: no kernel of these dtypes")
            if steps[k].number < 0:
                continue
            at = steps[k].number
            if not prepare_pair(&pairs[k], values[at], <int32_t>values[at + 1], True):
                raise ValueError(
                    f"fuse: scale is {values[at]}, not finite and greater than 0")
            pair = pairs_of_one(&pairs[k])
            divide[k] = not pairs_limit(
                &pair, <qops_dtype>steps[k].out, pairs[k].scale, pairs[k].scale)
            limit[k] = pair.limit
        memset(&self.p, 0, sizeof(tile_program))
        self.p.steps, self.p.n_steps, self.p.n_first = steps, n, program.n_first
        self.p.numbers, self.p.pairs = values, pairs
        self.p.divide, self.p.limit = divide, limit
        self.p.operands, self.p.n_operands = self.operands, n_operands
        self.p.tile = program.size


@cython.final
cdef class _TilePart:
    """A range of the elements of a run, with tiles of its own."""

    cdef _TileCall call
    cdef size_t first, end

    @staticmethod
    cdef _TilePart make(_TileCall call, size_t first, size_t end):
        cdef _TilePart part = _TilePart()
        part.call, part.first, part.end = call, first, end
        return part

    def __call__(self):
        cdef tile_program *p = &self.call.p
        cdef size_t n_tiles = self.call.program.n_tiles
        cdef char *memory = <char *>PyMem_RawMalloc(tile_bytes(p, n_tiles) + 63)
        cdef char *tiles
        if memory is NULL:
            raise MemoryError
        tiles = <char *>((<size_t>memory + 63) // 64 * 64)
        with nogil:
            tiles_run(p, self.first, self.end, tiles, n_tiles)
        PyMem_RawFree(memory)
