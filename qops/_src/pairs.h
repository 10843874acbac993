/* pairs.h - scales and zero points, prepared by the array boundary as kernels want them. */
#ifndef QOPS_PAIRS_H
#define QOPS_PAIRS_H

#include "qops.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* One pair; qops_pairs can point to it. */
typedef struct {
    float scale, recip, recip_low;
    int32_t zero;
    double scale64;
} one_pair;

/* Prepare one pair; false if the scale is not finite and > 0 in the precision it is used in. The
 * low part of the reciprocal must be computed in float64: float32 rounds it wrongly in places. */
static inline bool prepare_pair(one_pair *p, double scale, int32_t zero, bool rounded) {
    p->scale = (float)scale;
    p->scale64 = rounded ? (double)p->scale : scale;
    p->recip = 1.0f / p->scale;
    p->recip_low = (float)(1.0 / (double)p->scale - (double)p->recip);
    p->zero = zero;
    return p->scale64 > 0.0 && isfinite(p->scale64);
}

static inline qops_pairs pairs_of_one(const one_pair *p) {
    return (qops_pairs){.scale = &p->scale,
                        .recip = &p->recip,
                        .recip_low = &p->recip_low,
                        .scale64 = &p->scale64,
                        .zero = &p->zero};
}

/* The bytes that n prepared pairs take, and where in them each quantity lies: from 64-byte
 * boundaries on, since a vector that crosses a cache line takes two loads, and with a line between
 * them, since quantities that lie 4 KiB apart would compete for the same places in the cache. */
#define PAIRS_STEP(n) (((n) + 15) / 16 * 16 + 16)
#define PAIRS_BYTES(n) (PAIRS_STEP(n) * (sizeof(double) + 4 * sizeof(float)) + 63)

static inline qops_pairs pairs_in(void *memory, size_t n) {
    const double *scale64 = (const double *)(((uintptr_t)memory + 63) / 64 * 64);
    const size_t step = PAIRS_STEP(n);
    const float *scale = (const float *)(scale64 + step);
    return (qops_pairs){.scale = scale,
                        .recip = scale + step,
                        .recip_low = scale + 2 * step,
                        .scale64 = scale64,
                        .zero = (const int32_t *)(scale + 3 * step)};
}

/* Prepare n pairs into `to`, of n scales or one and n zero points or one; false if a scale is not
 * as prepare_pair wants it. One quantity after the other: compilers make vector instructions of
 * that, and not of a loop over pairs (1024 pairs: 2.5 -> 1.0 us). */
static inline bool pairs_fill(qops_pairs to, size_t n, const double *scale, bool many_scales,
                              const int64_t *zero, bool many_zeros, bool rounded) {
    double *const scale64 = (double *)to.scale64;
    float *const scale32 = (float *)to.scale, *const recip = (float *)to.recip;
    float *const recip_low = (float *)to.recip_low;
    int32_t *const zero32 = (int32_t *)to.zero;
    size_t good = 0;
    for (size_t i = 0; i < n; i++) scale32[i] = (float)scale[many_scales ? i : 0];
    for (size_t i = 0; i < n; i++)
        scale64[i] = rounded ? (double)scale32[i] : scale[many_scales ? i : 0];
    for (size_t i = 0; i < n; i++) recip[i] = 1.0f / scale32[i];
    for (size_t i = 0; i < n; i++)
        recip_low[i] = (float)(1.0 / (double)scale32[i] - (double)recip[i]);
    for (size_t i = 0; i < n; i++) zero32[i] = (int32_t)zero[many_zeros ? i : 0];
    for (size_t i = 0; i < n; i++) good += (scale64[i] > 0.0) & (scale64[i] <= DBL_MAX);
    return good == n;
}

static inline bool zeros_within(const int64_t *zero, size_t n, int32_t least, int32_t most) {
    size_t good = 0;
    for (size_t i = 0; i < n; i++) good += (zero[i] >= least) & (zero[i] <= most);
    return good == n;
}

/* Of scales that are > 0, whose bits as an integer are in order as they are. */
static inline void pairs_range(qops_pairs p, size_t n, float *smallest, float *largest) {
    int32_t low = 0x7f800000, high = 0; /* infinity */
    for (size_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, &p.scale[i], sizeof bits);
        low = bits < low ? bits : low;
        high = bits > high ? bits : high;
    }
    memcpy(smallest, &low, sizeof low);
    memcpy(largest, &high, sizeof high);
}

static inline bool pairs_ordinary(float smallest, float largest) {
    return smallest >= SCALE_MIN && largest <= SCALE_MAX;
}

/* Set what x is clamped to where codes of dtype out are made of it; false if it takes a division
 * to be exact. See quotient_how. */
static inline bool pairs_limit(qops_pairs *p, qops_dtype out, float smallest, float largest) {
    p->limit = quotient_max(out) * largest;
    return pairs_ordinary(smallest, largest) && p->limit < LARGEST_QUOTIENT * smallest;
}

/* The largest |x[i]|; NaN if there is one: its bits are above those of infinity. n >= 1 */
static inline float largest_size(const float *x, size_t n) {
    int32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    float largest;
    memcpy(&largest, &most, sizeof largest);
    return largest;
}

#endif
