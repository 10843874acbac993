/*@targets $maxopt scalar avx512_icl */
/* take_words - y[i] = entries[x[i]], bytes by elements of 4 bytes, for which f32 stands
 *
 * Other levels can't hold the table in registers, and gathering instructions are no faster than the
 * plain loads of scalar (Zen 4, 64 Ki elements: 2.4 G/s at 512 bits, plain 3.3, here 13.6). */
#include "kernel.h"

static INLINE void take_words_step(vwide_table t, const void *x, void *y, size_t i, size_t m) {
    vi32_store((int32_t *)y + i, vwide_table_take(t, vbytes_load(u8, x, i, m)), m);
}

static void take_words_u8_f32(const void *x, void *y, size_t n, const void *entries) {
    const vwide_table t = vwide_table_load((const int32_t *)entries);
    size_t i = unaligned_head(y, 4, n);
    if (i > 0) take_words_step(t, x, y, 0, i);
    for (; i + LANES <= n; i += LANES) take_words_step(t, x, y, i, LANES);
    if (i < n) take_words_step(t, x, y, i, n - i);
}
