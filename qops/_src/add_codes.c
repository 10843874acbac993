/*@targets $maxopt #all */
/* add_codes - y[i] += sums of x[i] over rows; see accumulate.h. */
#include "accumulate.h"

static void add_codes_u8_i64(const void *x, ptrdiff_t step, size_t rows, int64_t *y, size_t n) {
    accumulate_loop(x, step, rows, y, n, u8, false);
}

static void add_codes_i8_i64(const void *x, ptrdiff_t step, size_t rows, int64_t *y, size_t n) {
    accumulate_loop(x, step, rows, y, n, i8, false);
}

static void add_codes_u16_i64(const void *x, ptrdiff_t step, size_t rows, int64_t *y, size_t n) {
    accumulate_loop(x, step, rows, y, n, u16, false);
}

static void add_codes_i16_i64(const void *x, ptrdiff_t step, size_t rows, int64_t *y, size_t n) {
    accumulate_loop(x, step, rows, y, n, i16, false);
}

static void add_codes_i32_i64(const void *x, ptrdiff_t step, size_t rows, int64_t *y, size_t n) {
    accumulate_loop(x, step, rows, y, n, i32, false);
}
