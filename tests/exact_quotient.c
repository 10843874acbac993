/* exact_quotient - do the quotients without a division round as x / s does? By exhaustion.
 *
 * For every float32 significand of s (each `stride`th), every tie (k + 1/2) * s with first <= k < last
 * and the floats within 3 units of it, compare rint(x / s) with what two or three fused multiply-adds
 * give (see quotient_how in qops/_src/qops.h). Between ties nothing can go wrong, and the exponent of
 * s only shifts everything. With "wrong" the low part of the reciprocal is computed in float32, where it
 * is zero: that must be seen to fail.
 *
 *   exact_quotient 2|3 FIRST LAST STRIDE [wrong]
 *
 * Prints how many quotients were compared and how many differ; fails if one does. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 64 /* significands at a time, for the compiler to vectorize over */

typedef struct {
    float s[N], h[N], l[N];
} divisors;

static float from_bits(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static int32_t to_bits(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* rint for |x| < 2**22 */
static float round_even(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

static void set_divisors(divisors *d, int32_t first, int32_t stride, int wrong) {
    for (int32_t i = 0; i < N; i++) {
        const float s = from_bits(0x3f800000 + ((first + i * stride) & 0x7fffff));
        const float h = 1.0f / s;
        d->s[i] = s;
        d->h[i] = h;
        d->l[i] = wrong ? 1.0f / s - h : (float)(1.0 / (double)s - (double)h);
    }
}

static uint32_t differences(const divisors *d, float tie, int32_t off, int steps) {
    uint32_t n = 0;
    for (int i = 0; i < N; i++) {
        const float s = d->s[i], h = d->h[i], x = from_bits(to_bits(tie * s) + off);
        const float q = x * h;
        const float two = fmaf(x, h, x * d->l[i]);
        const float three = fmaf(h, fmaf(-q, s, x), q);
        n += round_even(x / s) != round_even(steps == 2 ? two : three);
    }
    return n;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: exact_quotient 2|3 FIRST LAST STRIDE [wrong]\n");
        return 2;
    }
    const int steps = atoi(argv[1]), first = atoi(argv[2]), last = atoi(argv[3]);
    const int32_t stride = atoi(argv[4]);
    const int wrong = argc > 5;
    if ((steps != 2 && steps != 3) || first < 0 || last <= first || stride < 1) return 2;
    uint64_t compared = 0, differ = 0;
    for (int64_t m = 0; m < 1 << 23; m += (int64_t)N * stride) {
        divisors d;
        set_divisors(&d, (int32_t)m, stride, wrong);
        for (int k = first; k < last; k++)
            for (int32_t off = -3; off <= 3; off++, compared += N)
                differ += differences(&d, (float)k + 0.5f, off, steps);
    }
    printf("%llu quotients in %d steps: %llu differ\n", (unsigned long long)compared, steps,
           (unsigned long long)differ);
    return differ != 0;
}
