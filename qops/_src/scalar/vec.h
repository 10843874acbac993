/* scalar/vec.h - the primitives, and what they mean: one lane in plain C.
 *
 * The other levels add no meaning, only lanes. v<type> holds LANES elements; a load or store takes
 * the number m of lanes that exist, 1..LANES, and touches no byte beyond them (lanes not loaded
 * are zero). Rounding is to nearest even, nothing is contracted, denormals are kept. The compiler
 * may vectorize these loops for the baseline, so "scalar" is the portable level, not the slow one. */
#ifndef QOPS_VEC_H
#define QOPS_VEC_H

#include "qops.h"

#include <float.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "qops needs float arithmetic in float precision (on x86-32: -msse2 -mfpmath=sse)"
#endif

#define INLINE inline __attribute__((always_inline))
#define LANES 1

typedef float vf32;
typedef double vf64;
typedef int32_t vi32;
typedef int64_t vi64;
typedef int32_t vcodes; /* LANES codes of a dtype of 8 or 16 bits */
typedef int32_t vbytes; /* LANES codes of 8 bits */

/* Loads and stores */
static INLINE vf32 vf32_set(float x) { return x; }
static INLINE vf64 vf64_set(double x) { return x; }
static INLINE vi32 vi32_set(int32_t x) { return x; }
static INLINE vi64 vi64_zero(void) { return 0; }
static INLINE vf32 vf32_load(const float *x, size_t m) { return (void)m, *x; }
static INLINE vf64 vf64_load(const double *x, size_t m) { return (void)m, *x; }
static INLINE vi32 vi32_load(const int32_t *x, size_t m) { return (void)m, *x; }
static INLINE vi64 vi64_load(const int64_t *x, size_t m) { return (void)m, *x; }
static INLINE void vf32_store(float *y, vf32 v, size_t m) { (void)m, *y = v; }
static INLINE void vf64_store(double *y, vf64 v, size_t m) { (void)m, *y = v; }
static INLINE void vi32_store(int32_t *y, vi32 v, size_t m) { (void)m, *y = v; }
static INLINE void vi64_store(int64_t *y, vi64 v, size_t m) { (void)m, *y = v; }

static INLINE float f32_from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static INLINE int32_t f32_to_bits(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* IEEE half to single: shift exponent and fraction into place and scale by 2**(127 - 15), which
 * also normalizes subnormals; infinities and NaNs (>= 2**16 after scaling) get exponent 255. */
static INLINE float f32_from_f16(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const float x = f32_from_bits((uint32_t)(h & 0x7fff) << 13) * 0x1p112f;
    const uint32_t special = x >= 0x1p16f ? 0x7f800000u : 0;
    return f32_from_bits(sign | special | (uint32_t)f32_to_bits(x));
}

/* x[i..i+m) of a dtype f32, f16 or bf16, widened exactly */
static INLINE vf32 vf32_load_as(qops_dtype in, const void *x, size_t i, size_t m) {
    (void)m;
    if (in == f16) return f32_from_f16(((const uint16_t *)x)[i]);
    if (in == bf16) return f32_from_bits((uint32_t)((const uint16_t *)x)[i] << 16);
    return ((const float *)x)[i];
}

/* x[i..i+m) of a code dtype, widened */
static INLINE vi32 vi32_load_as(qops_dtype in, const void *x, size_t i, size_t m) {
    (void)m;
    if (in == u8) return ((const uint8_t *)x)[i];
    if (in == i8) return ((const int8_t *)x)[i];
    if (in == u16) return ((const uint16_t *)x)[i];
    if (in == i16) return ((const int16_t *)x)[i];
    return ((const int32_t *)x)[i];
}

/* Float arithmetic. Max and min give b where a or b is NaN, and clamp gives lo; round wants no NaN. */
static INLINE vf32 vf32_add(vf32 a, vf32 b) { return a + b; }
static INLINE vf32 vf32_sub(vf32 a, vf32 b) { return a - b; }
static INLINE vf32 vf32_mul(vf32 a, vf32 b) { return a * b; }
static INLINE vf32 vf32_div(vf32 a, vf32 b) { return a / b; }
static INLINE vf32 vf32_max(vf32 a, vf32 b) { return a > b ? a : b; }
static INLINE vf32 vf32_min(vf32 a, vf32 b) { return a < b ? a : b; }
static INLINE vf32 vf32_zero_nan(vf32 v) { return v == v ? v : 0.0f; }
static INLINE vf32 vf32_from_i32(vi32 v) { return (float)v; }
static INLINE vf32 vf32_from_f64(vf64 v) { return (float)v; }
static INLINE vf64 vf64_from_f32(vf32 v) { return v; }
static INLINE vf64 vf64_from_i32(vi32 v) { return v; }
static INLINE vf64 vf64_add(vf64 a, vf64 b) { return a + b; }
static INLINE vf64 vf64_sub(vf64 a, vf64 b) { return a - b; }
static INLINE vf64 vf64_mul(vf64 a, vf64 b) { return a * b; }
static INLINE vf64 vf64_div(vf64 a, vf64 b) { return a / b; }
static INLINE vf64 vf64_zero_nan(vf64 v) { return v == v ? v : 0.0; }
static INLINE vf64 vf64_clamp(vf64 v, vf64 lo, vf64 hi) { return !(v > lo) ? lo : v > hi ? hi : v; }
/* for |v| < 2**51; adding 1.5 * 2**52 leaves no bits for a fraction */
static INLINE vf64 vf64_round(vf64 v) { return (v + 0x1.8p52) - 0x1.8p52; }
static INLINE vi32 vi32_from_f64(vf64 v) { return (int32_t)v; } /* of integers in range */

/* rint(x / scale), exactly, where |x / scale| is within what `how` is exact for; beyond, any number
 * on the same side from there to INT32_MIN or LARGEST_QUOTIENT. x may be infinite; of NaN it is some
 * number that saturates. */
typedef struct {
    vf32 scale, recip, recip_low, limit;
} vquotient;

#define QUOTIENT_CLAMP 70000.0f /* beyond all codes of 16 bits */

static INLINE vi32 vi32_round_quotient(quotient_how how, vf32 x, vquotient k) {
    (void)how;
    float q = x / k.scale;
    q = q < -QUOTIENT_CLAMP ? -QUOTIENT_CLAMP : q;
    q = q > QUOTIENT_CLAMP ? QUOTIENT_CLAMP : q;
    return f32_to_bits(q + 0x1.8p23f) - f32_to_bits(0x1.8p23f); /* as in vf64_round */
}

/* Integer arithmetic */
static INLINE vi32 vi32_round(vf32 v) { return vi32_from_f64(vf64_round(v)); } /* below 2**31 */
static INLINE vi32 vi32_add(vi32 a, vi32 b) { return a + b; }
static INLINE vi32 vi32_sub(vi32 a, vi32 b) { return a - b; }
static INLINE vi32 vi32_mul(vi32 a, vi32 b) { return a * b; }
static INLINE vi32 vi32_max(vi32 a, vi32 b) { return a > b ? a : b; }
static INLINE vi32 vi32_min(vi32 a, vi32 b) { return a < b ? a : b; }

/* t + zero, saturated to the codes of dtype out (8 or 16 bits); t as vi32_round_quotient gives it,
 * zero such a code */
static INLINE vcodes vcodes_from_sum(qops_dtype out, vi32 t, vi32 zero) {
    const int32_t c = t + zero, lo = code_min(out), hi = code_max(out);
    return c < lo ? lo : c > hi ? hi : c;
}

/* Codes minus a zero point, and back: between the two an operation has the lanes in an order that
 * is the level's own, the same for all, and the one that is cheapest to get from 8-bit codes. */
static INLINE vi32 vi32_split(qops_dtype in, const void *x, size_t i, size_t m, int32_t zero) {
    return vi32_sub(vi32_load_as(in, x, i, m), vi32_set(zero));
}
static INLINE vcodes vcodes_join(qops_dtype out, vi32 t, vi32 zero) {
    return vcodes_from_sum(out, t, zero);
}

static INLINE vcodes vcodes_max(qops_dtype out, vcodes c, int32_t floor) {
    (void)out;
    return c < floor ? floor : c;
}

/* y[i..i+m) of a dtype of 8 or 16 bits */
static INLINE void vcodes_store(qops_dtype out, void *y, size_t i, vcodes c, size_t m) {
    (void)m;
    if (out == u8 || out == i8) ((uint8_t *)y)[i] = (uint8_t)c;
    else ((uint16_t *)y)[i] = (uint16_t)c;
}

/* All lanes, to a multiple of 64 bytes or of the vector: as the other stores, but around the caches;
 * other cores see them after vstream_end. */
static INLINE void vf32_stream(float *y, vf32 v) { *y = v; }
static INLINE void vcodes_stream(qops_dtype out, void *y, size_t i, vcodes c) {
    vcodes_store(out, y, i, c, 1);
}
static INLINE void vstream_end(void) {}

/* Exact sums. Sums of 32-bit numbers in 64-bit lanes; low and high are the halves of a lane >= 0. */
static INLINE vi64 vi64_from_i32(vi32 v) { return v; }
static INLINE vi64 vi64_square(vi32 v) { return (int64_t)v * v; }
static INLINE vi64 vi64_add(vi64 a, vi64 b) { return a + b; }
static INLINE vi64 vi64_low(vi64 v) { return v & UINT32_MAX; }
static INLINE vi64 vi64_high(vi64 v) { return v >> 32; }
static INLINE int64_t vi64_total(vi64 v) { return v; }

/* Sums of bytes in 64-bit lanes, and of their squares in 32-bit lanes read as unsigned: a step adds
 * up to SQUARES_PER_LANE squares to a lane. */
#define SQUARES_PER_LANE 1
#define SQUARE_CHAINS 1 /* sums that a loop should keep, since an addition waits for the last */
typedef uint64_t vbyte_sums;
typedef uint32_t vsquare_sums;
static INLINE vbytes vbytes_load(qops_dtype in, const void *x, size_t i, size_t m) {
    return vi32_load_as(in, x, i, m);
}
static INLINE vbyte_sums vbyte_sums_zero(void) { return 0; }
/* int8 codes count from -128, that is as code + 128; lanes that were not loaded as zero */
static INLINE vbyte_sums vbyte_sums_add(qops_dtype in, vbyte_sums s, vbytes v, size_t m) {
    (void)m;
    return s + (uint32_t)(v - code_min(in));
}
static INLINE uint64_t vbyte_sums_total(vbyte_sums s) { return s; }
static INLINE vsquare_sums vsquare_sums_zero(void) { return 0; }
static INLINE vsquare_sums vsquare_sums_add(qops_dtype in, vsquare_sums s, const void *x, size_t i,
                                            size_t m) {
    const int32_t q = vi32_load_as(in, x, i, m);
    return s + (uint32_t)(q * q);
}
static INLINE uint64_t vsquare_sums_total(qops_dtype in, vsquare_sums s) { return (void)in, s; }

/* Windows: codes of 8 bits, and their sums in 16, of which the lowest code counts 0 */
static INLINE vbytes vbytes_max(qops_dtype in, vbytes a, vbytes b) {
    return (void)in, a > b ? a : b;
}
static INLINE vcodes vcodes_from_bytes(vbytes v) { return v; }
static INLINE vcodes vcodes_zero(void) { return 0; }
static INLINE vi32 vi32_from_words(vcodes v) { return v; } /* of 16 bits, unsigned */
static INLINE vcodes vcodes_add_bytes(qops_dtype in, vcodes sum, const void *x, size_t i,
                                      size_t m) {
    return sum + vi32_load_as(in, x, i, m) - code_min(in);
}

/* Tables of 256 entries, of a byte and of four: lane i becomes entry v[i]. */
typedef const uint8_t *vtable;
typedef const int32_t *vwide_table;
static INLINE vtable vtable_load(const uint8_t *entries) { return entries; }
static INLINE vcodes vtable_take(vtable t, vbytes v) { return t[v]; }
static INLINE vwide_table vwide_table_load(const int32_t *entries) { return entries; }
static INLINE vi32 vwide_table_take(vwide_table t, vbytes v) { return t[v]; }

#endif
