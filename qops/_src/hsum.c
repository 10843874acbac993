/*@targets $maxopt #all */
/* hsum - *total += sum of x[i], exactly, for any n */
#include "sums.h"

/* Sums of bytes in 64-bit lanes need no flush: 2**64 / 255 bytes is more than any memory. */
static INLINE void hsum_bytes(const void *x, size_t n, qops_total *total, qops_dtype in) {
    vbyte_sums s = vbyte_sums_zero();
    size_t i = unaligned_head(x, 1, n);
    if (i > 0) s = vbyte_sums_add(in, s, vbytes_load(in, x, 0, i), i);
    for (; i + LANES <= n; i += LANES)
        s = vbyte_sums_add(in, s, vbytes_load(in, x, i, LANES), LANES);
    if (i < n) s = vbyte_sums_add(in, s, vbytes_load(in, x, i, n - i), n - i);
    total_add(total, (int64_t)vbyte_sums_total(s));
    if (in == i8) total_add(total, INT8_MIN * (int64_t)n);
}

static INLINE void hsum_wide(const void *x, size_t n, qops_total *total, qops_dtype in) {
    size_t i = 0;
    while (i < n) {
        const size_t end = n - i > MOST_WIDE ? i + MOST_WIDE : n;
        vi64 s = vi64_zero();
        for (; i + LANES <= end; i += LANES)
            s = vi64_add(s, vi64_from_i32(vi32_load_as(in, x, i, LANES)));
        if (i < end) s = vi64_add(s, vi64_from_i32(vi32_load_as(in, x, i, end - i)));
        i = end;
        total_add(total, vi64_total(s));
    }
}

static void hsum_u8_i64(const void *x, size_t n, qops_total *t) { hsum_bytes(x, n, t, u8); }
static void hsum_i8_i64(const void *x, size_t n, qops_total *t) { hsum_bytes(x, n, t, i8); }
static void hsum_u16_i64(const void *x, size_t n, qops_total *t) { hsum_wide(x, n, t, u16); }
static void hsum_i16_i64(const void *x, size_t n, qops_total *t) { hsum_wide(x, n, t, i16); }
static void hsum_i32_i64(const void *x, size_t n, qops_total *t) { hsum_wide(x, n, t, i32); }
