/*@targets $maxopt #all */
/* quantize - y[i] = clip(rint(x[i] / scale), min - z, max - z) + z; NaN becomes z.
 *
 * In float32, or in float64 where x is float64 or y is int32. Ties to even; infinities and overflow
 * saturate to their own side. */
#include "quantizer.h"

typedef struct {
    vf64 scale, zero;
} quantizer64;

/* Of the two only one is used, and the other costs nothing: in_float64 is a constant. */
typedef struct {
    quantizer f32;
    quantizer64 f64;
} quantizers;

static INLINE quantizers quantizers_load(qops_pairs p, size_t i, size_t m) {
    return (quantizers){quantizer_load(p, i, m),
                        {vf64_load(p.scale64 + i, m), vf64_from_i32(vi32_load(p.zero + i, m))}};
}

static INLINE size_t float_size(qops_dtype in) { return in == f64 ? 8 : in == f32 ? 4 : 2; }
static INLINE bool in_float64(qops_dtype in, qops_dtype out) { return in == f64 || out == i32; }

static INLINE void quantize32_step(quantizer k, const void *x, void *y, size_t i, size_t m,
                                   qops_dtype in, qops_dtype out, quotient_how how, bool stream) {
    const vf32 v = vf32_zero_nan(vf32_load_as(in, x, i, m));
    const vi32 t = vi32_round_quotient(how, v, k.quotient);
    const vcodes c = vcodes_from_sum(out, t, k.zero);
    if (stream) vcodes_stream(out, y, i, c);
    else vcodes_store(out, y, i, c, m);
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

static INLINE void quantize_step(quantizers k, const void *x, void *y, size_t i, size_t m,
                                 qops_dtype in, qops_dtype out, quotient_how how) {
    if (in_float64(in, out)) quantize64_step(k.f64, x, y, i, m, in, out);
    else quantize32_step(k.f32, x, y, i, m, in, out, how, false);
}

static INLINE void quantize_row(const void *x, void *y, size_t n, qops_pairs pair, qops_dtype in,
                                qops_dtype out, quotient_how how) {
    const one_quantizer k = one_quantizer_load(pair);
    const double scale = *pair.scale64, zero = *pair.zero;
    size_t i = unaligned_head(x, float_size(in), n);
    if (i > 0)
        quantize_step((quantizers){quantizer_set(k), {vf64_set(scale), vf64_set(zero)}}, x, y, 0, i,
                      in, out, how);
    for (; i + LANES <= n; i += LANES)
        quantize_step((quantizers){quantizer_set(k), {vf64_set(scale), vf64_set(zero)}}, x, y, i,
                      LANES, in, out, how);
    if (i < n)
        quantize_step((quantizers){quantizer_set(k), {vf64_set(scale), vf64_set(zero)}}, x, y, i,
                      n - i, in, out, how);
}

static INLINE void quantize_streaming(const void *x, void *y, size_t n, qops_pairs pair,
                                      qops_dtype in, qops_dtype out, quotient_how how) {
    const one_quantizer k = one_quantizer_load(pair);
    size_t i = unaligned_head(y, out == u8 || out == i8 ? 1 : 2, n);
    if (i > 0) quantize32_step(quantizer_set(k), x, y, 0, i, in, out, how, false);
    for (; i + LANES <= n; i += LANES)
        quantize32_step(quantizer_set(k), x, y, i, LANES, in, out, how, true);
    if (i < n) quantize32_step(quantizer_set(k), x, y, i, n - i, in, out, how, false);
    vstream_end();
}

/* m elements from the one i on of several rows, which have the same pairs */
static INLINE void quantize_columns(quantizers k, const void *x, ptrdiff_t x_step, void *y,
                                    ptrdiff_t y_step, size_t rows, size_t i, size_t m,
                                    qops_dtype in, qops_dtype out, quotient_how how) {
    for (size_t r = 0; r < rows; r++)
        quantize_step(k, row_of(x, r, x_step), row_to(y, r, y_step), i, m, in, out, how);
}

static INLINE void quantize_per_element(const void *x, ptrdiff_t x_step, void *y, ptrdiff_t y_step,
                                        size_t rows, size_t n, qops_pairs pairs, qops_dtype in,
                                        qops_dtype out, quotient_how how) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        quantize_columns(quantizers_load(pairs, i, LANES), x, x_step, y, y_step, rows, i, LANES, in,
                         out, how);
    if (i < n)
        quantize_columns(quantizers_load(pairs, i, n - i), x, x_step, y, y_step, rows, i, n - i, in,
                         out, how);
}

static INLINE void quantize_how(const void *x, void *y, size_t n, const qops_params *p,
                                qops_dtype in, qops_dtype out, quotient_how how) {
    const size_t rows = n / p->row, together = p->y.row_step == 0 ? ROWS : 1;
    if (p->stream && !in_float64(in, out)) quantize_streaming(x, y, n, p->y, in, out, how);
    else if (p->y.per_element)
        for (size_t r = 0; r < rows; r += together)
            quantize_per_element(row_of(x, r, p->a_step), p->a_step, row_to(y, r, p->y_step),
                                 p->y_step, min_size(together, rows - r), p->row,
                                 row_pairs(p->y, r), in, out, how);
    else
        for (size_t r = 0; r < rows; r++)
            quantize_row(row_of(x, r, p->a_step), row_to(y, r, p->y_step), p->row,
                         row_pairs(p->y, r), in, out, how);
}

static INLINE void quantize(const void *x, void *y, size_t n, const qops_params *p, qops_dtype in,
                            qops_dtype out) {
    if (in_float64(in, out) || p->divide) quantize_how(x, y, n, p, in, out, DIVISION);
    else quantize_how(x, y, n, p, in, out, quotient_for(out));
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
