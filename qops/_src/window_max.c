/*@targets $maxopt #all */
/* window_max - y[i] = the largest of all x[k][i] */
#include "kernel.h"

static INLINE void window_max_step(const void *const *x, size_t count, size_t from, void *y,
                                   size_t to, size_t m, qops_dtype d) {
    if (d != u8 && d != i8) {
        vi32 w = vi32_load_as(d, x[0], from, m);
        for (size_t k = 1; k < count; k++) w = vi32_max(w, vi32_load_as(d, x[k], from, m));
        if (d == i32) vi32_store((int32_t *)y + to, w, m);
        else vcodes_store(d, y, to, vcodes_from_sum(d, w, vi32_set(0)), m);
        return;
    }
    vbytes v = vbytes_load(d, x[0], from, m);
    for (size_t k = 1; k < count; k++) v = vbytes_max(d, v, vbytes_load(d, x[k], from, m));
    vcodes_store(d, y, to, vcodes_from_bytes(v), m);
}

static INLINE void window_max(const void *const *x, size_t count, ptrdiff_t x_step, void *y,
                              size_t n, size_t columns, qops_dtype d) {
    for (size_t c = 0; c < columns; c++) {
        const size_t from = c * (size_t)x_step, to = c * n;
        size_t i = 0;
        for (; i + LANES <= n; i += LANES) window_max_step(x, count, from + i, y, to + i, LANES, d);
        if (i < n) window_max_step(x, count, from + i, y, to + i, n - i, d);
    }
}

static void window_max_i8_i8(const void *const *x, size_t count, ptrdiff_t x_step, void *y,
                             size_t n, size_t columns, const qops_mean *mean) {
    (void)mean;
    window_max(x, count, x_step, y, n, columns, i8);
}

static void window_max_u8_u8(const void *const *x, size_t count, ptrdiff_t x_step, void *y,
                             size_t n, size_t columns, const qops_mean *mean) {
    (void)mean;
    window_max(x, count, x_step, y, n, columns, u8);
}

static void window_max_u16_u16(const void *const *x, size_t count, ptrdiff_t x_step, void *y,
                               size_t n, size_t columns, const qops_mean *mean) {
    (void)mean;
    window_max(x, count, x_step, y, n, columns, u16);
}

static void window_max_i16_i16(const void *const *x, size_t count, ptrdiff_t x_step, void *y,
                               size_t n, size_t columns, const qops_mean *mean) {
    (void)mean;
    window_max(x, count, x_step, y, n, columns, i16);
}

static void window_max_i32_i32(const void *const *x, size_t count, ptrdiff_t x_step, void *y,
                               size_t n, size_t columns, const qops_mean *mean) {
    (void)mean;
    window_max(x, count, x_step, y, n, columns, i32);
}
