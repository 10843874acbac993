/* kernel.h - first include of every kernel source: the primitives, and every kernel's declaration.
 *
 * Declared through its family's function type, a kernel with a wrong signature, listed but not
 * written, or written but not listed, does not compile. A kernel source opened alone is the
 * scalar kernel. */
#ifndef QOPS_KERNEL_H
#define QOPS_KERNEL_H

#include "qops.h"

#include <math.h>

#ifndef LANES
#include "scalar/vec.h"
#endif

/* HAVE_<op> is 1 if this level has the op's source, by its @targets; setup.py defines it. */
#ifdef QOPS_LEVEL
#define DECLARE_1(family, op, in, out) static qops_##family##_fn op##_##in##_##out;
#define DECLARE_0(family, op, in, out)
#define DECLARE_(have, family, op, in, out) DECLARE_##have(family, op, in, out)
#define DECLARE(have, family, op, in, out) DECLARE_(have, family, op, in, out)
#define KERNEL(family, op, in, out) DECLARE(HAVE_##op, family, op, in, out)
#include "kernels.def"
#undef KERNEL
#endif

/* Rows that share a load of the pairs per element: loading those costs as much as all the rest
 * (quantize f32 u8, 4096 channels, 512 bits: 6.1 G/s one row at a time, 10.5 four at a time). */
#define ROWS 4

/* Row r of an array whose rows lie so many bytes apart */
static INLINE const void *row_of(const void *x, size_t r, ptrdiff_t step) {
    return (const char *)x + (ptrdiff_t)r * step;
}
static INLINE void *row_to(void *y, size_t r, ptrdiff_t step) {
    return (char *)y + (ptrdiff_t)r * step;
}

static INLINE qops_pairs row_pairs(qops_pairs p, size_t r) {
    return pairs_from(p, (ptrdiff_t)r * p.row_step);
}

/* How many of the n elements at x, of so many bytes each, come before the next cache line, or before
 * the next vector where that is shorter; none where it does not pay. A loop that takes them first,
 * fewer than LANES, has vectors that cross no cache line: hsum_sq u8 at 512 bits 61 -> 74 GB/s,
 * dequantize u8 80 -> 97 GB/s on arrays that begin 16 bytes off. */
static INLINE size_t unaligned_head(const void *x, size_t size, size_t n) {
    const size_t line = LANES * size < 64 ? LANES * size : 64;
    if (LANES == 1 || n < 16 * LANES) return 0;
    return (line - (uintptr_t)x % line) % line / size;
}

static INLINE size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

#endif
