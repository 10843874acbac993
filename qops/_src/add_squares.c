/*@targets $maxopt #all */
/* add_squares - y[i] += sums of x[i]**2 over rows; int32 codes could overflow y and have none. See accumulate.h. */
#include "accumulate.h"

static void add_squares_u8_i64(const void *x, ptrdiff_t step, size_t rows, int64_t *y, size_t n) {
    accumulate_loop(x, step, rows, y, n, u8, true);
}

static void add_squares_i8_i64(const void *x, ptrdiff_t step, size_t rows, int64_t *y, size_t n) {
    accumulate_loop(x, step, rows, y, n, i8, true);
}

static void add_squares_u16_i64(const void *x, ptrdiff_t step, size_t rows, int64_t *y, size_t n) {
    accumulate_loop(x, step, rows, y, n, u16, true);
}

static void add_squares_i16_i64(const void *x, ptrdiff_t step, size_t rows, int64_t *y, size_t n) {
    accumulate_loop(x, step, rows, y, n, i16, true);
}
