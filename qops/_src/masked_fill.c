/*@targets $maxopt #all */
/* masked_fill - y[i] = b[i] ? code : a[i]; b are bools, and the code stands where a zero point does.
 *
 * On bits, since a branch costs more than all the rest; compilers make vectors of this loop. */
#include "kernel.h"

static INLINE void masked_fill(const void *a, const void *b, void *y, size_t n,
                               const qops_params *p, qops_dtype d) {
    const uint32_t code = (uint32_t)*p->y.zero;
    const size_t row = p->row; /* a store of bytes could change the one that p points to */
    for (size_t r = 0; r < n / row; r++) {
        const void *x = row_of(a, r, p->a_step);
        const int8_t *mask = row_of(b, r, p->b_step);
        void *to = row_to(y, r, p->y_step);
        for (size_t i = 0; i < row; i++) {
            if (d == u8) {
                const uint8_t keep = (uint8_t)(mask[i] - 1), old = ((const uint8_t *)x)[i];
                ((uint8_t *)to)[i] = (uint8_t)(((old ^ code) & keep) ^ code);
            } else if (d == u16) {
                const uint16_t keep = (uint16_t)(mask[i] - 1), old = ((const uint16_t *)x)[i];
                ((uint16_t *)to)[i] = (uint16_t)(((old ^ code) & keep) ^ code);
            } else {
                const uint32_t keep = (uint32_t)(mask[i] - 1), old = ((const uint32_t *)x)[i];
                ((uint32_t *)to)[i] = ((old ^ code) & keep) ^ code;
            }
        }
    }
}

static void masked_fill_i32_i32(const void *a, const void *b, void *y, size_t n,
                                const qops_params *p) {
    masked_fill(a, b, y, n, p, i32);
}

static void masked_fill_u16_u16(const void *a, const void *b, void *y, size_t n,
                                const qops_params *p) {
    masked_fill(a, b, y, n, p, u16);
}

static void masked_fill_u8_u8(const void *a, const void *b, void *y, size_t n,
                              const qops_params *p) {
    masked_fill(a, b, y, n, p, u8);
}
