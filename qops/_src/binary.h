/* binary.h - y[i] = quantize(dequantize(a[i]) o dequantize(b[i])).
 *
 * With relu, maximum(., 0) before quantize. a, b and y are codes of one 8-bit dtype, or float32:
 * then there is nothing to dequantize and quantize, and the array boundary composes from it what
 * the 8-bit kernels do not cover (other dtypes, unusual scales). Here all scales are within
 * SCALE_MIN..SCALE_MAX: no NaN or infinity can arise from 8-bit codes but by a division. */
#ifndef QOPS_BINARY_H
#define QOPS_BINARY_H

#include "quantizer.h"

typedef enum { ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM } binary_op;

static INLINE vf32 binary_value(binary_op op, vf32 a, vf32 b) {
    return op == ADD       ? vf32_add(a, b)
           : op == SUB     ? vf32_sub(a, b)
           : op == MUL     ? vf32_mul(a, b)
           : op == DIV     ? vf32_div(a, b)
           : op == MAXIMUM ? vf32_max(a, b)
                           : vf32_min(a, b);
}

/* A bound for the results of codes up to 256 from their zero point, roundings included */
static INLINE double binary_most(binary_op op, float a_scale, float b_scale) {
    const double a = 256.0 * a_scale, b = 256.0 * b_scale;
    return op == DIV ? HUGE_VAL : op == MUL ? a * b : a + b;
}

typedef struct {
    float a_scale, b_scale;
    int32_t a_zero, b_zero;
    one_quantizer y;
    int32_t floor;     /* with relu the code of zero, else the lowest code */
    float float_floor; /* with relu zero, else -inf */
} binary_params;

static INLINE vf32 binary_load(qops_dtype d, const void *x, size_t i, size_t m, float scale,
                               int32_t zero) {
    if (d == f32) return vf32_load((const float *)x + i, m);
    return vf32_mul(vf32_from_i32(vi32_split(d, x, i, m, zero)), vf32_set(scale));
}

static INLINE void binary_step(binary_params k, const void *a, const void *b, void *y, size_t i,
                               size_t m, binary_op op, qops_dtype d, quotient_how how) {
    const vf32 va = binary_load(d, a, i, m, k.a_scale, k.a_zero);
    const vf32 vb = binary_load(d, b, i, m, k.b_scale, k.b_zero);
    const vf32 v = binary_value(op, va, vb);
    if (d == f32) {
        vf32_store((float *)y + i, vf32_max(vf32_set(k.float_floor), v), m);
        return;
    }
    const quantizer quantize = quantizer_set(k.y);
    const vi32 t = vi32_round_quotient(how, op == DIV ? vf32_zero_nan(v) : v, quantize.quotient);
    /* quantize is monotone, so relu may as well be done on codes, many to a vector */
    vcodes_store(d, y, i, vcodes_max(d, vcodes_join(d, t, quantize.zero), k.floor), m);
}

static INLINE void binary_steps(binary_params k, const void *a, const void *b, void *y, size_t n,
                                binary_op op, qops_dtype d, quotient_how how) {
    size_t i = unaligned_head(y, d == f32 ? 4 : 1, n);
    if (i > 0) binary_step(k, a, b, y, 0, i, op, d, how);
    for (; i + LANES <= n; i += LANES) binary_step(k, a, b, y, i, LANES, op, d, how);
    if (i < n) binary_step(k, a, b, y, i, n - i, op, d, how);
}

static INLINE void binary_row(const void *a, const void *b, void *y, size_t n, qops_pairs a_pair,
                              qops_pairs b_pair, qops_pairs y_pair, bool relu, binary_op op,
                              qops_dtype d) {
    binary_params k = {.a_scale = *a_pair.scale,
                       .a_zero = *a_pair.zero,
                       .b_scale = *b_pair.scale,
                       .b_zero = *b_pair.zero,
                       .y = one_quantizer_load(y_pair),
                       .floor = relu ? *y_pair.zero : code_min(d)};
    if (binary_most(op, k.a_scale, k.b_scale) < (double)LARGEST_QUOTIENT * k.y.scale)
        binary_steps(k, a, b, y, n, op, d, TWO_STEPS_SMALL);
    else binary_steps(k, a, b, y, n, op, d, TWO_STEPS);
}

/* A set's pairs of LANES elements; or of the last m */
typedef struct {
    vf32 scale;
    vi32 zero;
} operand;

static INLINE operand operand_load(qops_pairs p, size_t i, size_t m) {
    return (operand){vf32_load(p.scale + i, m), vi32_load(p.zero + i, m)};
}

static INLINE vf32 binary_load_with(operand k, qops_dtype d, const void *x, size_t i, size_t m) {
    return vf32_mul(vf32_from_i32(vi32_sub(vi32_load_as(d, x, i, m), k.zero)), k.scale);
}

/* The pairs of a row that has one pair for all of its elements, as a vector of copies */
typedef struct {
    float scale[LANES], recip[LANES], recip_low[LANES];
    int32_t zero[LANES];
} pair_copies;

static INLINE qops_pairs copies_of(qops_pairs p, pair_copies *to) {
    if (p.per_element) return p;
    vf32_store(to->scale, vf32_set(*p.scale), LANES);
    vf32_store(to->recip, vf32_set(*p.recip), LANES);
    vf32_store(to->recip_low, vf32_set(*p.recip_low), LANES);
    vi32_store(to->zero, vi32_set(*p.zero), LANES);
    p.scale = to->scale, p.recip = to->recip, p.recip_low = to->recip_low, p.zero = to->zero;
    return p;
}

typedef struct {
    const char *a, *b;
    char *y;
    ptrdiff_t a_step, b_step, y_step;
    qops_pairs a_pairs, b_pairs, y_pairs;
    bool relu;
} binary_rows;

/* m elements from the one i on of several rows, which have the same pairs */
static INLINE void binary_columns(const binary_rows *k, size_t rows, size_t i, size_t m,
                                  binary_op op, qops_dtype d) {
    const operand ka = operand_load(k->a_pairs, k->a_pairs.per_element ? i : 0, m);
    const operand kb = operand_load(k->b_pairs, k->b_pairs.per_element ? i : 0, m);
    const quantizer ky = quantizer_load(k->y_pairs, k->y_pairs.per_element ? i : 0, m);
    const float floor = k->relu ? 0.0f : -HUGE_VALF;
    for (size_t r = 0; r < rows; r++) {
        const vf32 va = binary_load_with(ka, d, row_of(k->a, r, k->a_step), i, m);
        const vf32 vb = binary_load_with(kb, d, row_of(k->b, r, k->b_step), i, m);
        vf32 v = vf32_max(vf32_set(floor), binary_value(op, va, vb));
        if (op == DIV) v = vf32_zero_nan(v);
        const vi32 t = vi32_round_quotient(TWO_STEPS, v, ky.quotient);
        vcodes_store(d, row_to(k->y, r, k->y_step), i, vcodes_from_sum(d, t, ky.zero), m);
    }
}

/* Where some set has a pair per element */
static INLINE void binary_per_element(const void *a, const void *b, void *y, size_t n,
                                      const qops_params *p, binary_op op, qops_dtype d) {
    const size_t rows = n / p->row;
    const bool same = p->a.row_step == 0 && p->b.row_step == 0 && p->y.row_step == 0;
    const size_t together = same ? ROWS : 1;
    pair_copies copies[3];
    binary_rows k = {
        .a_step = p->a_step, .b_step = p->b_step, .y_step = p->y_step, .relu = p->relu};
    for (size_t r = 0; r < rows; r += together) {
        if (r == 0 || !same) {
            k.a_pairs = copies_of(row_pairs(p->a, r), &copies[0]);
            k.b_pairs = copies_of(row_pairs(p->b, r), &copies[1]);
            k.y_pairs = copies_of(row_pairs(p->y, r), &copies[2]);
        }
        k.a = row_of(a, r, p->a_step), k.b = row_of(b, r, p->b_step);
        k.y = row_to(y, r, p->y_step);
        const size_t m = min_size(together, rows - r);
        size_t i = 0;
        for (; i + LANES <= p->row; i += LANES) binary_columns(&k, m, i, LANES, op, d);
        if (i < p->row) binary_columns(&k, m, i, p->row - i, op, d);
    }
}

static INLINE void binary_loop(const void *a, const void *b, void *y, size_t n,
                               const qops_params *p, binary_op op, qops_dtype d) {
    if (d != f32 && (p->a.per_element || p->b.per_element || p->y.per_element)) {
        binary_per_element(a, b, y, n, p, op, d);
        return;
    }
    const size_t rows = n / p->row;
    for (size_t r = 0; r < rows; r++) {
        const void *ar = row_of(a, r, p->a_step), *br = row_of(b, r, p->b_step);
        void *yr = row_to(y, r, p->y_step);
        if (d == f32) {
            const binary_params k = {.float_floor = p->relu ? 0.0f : -HUGE_VALF};
            binary_steps(k, ar, br, yr, p->row, op, d, DIVISION);
        } else {
            binary_row(ar, br, yr, p->row, row_pairs(p->a, r), row_pairs(p->b, r),
                       row_pairs(p->y, r), p->relu, op, d);
        }
    }
}

#endif
