/* probe.c - what a compiler must know for the avx512 level: setup.py tries to compile it. */
#include <immintrin.h>

int probe(const void *x, const double *d, unsigned long long mask);

int probe(const void *x, const double *d, unsigned long long mask) {
    const __m512i codes = _mm512_maskz_loadu_epi8(mask, x); /* BW */
    const __m512i wide = _mm512_madd_epi16(codes, _mm512_maskz_abs_epi32(1, codes));
    const __m512i whole = _mm512_cvtpd_epi64(_mm512_loadu_pd(d));                        /* DQ */
    const __m512i counts = _mm512_lzcnt_epi32(_mm512_add_epi64(wide, whole));            /* CD */
    const __m256i half = _mm256_maskz_compress_epi32(1, _mm512_castsi512_si256(counts)); /* VL */
    return _mm512_reduce_add_epi32(_mm512_inserti64x4(counts, half, 1));
}
