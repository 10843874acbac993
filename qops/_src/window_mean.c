/*@targets $maxopt #all */
/* window_mean - y[i] = rint((the sum of all x[k][i] - qmin - offset) * factor) + zero, for up to
 * 257 of them. The caller has made sure that no product is beyond 2**30. */
#include "kernel.h"

static INLINE void window_mean_step(const void *const *x, size_t count, size_t from, void *y,
                                    size_t to, size_t m, qops_mean k, qops_dtype d) {
    vcodes sum = vcodes_zero();
    for (size_t i = 0; i < count; i++) sum = vcodes_add_bytes(d, sum, x[i], from, m);
    const vf32 v = vf32_from_i32(vi32_sub(vi32_from_words(sum), vi32_set(k.offset)));
    const vi32 t = vi32_round(vf32_mul(v, vf32_set(k.factor)));
    vcodes_store(d, y, to, vcodes_from_sum(d, t, vi32_set(k.zero)), m);
}

static INLINE void window_mean(const void *const *x, size_t count, ptrdiff_t x_step, void *y,
                               size_t n, size_t columns, qops_mean k, qops_dtype d) {
    for (size_t c = 0; c < columns; c++) {
        const size_t from = c * (size_t)x_step, to = c * n;
        size_t i = 0;
        for (; i + LANES <= n; i += LANES)
            window_mean_step(x, count, from + i, y, to + i, LANES, k, d);
        if (i < n) window_mean_step(x, count, from + i, y, to + i, n - i, k, d);
    }
}

static void window_mean_i8_i8(const void *const *x, size_t count, ptrdiff_t x_step, void *y,
                              size_t n, size_t columns, const qops_mean *mean) {
    window_mean(x, count, x_step, y, n, columns, *mean, i8);
}

static void window_mean_u8_u8(const void *const *x, size_t count, ptrdiff_t x_step, void *y,
                              size_t n, size_t columns, const qops_mean *mean) {
    window_mean(x, count, x_step, y, n, columns, *mean, u8);
}
