/* fake_quantizer.h - real numbers to those that codes stand for, or to whether none saturates.
 *
 * In float32, or in float64 where x is float64 or the codes are int32. The code less the zero point
 * is an integer that both need, and no code is made. */
#ifndef QOPS_FAKE_QUANTIZER_H
#define QOPS_FAKE_QUANTIZER_H

#include "quantizer.h"

/* The numbers, of the dtype that in gives, or 1 where the code does not saturate and else 0 */
typedef enum { NUMBERS, UNSATURATED } fake_result;

/* 1 where d is 0, else 0 */
static INLINE void store_zeros(void *y, size_t i, vi32 d, size_t m) {
    const vi32 below = vi32_min(d, vi32_sub(vi32_set(0), d));
    vcodes_store(u8, y, i, vcodes_from_sum(u8, below, vi32_set(1)), m);
}

static INLINE void fake_step32(const void *x, void *y, size_t i, size_t m, qops_dtype in,
                               fake_result out, qops_dtype codes, quantizer k, quotient_how how) {
    const vf32 v = vf32_load_as(in, x, i, m); /* NaN is a number that saturates */
    const vi32 t = vi32_round_quotient(how, out == NUMBERS ? vf32_zero_nan(v) : v, k.quotient);
    vi32 c = vi32_max(t, vi32_sub(vi32_set(code_min(codes)), k.zero));
    c = vi32_min(c, vi32_sub(vi32_set(code_max(codes)), k.zero));
    if (out == NUMBERS) vf32_store((float *)y + i, vf32_mul(vf32_from_i32(c), k.quotient.scale), m);
    else store_zeros(y, i, vi32_sub(t, c), m);
}

static INLINE void fake_step64(const void *x, void *y, size_t i, size_t m, qops_dtype in,
                               fake_result out, qops_dtype codes, vf64 scale, vf64 zero) {
    const vf64 v = in == f64 ? vf64_load((const double *)x + i, m)
                             : vf64_from_f32(vf32_load_as(in, x, i, m));
    const vf64 lo = vf64_sub(vf64_set(code_min(codes)), zero), one = vf64_set(1);
    const vf64 hi = vf64_sub(vf64_set(code_max(codes)), zero);
    if (out == UNSATURATED) { /* of NaN lo - 1 */
        const vf64 t = vf64_clamp(vf64_div(v, scale), vf64_sub(lo, one), vf64_add(hi, one));
        const vf64 r = vf64_round(t);
        store_zeros(y, i, vi32_from_f64(vf64_sub(r, vf64_clamp(r, lo, hi))), m);
        return;
    }
    const vf64 t = vf64_round(vf64_clamp(vf64_div(vf64_zero_nan(v), scale), lo, hi));
    const vf64 r = vf64_mul(vf64_add(t, vf64_set(0)), scale); /* + 0 makes 0 of -0 */
    if (in == f64) vf64_store((double *)y + i, r, m);
    else vf32_store((float *)y + i, vf32_from_f64(r), m);
}

static INLINE void fake_step(const void *x, void *y, size_t i, size_t m, qops_dtype in,
                             fake_result out, qops_dtype codes, qops_pairs p, one_quantizer one,
                             bool each, quotient_how how, bool wide) {
    if (!wide) {
        const quantizer k = each ? quantizer_load(p, i, m) : quantizer_set(one);
        fake_step32(x, y, i, m, in, out, codes, k, how);
        return;
    }
    const vf64 scale = each ? vf64_load(p.scale64 + i, m) : vf64_set(*p.scale64);
    const vi32 zero = each ? vi32_load(p.zero + i, m) : vi32_set(*p.zero);
    fake_step64(x, y, i, m, in, out, codes, scale, vf64_from_i32(zero));
}

static INLINE void fake_rows(const void *x, void *y, size_t n, const qops_params *p, qops_dtype in,
                             fake_result out, bool each, quotient_how how, bool wide) {
    const qops_dtype codes = p->codes;
    for (size_t r = 0; r < n / p->row; r++) {
        const void *xr = row_of(x, r, p->a_step);
        void *yr = row_to(y, r, p->y_step);
        const qops_pairs k = row_pairs(p->y, r);
        const one_quantizer one = one_quantizer_load(k);
        size_t i = 0;
        for (; i + LANES <= p->row; i += LANES)
            fake_step(xr, yr, i, LANES, in, out, codes, k, one, each, how, wide);
        if (i < p->row) fake_step(xr, yr, i, p->row - i, in, out, codes, k, one, each, how, wide);
    }
}

static INLINE void fake_how(const void *x, void *y, size_t n, const qops_params *p, qops_dtype in,
                            fake_result out, quotient_how how, bool wide) {
    if (p->y.per_element) fake_rows(x, y, n, p, in, out, true, how, wide);
    else fake_rows(x, y, n, p, in, out, false, how, wide);
}

static INLINE void fake(const void *x, void *y, size_t n, const qops_params *p, qops_dtype in,
                        fake_result out) {
    if (in == f64 || p->codes == i32) fake_how(x, y, n, p, in, out, DIVISION, true);
    else if (p->divide) fake_how(x, y, n, p, in, out, DIVISION, false);
    else if (quotient_for(p->codes) == TWO_STEPS) fake_how(x, y, n, p, in, out, TWO_STEPS, false);
    else fake_how(x, y, n, p, in, out, THREE_STEPS, false);
}

#endif
