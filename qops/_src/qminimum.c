/*@targets $maxopt #all avx512_icl */
/* qminimum - y[i] = quantize(min(dequantize(a[i]), dequantize(b[i]))); see binary.h. */
#include "binary.h"

static void qminimum_f32_f32(const void *a, const void *b, void *y, size_t n,
                             const qops_params *p) {
    binary_loop(a, b, y, n, p, MINIMUM, f32);
}

static void qminimum_i8_i8(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, MINIMUM, i8);
}

static void qminimum_u8_u8(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, MINIMUM, u8);
}
