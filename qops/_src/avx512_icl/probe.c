/* probe.c - what a compiler must know for the avx512_icl level: setup.py tries to compile it. */
#include <immintrin.h>

int probe(const void *x, __m512i sums);

int probe(const void *x, __m512i sums) {
    const __m512i codes = _mm512_loadu_si512(x);
    const __m512i found = _mm512_permutex2var_epi8(codes, sums, codes); /* VBMI */
    const __m512i packed = _mm512_maskz_compress_epi8(0xff, found);     /* VBMI2 */
    sums = _mm512_dpbusd_epi32(sums, packed, codes);                    /* VNNI */
    sums = _mm512_madd52lo_epu64(sums, packed, codes);                  /* IFMA */
    sums = _mm512_add_epi32(sums, _mm512_popcnt_epi32(packed));         /* VPOPCNTDQ */
    return _mm512_reduce_add_epi32(_mm512_add_epi32(sums, _mm512_popcnt_epi8(codes))); /* BITALG */
}
