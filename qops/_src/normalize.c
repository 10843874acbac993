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

static INLINE vf32 affine_of(qops_affine k, bool each, vf32 v, size_t i, size_t m) {
    const vf32 gain = each ? vf32_load(k.gain + i, m) : vf32_set(*k.gain);
    const vf32 shift = each ? vf32_load(k.shift + i, m) : vf32_set(*k.shift);
    return vf32_add(vf32_mul(v, gain), shift);
}

static INLINE void normalize_step(const void *x, void *y, size_t i, size_t m, qops_affine first,
                                  bool each_first, qops_affine second, bool each_second,
                                  one_quantizer k, qops_dtype d, quotient_how how) {
    const vi32 center = each_first ? vi32_load(first.center + i, m) : vi32_set(*first.center);
    vf32 v = vf32_from_i32(vi32_sub(vi32_load_as(d, x, i, m), center));
    v = affine_of(first, each_first, v, i, m);
    v = affine_of(second, each_second, v, i, m);
    const quantizer q = quantizer_set(k);
    const vi32 t = vi32_round_quotient(how, vf32_zero_nan(v), q.quotient);
    vcodes_store(d, y, i, vcodes_from_sum(d, t, q.zero), m);
}

static INLINE void normalize_rows(const void *x, void *y, size_t n, const qops_params *p,
                                  bool each_first, bool each_second, qops_dtype d,
                                  quotient_how how) {
    const one_quantizer k = one_quantizer_load(p->y);
    for (size_t r = 0; r < n / p->row; r++) {
        const void *xr = row_of(x, r, p->a_step);
        void *yr = row_to(y, r, p->y_step);
        const qops_affine first = affine_row(p->first, r), second = affine_row(p->second, r);
        size_t i = 0;
        for (; i + LANES <= p->row; i += LANES)
            normalize_step(xr, yr, i, LANES, first, each_first, second, each_second, k, d, how);
        if (i < p->row)
            normalize_step(xr, yr, i, p->row - i, first, each_first, second, each_second, k, d,
                           how);
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
    else normalize_how(x, y, n, p, d, TWO_STEPS);
}

static void normalize_i8_i8(const void *x, void *y, size_t n, const qops_params *p) {
    normalize(x, y, n, p, i8);
}

static void normalize_u8_u8(const void *x, void *y, size_t n, const qops_params *p) {
    normalize(x, y, n, p, u8);
}
