/* avx2/vec.h - the primitives on 32 lanes, four 256-bit vectors (x86-64-v3). Meanings: scalar/vec.h.
 *
 * AVX2 has no masks for bytes: m < LANES goes through a zeroed copy on the stack. */
#ifndef QOPS_VEC_H
#define QOPS_VEC_H

#include "qops.h"

#include <immintrin.h>
#include <string.h>

#define INLINE inline __attribute__((always_inline))
#define LANES 32

typedef struct {
    __m256 v[4];
} vf32;
typedef struct {
    __m256d v[8];
} vf64;
typedef struct {
    __m256i v[4];
} vi32;
typedef struct {
    __m256i v[8];
} vi64;
typedef struct {
    __m256i v[2]; /* 8-bit codes: only v[0] */
} vcodes;
typedef __m256i vbytes;

/* Loads and stores */
static INLINE vf32 vf32_set(float x) {
    const __m256 v = _mm256_set1_ps(x);
    return (vf32){{v, v, v, v}};
}

static INLINE vf64 vf64_set(double x) {
    const __m256d v = _mm256_set1_pd(x);
    return (vf64){{v, v, v, v, v, v, v, v}};
}

static INLINE vi32 vi32_set(int32_t x) {
    const __m256i v = _mm256_set1_epi32(x);
    return (vi32){{v, v, v, v}};
}

static INLINE vi64 vi64_zero(void) {
    const __m256i v = _mm256_setzero_si256();
    return (vi64){{v, v, v, v, v, v, v, v}};
}

/* x[i..i+m) of `size` bytes an element, readable to LANES: itself or a zero-filled copy */
static INLINE const void *padded(void *copy, const void *x, size_t i, size_t m, size_t size) {
    const char *from = (const char *)x + i * size;
    if (m == LANES) return from;
    memset(copy, 0, LANES * size);
    return memcpy(copy, from, m * size);
}

static INLINE vf32 vf32_load(const float *x, size_t m) {
    float copy[LANES];
    const float *from = padded(copy, x, 0, m, sizeof *x);
    vf32 r;
    for (int k = 0; k < 4; k++) r.v[k] = _mm256_loadu_ps(from + 8 * k);
    return r;
}

static INLINE vf64 vf64_load(const double *x, size_t m) {
    double copy[LANES];
    const double *from = padded(copy, x, 0, m, sizeof *x);
    vf64 r;
    for (int k = 0; k < 8; k++) r.v[k] = _mm256_loadu_pd(from + 4 * k);
    return r;
}

static INLINE vi32 vi32_load(const int32_t *x, size_t m) {
    int32_t copy[LANES];
    const int32_t *from = padded(copy, x, 0, m, sizeof *x);
    vi32 r;
    for (int k = 0; k < 4; k++) r.v[k] = _mm256_loadu_si256((const __m256i *)(from + 8 * k));
    return r;
}

static INLINE vi64 vi64_load(const int64_t *x, size_t m) {
    int64_t copy[LANES];
    const int64_t *from = padded(copy, x, 0, m, sizeof *x);
    vi64 r;
    for (int k = 0; k < 8; k++) r.v[k] = _mm256_loadu_si256((const __m256i *)(from + 4 * k));
    return r;
}

static INLINE void vf32_store(float *y, vf32 v, size_t m) {
    float copy[LANES];
    float *to = m == LANES ? y : copy;
    for (int k = 0; k < 4; k++) _mm256_storeu_ps(to + 8 * k, v.v[k]);
    if (m != LANES) memcpy(y, copy, m * sizeof *y);
}

static INLINE void vf64_store(double *y, vf64 v, size_t m) {
    double copy[LANES];
    double *to = m == LANES ? y : copy;
    for (int k = 0; k < 8; k++) _mm256_storeu_pd(to + 4 * k, v.v[k]);
    if (m != LANES) memcpy(y, copy, m * sizeof *y);
}

static INLINE void vi32_store(int32_t *y, vi32 v, size_t m) {
    int32_t copy[LANES];
    int32_t *to = m == LANES ? y : copy;
    for (int k = 0; k < 4; k++) _mm256_storeu_si256((__m256i *)(to + 8 * k), v.v[k]);
    if (m != LANES) memcpy(y, copy, m * sizeof *y);
}

static INLINE void vi64_store(int64_t *y, vi64 v, size_t m) {
    int64_t copy[LANES];
    int64_t *to = m == LANES ? y : copy;
    for (int k = 0; k < 8; k++) _mm256_storeu_si256((__m256i *)(to + 4 * k), v.v[k]);
    if (m != LANES) memcpy(y, copy, m * sizeof *y);
}

static INLINE vf32 vf32_load_as(qops_dtype in, const void *x, size_t i, size_t m) {
    if (in == f32) return vf32_load((const float *)x + i, m);
    uint16_t copy[LANES];
    const __m128i *from = padded(copy, x, i, m, sizeof *copy);
    vf32 r;
    for (int k = 0; k < 4; k++) {
        const __m128i h = _mm_loadu_si128(from + k);
        r.v[k] = in == f16 ? _mm256_cvtph_ps(h)
                           : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
    }
    return r;
}

static INLINE vi32 vi32_load_as(qops_dtype in, const void *x, size_t i, size_t m) {
    if (in == i32) return vi32_load((const int32_t *)x + i, m);
    const size_t size = in == u8 || in == i8 ? 1 : 2;
    uint16_t copy[LANES];
    const char *from = padded(copy, x, i, m, size);
    vi32 r;
    for (int k = 0; k < 4; k++) {
        const __m128i *part = (const __m128i *)(from + 8 * size * (size_t)k);
        if (in == u8) r.v[k] = _mm256_cvtepu8_epi32(_mm_loadl_epi64(part));
        else if (in == i8) r.v[k] = _mm256_cvtepi8_epi32(_mm_loadl_epi64(part));
        else if (in == u16) r.v[k] = _mm256_cvtepu16_epi32(_mm_loadu_si128(part));
        else r.v[k] = _mm256_cvtepi16_epi32(_mm_loadu_si128(part));
    }
    return r;
}

/* Float arithmetic */
static INLINE vf32 vf32_add(vf32 a, vf32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm256_add_ps(a.v[k], b.v[k]);
    return a;
}

static INLINE vf32 vf32_sub(vf32 a, vf32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm256_sub_ps(a.v[k], b.v[k]);
    return a;
}

static INLINE vf32 vf32_mul(vf32 a, vf32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm256_mul_ps(a.v[k], b.v[k]);
    return a;
}

static INLINE vf32 vf32_div(vf32 a, vf32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm256_div_ps(a.v[k], b.v[k]);
    return a;
}

static INLINE vf32 vf32_max(vf32 a, vf32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm256_max_ps(a.v[k], b.v[k]);
    return a;
}

static INLINE vf32 vf32_min(vf32 a, vf32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm256_min_ps(a.v[k], b.v[k]);
    return a;
}

static INLINE vf32 vf32_zero_nan(vf32 v) {
    for (int k = 0; k < 4; k++)
        v.v[k] = _mm256_and_ps(v.v[k], _mm256_cmp_ps(v.v[k], v.v[k], _CMP_ORD_Q));
    return v;
}

static INLINE vf32 vf32_from_i32(vi32 v) {
    vf32 r;
    for (int k = 0; k < 4; k++) r.v[k] = _mm256_cvtepi32_ps(v.v[k]);
    return r;
}

static INLINE vf32 vf32_from_f64(vf64 v) {
    vf32 r;
    for (int k = 0; k < 4; k++)
        r.v[k] = _mm256_set_m128(_mm256_cvtpd_ps(v.v[2 * k + 1]), _mm256_cvtpd_ps(v.v[2 * k]));
    return r;
}

static INLINE vf64 vf64_from_f32(vf32 v) {
    vf64 r;
    for (int k = 0; k < 4; k++) {
        r.v[2 * k] = _mm256_cvtps_pd(_mm256_castps256_ps128(v.v[k]));
        r.v[2 * k + 1] = _mm256_cvtps_pd(_mm256_extractf128_ps(v.v[k], 1));
    }
    return r;
}

static INLINE vf64 vf64_from_i32(vi32 v) {
    vf64 r;
    for (int k = 0; k < 4; k++) {
        r.v[2 * k] = _mm256_cvtepi32_pd(_mm256_castsi256_si128(v.v[k]));
        r.v[2 * k + 1] = _mm256_cvtepi32_pd(_mm256_extracti128_si256(v.v[k], 1));
    }
    return r;
}

static INLINE vf64 vf64_add(vf64 a, vf64 b) {
    for (int k = 0; k < 8; k++) a.v[k] = _mm256_add_pd(a.v[k], b.v[k]);
    return a;
}

static INLINE vf64 vf64_sub(vf64 a, vf64 b) {
    for (int k = 0; k < 8; k++) a.v[k] = _mm256_sub_pd(a.v[k], b.v[k]);
    return a;
}

static INLINE vf64 vf64_mul(vf64 a, vf64 b) {
    for (int k = 0; k < 8; k++) a.v[k] = _mm256_mul_pd(a.v[k], b.v[k]);
    return a;
}

static INLINE vf64 vf64_div(vf64 a, vf64 b) {
    for (int k = 0; k < 8; k++) a.v[k] = _mm256_div_pd(a.v[k], b.v[k]);
    return a;
}

static INLINE vf64 vf64_zero_nan(vf64 v) {
    for (int k = 0; k < 8; k++)
        v.v[k] = _mm256_and_pd(v.v[k], _mm256_cmp_pd(v.v[k], v.v[k], _CMP_ORD_Q));
    return v;
}

static INLINE vf64 vf64_clamp(vf64 v, vf64 lo, vf64 hi) {
    for (int k = 0; k < 8; k++) v.v[k] = _mm256_min_pd(_mm256_max_pd(v.v[k], lo.v[k]), hi.v[k]);
    return v;
}

static INLINE vf64 vf64_round(vf64 v) {
    for (int k = 0; k < 8; k++)
        v.v[k] = _mm256_round_pd(v.v[k], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return v;
}

static INLINE vi32 vi32_from_f64(vf64 v) {
    vi32 r;
    for (int k = 0; k < 4; k++)
        r.v[k] = _mm256_set_m128i(_mm256_cvtpd_epi32(v.v[2 * k + 1]),
                                  _mm256_cvtpd_epi32(v.v[2 * k]));
    return r;
}

typedef struct {
    vf32 scale, recip, recip_low, limit;
} vquotient;

/* From above x (or the quotient) is clamped, since the conversion turns what does not fit an int32
 * into INT32_MIN; from below that is as good as any number. */
static INLINE vi32 vi32_round_quotient(quotient_how how, vf32 x, vquotient k) {
    vi32 r;
    for (int j = 0; j < 4; j++) {
        __m256 q;
        if (how == DIVISION) {
            q = _mm256_min_ps(_mm256_div_ps(x.v[j], k.scale.v[j]),
                              _mm256_set1_ps(LARGEST_QUOTIENT));
        } else {
            const __m256 h = k.recip.v[j];
            const __m256 v = how == TWO_STEPS_SMALL ? x.v[j] : _mm256_min_ps(x.v[j], k.limit.v[j]);
            if (how != THREE_STEPS) {
                q = _mm256_fmadd_ps(v, h, _mm256_mul_ps(v, k.recip_low.v[j]));
            } else {
                q = _mm256_mul_ps(v, h);
                q = _mm256_fmadd_ps(_mm256_fnmadd_ps(q, k.scale.v[j], v), h, q);
            }
        }
        r.v[j] = _mm256_cvtps_epi32(q);
    }
    return r;
}

/* Integer arithmetic */
static INLINE vi32 vi32_round(vf32 v) {
    vi32 r;
    for (int k = 0; k < 4; k++) r.v[k] = _mm256_cvtps_epi32(v.v[k]);
    return r;
}

static INLINE vi32 vi32_add(vi32 a, vi32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm256_add_epi32(a.v[k], b.v[k]);
    return a;
}

static INLINE vi32 vi32_sub(vi32 a, vi32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm256_sub_epi32(a.v[k], b.v[k]);
    return a;
}

static INLINE vi32 vi32_mul(vi32 a, vi32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm256_mullo_epi32(a.v[k], b.v[k]);
    return a;
}

static INLINE vi32 vi32_max(vi32 a, vi32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm256_max_epi32(a.v[k], b.v[k]);
    return a;
}

static INLINE vi32 vi32_min(vi32 a, vi32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm256_min_epi32(a.v[k], b.v[k]);
    return a;
}

/* Packing works within 128-bit halves: packs(v0, v1) holds v0.low v1.low v0.high v1.high. */
static INLINE vcodes vcodes_from_sum(qops_dtype out, vi32 t, vi32 zero) {
    vcodes r;
    if (out == u8 || out == i8) {
        __m256i s[2];
        for (int k = 0; k < 2; k++) /* saturating twice on one side is saturating once */
            s[k] = _mm256_adds_epi16(_mm256_packs_epi32(t.v[2 * k], t.v[2 * k + 1]),
                                     _mm256_packs_epi32(zero.v[2 * k], zero.v[2 * k + 1]));
        /* dwords now: v0.low v1.low v2.low v3.low | v0.high v1.high v2.high v3.high */
        const __m256i c = out == u8 ? _mm256_packus_epi16(s[0], s[1])
                                    : _mm256_packs_epi16(s[0], s[1]);
        r.v[0] = _mm256_permutevar8x32_epi32(c, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        r.v[1] = r.v[0];
        return r;
    }
    for (int k = 0; k < 4; k++) /* t may be INT32_MIN: keep the sum from wrapping */
        t.v[k] = _mm256_add_epi32(_mm256_max_epi32(t.v[k], _mm256_set1_epi32(INT32_MIN / 2)),
                                  zero.v[k]);
    for (int k = 0; k < 2; k++) {
        const __m256i c = out == u16 ? _mm256_packus_epi32(t.v[2 * k], t.v[2 * k + 1])
                                     : _mm256_packs_epi32(t.v[2 * k], t.v[2 * k + 1]);
        r.v[k] = _mm256_permute4x64_epi64(c, _MM_SHUFFLE(3, 1, 2, 0));
    }
    return r;
}

static INLINE vi32 vi32_split(qops_dtype in, const void *x, size_t i, size_t m, int32_t zero) {
    return vi32_sub(vi32_load_as(in, x, i, m), vi32_set(zero));
}

static INLINE vcodes vcodes_join(qops_dtype out, vi32 t, vi32 zero) {
    return vcodes_from_sum(out, t, zero);
}

static INLINE vcodes vcodes_max(qops_dtype out, vcodes c, int32_t floor) {
    if (out == u8) c.v[0] = _mm256_max_epu8(c.v[0], _mm256_set1_epi8((char)floor));
    else if (out == i8) c.v[0] = _mm256_max_epi8(c.v[0], _mm256_set1_epi8((char)floor));
    else
        for (int k = 0; k < 2; k++)
            c.v[k] = out == u16 ? _mm256_max_epu16(c.v[k], _mm256_set1_epi16((short)floor))
                                : _mm256_max_epi16(c.v[k], _mm256_set1_epi16((short)floor));
    return c;
}

static INLINE void vcodes_store(qops_dtype out, void *y, size_t i, vcodes c, size_t m) {
    const size_t size = out == u8 || out == i8 ? 1 : 2;
    char copy[2 * LANES], *to = m == LANES ? (char *)y + i * size : copy;
    for (size_t k = 0; k < size; k++) _mm256_storeu_si256((__m256i *)to + k, c.v[k]);
    if (m != LANES) memcpy((char *)y + i * size, copy, m * size);
}

static INLINE void vf32_stream(float *y, vf32 v) {
    for (int k = 0; k < 4; k++) _mm256_stream_ps(y + 8 * k, v.v[k]);
}

static INLINE void vcodes_stream(qops_dtype out, void *y, size_t i, vcodes c) {
    const int n = out == u8 || out == i8 ? 1 : 2;
    for (int k = 0; k < n; k++) _mm256_stream_si256((__m256i *)((char *)y + n * i) + k, c.v[k]);
}

static INLINE void vstream_end(void) { _mm_sfence(); }

/* Exact sums */
static INLINE vi64 vi64_from_i32(vi32 v) {
    vi64 r;
    for (int k = 0; k < 4; k++) {
        r.v[2 * k] = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(v.v[k]));
        r.v[2 * k + 1] = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v.v[k], 1));
    }
    return r;
}

static INLINE vi64 vi64_square(vi32 v) {
    vi64 r = vi64_from_i32(v);
    for (int k = 0; k < 8; k++) r.v[k] = _mm256_mul_epi32(r.v[k], r.v[k]);
    return r;
}

static INLINE vi64 vi64_add(vi64 a, vi64 b) {
    for (int k = 0; k < 8; k++) a.v[k] = _mm256_add_epi64(a.v[k], b.v[k]);
    return a;
}

static INLINE vi64 vi64_low(vi64 v) {
    for (int k = 0; k < 8; k++) v.v[k] = _mm256_and_si256(v.v[k], _mm256_set1_epi64x(UINT32_MAX));
    return v;
}

static INLINE vi64 vi64_high(vi64 v) {
    for (int k = 0; k < 8; k++) v.v[k] = _mm256_srli_epi64(v.v[k], 32);
    return v;
}

static INLINE int64_t vi64_total(vi64 v) {
    int64_t lane[LANES], total = 0;
    vi64_store(lane, v, LANES);
    for (int k = 0; k < LANES; k++) total += lane[k];
    return total;
}

#define SQUARES_PER_LANE 2
#define SQUARE_CHAINS 1
typedef __m256i vbyte_sums;
typedef struct {
    __m256i v[2]; /* of even and of odd bytes, to halve the dependency chain */
} vsquare_sums;

static INLINE vbytes vbytes_load(qops_dtype in, const void *x, size_t i, size_t m) {
    char copy[LANES];
    (void)in;
    return _mm256_loadu_si256(padded(copy, x, i, m, 1));
}

static INLINE vbyte_sums vbyte_sums_zero(void) { return _mm256_setzero_si256(); }

static INLINE vbyte_sums vbyte_sums_add(qops_dtype in, vbyte_sums s, vbytes v, size_t m) {
    if (in == i8) v = _mm256_xor_si256(v, _mm256_set1_epi8(INT8_MIN));
    s = _mm256_add_epi64(s, _mm256_sad_epu8(v, _mm256_setzero_si256()));
    /* lanes that were not loaded count 128 each now */
    if (in == i8 && m != LANES)
        s = _mm256_sub_epi64(s, _mm256_setr_epi64x(128 * (long long)(LANES - m), 0, 0, 0));
    return s;
}

static INLINE uint64_t vbyte_sums_total(vbyte_sums s) {
    uint64_t lane[4];
    _mm256_storeu_si256((__m256i *)lane, s);
    return lane[0] + lane[1] + lane[2] + lane[3];
}

static INLINE vsquare_sums vsquare_sums_zero(void) {
    return (vsquare_sums){{_mm256_setzero_si256(), _mm256_setzero_si256()}};
}

static INLINE vsquare_sums vsquare_sums_add(qops_dtype in, vsquare_sums s, const void *x, size_t i,
                                            size_t m) {
    __m256i v = vbytes_load(in, x, i, m);
    if (in == i8) v = _mm256_abs_epi8(v); /* 128 fits as unsigned */
    const __m256i even = _mm256_and_si256(v, _mm256_set1_epi16(UINT8_MAX));
    const __m256i odd = _mm256_srli_epi16(v, 8);
    s.v[0] = _mm256_add_epi32(s.v[0], _mm256_madd_epi16(even, even));
    s.v[1] = _mm256_add_epi32(s.v[1], _mm256_madd_epi16(odd, odd));
    return s;
}

static INLINE uint64_t vsquare_sums_total(qops_dtype in, vsquare_sums s) {
    (void)in;
    uint32_t lane[16];
    uint64_t total = 0;
    for (int k = 0; k < 2; k++) _mm256_storeu_si256((__m256i *)(lane + 8 * k), s.v[k]);
    for (int k = 0; k < 16; k++) total += lane[k];
    return total;
}

/* Tables */

/* Windows */
static INLINE vbytes vbytes_max(qops_dtype in, vbytes a, vbytes b) {
    return in == u8 ? _mm256_max_epu8(a, b) : _mm256_max_epi8(a, b);
}

static INLINE vcodes vcodes_from_bytes(vbytes v) { return (vcodes){{v, v}}; }

static INLINE vcodes vcodes_zero(void) {
    return (vcodes){{_mm256_setzero_si256(), _mm256_setzero_si256()}};
}

static INLINE vi32 vi32_from_words(vcodes v) {
    vi32 r;
    for (int k = 0; k < 2; k++) {
        r.v[2 * k] = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(v.v[k]));
        r.v[2 * k + 1] = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v.v[k], 1));
    }
    return r;
}

static INLINE vcodes vcodes_add_bytes(qops_dtype in, vcodes sum, const void *x, size_t i,
                                      size_t m) {
    char copy[LANES];
    const __m128i *from = padded(copy, x, i, m, 1);
    for (int k = 0; k < 2; k++) {
        __m128i v = _mm_loadu_si128(from + k);
        if (in == i8) v = _mm_xor_si128(v, _mm_set1_epi8(INT8_MIN));
        sum.v[k] = _mm256_add_epi16(sum.v[k], _mm256_cvtepu8_epi16(v));
    }
    return sum;
}

/* pshufb takes one of 16 bytes by the low bits of an index, and 0 where its top bit is set. So with
 * part k of the table changed to part k ^ part k - 1, the exclusive or of all parts up to the one
 * of an index is its entry, and indices that are negative after 16 k are taken off add nothing.
 * That goes for 128 indices: the others are the same with the top bit flipped. */
typedef struct {
    __m256i v[16];
} vtable;

static INLINE vtable vtable_load(const uint8_t *entries) {
    vtable t;
    for (int k = 0; k < 16; k++) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(entries + 16 * k));
        t.v[k] = _mm256_broadcastsi128_si256(x);
    }
    for (int k = 15; k > 0; k--)
        if (k != 8) t.v[k] = _mm256_xor_si256(t.v[k], t.v[k - 1]);
    return t;
}

static INLINE vcodes vtable_take(vtable t, vbytes v) {
    __m256i half[2] = {v, _mm256_xor_si256(v, _mm256_set1_epi8(INT8_MIN))};
    __m256i r[2] = {_mm256_shuffle_epi8(t.v[0], half[0]), _mm256_shuffle_epi8(t.v[8], half[1])};
    for (int k = 1; k < 8; k++)
        for (int j = 0; j < 2; j++) {
            half[j] = _mm256_subs_epi8(half[j], _mm256_set1_epi8(16));
            r[j] = _mm256_xor_si256(r[j], _mm256_shuffle_epi8(t.v[8 * j + k], half[j]));
        }
    return (vcodes){{_mm256_or_si256(r[0], r[1])}};
}

typedef const int32_t *vwide_table;
static INLINE vwide_table vwide_table_load(const int32_t *entries) { return entries; }
static INLINE vi32 vwide_table_take(vwide_table t, vbytes v) {
    vi32 r;
    for (int k = 0; k < 4; k++) {
        const __m128i part = k < 2 ? _mm256_castsi256_si128(v) : _mm256_extracti128_si256(v, 1);
        const __m256i index = _mm256_cvtepu8_epi32(k % 2 ? _mm_srli_si128(part, 8) : part);
        r.v[k] = _mm256_i32gather_epi32(t, index, 4);
    }
    return r;
}

#endif
