/*@targets $maxopt #all */
/* tile_cast - tiles of another dtype: integers widen, or lose what a narrower one can't hold; float32
 * numbers lose their fraction and saturate to the integers of dtype arg, and NaN becomes 0 */
#include "kernel.h"
#include "opcodes.h"

static void tile_cast_u8_i32(int opcode, int arg, const void *const *x, void *to, size_t n) {
    const uint8_t *a = x[0];
    int32_t *y = to;
    (void)opcode, (void)arg;
    for (size_t i = 0; i < n; i++) y[i] = a[i];
}

static void tile_cast_i8_i32(int opcode, int arg, const void *const *x, void *to, size_t n) {
    const int8_t *a = x[0];
    int32_t *y = to;
    (void)opcode, (void)arg;
    for (size_t i = 0; i < n; i++) y[i] = a[i];
}

static void tile_cast_u16_i32(int opcode, int arg, const void *const *x, void *to, size_t n) {
    const uint16_t *a = x[0];
    int32_t *y = to;
    (void)opcode, (void)arg;
    for (size_t i = 0; i < n; i++) y[i] = a[i];
}

static void tile_cast_i16_i32(int opcode, int arg, const void *const *x, void *to, size_t n) {
    const int16_t *a = x[0];
    int32_t *y = to;
    (void)opcode, (void)arg;
    for (size_t i = 0; i < n; i++) y[i] = a[i];
}

static void tile_cast_i32_u8(int opcode, int arg, const void *const *x, void *to, size_t n) {
    const int32_t *a = x[0];
    uint8_t *y = to;
    (void)opcode, (void)arg;
    for (size_t i = 0; i < n; i++) y[i] = (uint8_t)a[i];
}

static void tile_cast_i32_u16(int opcode, int arg, const void *const *x, void *to, size_t n) {
    const int32_t *a = x[0];
    uint16_t *y = to;
    (void)opcode, (void)arg;
    for (size_t i = 0; i < n; i++) y[i] = (uint16_t)a[i];
}

static void tile_cast_i32_f32(int opcode, int arg, const void *const *x, void *to, size_t n) {
    const int32_t *a = x[0];
    float *y = to;
    (void)opcode, (void)arg;
    for (size_t i = 0; i < n; i++) y[i] = (float)a[i];
}

static void tile_cast_f32_i32(int opcode, int arg, const void *const *x, void *to, size_t n) {
    const float *a = x[0];
    int32_t *y = to;
    const double low = code_min((qops_dtype)arg), high = code_max((qops_dtype)arg);
    (void)opcode;
    for (size_t i = 0; i < n; i++) {
        const double v = a[i] == a[i] ? a[i] : 0;
        y[i] = (int32_t)(v < low ? low : v > high ? high : v);
    }
}
