/*@targets $maxopt #all */
/* tile_float - float32 arithmetic of tile programs
 *
 * Compilers make vectors of these loops; without contraction they all round alike. */
#include "elementary.h"
#include "opcodes.h"

/* As numpy.remainder */
static INLINE float float_remainder(float a, float b) {
    const float r = fmodf(a, b);
    if (b == 0) return NAN;
    if (r == 0) return copysignf(0, b);
    return (b < 0) != (r < 0) ? r + b : r;
}

/* As numpy.floor_divide */
static INLINE float float_floor_divide(float a, float b) {
    if (b == 0) return a / b;
    const float r = fmodf(a, b);
    float d = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0)) d -= 1;
    if (d == 0) return copysignf(0, a / b);
    const float whole = floorf(d);
    return d - whole > 0.5f ? whole + 1 : whole;
}

static INLINE float float_sign(float a) { return a > 0 ? 1.0f : a < 0 ? -1.0f : a == 0 ? 0.0f : a; }

static void tile_float_f32_f32(int opcode, int arg, const void *const *x, void *to, size_t n) {
    const float *a = x[0], *b = x[1];
    float *y = to;
    (void)arg;
    switch (opcode) {
    case TADD:
        for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
        break;
    case TSUB:
        for (size_t i = 0; i < n; i++) y[i] = a[i] - b[i];
        break;
    case TMUL:
        for (size_t i = 0; i < n; i++) y[i] = a[i] * b[i];
        break;
    case TDIV:
        for (size_t i = 0; i < n; i++) y[i] = a[i] / b[i];
        break;
    case TFLOORDIV:
        for (size_t i = 0; i < n; i++) y[i] = float_floor_divide(a[i], b[i]);
        break;
    case TREM:
        for (size_t i = 0; i < n; i++) y[i] = float_remainder(a[i], b[i]);
        break;
    case TPOW:
        for (size_t i = 0; i < n; i++) y[i] = (float)power_of(a[i], b[i]);
        break;
    case TMAX:
        for (size_t i = 0; i < n; i++) y[i] = a[i] >= b[i] || a[i] != a[i] ? a[i] : b[i];
        break;
    case TMIN:
        for (size_t i = 0; i < n; i++) y[i] = a[i] <= b[i] || a[i] != a[i] ? a[i] : b[i];
        break;
    case TABS:
        for (size_t i = 0; i < n; i++) y[i] = fabsf(a[i]);
        break;
    case TNEG:
        for (size_t i = 0; i < n; i++) y[i] = -a[i];
        break;
    case TSIGN:
        for (size_t i = 0; i < n; i++) y[i] = float_sign(a[i]);
        break;
    case TSQUARE:
        for (size_t i = 0; i < n; i++) y[i] = a[i] * a[i];
        break;
    case TSQRT:
        for (size_t i = 0; i < n; i++) y[i] = sqrtf(a[i]);
        break;
    case TRECIP:
        for (size_t i = 0; i < n; i++) y[i] = 1 / a[i];
        break;
    case TRINT:
        for (size_t i = 0; i < n; i++) y[i] = rintf(a[i]);
        break;
    case TFLOOR:
        for (size_t i = 0; i < n; i++) y[i] = floorf(a[i]);
        break;
    case TCEIL:
        for (size_t i = 0; i < n; i++) y[i] = ceilf(a[i]);
        break;
    case TTRUNC:
        for (size_t i = 0; i < n; i++) y[i] = truncf(a[i]);
        break;
    case TEXP:
        for (size_t i = 0; i < n; i++) y[i] = (float)exp_of(a[i]);
        break;
    case TLOG:
        for (size_t i = 0; i < n; i++) y[i] = (float)log_of(a[i]);
        break;
    case TTANH:
        for (size_t i = 0; i < n; i++) y[i] = (float)tanh_of(a[i]);
        break;
    case TSIGMOID:
        for (size_t i = 0; i < n; i++) y[i] = (float)sigmoid_of(a[i]);
        break;
    case TERF:
        for (size_t i = 0; i < n; i++) y[i] = (float)erf_of(a[i]);
        break;
    default: break;
    }
}
