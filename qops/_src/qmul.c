/*@targets $maxopt #all */
/* qmul - y[i] = quantize(dequantize(a[i]) * dequantize(b[i])); see binary.h. */
#include "binary.h"

static void qmul_f32_f32(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, MUL, f32);
}

static void qmul_i8_i8(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, MUL, i8);
}

static void qmul_u8_u8(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, MUL, u8);
}
