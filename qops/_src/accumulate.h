/* accumulate.h - y[i] += x[i] or x[i]**2: sums over outer axes, a row at a time. */
#ifndef QOPS_ACCUMULATE_H
#define QOPS_ACCUMULATE_H

#include "kernel.h"

static INLINE void accumulate_step(const void *x, int64_t *y, size_t i, size_t m, qops_dtype in,
                                   bool square) {
    const vi32 q = vi32_load_as(in, x, i, m);
    const vi64 v = square ? vi64_square(q) : vi64_from_i32(q);
    vi64_store(y + i, vi64_add(vi64_load(y + i, m), v), m);
}

static INLINE void accumulate_loop(const void *x, int64_t *y, size_t n, qops_dtype in,
                                   bool square) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) accumulate_step(x, y, i, LANES, in, square);
    if (i < n) accumulate_step(x, y, i, n - i, in, square);
}

#endif
