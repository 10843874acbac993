/* avx512/vec.h - the primitives on 64 lanes, four 512-bit vectors (x86-64-v4). Meanings: scalar/vec.h.
 *
 * m < LANES becomes a mask; masked-out bytes are neither read nor written. With m == LANES the
 * compiler sees that the masks are all ones and drops them. A level that builds on this one includes
 * it and defines OWN_<group> for those primitives that it has others of. */
#ifndef QOPS_VEC_H
#define QOPS_VEC_H

#include "qops.h"

#include <immintrin.h>

#define INLINE inline __attribute__((always_inline))
#define LANES 64

typedef struct {
    __m512 v[4];
} vf32;
typedef struct {
    __m512d v[8];
} vf64;
typedef struct {
    __m512i v[4];
} vi32;
typedef struct {
    __m512i v[8];
} vi64;
typedef struct {
    __m512i v[2]; /* 8-bit codes: only v[0] */
} vcodes;
typedef __m512i vbytes;

/* The lanes below m: all of them, or those of part k of 16 or 8 lanes. */
static INLINE __mmask64 lanes(size_t m) {
    return m == LANES ? ~(__mmask64)0 : _bzhi_u64(~0ull, (unsigned)m);
}
static INLINE __mmask32 lanes32(size_t m, int k) { return (__mmask32)(lanes(m) >> (32 * k)); }
static INLINE __mmask16 lanes16(size_t m, int k) { return (__mmask16)(lanes(m) >> (16 * k)); }
static INLINE __mmask8 lanes8(size_t m, int k) { return (__mmask8)(lanes(m) >> (8 * k)); }

/* Loads and stores */
static INLINE vf32 vf32_set(float x) {
    const __m512 v = _mm512_set1_ps(x);
    return (vf32){{v, v, v, v}};
}

static INLINE vf64 vf64_set(double x) {
    const __m512d v = _mm512_set1_pd(x);
    return (vf64){{v, v, v, v, v, v, v, v}};
}

static INLINE vi32 vi32_set(int32_t x) {
    const __m512i v = _mm512_set1_epi32(x);
    return (vi32){{v, v, v, v}};
}

static INLINE vi64 vi64_zero(void) {
    const __m512i v = _mm512_setzero_si512();
    return (vi64){{v, v, v, v, v, v, v, v}};
}

static INLINE vf32 vf32_load(const float *x, size_t m) {
    vf32 r;
    for (int k = 0; k < 4; k++) r.v[k] = _mm512_maskz_loadu_ps(lanes16(m, k), x + 16 * k);
    return r;
}

static INLINE vf64 vf64_load(const double *x, size_t m) {
    vf64 r;
    for (int k = 0; k < 8; k++) r.v[k] = _mm512_maskz_loadu_pd(lanes8(m, k), x + 8 * k);
    return r;
}

static INLINE vi32 vi32_load(const int32_t *x, size_t m) {
    vi32 r;
    for (int k = 0; k < 4; k++) r.v[k] = _mm512_maskz_loadu_epi32(lanes16(m, k), x + 16 * k);
    return r;
}

static INLINE vi64 vi64_load(const int64_t *x, size_t m) {
    vi64 r;
    for (int k = 0; k < 8; k++) r.v[k] = _mm512_maskz_loadu_epi64(lanes8(m, k), x + 8 * k);
    return r;
}

static INLINE void vf32_store(float *y, vf32 v, size_t m) {
    for (int k = 0; k < 4; k++) _mm512_mask_storeu_ps(y + 16 * k, lanes16(m, k), v.v[k]);
}

static INLINE void vf64_store(double *y, vf64 v, size_t m) {
    for (int k = 0; k < 8; k++) _mm512_mask_storeu_pd(y + 8 * k, lanes8(m, k), v.v[k]);
}

static INLINE void vi32_store(int32_t *y, vi32 v, size_t m) {
    for (int k = 0; k < 4; k++) _mm512_mask_storeu_epi32(y + 16 * k, lanes16(m, k), v.v[k]);
}

static INLINE void vi64_store(int64_t *y, vi64 v, size_t m) {
    for (int k = 0; k < 8; k++) _mm512_mask_storeu_epi64(y + 8 * k, lanes8(m, k), v.v[k]);
}

static INLINE vf32 vf32_load_as(qops_dtype in, const void *x, size_t i, size_t m) {
    if (in == f32) return vf32_load((const float *)x + i, m);
    const uint16_t *from = (const uint16_t *)x + i;
    vf32 r;
    for (int k = 0; k < 4; k++) {
        const __m256i h = _mm256_maskz_loadu_epi16(lanes16(m, k), from + 16 * k);
        r.v[k] = in == f16 ? _mm512_cvtph_ps(h)
                           : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
    }
    return r;
}

static INLINE vi32 vi32_load_as(qops_dtype in, const void *x, size_t i, size_t m) {
    if (in == i32) return vi32_load((const int32_t *)x + i, m);
    vi32 r;
    for (int k = 0; k < 4; k++) {
        const __mmask16 mask = lanes16(m, k);
        if (in == u8 || in == i8) {
            const __m128i q = _mm_maskz_loadu_epi8(mask, (const char *)x + i + 16 * k);
            r.v[k] = in == u8 ? _mm512_cvtepu8_epi32(q) : _mm512_cvtepi8_epi32(q);
        } else {
            const __m256i q = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)x + i + 16 * k);
            r.v[k] = in == u16 ? _mm512_cvtepu16_epi32(q) : _mm512_cvtepi16_epi32(q);
        }
    }
    return r;
}

/* Float arithmetic */
static INLINE vf32 vf32_add(vf32 a, vf32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm512_add_ps(a.v[k], b.v[k]);
    return a;
}

static INLINE vf32 vf32_sub(vf32 a, vf32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm512_sub_ps(a.v[k], b.v[k]);
    return a;
}

static INLINE vf32 vf32_mul(vf32 a, vf32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm512_mul_ps(a.v[k], b.v[k]);
    return a;
}

static INLINE vf32 vf32_div(vf32 a, vf32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm512_div_ps(a.v[k], b.v[k]);
    return a;
}

static INLINE vf32 vf32_max(vf32 a, vf32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm512_max_ps(a.v[k], b.v[k]);
    return a;
}

static INLINE vf32 vf32_min(vf32 a, vf32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm512_min_ps(a.v[k], b.v[k]);
    return a;
}

/* NaNs are rare: two compares tell whether there is one at all. */
static INLINE vf32 vf32_zero_nan(vf32 v) {
    const __mmask16 low = _mm512_cmp_ps_mask(v.v[0], v.v[1], _CMP_UNORD_Q);
    const __mmask16 high = _mm512_cmp_ps_mask(v.v[2], v.v[3], _CMP_UNORD_Q);
    if (__builtin_expect(!_kortestz_mask16_u8(low, high), 0))
        for (int k = 0; k < 4; k++)
            v.v[k] = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v.v[k], v.v[k], _CMP_ORD_Q), v.v[k]);
    return v;
}

static INLINE vf32 vf32_from_i32(vi32 v) {
    vf32 r;
    for (int k = 0; k < 4; k++) r.v[k] = _mm512_cvtepi32_ps(v.v[k]);
    return r;
}

static INLINE vf32 vf32_from_f64(vf64 v) {
    vf32 r;
    for (int k = 0; k < 4; k++)
        r.v[k] = _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(v.v[2 * k])),
                                    _mm512_cvtpd_ps(v.v[2 * k + 1]), 1);
    return r;
}

static INLINE vf64 vf64_from_f32(vf32 v) {
    vf64 r;
    for (int k = 0; k < 4; k++) {
        r.v[2 * k] = _mm512_cvtps_pd(_mm512_castps512_ps256(v.v[k]));
        r.v[2 * k + 1] = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v.v[k], 1));
    }
    return r;
}

static INLINE vf64 vf64_from_i32(vi32 v) {
    vf64 r;
    for (int k = 0; k < 4; k++) {
        r.v[2 * k] = _mm512_cvtepi32_pd(_mm512_castsi512_si256(v.v[k]));
        r.v[2 * k + 1] = _mm512_cvtepi32_pd(_mm512_extracti32x8_epi32(v.v[k], 1));
    }
    return r;
}

static INLINE vf64 vf64_add(vf64 a, vf64 b) {
    for (int k = 0; k < 8; k++) a.v[k] = _mm512_add_pd(a.v[k], b.v[k]);
    return a;
}

static INLINE vf64 vf64_sub(vf64 a, vf64 b) {
    for (int k = 0; k < 8; k++) a.v[k] = _mm512_sub_pd(a.v[k], b.v[k]);
    return a;
}

static INLINE vf64 vf64_mul(vf64 a, vf64 b) {
    for (int k = 0; k < 8; k++) a.v[k] = _mm512_mul_pd(a.v[k], b.v[k]);
    return a;
}

static INLINE vf64 vf64_div(vf64 a, vf64 b) {
    for (int k = 0; k < 8; k++) a.v[k] = _mm512_div_pd(a.v[k], b.v[k]);
    return a;
}

static INLINE vf64 vf64_zero_nan(vf64 v) {
    for (int k = 0; k < 8; k++)
        v.v[k] = _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(v.v[k], v.v[k], _CMP_ORD_Q), v.v[k]);
    return v;
}

static INLINE vf64 vf64_clamp(vf64 v, vf64 lo, vf64 hi) {
    for (int k = 0; k < 8; k++) v.v[k] = _mm512_min_pd(_mm512_max_pd(v.v[k], lo.v[k]), hi.v[k]);
    return v;
}

static INLINE vf64 vf64_round(vf64 v) {
    for (int k = 0; k < 8; k++)
        v.v[k] = _mm512_roundscale_pd(v.v[k], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return v;
}

static INLINE vi32 vi32_from_f64(vf64 v) {
    vi32 r;
    for (int k = 0; k < 4; k++)
        r.v[k] = _mm512_inserti32x8(_mm512_castsi256_si512(_mm512_cvtpd_epi32(v.v[2 * k])),
                                    _mm512_cvtpd_epi32(v.v[2 * k + 1]), 1);
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
        __m512 q;
        if (how == DIVISION) {
            q = _mm512_min_ps(_mm512_div_ps(x.v[j], k.scale.v[j]),
                              _mm512_set1_ps(LARGEST_QUOTIENT));
        } else {
            const __m512 h = k.recip.v[j];
            const __m512 v = how == TWO_STEPS_SMALL ? x.v[j] : _mm512_min_ps(x.v[j], k.limit.v[j]);
            if (how != THREE_STEPS) {
                q = _mm512_fmadd_ps(v, h, _mm512_mul_ps(v, k.recip_low.v[j]));
            } else {
                q = _mm512_mul_ps(v, h);
                q = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, k.scale.v[j], v), h, q);
            }
        }
        r.v[j] = _mm512_cvtps_epi32(q);
    }
    return r;
}

/* Integer arithmetic */
static INLINE vi32 vi32_round(vf32 v) {
    vi32 r;
    for (int k = 0; k < 4; k++) r.v[k] = _mm512_cvtps_epi32(v.v[k]);
    return r;
}

static INLINE vi32 vi32_add(vi32 a, vi32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm512_add_epi32(a.v[k], b.v[k]);
    return a;
}

static INLINE vi32 vi32_sub(vi32 a, vi32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm512_sub_epi32(a.v[k], b.v[k]);
    return a;
}

static INLINE vi32 vi32_mul(vi32 a, vi32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm512_mullo_epi32(a.v[k], b.v[k]);
    return a;
}

static INLINE vi32 vi32_max(vi32 a, vi32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm512_max_epi32(a.v[k], b.v[k]);
    return a;
}

static INLINE vi32 vi32_min(vi32 a, vi32 b) {
    for (int k = 0; k < 4; k++) a.v[k] = _mm512_min_epi32(a.v[k], b.v[k]);
    return a;
}

/* Packing works within 128-bit quarters: packs(v0, v1) holds v0.0 v1.0 v0.1 v1.1 v0.2 ... */
static INLINE vcodes vcodes_from_sum(qops_dtype out, vi32 t, vi32 zero) {
    vcodes r;
    if (out == u8 || out == i8) {
        __m512i s[2];
        for (int k = 0; k < 2; k++) /* saturating twice on one side is saturating once */
            s[k] = _mm512_adds_epi16(_mm512_packs_epi32(t.v[2 * k], t.v[2 * k + 1]),
                                     _mm512_packs_epi32(zero.v[2 * k], zero.v[2 * k + 1]));
        /* dwords now: v0.0 v1.0 v2.0 v3.0 | v0.1 v1.1 v2.1 v3.1 | ... */
        const __m512i c = out == u8 ? _mm512_packus_epi16(s[0], s[1])
                                    : _mm512_packs_epi16(s[0], s[1]);
        r.v[0] = _mm512_permutexvar_epi32(
            _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), c);
        r.v[1] = r.v[0];
        return r;
    }
    for (int k = 0; k < 4; k++) /* t may be INT32_MIN: keep the sum from wrapping */
        t.v[k] = _mm512_add_epi32(_mm512_max_epi32(t.v[k], _mm512_set1_epi32(INT32_MIN / 2)),
                                  zero.v[k]);
    for (int k = 0; k < 2; k++) {
        const __m512i c = out == u16 ? _mm512_packus_epi32(t.v[2 * k], t.v[2 * k + 1])
                                     : _mm512_packs_epi32(t.v[2 * k], t.v[2 * k + 1]);
        r.v[k] = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), c);
    }
    return r;
}

#ifndef OWN_SPLIT
static INLINE vi32 vi32_split(qops_dtype in, const void *x, size_t i, size_t m, int32_t zero) {
    return vi32_sub(vi32_load_as(in, x, i, m), vi32_set(zero));
}

static INLINE vcodes vcodes_join(qops_dtype out, vi32 t, vi32 zero) {
    return vcodes_from_sum(out, t, zero);
}
#endif

static INLINE vcodes vcodes_max(qops_dtype out, vcodes c, int32_t floor) {
    if (out == u8) c.v[0] = _mm512_max_epu8(c.v[0], _mm512_set1_epi8((char)floor));
    else c.v[0] = _mm512_max_epi8(c.v[0], _mm512_set1_epi8((char)floor));
    return c;
}

static INLINE void vcodes_store(qops_dtype out, void *y, size_t i, vcodes c, size_t m) {
    if (out == u8 || out == i8) {
        _mm512_mask_storeu_epi8((char *)y + i, lanes(m), c.v[0]);
        return;
    }
    for (int k = 0; k < 2; k++)
        _mm512_mask_storeu_epi16((uint16_t *)y + i + 32 * k, lanes32(m, k), c.v[k]);
}

static INLINE void vf32_stream(float *y, vf32 v) {
    for (int k = 0; k < 4; k++) _mm512_stream_ps(y + 16 * k, v.v[k]);
}

static INLINE void vcodes_stream(qops_dtype out, void *y, size_t i, vcodes c) {
    const size_t n = out == u8 || out == i8 ? 1 : 2;
    for (size_t k = 0; k < n; k++) _mm512_stream_si512((__m512i *)((char *)y + n * i) + k, c.v[k]);
}

static INLINE void vstream_end(void) { _mm_sfence(); }

/* Exact sums */
static INLINE vi64 vi64_from_i32(vi32 v) {
    vi64 r;
    for (int k = 0; k < 4; k++) {
        r.v[2 * k] = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(v.v[k]));
        r.v[2 * k + 1] = _mm512_cvtepi32_epi64(_mm512_extracti32x8_epi32(v.v[k], 1));
    }
    return r;
}

static INLINE vi64 vi64_square(vi32 v) {
    vi64 r = vi64_from_i32(v);
    for (int k = 0; k < 8; k++) r.v[k] = _mm512_mul_epi32(r.v[k], r.v[k]);
    return r;
}

static INLINE vi64 vi64_add(vi64 a, vi64 b) {
    for (int k = 0; k < 8; k++) a.v[k] = _mm512_add_epi64(a.v[k], b.v[k]);
    return a;
}

static INLINE vi64 vi64_low(vi64 v) {
    for (int k = 0; k < 8; k++) v.v[k] = _mm512_and_si512(v.v[k], _mm512_set1_epi64(UINT32_MAX));
    return v;
}

static INLINE vi64 vi64_high(vi64 v) {
    for (int k = 0; k < 8; k++) v.v[k] = _mm512_srli_epi64(v.v[k], 32);
    return v;
}

static INLINE int64_t vi64_total(vi64 v) {
    __m512i s = v.v[0];
    for (int k = 1; k < 8; k++) s = _mm512_add_epi64(s, v.v[k]);
    return _mm512_reduce_add_epi64(s);
}

typedef __m512i vbyte_sums;
static INLINE vbytes vbytes_load(qops_dtype in, const void *x, size_t i, size_t m) {
    (void)in;
    return _mm512_maskz_loadu_epi8(lanes(m), (const char *)x + i);
}

static INLINE vbyte_sums vbyte_sums_zero(void) { return _mm512_setzero_si512(); }

static INLINE vbyte_sums vbyte_sums_add(qops_dtype in, vbyte_sums s, vbytes v, size_t m) {
    if (in == i8)
        v = _mm512_maskz_add_epi8(lanes(m), v, _mm512_set1_epi8(INT8_MIN)); /* flips the top bit */
    return _mm512_add_epi64(s, _mm512_sad_epu8(v, _mm512_setzero_si512()));
}

static INLINE uint64_t vbyte_sums_total(vbyte_sums s) {
    return (uint64_t)_mm512_reduce_add_epi64(s);
}

#ifndef OWN_SQUARES
#define SQUARES_PER_LANE 2
#define SQUARE_CHAINS 1
typedef struct {
    __m512i v[2]; /* of even and of odd bytes, to halve the dependency chain */
} vsquare_sums;

static INLINE vsquare_sums vsquare_sums_zero(void) {
    return (vsquare_sums){{_mm512_setzero_si512(), _mm512_setzero_si512()}};
}

static INLINE vsquare_sums vsquare_sums_add(qops_dtype in, vsquare_sums s, const void *x, size_t i,
                                            size_t m) {
    __m512i v = vbytes_load(in, x, i, m);
    if (in == i8) v = _mm512_abs_epi8(v); /* 128 fits as unsigned */
    const __m512i even = _mm512_and_si512(v, _mm512_set1_epi16(UINT8_MAX));
    const __m512i odd = _mm512_srli_epi16(v, 8);
    s.v[0] = _mm512_add_epi32(s.v[0], _mm512_madd_epi16(even, even));
    s.v[1] = _mm512_add_epi32(s.v[1], _mm512_madd_epi16(odd, odd));
    return s;
}

/* The lanes are unsigned, which a reduction of signed 32-bit lanes would not know. */
static INLINE uint64_t vsquare_sums_total(qops_dtype in, vsquare_sums s) {
    (void)in;
    vi64 t = vi64_zero();
    for (int k = 0; k < 2; k++) {
        t.v[2 * k] = _mm512_and_si512(s.v[k], _mm512_set1_epi64(UINT32_MAX));
        t.v[2 * k + 1] = _mm512_srli_epi64(s.v[k], 32);
    }
    return (uint64_t)vi64_total(t);
}
#endif

/* Windows */
static INLINE vbytes vbytes_max(qops_dtype in, vbytes a, vbytes b) {
    return in == u8 ? _mm512_max_epu8(a, b) : _mm512_max_epi8(a, b);
}

static INLINE vcodes vcodes_from_bytes(vbytes v) { return (vcodes){{v, v}}; }

static INLINE vcodes vcodes_zero(void) {
    return (vcodes){{_mm512_setzero_si512(), _mm512_setzero_si512()}};
}

static INLINE vcodes vcodes_add_bytes(qops_dtype in, vcodes sum, const void *x, size_t i,
                                      size_t m) {
    for (int k = 0; k < 2; k++) {
        __m256i v = _mm256_maskz_loadu_epi8(lanes32(m, k), (const char *)x + i + 32 * k);
        if (in == i8) v = _mm256_xor_si256(v, _mm256_set1_epi8(INT8_MIN));
        sum.v[k] = _mm512_add_epi16(sum.v[k], _mm512_cvtepu8_epi16(v));
    }
    return sum;
}

static INLINE vi32 vi32_from_words(vcodes v) {
    vi32 r;
    for (int k = 0; k < 2; k++) {
        r.v[2 * k] = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(v.v[k]));
        r.v[2 * k + 1] = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(v.v[k], 1));
    }
    return r;
}

/* Tables */
#ifndef OWN_TABLES
/* As avx2/vec.h has it */
typedef struct {
    __m512i v[16];
} vtable;

static INLINE vtable vtable_load(const uint8_t *entries) {
    vtable t;
    for (int k = 0; k < 16; k++) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(entries + 16 * k));
        t.v[k] = _mm512_broadcast_i32x4(x);
    }
    for (int k = 15; k > 0; k--)
        if (k != 8) t.v[k] = _mm512_xor_si512(t.v[k], t.v[k - 1]);
    return t;
}

static INLINE vcodes vtable_take(vtable t, vbytes v) {
    __m512i half[2] = {v, _mm512_xor_si512(v, _mm512_set1_epi8(INT8_MIN))};
    __m512i r[2] = {_mm512_shuffle_epi8(t.v[0], half[0]), _mm512_shuffle_epi8(t.v[8], half[1])};
    for (int k = 1; k < 8; k++)
        for (int j = 0; j < 2; j++) {
            half[j] = _mm512_subs_epi8(half[j], _mm512_set1_epi8(16));
            r[j] = _mm512_xor_si512(r[j], _mm512_shuffle_epi8(t.v[8 * j + k], half[j]));
        }
    return (vcodes){{_mm512_or_si512(r[0], r[1])}};
}

typedef const int32_t *vwide_table;
static INLINE vwide_table vwide_table_load(const int32_t *entries) { return entries; }
static INLINE vi32 vwide_table_take(vwide_table t, vbytes v) {
    vi32 r;
    const __m128i part[] = {_mm512_castsi512_si128(v), _mm512_extracti32x4_epi32(v, 1),
                            _mm512_extracti32x4_epi32(v, 2), _mm512_extracti32x4_epi32(v, 3)};
    for (int k = 0; k < 4; k++)
        r.v[k] = _mm512_i32gather_epi32(_mm512_cvtepu8_epi32(part[k]), t, 4);
    return r;
}
#endif

#endif
