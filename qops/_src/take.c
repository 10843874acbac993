/*@targets $maxopt #all avx512_icl */
/* take - y[i] = entries[x[i]], bytes by bytes */
#include "kernel.h"

static INLINE void take_step(vtable t, const void *x, void *y, size_t i, size_t m) {
    vcodes_store(u8, y, i, vtable_take(t, vbytes_load(u8, x, i, m)), m);
}

static void take_u8_u8(const void *x, void *y, size_t n, const void *entries) {
    const vtable t = vtable_load((const uint8_t *)entries);
    size_t i = unaligned_head(y, 1, n);
    if (i > 0) take_step(t, x, y, 0, i);
    for (; i + LANES <= n; i += LANES) take_step(t, x, y, i, LANES);
    if (i < n) take_step(t, x, y, i, n - i);
}
