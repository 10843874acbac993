/*@targets $maxopt #all */
/* dequantize - y[i] = (x[i] - zero) * scale
 *
 * In float32 for codes of up to 16 bits, whose difference is exact; in float64 for int32 codes,
 * rounded to float32 at the end; in float64 where y is. */
#include "kernel.h"

typedef struct {
    vf32 scale;
    vf64 scale64;
    vi32 zero;
} dequantizer;

static INLINE dequantizer dequantizer_set(float scale, double scale64, int32_t zero) {
    return (dequantizer){vf32_set(scale), vf64_set(scale64), vi32_set(zero)};
}

static INLINE dequantizer dequantizer_load(qops_pairs p, size_t i, size_t m) {
    return (dequantizer){vf32_load(p.scale + i, m), vf64_load(p.scale64 + i, m),
                         vi32_load(p.zero + i, m)};
}

static INLINE void dequantize_step(dequantizer k, const void *x, void *y, size_t i, size_t m,
                                   qops_dtype in, qops_dtype out, bool stream) {
    const vi32 q = vi32_load_as(in, x, i, m);
    if (in != i32 && out == f32) {
        const vf32 v = vf32_mul(vf32_from_i32(vi32_sub(q, k.zero)), k.scale);
        if (stream) vf32_stream((float *)y + i, v);
        else vf32_store((float *)y + i, v, m);
        return;
    }
    const vf64 v = vf64_mul(vf64_sub(vf64_from_i32(q), vf64_from_i32(k.zero)), k.scale64);
    if (out == f32) vf32_store((float *)y + i, vf32_from_f64(v), m);
    else vf64_store((double *)y + i, v, m);
}

static INLINE void dequantize_row(const void *x, void *y, size_t n, qops_pairs pair, qops_dtype in,
                                  qops_dtype out, bool stream) {
    const float scale = *pair.scale;
    const double scale64 = *pair.scale64;
    const int32_t zero = *pair.zero;
    size_t i = unaligned_head(y, out == f32 ? 4 : 8, n);
    if (i > 0) dequantize_step(dequantizer_set(scale, scale64, zero), x, y, 0, i, in, out, false);
    for (; i + LANES <= n; i += LANES)
        dequantize_step(dequantizer_set(scale, scale64, zero), x, y, i, LANES, in, out, stream);
    if (i < n)
        dequantize_step(dequantizer_set(scale, scale64, zero), x, y, i, n - i, in, out, false);
}

/* m elements from the one i on of several rows, which have the same pairs */
static INLINE void dequantize_columns(dequantizer k, const void *x, ptrdiff_t x_step, void *y,
                                      ptrdiff_t y_step, size_t rows, size_t i, size_t m,
                                      qops_dtype in, qops_dtype out) {
    for (size_t r = 0; r < rows; r++)
        dequantize_step(k, row_of(x, r, x_step), row_to(y, r, y_step), i, m, in, out, false);
}

static INLINE void dequantize_per_element(const void *x, ptrdiff_t x_step, void *y,
                                          ptrdiff_t y_step, size_t rows, size_t n, qops_pairs pairs,
                                          qops_dtype in, qops_dtype out) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        dequantize_columns(dequantizer_load(pairs, i, LANES), x, x_step, y, y_step, rows, i, LANES,
                           in, out);
    if (i < n)
        dequantize_columns(dequantizer_load(pairs, i, n - i), x, x_step, y, y_step, rows, i, n - i,
                           in, out);
}

static INLINE void dequantize(const void *x, void *y, size_t n, const qops_params *p, qops_dtype in,
                              qops_dtype out) {
    const size_t rows = n / p->row, together = p->a.row_step == 0 ? ROWS : 1;
    if (p->stream && in != i32 && out == f32) {
        dequantize_row(x, y, n, p->a, in, out, true);
        vstream_end();
    } else if (p->a.per_element)
        for (size_t r = 0; r < rows; r += together)
            dequantize_per_element(row_of(x, r, p->a_step), p->a_step, row_to(y, r, p->y_step),
                                   p->y_step, min_size(together, rows - r), p->row,
                                   row_pairs(p->a, r), in, out);
    else
        for (size_t r = 0; r < rows; r++)
            dequantize_row(row_of(x, r, p->a_step), row_to(y, r, p->y_step), p->row,
                           row_pairs(p->a, r), in, out, false);
}

static void dequantize_u8_f32(const void *x, void *y, size_t n, const qops_params *p) {
    dequantize(x, y, n, p, u8, f32);
}

static void dequantize_u8_f64(const void *x, void *y, size_t n, const qops_params *p) {
    dequantize(x, y, n, p, u8, f64);
}

static void dequantize_i8_f32(const void *x, void *y, size_t n, const qops_params *p) {
    dequantize(x, y, n, p, i8, f32);
}

static void dequantize_i8_f64(const void *x, void *y, size_t n, const qops_params *p) {
    dequantize(x, y, n, p, i8, f64);
}

static void dequantize_u16_f32(const void *x, void *y, size_t n, const qops_params *p) {
    dequantize(x, y, n, p, u16, f32);
}

static void dequantize_u16_f64(const void *x, void *y, size_t n, const qops_params *p) {
    dequantize(x, y, n, p, u16, f64);
}

static void dequantize_i16_f32(const void *x, void *y, size_t n, const qops_params *p) {
    dequantize(x, y, n, p, i16, f32);
}

static void dequantize_i16_f64(const void *x, void *y, size_t n, const qops_params *p) {
    dequantize(x, y, n, p, i16, f64);
}

static void dequantize_i32_f32(const void *x, void *y, size_t n, const qops_params *p) {
    dequantize(x, y, n, p, i32, f32);
}

static void dequantize_i32_f64(const void *x, void *y, size_t n, const qops_params *p) {
    dequantize(x, y, n, p, i32, f64);
}
