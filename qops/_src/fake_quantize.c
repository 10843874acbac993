/*@targets $maxopt #all */
/* fake_quantize - y[i] = clip(rint(x[i] / scale), min - z, max - z) * scale; NaN becomes 0.
 *
 * That is dequantize(quantize(x[i])), bit for bit. */
#include "fake_quantizer.h"

static void fake_quantize_bf16_f32(const void *x, void *y, size_t n, const qops_params *p) {
    fake(x, y, n, p, bf16, NUMBERS);
}

static void fake_quantize_f16_f32(const void *x, void *y, size_t n, const qops_params *p) {
    fake(x, y, n, p, f16, NUMBERS);
}

static void fake_quantize_f32_f32(const void *x, void *y, size_t n, const qops_params *p) {
    fake(x, y, n, p, f32, NUMBERS);
}

static void fake_quantize_f64_f64(const void *x, void *y, size_t n, const qops_params *p) {
    fake(x, y, n, p, f64, NUMBERS);
}
