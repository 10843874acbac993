/*@targets $maxopt #all */
/* blend_rows - y[i] = quantize(v * a.scale), v = w[0] * x[0][i] + w[1] * x[1][i] of two rows; of four
 * v = w[2] * v + w[3] * (w[0] * x[2][i] + w[1] * x[3][i]). In float32. */
#include "quantizer.h"

static INLINE vf32 blended_rows(const qops_rows *r, size_t k, size_t i, size_t m) {
    const vf32 a = vf32_mul(vf32_set(r->weight[0]), vf32_load(r->x[k] + i, m));
    return vf32_add(a, vf32_mul(vf32_set(r->weight[1]), vf32_load(r->x[k + 1] + i, m)));
}

static INLINE void blend_rows_step(const qops_rows *r, void *y, size_t i, size_t m, bool four,
                                   float scale, one_quantizer k, qops_dtype out, quotient_how how) {
    vf32 v = blended_rows(r, 0, i, m);
    if (four) {
        const vf32 a = vf32_mul(vf32_set(r->weight[2]), v);
        v = vf32_add(a, vf32_mul(vf32_set(r->weight[3]), blended_rows(r, 2, i, m)));
    }
    const quantizer q = quantizer_set(k);
    const vi32 t = vi32_round_quotient(how, vf32_mul(v, vf32_set(scale)), q.quotient);
    vcodes_store(out, y, i, vcodes_from_sum(out, t, q.zero), m);
}

static INLINE void blend_rows_of(const qops_rows *r, void *y, size_t n, const qops_params *p,
                                 bool four, qops_dtype out, quotient_how how) {
    const qops_rows rows = *r; /* y could be taken for a part of *r */
    const one_quantizer k = one_quantizer_load(p->y);
    const float scale = *p->a.scale;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        blend_rows_step(&rows, y, i, LANES, four, scale, k, out, how);
    if (i < n) blend_rows_step(&rows, y, i, n - i, four, scale, k, out, how);
}

static INLINE void blend_rows(const qops_rows *r, void *y, size_t n, const qops_params *p,
                              qops_dtype out) {
    const quotient_how how = quotient_for(out);
    if (p->divide) blend_rows_of(r, y, n, p, r->four, out, DIVISION);
    else if (r->four) blend_rows_of(r, y, n, p, true, out, how);
    else blend_rows_of(r, y, n, p, false, out, how);
}

static void blend_rows_f32_u8(const qops_rows *r, void *y, size_t n, const qops_params *p) {
    blend_rows(r, y, n, p, u8);
}

static void blend_rows_f32_i8(const qops_rows *r, void *y, size_t n, const qops_params *p) {
    blend_rows(r, y, n, p, i8);
}

static void blend_rows_f32_u16(const qops_rows *r, void *y, size_t n, const qops_params *p) {
    blend_rows(r, y, n, p, u16);
}

static void blend_rows_f32_i16(const qops_rows *r, void *y, size_t n, const qops_params *p) {
    blend_rows(r, y, n, p, i16);
}
