/* qops.h - what kernels, libraries and the array boundary agree on.
 *
 * A library is one level's table of kernels, in the order of kernels.def. Kernels get contiguous,
 * aligned arrays in native byte order and n >= 1; they check nothing and cannot fail. */
#ifndef QOPS_H
#define QOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Goes up with every change of this file that a library compiled before would not notice. */
#define QOPS_ABI 8

typedef enum { u8, i8, u16, i16, i32, i64, f16, bf16, f32, f64, QOPS_N_DTYPES } qops_dtype;
typedef enum {
    convert,
    binary,
    reduce,
    accumulate,
    table,
    window,
    neighbors,
    blend,
    rows,
    tile
} qops_family;

/* (scale, zero point) pairs as the array boundary prepares them, one array per quantity. Row r has the
 * pair r * row_step, for all of its elements or, per element, for the first of them. */
typedef struct {
    const float *scale;
    const float *recip;     /* h = 1 / scale rounded to float32 */
    const float *recip_low; /* l = 1 / scale - h, computed in float64 and rounded to float32 */
    const double *scale64;  /* scale, rounded to float32 or not as numerics.md says */
    const int32_t *zero;
    float limit; /* what x is clamped to from above before it is multiplied by any of the recips */
    bool per_element;
    ptrdiff_t row_step;
} qops_pairs;

/* The pairs from the one with index i on */
static inline qops_pairs pairs_from(qops_pairs p, ptrdiff_t i) {
    p.scale += i;
    p.recip += i;
    p.recip_low += i;
    p.scale64 += i;
    p.zero += i;
    return p;
}

/* (v - center) * gain + shift; where row and element lie as in qops_pairs */
typedef struct {
    const float *gain, *shift;
    const int32_t *center; /* of the first only */
    bool per_element;
    ptrdiff_t row_step;
} qops_affine;

/* The n elements of a call lie in rows of so many, each contiguous, and n is a multiple of that. */
typedef struct {
    qops_pairs a, b, y;        /* of the first operand, the second, and the result */
    qops_affine first, second; /* for normalize alone */
    size_t row;
    ptrdiff_t a_step, b_step, y_step; /* from row to row, in bytes */
    bool divide; /* a scale is so small or large that the exact quotient needs a division */
    bool small;  /* for normalize: all quotients are finite and below LARGEST_QUOTIENT */
    bool relu;
    qops_dtype codes; /* for fake_quantize and unsaturated: of those in between */
    bool
        stream; /* y is not needed soon and larger than the caches: it may be written around them */
} qops_params;

/* An exact sum: high * 2**64 + low. */
typedef struct {
    uint64_t low;
    int64_t high;
} qops_total;

/* One function type per family. y may be x (or a, or b) itself, but not overlap it otherwise. */
typedef void qops_convert_fn(const void *x, void *y, size_t n, const qops_params *p);
typedef void qops_binary_fn(const void *a, const void *b, void *y, size_t n, const qops_params *p);
typedef void qops_reduce_fn(const void *x, size_t n, qops_total *total); /* adds to *total */

/* y[i] += sum of f(x[i]) over up to ACCUMULATED_ROWS rows, so many bytes apart */
typedef void qops_accumulate_fn(const void *x, ptrdiff_t step, size_t rows, int64_t *y, size_t n);
#define ACCUMULATED_ROWS 256 /* 256 * 255**2 fits an int32 */

/* y[i] = entry x[i] of a table that has one for each pattern of bits, read as unsigned */
typedef void qops_table_fn(const void *x, void *y, size_t n, const void *entries);

/* What makes a code of a sum of codes, each less the lowest one */
typedef struct {
    float factor;
    int32_t offset, zero; /* rint((sum - offset) * factor) + zero, saturated */
} qops_mean;

/* y[i] = the maximum, sum or mean of all x[k][i]; count >= 1. So for several columns of n elements,
 * x_step elements apart in all x, without a gap in y. */
typedef void qops_window_fn(const void *const *x, size_t count, ptrdiff_t x_step, void *y, size_t n,
                            size_t columns, const qops_mean *mean);

/* For each column of an output, where its two neighbours begin in x, in codes, and what they count */
typedef struct {
    const int64_t *low, *high;
    const float *low_weight, *high_weight;
    int32_t zero;
} qops_taps;

/* y = the weighted sums of neighbouring columns, each of so many channels */
typedef void qops_neighbors_fn(const void *x, const qops_taps *t, float *y, size_t n,
                               size_t channels);

/* Two rows, or four: two of a plane and two of the next one. The last weights are the planes'. */
typedef struct {
    const float *x[4];
    float weight[4];
    bool four;
} qops_rows;

/* y[i] = the quantized weighted sum of all x[k][i], which are in units of the scale of a */
typedef void qops_blend_fn(const qops_rows *r, void *y, size_t n, const qops_params *p);

/* y = what the codes of each row, n of them, are below its highest; and the sum of their entries */
typedef void qops_rows_fn(const void *x, void *y, size_t rows, size_t n, const int32_t *entries,
                          int64_t *total);

/* y = what the opcode makes of up to three x, tiles of n elements; see opcodes.py */
typedef void qops_tile_fn(int opcode, int arg, const void *const *x, void *y, size_t n);

typedef void qops_any_fn(void); /* of a family that its caller knows */

typedef struct {
    const char *op;
    qops_family family;
    qops_dtype in, out;
    qops_any_fn *fn; /* NULL: this level has no such kernel */
} qops_kernel;

#define KERNEL(family, op, in, out) +1
enum {
    QOPS_N_KERNELS = 0
#include "kernels.def"
};
#undef KERNEL

typedef struct {
    int abi;
    int n_kernels;
    const char *version; /* of the package */
    const char *level;
    const qops_kernel *kernels;
} qops_library;

/* How to get rint(x / scale) without changing a bit of it. A fused multiply-add needs no division:
 * with h and l as in qops_pairs, rounding
 *   two steps:    fma(x, h, x * l)                       for |x / scale| <= 260
 *   three steps:  fma(h, fma(-q, scale, x), q), q = x * h  for |x / scale| <= 65 800
 * equals rounding x / scale. tests/exact_quotient.c proves it by exhaustion; it needs h, l and the
 * remainder to be normal numbers, so outside SCALE_MIN..SCALE_MAX it has to be a division. The
 * bounds also keep products of two dequantized 8-bit codes finite.
 *
 * For huge x the steps would give inf - inf. So x is clamped from above, to a quotient beyond all
 * codes; with a scale per element to one number for all, unless the scales differ so much that some
 * quotient then reaches LARGEST_QUOTIENT: again a division. Below, a NaN becomes INT32_MIN, which
 * is the right side. */
typedef enum {
    TWO_STEPS,
    TWO_STEPS_SMALL, /* of x that are known to have quotients below LARGEST_QUOTIENT: no clamp */
    THREE_STEPS,
    DIVISION
} quotient_how;
#define SCALE_MIN 0x1p-50f
#define SCALE_MAX 0x1p50f
#define LARGEST_QUOTIENT 0x1p30f

/* a quotient that saturates, whatever the zero point */
static inline float quotient_max(qops_dtype out) {
    return out == u8 || out == i8 ? 512.0f : 70000.0f;
}

static inline int32_t code_min(qops_dtype d) {
    return d == i8 ? INT8_MIN : d == i16 ? INT16_MIN : d == i32 ? INT32_MIN : 0;
}

static inline int32_t code_max(qops_dtype d) {
    return d == u8    ? UINT8_MAX
           : d == i8  ? INT8_MAX
           : d == u16 ? UINT16_MAX
           : d == i16 ? INT16_MAX
                      : INT32_MAX;
}

#define QOPS_CAPSULE "qops.library"

#endif
