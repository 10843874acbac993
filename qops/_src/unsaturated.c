/*@targets $maxopt #all */
/* unsaturated - y[i] = min - z <= rint(x[i] / scale) <= max - z; 0 for NaN */
#include "fake_quantizer.h"

static void unsaturated_bf16_u8(const void *x, void *y, size_t n, const qops_params *p) {
    fake(x, y, n, p, bf16, UNSATURATED);
}

static void unsaturated_f16_u8(const void *x, void *y, size_t n, const qops_params *p) {
    fake(x, y, n, p, f16, UNSATURATED);
}

static void unsaturated_f32_u8(const void *x, void *y, size_t n, const qops_params *p) {
    fake(x, y, n, p, f32, UNSATURATED);
}

static void unsaturated_f64_u8(const void *x, void *y, size_t n, const qops_params *p) {
    fake(x, y, n, p, f64, UNSATURATED);
}
