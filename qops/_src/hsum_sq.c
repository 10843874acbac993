/*@targets $maxopt #all avx512_icl */
/* hsum_sq - *total += sum of x[i]**2, exactly, for any n */
#include "sums.h"

/* How many steps keep a 32-bit lane, read as unsigned, from overflowing. */
#define MOST_SQUARES(most) (UINT32_MAX / (SQUARES_PER_LANE * (uint32_t)(most) * (most)))
static const size_t steps_u8 = MOST_SQUARES(UINT8_MAX), steps_i8 = MOST_SQUARES(-INT8_MIN);
_Static_assert(SQUARES_PER_LANE != 2 ||
                   (MOST_SQUARES(UINT8_MAX) == 33025 && MOST_SQUARES(-INT8_MIN) == 131071),
               "the table in numerics.md");

static INLINE void hsum_sq_bytes(const void *x, size_t n, qops_total *total, qops_dtype in) {
    const size_t most = (in == u8 ? steps_u8 : steps_i8) * LANES;
    size_t i = unaligned_head(x, 1, n);
    if (i > 0) { /* apart: a step more in the first sums could overflow a lane */
        const vsquare_sums s = vsquare_sums_add(in, vsquare_sums_zero(), x, 0, i);
        total_add(total, (int64_t)vsquare_sums_total(in, s));
    }
    while (i < n) {
        const size_t end = n - i > most ? i + most : n;
        vsquare_sums s[SQUARE_CHAINS];
        for (int k = 0; k < SQUARE_CHAINS; k++) s[k] = vsquare_sums_zero();
        for (; i + SQUARE_CHAINS * LANES <= end; i += SQUARE_CHAINS * LANES)
            for (int k = 0; k < SQUARE_CHAINS; k++)
                s[k] = vsquare_sums_add(in, s[k], x, i + k * LANES, LANES);
        for (; i + LANES <= end; i += LANES) s[0] = vsquare_sums_add(in, s[0], x, i, LANES);
        if (i < end) s[0] = vsquare_sums_add(in, s[0], x, i, end - i);
        i = end;
        for (int k = 0; k < SQUARE_CHAINS; k++)
            total_add(total, (int64_t)vsquare_sums_total(in, s[k]));
    }
}

/* Squares of int32 codes reach 2**62, so their halves are summed apart. */
static INLINE void hsum_sq_step(vi64 *low, vi64 *high, const void *x, size_t i, size_t m,
                                qops_dtype in) {
    const vi64 square = vi64_square(vi32_load_as(in, x, i, m));
    *low = vi64_add(*low, in == i32 ? vi64_low(square) : square);
    if (in == i32) *high = vi64_add(*high, vi64_high(square));
}

static INLINE void hsum_sq_wide(const void *x, size_t n, qops_total *total, qops_dtype in) {
    size_t i = 0;
    while (i < n) {
        const size_t end = n - i > MOST_WIDE ? i + MOST_WIDE : n;
        vi64 low = vi64_zero(), high = vi64_zero();
        for (; i + LANES <= end; i += LANES) hsum_sq_step(&low, &high, x, i, LANES, in);
        if (i < end) hsum_sq_step(&low, &high, x, i, end - i, in);
        i = end;
        total_add(total, vi64_total(low));
        total_add_high(total, vi64_total(high));
    }
}

static void hsum_sq_u8_i64(const void *x, size_t n, qops_total *t) { hsum_sq_bytes(x, n, t, u8); }
static void hsum_sq_i8_i64(const void *x, size_t n, qops_total *t) { hsum_sq_bytes(x, n, t, i8); }
static void hsum_sq_u16_i64(const void *x, size_t n, qops_total *t) { hsum_sq_wide(x, n, t, u16); }
static void hsum_sq_i16_i64(const void *x, size_t n, qops_total *t) { hsum_sq_wide(x, n, t, i16); }
static void hsum_sq_i32_i64(const void *x, size_t n, qops_total *t) { hsum_sq_wide(x, n, t, i32); }
