/* probe.c - what a compiler must know for the avx2 level: setup.py tries to compile it. */
#include <immintrin.h>
#include <stdint.h>

int64_t probe(const void *x, const float *f, uint64_t bits);

int64_t probe(const void *x, const float *f, uint64_t bits) {
    const __m256i codes = _mm256_loadu_si256((const __m256i *)x);
    const __m256 half = _mm256_cvtph_ps(_mm256_castsi256_si128(codes)); /* F16C */
    const __m256 sum = _mm256_fmadd_ps(half, _mm256_loadu_ps(f), half); /* FMA */
    const __m256i wide = _mm256_maddubs_epi16(codes, _mm256_cvtps_epi32(sum));
    return (int64_t)(_pext_u64(bits, 0xff) + _lzcnt_u64(bits) + _blsr_u64(bits)) +
           _mm256_movemask_epi8(wide);
}
