/*@targets $maxopt scalar avx512_icl */
/* exponentials - y[i] = max(x) - x[i] of each row, and the exact sum of entries[y[i]]
 *
 * That is the sum of exponentials that softmax divides by, in units. Other levels can't hold the
 * table in registers, as with take_words; the plain loops become vectors at each level. */
#include "kernel.h"

static INLINE void below_the_highest(const uint8_t *x, uint8_t *y, size_t n, uint8_t flip) {
    uint8_t top = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t v = x[i] ^ flip;
        top = v > top ? v : top;
    }
    for (size_t i = 0; i < n; i++) y[i] = (uint8_t)(top - (x[i] ^ flip));
}

static INLINE void exponentials(const void *x, void *y, size_t rows, size_t n,
                                const int32_t *entries, int64_t *total, qops_dtype in) {
    const vwide_table t = vwide_table_load(entries);
    for (size_t r = 0; r < rows; r++) {
        const uint8_t *from = (const uint8_t *)x + r * n;
        uint8_t *to = (uint8_t *)y + r * n;
        below_the_highest(from, to, n, in == i8 ? 0x80 : 0);
        vi64 sum = vi64_zero();
        size_t i = 0;
        for (; i + LANES <= n; i += LANES)
            sum = vi64_add(sum, vi64_from_i32(vwide_table_take(t, vbytes_load(u8, to, i, LANES))));
        total[r] = vi64_total(sum);
        for (; i < n; i++) total[r] += entries[to[i]];
    }
}

static void exponentials_i8_u8(const void *x, void *y, size_t rows, size_t n,
                               const int32_t *entries, int64_t *total) {
    exponentials(x, y, rows, n, entries, total, i8);
}

static void exponentials_u8_u8(const void *x, void *y, size_t rows, size_t n,
                               const int32_t *entries, int64_t *total) {
    exponentials(x, y, rows, n, entries, total, u8);
}
