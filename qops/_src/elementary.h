/* elementary.h - exp, log, tanh, erf and powers in float64, for results in float32.
 *
 * Sums of their series, in an order that is written here and nowhere left to a library: the same bits
 * on every level. Of float32 numbers the float64 results are off by less than 2**-40 of themselves,
 * so that nearly all are the float32 number next to the true one. */
#ifndef QOPS_ELEMENTARY_H
#define QOPS_ELEMENTARY_H

#include "kernel.h"

#include <float.h>
#include <string.h>

#define LN2_HIGH 0x1.62e42fefa0000p-1 /* 2**11 times it is exact */
#define LN2_LOW 0x1.cf79abc9e3b3ap-40
#define LOG2_E 0x1.71547652b82fep+0
#define TWO_BY_SQRT_PI 0x1.20dd750429b6dp+0
#define EXP_TERMS 14
#define LOG_TERMS 12
#define ERF_TERMS 64

static INLINE double f64_from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static INLINE uint64_t f64_to_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* x**1/1! + x**2/2! + ... */
static INLINE double series_of_expm1(double x) {
    double sum = 0;
    for (int k = EXP_TERMS; k > 0; k--) sum = (sum + 1) * (x * (1.0 / k));
    return sum;
}

/* exp(x) = 2**k * exp(r), |r| <= log(2) / 2; beyond 700 it is that of 700 */
static INLINE double exp_of(double x) {
    x = x < -700 ? -700 : x > 700 ? 700 : x;
    const double t = x * LOG2_E + 0x1.8p52, k = t - 0x1.8p52; /* k stands in the low bits of t */
    const double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    return (series_of_expm1(r) + 1) * f64_from_bits((f64_to_bits(t) + 1023) << 52);
}

/* log(x) = e * log(2) + 2 * atanh((m - 1) / (m + 1)) with x = m * 2**e, m near 1 */
static INLINE double log_of(double x) {
    const uint64_t bits = f64_to_bits(x);
    const double half = f64_from_bits((bits & 0xfffffffffffff) | 0x3fe0000000000000);
    const bool low = half < 0x1.6a09e667f3bcdp-1; /* sqrt(1/2) */
    const double m = low ? half * 2 : half;
    const double e = (double)(int32_t)(bits >> 52) - (low ? 1023 : 1022);
    const double s = (m - 1) / (m + 1), z = s * s;
    double sum = 0;
    for (int k = LOG_TERMS - 1; k >= 0; k--) sum = sum * z + 1.0 / (2 * k + 1);
    const double y = e * LN2_HIGH + (2 * s * sum + e * LN2_LOW);
    return x > 0 ? (x <= DBL_MAX ? y : x) : x == 0 ? -HUGE_VAL : NAN;
}

static INLINE double tanh_of(double x) {
    const double t = 2 * fabs(x);
    const double y = t < 0.5 ? series_of_expm1(t) : exp_of(t) - 1;
    return copysign(y / (y + 2), x);
}

static INLINE double sigmoid_of(double x) { return 1 / (1 + exp_of(-x)); }

/* 2 / sqrt(pi) * x * exp(-x**2) * (1 + 2 x**2 / 3 (1 + 2 x**2 / 5 (1 + ...))): nothing cancels. From 4
 * on it is 1 in float32. */
static INLINE double erf_of(double x) {
    const double a = fabs(x) > 4 ? 4 : fabs(x), y = a * a;
    double sum = 1;
    for (int k = ERF_TERMS; k > 0; k--) sum = 1 + sum * (y * (2.0 / (2 * k + 1)));
    return copysign(TWO_BY_SQRT_PI * a * exp_of(-y) * sum, x);
}

/* As pow of C99, where it says so */
static INLINE double power_of(double x, double y) {
    const bool whole = fabs(y) >= 0x1p53 || y == (double)(int64_t)y;
    const bool odd = whole && fabs(y) < 0x1p53 && ((int64_t)y & 1);
    const double a = fabs(x);
    double r = exp_of(y * log_of(a));
    if (a == 0) r = y < 0 ? HUGE_VAL : 0;
    if (a > DBL_MAX) r = y < 0 ? 0 : HUGE_VAL;
    if (fabs(y) > DBL_MAX) r = a == 1 ? 1 : (a > 1) == (y > 0) ? HUGE_VAL : 0;
    if (x < 0 && !whole) r = a > DBL_MAX ? r : NAN;
    if ((x < 0 || (x == 0 && copysign(1, x) < 0)) && odd) r = -r;
    if (x != x || y != y) r = NAN;
    return x == 1 || y == 0 ? 1 : r;
}

#endif
