/*@targets $maxopt #all */
/* normalize - y[i] = quantize(((x[i] - center) * g1 + s1) * g2 + s2), in float32
 *
 * x[i] - center is exact. The first gain and shift bring it to mean 0 and deviation 1 (or to real
 * numbers), the second are the weight and the bias: each per row or per element. */
#include "quantizer.h"

static INLINE qops_affine affine_row(qops_affine k, size_t r) {
    const ptrdiff_t i = (ptrdiff_t)r * k.row_step;
    k.gain += i;
    k.shift += i;
    if (k.center != NULL) k.center += i;
    return k;
}

/* Per element the numbers of the elements i..i+m), which rows may share; else of the row alone. */
typedef struct {
    vi32 center;
    vf32 gain, shift;
} affine;

static INLINE affine affine_load(qops_affine k, size_t i, size_t m, bool center) {
    return (affine){center ? vi32_load(k.center + i, m) : vi32_set(0), vf32_load(k.gain + i, m),
                    vf32_load(k.shift + i, m)};
}

static INLINE affine affine_set(qops_affine k, bool center) {
    return (affine){vi32_set(center ? *k.center : 0), vf32_set(*k.gain), vf32_set(*k.shift)};
}

static INLINE void normalize_step(const void *x, void *y, size_t i, size_t m, affine first,
                                  affine second, one_quantizer k, qops_dtype d, quotient_how how) {
    vf32 v = vf32_from_i32(vi32_sub(vi32_load_as(d, x, i, m), first.center));
    v = vf32_add(vf32_mul(v, first.gain), first.shift);
    v = vf32_add(vf32_mul(v, second.gain), second.shift);
    const quantizer q = quantizer_set(k);
    if (how != TWO_STEPS_SMALL) v = vf32_zero_nan(v);
    const vi32 t = vi32_round_quotient(how, v, q.quotient);
    vcodes_store(d, y, i, vcodes_from_sum(d, t, q.zero), m);
}

/* m elements from the one i on of the rows r..r+rows) */
static INLINE void normalize_columns(const void *x, void *y, size_t r, size_t rows, size_t i,
                                     size_t m, const qops_params *p, bool each_first,
                                     bool each_second, one_quantizer k, qops_dtype d,
                                     quotient_how how) {
    affine first, second;
    if (each_first) first = affine_load(affine_row(p->first, r), i, m, true);
    if (each_second) second = affine_load(affine_row(p->second, r), i, m, false);
    for (size_t end = r + rows; r < end; r++) {
        if (!each_first) first = affine_set(affine_row(p->first, r), true);
        if (!each_second) second = affine_set(affine_row(p->second, r), false);
        normalize_step(row_of(x, r, p->a_step), row_to(y, r, p->y_step), i, m, first, second, k, d,
                       how);
    }
}

static INLINE void normalize_rows(const void *x, void *y, size_t n, const qops_params *p,
                                  bool each_first, bool each_second, qops_dtype d,
                                  quotient_how how) {
    const one_quantizer k = one_quantizer_load(p->y);
    const size_t rows = n / p->row;
    const bool shared = (!each_first || p->first.row_step == 0) && p->second.row_step == 0;
    const size_t together = each_second && shared ? ROWS : 1;
    for (size_t r = 0; r < rows; r += together) {
        const size_t m = min_size(together, rows - r);
        size_t i = 0;
        for (; i + LANES <= p->row; i += LANES)
            normalize_columns(x, y, r, m, i, LANES, p, each_first, each_second, k, d, how);
        if (i < p->row)
            normalize_columns(x, y, r, m, i, p->row - i, p, each_first, each_second, k, d, how);
    }
}

static INLINE void normalize_how(const void *x, void *y, size_t n, const qops_params *p,
                                 qops_dtype d, quotient_how how) {
    if (p->first.per_element) normalize_rows(x, y, n, p, true, true, d, how);
    else if (p->second.per_element) normalize_rows(x, y, n, p, false, true, d, how);
    else normalize_rows(x, y, n, p, false, false, d, how);
}

static INLINE void normalize(const void *x, void *y, size_t n, const qops_params *p, qops_dtype d) {
    if (p->divide) normalize_how(x, y, n, p, d, DIVISION);
    else if (p->small) normalize_how(x, y, n, p, d, TWO_STEPS_SMALL);
    else normalize_how(x, y, n, p, d, TWO_STEPS);
}

static void normalize_i8_i8(const void *x, void *y, size_t n, const qops_params *p) {
    normalize(x, y, n, p, i8);
}

static void normalize_u8_u8(const void *x, void *y, size_t n, const qops_params *p) {
    normalize(x, y, n, p, u8);
}
