/*@targets $maxopt #all */
/* tile_compare - comparisons of tile programs: 1 or 0, of NaN 0 but for != */
#include "kernel.h"
#include "opcodes.h"

static void tile_compare_f32_i32(int opcode, int arg, const void *const *x, void *to, size_t n) {
    const float *a = x[0], *b = x[1];
    int32_t *y = to;
    (void)arg;
    switch (opcode) {
    case TCMPEQ:
        for (size_t i = 0; i < n; i++) y[i] = a[i] == b[i];
        break;
    case TCMPNE:
        for (size_t i = 0; i < n; i++) y[i] = a[i] != b[i];
        break;
    case TCMPLT:
        for (size_t i = 0; i < n; i++) y[i] = a[i] < b[i];
        break;
    case TCMPLE:
        for (size_t i = 0; i < n; i++) y[i] = a[i] <= b[i];
        break;
    case TCMPGT:
        for (size_t i = 0; i < n; i++) y[i] = a[i] > b[i];
        break;
    case TCMPGE:
        for (size_t i = 0; i < n; i++) y[i] = a[i] >= b[i];
        break;
    default: break;
    }
}

static void tile_compare_i32_i32(int opcode, int arg, const void *const *x, void *to, size_t n) {
    const int32_t *a = x[0], *b = x[1];
    int32_t *y = to;
    (void)arg;
    switch (opcode) {
    case TCMPEQ:
        for (size_t i = 0; i < n; i++) y[i] = a[i] == b[i];
        break;
    case TCMPNE:
        for (size_t i = 0; i < n; i++) y[i] = a[i] != b[i];
        break;
    case TCMPLT:
        for (size_t i = 0; i < n; i++) y[i] = a[i] < b[i];
        break;
    case TCMPLE:
        for (size_t i = 0; i < n; i++) y[i] = a[i] <= b[i];
        break;
    case TCMPGT:
        for (size_t i = 0; i < n; i++) y[i] = a[i] > b[i];
        break;
    case TCMPGE:
        for (size_t i = 0; i < n; i++) y[i] = a[i] >= b[i];
        break;
    default: break;
    }
}
