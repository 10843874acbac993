/*@targets $maxopt #all */
/* tile_int - int32 arithmetic of tile programs, which also stands for narrower integers and bools
 *
 * As NumPy: it wraps, division by zero gives 0, and shifts beyond the width give 0 or the sign. */
#include "kernel.h"
#include "opcodes.h"

static INLINE int32_t int_floor_divide(int32_t a, int32_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int32_t)(0 - (uint32_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static INLINE int32_t int_remainder(int32_t a, int32_t b) {
    if (b == 0 || b == -1) return 0;
    const int32_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Of integers of a dtype; what it can't hold wraps. */
static INLINE int32_t wrapped(int32_t v, int dtype) {
    return dtype == u8    ? (uint8_t)v
           : dtype == i8  ? (int8_t)v
           : dtype == u16 ? (uint16_t)v
           : dtype == i16 ? (int16_t)v
                          : v;
}

static INLINE void wrap(const int32_t *a, int32_t *y, size_t n, int dtype) {
    for (size_t i = 0; i < n; i++) y[i] = wrapped(a[i], dtype);
}

static void tile_int_i32_i32(int opcode, int arg, const void *const *x, void *to, size_t n) {
    const int32_t *a = x[0], *b = x[1], *c = x[2];
    int32_t *y = to;
    switch (opcode) {
    case TADD:
        for (size_t i = 0; i < n; i++) y[i] = (int32_t)((uint32_t)a[i] + (uint32_t)b[i]);
        break;
    case TSUB:
        for (size_t i = 0; i < n; i++) y[i] = (int32_t)((uint32_t)a[i] - (uint32_t)b[i]);
        break;
    case TMUL:
        for (size_t i = 0; i < n; i++) y[i] = (int32_t)((uint32_t)a[i] * (uint32_t)b[i]);
        break;
    case TFLOORDIV:
        for (size_t i = 0; i < n; i++) y[i] = int_floor_divide(a[i], b[i]);
        break;
    case TREM:
        for (size_t i = 0; i < n; i++) y[i] = int_remainder(a[i], b[i]);
        break;
    case TMAX:
        for (size_t i = 0; i < n; i++) y[i] = a[i] > b[i] ? a[i] : b[i];
        break;
    case TMIN:
        for (size_t i = 0; i < n; i++) y[i] = a[i] < b[i] ? a[i] : b[i];
        break;
    case TAND:
        for (size_t i = 0; i < n; i++) y[i] = a[i] & b[i];
        break;
    case TOR:
        for (size_t i = 0; i < n; i++) y[i] = a[i] | b[i];
        break;
    case TXOR:
        for (size_t i = 0; i < n; i++) y[i] = a[i] ^ b[i];
        break;
    case TSHL:
        for (size_t i = 0; i < n; i++)
            y[i] = (uint32_t)b[i] < 32 ? (int32_t)((uint32_t)a[i] << b[i]) : 0;
        break;
    case TSHR:
        for (size_t i = 0; i < n; i++) y[i] = a[i] >> ((uint32_t)b[i] < 32 ? b[i] : 31);
        break;
    case TABS:
        for (size_t i = 0; i < n; i++) y[i] = a[i] < 0 ? (int32_t)(0 - (uint32_t)a[i]) : a[i];
        break;
    case TNEG:
        for (size_t i = 0; i < n; i++) y[i] = (int32_t)(0 - (uint32_t)a[i]);
        break;
    case TNOT:
        for (size_t i = 0; i < n; i++) y[i] = ~a[i];
        break;
    case TSIGN:
        for (size_t i = 0; i < n; i++) y[i] = (a[i] > 0) - (a[i] < 0);
        break;
    case TSQUARE:
        for (size_t i = 0; i < n; i++) y[i] = (int32_t)((uint32_t)a[i] * (uint32_t)a[i]);
        break;
    case TSEL: /* of any 32 bits */
        for (size_t i = 0; i < n; i++) {
            const int32_t v = b[i], w = c[i]; /* both are read, so that no branch is needed */
            y[i] = a[i] ? v : w;
        }
        break;
    case TCVT:
        switch (arg) { /* constants, with which the loop becomes vectors */
        case u8: wrap(a, y, n, u8); break;
        case i8: wrap(a, y, n, i8); break;
        case u16: wrap(a, y, n, u16); break;
        case i16: wrap(a, y, n, i16); break;
        default: wrap(a, y, n, i32);
        }
        break;
    default: break;
    }
}
