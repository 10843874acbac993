/* sums.h - exact totals for the reduce family. */
#ifndef QOPS_SUMS_H
#define QOPS_SUMS_H

#include "kernel.h"

/* *total += v */
static INLINE void total_add(qops_total *total, int64_t v) {
    const uint64_t low = total->low + (uint64_t)v;
    total->high += (v < 0 ? -1 : 0) + (low < total->low);
    total->low = low;
}

/* *total += high * 2**32, for high >= 0 */
static INLINE void total_add_high(qops_total *total, int64_t high) {
    total_add(total, (int64_t)(((uint64_t)high << 32) >> 1)); /* in halves, to stay below 2**63 */
    total_add(total, (int64_t)(((uint64_t)high << 32) >> 1));
    total->high += high >> 32;
}

/* Sums of so many numbers below 2**32 fit an int64, whatever lanes they are in. */
#define MOST_WIDE ((size_t)1 << 30)

#endif
