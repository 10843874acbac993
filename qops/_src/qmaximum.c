/*@targets $maxopt #all avx512_icl */
/* qmaximum - y[i] = quantize(max(dequantize(a[i]), dequantize(b[i]))); see binary.h. */
#include "binary.h"

static void qmaximum_f32_f32(const void *a, const void *b, void *y, size_t n,
                             const qops_params *p) {
    binary_loop(a, b, y, n, p, MAXIMUM, f32);
}

static void qmaximum_i8_i8(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, MAXIMUM, i8);
}

static void qmaximum_u8_u8(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, MAXIMUM, u8);
}
