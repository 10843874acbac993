/*@targets $maxopt #all */
/* window_sum - y[i] = the sum of all x[k][i] - qmin, for up to 257 of them */
#include "kernel.h"

static INLINE void window_sum_step(const void *const *x, size_t count, size_t from, void *y,
                                   size_t to, size_t m, qops_dtype d) {
    vcodes sum = vcodes_zero();
    for (size_t k = 0; k < count; k++) sum = vcodes_add_bytes(d, sum, x[k], from, m);
    vcodes_store(u16, y, to, sum, m);
}

static INLINE void window_sum(const void *const *x, size_t count, ptrdiff_t x_step, void *y,
                              size_t n, size_t columns, qops_dtype d) {
    for (size_t c = 0; c < columns; c++) {
        const size_t from = c * (size_t)x_step, to = c * n;
        size_t i = 0;
        for (; i + LANES <= n; i += LANES) window_sum_step(x, count, from + i, y, to + i, LANES, d);
        if (i < n) window_sum_step(x, count, from + i, y, to + i, n - i, d);
    }
}

static void window_sum_i8_u16(const void *const *x, size_t count, ptrdiff_t x_step, void *y,
                              size_t n, size_t columns, const qops_mean *mean) {
    (void)mean;
    window_sum(x, count, x_step, y, n, columns, i8);
}

static void window_sum_u8_u16(const void *const *x, size_t count, ptrdiff_t x_step, void *y,
                              size_t n, size_t columns, const qops_mean *mean) {
    (void)mean;
    window_sum(x, count, x_step, y, n, columns, u8);
}
