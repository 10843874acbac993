/*@targets scalar avx2 avx512 */
/* quantize - y[i] = clip(rint(x[i] / scale), min - z, max - z) + z; NaN becomes z.
 *
 * In float32, or in float64 where x is float64 or y is int32. Ties to even; infinities and overflow
 * saturate to their own side. */
#include "quantizer.h"

static INLINE void quantize_step(quantizer k, const void *x, void *y, size_t i, size_t m,
                                 qops_dtype in, qops_dtype out, quotient_how how) {
    const vf32 v = vf32_zero_nan(vf32_load_as(in, x, i, m));
    const vi32 t = vi32_round_quotient(how, v, k.quotient);
    vcodes_store(out, y, i, vcodes_from_sum(out, t, k.zero), m);
}

static INLINE void quantize_loop(const void *x, void *y, size_t n, const qops_params *p,
                                 qops_dtype in, qops_dtype out, quotient_how how,
                                 bool per_element) {
    const qops_pairs pairs = p->y;
    const one_quantizer k = one_quantizer_load(pairs);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        quantize_step(per_element ? quantizer_load(pairs, i, LANES) : quantizer_set(k), x, y, i, LANES, in, out,
                      how);
    if (i < n)
        quantize_step(per_element ? quantizer_load(pairs, i, n - i) : quantizer_set(k), x, y, i, n - i, in, out,
                      how);
}

typedef struct {
    vf64 scale, zero;
} quantizer64;

static INLINE quantizer64 quantizer64_set(double scale, double zero) {
    return (quantizer64){vf64_set(scale), vf64_set(zero)};
}

static INLINE quantizer64 quantizer64_load(qops_pairs p, size_t i, size_t m) {
    return (quantizer64){vf64_load(p.scale64 + i, m), vf64_from_i32(vi32_load(p.zero + i, m))};
}

static INLINE void quantize64_step(quantizer64 k, const void *x, void *y, size_t i, size_t m,
                                   qops_dtype in, qops_dtype out) {
    const vf64 v = in == f64 ? vf64_load((const double *)x + i, m)
                             : vf64_from_f32(vf32_load_as(in, x, i, m));
    const vf64 lo = vf64_sub(vf64_set(code_min(out)), k.zero);
    const vf64 hi = vf64_sub(vf64_set(code_max(out)), k.zero);
    /* clamped before it is rounded: the bounds are integers, so the order is free */
    const vf64 t = vf64_round(vf64_clamp(vf64_div(vf64_zero_nan(v), k.scale), lo, hi));
    const vi32 q = vi32_from_f64(vf64_add(t, k.zero));
    if (out == i32) vi32_store((int32_t *)y + i, q, m);
    else vcodes_store(out, y, i, vcodes_from_sum(out, q, vi32_set(0)), m);
}

static INLINE void quantize64_loop(const void *x, void *y, size_t n, const qops_params *p,
                                   qops_dtype in, qops_dtype out, bool per_element) {
    const qops_pairs pairs = p->y;
    const double scale = *pairs.scale64, zero = *pairs.zero;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        quantize64_step(per_element ? quantizer64_load(pairs, i, LANES) : quantizer64_set(scale, zero), x, y, i, LANES, in,
                        out);
    if (i < n)
        quantize64_step(per_element ? quantizer64_load(pairs, i, n - i) : quantizer64_set(scale, zero), x, y, i, n - i, in,
                        out);
}

static INLINE void quantize(const void *x, void *y, size_t n, const qops_params *p, qops_dtype in,
                            qops_dtype out) {
    if (in == f64 || out == i32) {
        if (p->per_element) quantize64_loop(x, y, n, p, in, out, true);
        else quantize64_loop(x, y, n, p, in, out, false);
    } else if (p->divide) {
        if (p->per_element) quantize_loop(x, y, n, p, in, out, DIVISION, true);
        else quantize_loop(x, y, n, p, in, out, DIVISION, false);
    } else {
        if (p->per_element) quantize_loop(x, y, n, p, in, out, quotient_for(out), true);
        else quantize_loop(x, y, n, p, in, out, quotient_for(out), false);
    }
}

static void quantize_f32_u8(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f32, u8);
}

static void quantize_f32_i8(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f32, i8);
}

static void quantize_f32_u16(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f32, u16);
}

static void quantize_f32_i16(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f32, i16);
}

static void quantize_f32_i32(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f32, i32);
}

static void quantize_f16_u8(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f16, u8);
}

static void quantize_f16_i8(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f16, i8);
}

static void quantize_f16_u16(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f16, u16);
}

static void quantize_f16_i16(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f16, i16);
}

static void quantize_f16_i32(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f16, i32);
}

static void quantize_bf16_u8(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, bf16, u8);
}

static void quantize_bf16_i8(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, bf16, i8);
}

static void quantize_bf16_u16(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, bf16, u16);
}

static void quantize_bf16_i16(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, bf16, i16);
}

static void quantize_bf16_i32(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, bf16, i32);
}

static void quantize_f64_u8(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f64, u8);
}

static void quantize_f64_i8(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f64, i8);
}

static void quantize_f64_u16(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f64, u16);
}

static void quantize_f64_i16(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f64, i16);
}

static void quantize_f64_i32(const void *x, void *y, size_t n, const qops_params *p) {
    quantize(x, y, n, p, f64, i32);
}

