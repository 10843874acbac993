/*@targets $maxopt scalar avx2 */
/* add_codes - y[i] += x[i]; see accumulate.h.
 *
 * The sums go through memory, where 512 bits gain nothing (Zen 4: 0.94 of the speed at 256). */
#include "accumulate.h"

static void add_codes_u8_i64(const void *x, int64_t *y, size_t n) {
    accumulate_loop(x, y, n, u8, false);
}

static void add_codes_i8_i64(const void *x, int64_t *y, size_t n) {
    accumulate_loop(x, y, n, i8, false);
}

static void add_codes_u16_i64(const void *x, int64_t *y, size_t n) {
    accumulate_loop(x, y, n, u16, false);
}

static void add_codes_i16_i64(const void *x, int64_t *y, size_t n) {
    accumulate_loop(x, y, n, i16, false);
}

static void add_codes_i32_i64(const void *x, int64_t *y, size_t n) {
    accumulate_loop(x, y, n, i32, false);
}
