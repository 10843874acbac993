/*@targets $maxopt #all */
/* qdiv - y[i] = quantize(dequantize(a[i]) / dequantize(b[i])); see binary.h. */
#include "binary.h"

static void qdiv_f32_f32(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, DIV, f32);
}

static void qdiv_i8_i8(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, DIV, i8);
}

static void qdiv_u8_u8(const void *a, const void *b, void *y, size_t n, const qops_params *p) {
    binary_loop(a, b, y, n, p, DIV, u8);
}
