/* avx512_icl/vec.h - those primitives of 64 lanes that VNNI and VBMI do better; else avx512/vec.h. */
#define OWN_SPLIT
#define OWN_SQUARES
#define OWN_TABLES
#include "avx512/vec.h"

/* vpdpbusd adds to each dword the products of its four bytes, unsigned by signed. With a single one
 * among the bytes of one side it takes out byte k of each dword, and subtracts the zero point:
 *
 *     v[k] = code k, code 4 + k, code 8 + k, ... code 60 + k
 */
static INLINE vi32 vi32_split(qops_dtype in, const void *x, size_t i, size_t m, int32_t zero) {
    const __m512i codes = vbytes_load(in, x, i, m), minus_zero = _mm512_set1_epi32(-zero);
    vi32 r;
    for (int k = 0; k < 4; k++) {
        const __m512i one = _mm512_set1_epi32(1 << (8 * k));
        r.v[k] = in == u8 ? _mm512_dpbusd_epi32(minus_zero, codes, one)
                          : _mm512_dpbusd_epi32(minus_zero, one, codes);
    }
    return r;
}

/* Packing v0 with v2 and v1 with v3 leaves 16 codes in each quarter as they were there:
 *
 *     0 4 8 12 | 2 6 10 14 | 1 5 9 13 | 3 7 11 15
 */
static INLINE vcodes vcodes_join(qops_dtype out, vi32 t, vi32 zero) {
    __m512i s[2];
    for (int k = 0; k < 2; k++) /* saturating twice on one side is saturating once */
        s[k] = _mm512_adds_epi16(_mm512_packs_epi32(t.v[k], t.v[k + 2]),
                                 _mm512_packs_epi32(zero.v[k], zero.v[k + 2]));
    const __m512i c = out == u8 ? _mm512_packus_epi16(s[0], s[1]) : _mm512_packs_epi16(s[0], s[1]);
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15));
    return (vcodes){{_mm512_shuffle_epi8(c, order)}};
}

/* With u = x, s = x - 128 of uint8 codes, and u = x + 128, s = x of int8 codes, both within reach of
 * vpdpbusd and a flip of the top bit apart, x**2 = u * s + 128 * u and u * s - 128 * s. */
#define SQUARES_PER_LANE 8 /* 4, but of a signed lane only half may be used */
#define SQUARE_CHAINS 4
typedef struct {
    __m512i products, codes;
} vsquare_sums;

static INLINE vsquare_sums vsquare_sums_zero(void) {
    return (vsquare_sums){_mm512_setzero_si512(), _mm512_setzero_si512()};
}

static INLINE vsquare_sums vsquare_sums_add(qops_dtype in, vsquare_sums s, const void *x, size_t i,
                                            size_t m) {
    const __m512i v = vbytes_load(in, x, i, m), ones = _mm512_set1_epi8(1);
    const __m512i flipped = _mm512_xor_si512(v, _mm512_set1_epi8(INT8_MIN));
    s.products = in == u8 ? _mm512_dpbusd_epi32(s.products, v, flipped)
                          : _mm512_dpbusd_epi32(s.products, flipped, v);
    s.codes = in == u8 ? _mm512_dpbusd_epi32(s.codes, v, ones)
                       : _mm512_dpbusd_epi32(s.codes, ones, v);
    return s;
}

static INLINE int64_t dwords_total(__m512i v) {
    return _mm512_reduce_add_epi64(
        _mm512_add_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(v)),
                         _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(v, 1))));
}

static INLINE uint64_t vsquare_sums_total(qops_dtype in, vsquare_sums s) {
    return (uint64_t)(dwords_total(s.products) + (in == u8 ? 128 : -128) * dwords_total(s.codes));
}

/* Tables: vpermi2b takes from 128 bytes by the low seven bits, the top one chooses between two */
typedef struct {
    __m512i v[4];
} vtable;
typedef struct {
    vtable byte[4]; /* the lowest bytes of all entries, and so on */
} vwide_table;

static INLINE vtable vtable_load(const uint8_t *entries) {
    vtable t;
    for (int k = 0; k < 4; k++) t.v[k] = _mm512_loadu_si512(entries + 64 * k);
    return t;
}

static INLINE vcodes vtable_take(vtable t, vbytes v) {
    return (vcodes){
        {_mm512_mask_mov_epi8(_mm512_permutex2var_epi8(t.v[0], v, t.v[1]), _mm512_movepi8_mask(v),
                              _mm512_permutex2var_epi8(t.v[2], v, t.v[3]))}};
}

static INLINE vwide_table vwide_table_load(const int32_t *entries) {
    vwide_table t;
    for (int j = 0; j < 4; j++) {
        uint8_t bytes[256];
        for (int k = 0; k < 16; k++) {
            const __m512i x = _mm512_loadu_si512(entries + 16 * k);
            const __m128i part = _mm512_cvtepi32_epi8(_mm512_srli_epi32(x, 8 * j));
            _mm_storeu_si128((__m128i *)(bytes + 16 * k), part);
        }
        t.byte[j] = vtable_load(bytes);
    }
    return t;
}

/* Interleaving works within 128-bit quarters. So dwords of codes change places first, 4 k + j with
 * 4 j + k, and then the first dword of each quarter has the codes of v0, the second those of v1. */
static INLINE vi32 vwide_table_take(vwide_table t, vbytes v) {
    __m512i b[4], pair[4];
    v = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v);
    for (int j = 0; j < 4; j++) b[j] = vtable_take(t.byte[j], v).v[0];
    for (int j = 0; j < 2; j++) {
        pair[2 * j] = _mm512_unpacklo_epi8(b[2 * j], b[2 * j + 1]);
        pair[2 * j + 1] = _mm512_unpackhi_epi8(b[2 * j], b[2 * j + 1]);
    }
    return (vi32){{_mm512_unpacklo_epi16(pair[0], pair[2]), _mm512_unpackhi_epi16(pair[0], pair[2]),
                   _mm512_unpacklo_epi16(pair[1], pair[3]),
                   _mm512_unpackhi_epi16(pair[1], pair[3])}};
}
