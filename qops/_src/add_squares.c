/*@targets $maxopt #all */
/* add_squares - y[i] += x[i]**2; int32 codes could overflow y and have none. See accumulate.h. */
#include "accumulate.h"

static void add_squares_u8_i64(const void *x, int64_t *y, size_t n) {
    accumulate_loop(x, y, n, u8, true);
}

static void add_squares_i8_i64(const void *x, int64_t *y, size_t n) {
    accumulate_loop(x, y, n, i8, true);
}

static void add_squares_u16_i64(const void *x, int64_t *y, size_t n) {
    accumulate_loop(x, y, n, u16, true);
}

static void add_squares_i16_i64(const void *x, int64_t *y, size_t n) {
    accumulate_loop(x, y, n, i16, true);
}
