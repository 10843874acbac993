/*@targets $maxopt #all avx512_icl */
/* qadd - y[i] = quantize(dequantize(a[i]) + dequantize(b[i])); see binary.h. */
#include "binary.h"

static void qadd_f32_f32(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, ADD, f32);
}

static void qadd_i8_i8(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, ADD, i8);
}

static void qadd_u8_u8(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, ADD, u8);
}
