/*@targets $maxopt #all avx512_icl */
/* qsub - y[i] = quantize(dequantize(a[i]) - dequantize(b[i])); see binary.h. */
#include "binary.h"

static void qsub_f32_f32(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, SUB, f32);
}

static void qsub_i8_i8(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, SUB, i8);
}

static void qsub_u8_u8(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, SUB, u8);
}
