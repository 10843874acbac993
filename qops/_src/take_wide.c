/*@targets $maxopt scalar */
/* take_wide - y[i] = entries[x[i]] where either has more than a byte; f32 and f64 stand for elements of
 * 4 and 8 bytes. Loads one by one, at every level: see take_words.c. */
#include "kernel.h"

static INLINE size_t index_at(const void *x, size_t i, qops_dtype in) {
    return in == u8 ? ((const uint8_t *)x)[i] : ((const uint16_t *)x)[i];
}

static INLINE void take_plain(const void *x, void *y, size_t n, const void *entries, qops_dtype in,
                              qops_dtype out) {
    for (size_t i = 0; i < n; i++) {
        const size_t k = index_at(x, i, in);
        if (out == u8) ((uint8_t *)y)[i] = ((const uint8_t *)entries)[k];
        else if (out == u16) ((uint16_t *)y)[i] = ((const uint16_t *)entries)[k];
        else if (out == f32) ((uint32_t *)y)[i] = ((const uint32_t *)entries)[k];
        else ((uint64_t *)y)[i] = ((const uint64_t *)entries)[k];
    }
}

static void take_wide_u8_u16(const void *x, void *y, size_t n, const void *entries) {
    take_plain(x, y, n, entries, u8, u16);
}
static void take_wide_u8_f64(const void *x, void *y, size_t n, const void *entries) {
    take_plain(x, y, n, entries, u8, f64);
}
static void take_wide_u16_u8(const void *x, void *y, size_t n, const void *entries) {
    take_plain(x, y, n, entries, u16, u8);
}
static void take_wide_u16_u16(const void *x, void *y, size_t n, const void *entries) {
    take_plain(x, y, n, entries, u16, u16);
}
static void take_wide_u16_f32(const void *x, void *y, size_t n, const void *entries) {
    take_plain(x, y, n, entries, u16, f32);
}
static void take_wide_u16_f64(const void *x, void *y, size_t n, const void *entries) {
    take_plain(x, y, n, entries, u16, f64);
}
