/* accumulate.h - y[i] += the sum of x[i] or x[i]**2 over rows: sums over outer axes.
 *
 * The rows' sums stay in registers: of bytes in 16-bit lanes, of words and of squares of bytes in
 * 32-bit ones, which ACCUMULATED_ROWS keeps from overflowing, else in 64-bit ones. */
#ifndef QOPS_ACCUMULATE_H
#define QOPS_ACCUMULATE_H

#include "kernel.h"

_Static_assert((int64_t)ACCUMULATED_ROWS * UINT8_MAX * UINT8_MAX <= INT32_MAX &&
                   (int64_t)ACCUMULATED_ROWS * UINT16_MAX <= INT32_MAX &&
                   ACCUMULATED_ROWS * UINT8_MAX <= UINT16_MAX,
               "sums in 16-bit and 32-bit lanes");

static INLINE vi64 accumulated(const void *x, ptrdiff_t step, size_t rows, size_t i, size_t m,
                               qops_dtype in, bool square) {
    if (in == i32 || (square && (in == u16 || in == i16))) {
        vi64 sum = vi64_zero();
        for (size_t r = 0; r < rows; r++) {
            const vi32 q = vi32_load_as(in, row_of(x, r, step), i, m);
            sum = vi64_add(sum, square ? vi64_square(q) : vi64_from_i32(q));
        }
        return sum;
    }
    if (!square && (in == u8 || in == i8)) { /* each less the lowest code */
        vcodes sum = vcodes_zero();
        for (size_t r = 0; r < rows; r++) sum = vcodes_add_bytes(in, sum, row_of(x, r, step), i, m);
        const vi32 lowest = vi32_set((int32_t)rows * code_min(in));
        return vi64_from_i32(vi32_add(vi32_from_words(sum), lowest));
    }
    vi32 sum = vi32_set(0);
    for (size_t r = 0; r < rows; r++) {
        const vi32 q = vi32_load_as(in, row_of(x, r, step), i, m);
        sum = vi32_add(sum, square ? vi32_mul(q, q) : q);
    }
    return vi64_from_i32(sum);
}

static INLINE void accumulate_step(const void *x, ptrdiff_t step, size_t rows, int64_t *y, size_t i,
                                   size_t m, qops_dtype in, bool square) {
    const vi64 sum = accumulated(x, step, rows, i, m, in, square);
    vi64_store(y + i, vi64_add(vi64_load(y + i, m), sum), m);
}

/* Compilers make vectors of a single lane's loop over elements, not of that over rows. */
static INLINE void accumulate_loop(const void *x, ptrdiff_t step, size_t rows, int64_t *y, size_t n,
                                   qops_dtype in, bool square) {
    const size_t together = LANES == 1 ? 1 : rows;
    for (size_t r = 0; r < rows; r += together) {
        const void *from = row_of(x, r, step);
        size_t i = 0;
        for (; i + LANES <= n; i += LANES)
            accumulate_step(from, step, together, y, i, LANES, in, square);
        if (i < n) accumulate_step(from, step, together, y, i, n - i, in, square);
    }
}

#endif
