/*@targets $maxopt #all */
/* blend_columns - y[j] = low_weight[j] * (x[low[j]] - zero) + high_weight[j] * (x[high[j]] - zero)
 *
 * In float32, for columns of several channels, which lie next to each other in x and in y. */
#include "kernel.h"

#define GATHERED 256 /* codes of single channels that are brought together first */

static INLINE vf32 blended(const void *a, const void *b, size_t i, size_t m, vf32 wa, vf32 wb,
                           vi32 zero, qops_dtype in) {
    const vf32 va = vf32_from_i32(vi32_sub(vi32_load_as(in, a, i, m), zero));
    const vf32 vb = vf32_from_i32(vi32_sub(vi32_load_as(in, b, i, m), zero));
    return vf32_add(vf32_mul(wa, va), vf32_mul(wb, vb));
}

static INLINE void blend_channels(const void *x, const qops_taps *t, float *y, size_t columns,
                                  size_t channels, qops_dtype in) {
    const ptrdiff_t size = in == u8 || in == i8 ? 1 : 2;
    const vi32 zero = vi32_set(t->zero);
    for (size_t j = 0; j < columns; j++, y += channels) {
        const void *a = row_of(x, (size_t)t->low[j], size);
        const void *b = row_of(x, (size_t)t->high[j], size);
        const vf32 wa = vf32_set(t->low_weight[j]), wb = vf32_set(t->high_weight[j]);
        size_t i = 0;
        for (; i + LANES <= channels; i += LANES)
            vf32_store(y + i, blended(a, b, i, LANES, wa, wb, zero, in), LANES);
        if (i < channels)
            vf32_store(y + i, blended(a, b, i, channels - i, wa, wb, zero, in), channels - i);
    }
}

static INLINE void gather(const void *x, const int64_t *index, void *y, size_t n, qops_dtype in) {
    for (size_t i = 0; i < n; i++)
        if (in == u8 || in == i8) ((uint8_t *)y)[i] = ((const uint8_t *)x)[index[i]];
        else ((uint16_t *)y)[i] = ((const uint16_t *)x)[index[i]];
}

static INLINE void blend_each_step(const void *a, const void *b, const qops_taps *t, size_t j,
                                   float *y, size_t i, size_t m, qops_dtype in) {
    const vf32 wa = vf32_load(t->low_weight + j + i, m);
    const vf32 wb = vf32_load(t->high_weight + j + i, m);
    vf32_store(y + j + i, blended(a, b, i, m, wa, wb, vi32_set(t->zero), in), m);
}

static INLINE void blend_each(const void *x, const qops_taps *t, float *y, size_t columns,
                              qops_dtype in) {
    uint16_t a[GATHERED], b[GATHERED];
    for (size_t j = 0; j < columns; j += GATHERED) {
        const size_t n = min_size(GATHERED, columns - j);
        gather(x, t->low + j, a, n, in);
        gather(x, t->high + j, b, n, in);
        size_t i = 0;
        for (; i + LANES <= n; i += LANES) blend_each_step(a, b, t, j, y, i, LANES, in);
        if (i < n) blend_each_step(a, b, t, j, y, i, n - i, in);
    }
}

static INLINE void blend_columns(const void *x, const qops_taps *t, float *y, size_t columns,
                                 size_t channels, qops_dtype in) {
    if (channels == 1) blend_each(x, t, y, columns, in);
    else blend_channels(x, t, y, columns, channels, in);
}

static void blend_columns_u8_f32(const void *x, const qops_taps *t, float *y, size_t columns,
                                 size_t channels) {
    blend_columns(x, t, y, columns, channels, u8);
}

static void blend_columns_i8_f32(const void *x, const qops_taps *t, float *y, size_t columns,
                                 size_t channels) {
    blend_columns(x, t, y, columns, channels, i8);
}

static void blend_columns_u16_f32(const void *x, const qops_taps *t, float *y, size_t columns,
                                  size_t channels) {
    blend_columns(x, t, y, columns, channels, u16);
}

static void blend_columns_i16_f32(const void *x, const qops_taps *t, float *y, size_t columns,
                                  size_t channels) {
    blend_columns(x, t, y, columns, channels, i16);
}
