/* programs.h - what is done with a run: one kernel, or several through buffers of float32.
 *
 * A kernel that a program needs is not NULL; the others are. */
#ifndef QOPS_PROGRAMS_H
#define QOPS_PROGRAMS_H

#include "runs.h"

typedef struct {
    qops_convert_fn *dequantize_a, *dequantize_b, *quantize;
    qops_binary_fn *binary;
    qops_table_fn *take;
    const void *entries;           /* of the table */
    size_t a_size, b_size, y_size; /* of an element, in bytes */
} program;

/* The parameters of m elements from the one on that has pair i */
static inline qops_params params_from(const qops_params *p, size_t i, size_t m) {
    qops_params q = *p;
    q.period = m;
    if (!p->per_element) return q;
    qops_pairs *const sets[] = {&q.a, &q.b, &q.y};
    for (int k = 0; k < 3; k++)
        if (sets[k]->scale != NULL) *sets[k] = pairs_from(*sets[k], (ptrdiff_t)i);
    return q;
}

/* quantize(dequantize(a)), or quantize(dequantize(a) o dequantize(b)), a buffer at a time. Not
 * inlined: its buffers on the stack would be paid for by the short programs too. */
static __attribute__((noinline)) void run_composed(const program *k, void *const *x, size_t n,
                                                   const qops_params *p) {
    float a[RUN_CHUNK], b[RUN_CHUNK];
    const bool two = k->binary != NULL;
    const char *xa = x[0], *xb = x[1];
    char *y = x[two ? 2 : 1];
    for (size_t i = 0, m; i < n; i += m) {
        const size_t pair = p->per_element ? i % p->period : 0;
        m = least(RUN_CHUNK, p->per_element ? p->period - pair : n - i);
        const qops_params q = params_from(p, pair, m);
        k->dequantize_a(xa + i * k->a_size, a, m, &q);
        if (two) {
            qops_params of_b = q; /* the dequantize kernels take their pairs from a */
            of_b.a = q.b;
            k->dequantize_b(xb + i * k->b_size, b, m, &of_b);
            k->binary(a, b, a, m, &q);
        }
        k->quantize(a, y + i * k->y_size, m, &q);
    }
}

static inline void run_program(const program *k, void *const *x, size_t n, const qops_params *p) {
    if (k->dequantize_a != NULL && k->quantize != NULL) run_composed(k, x, n, p);
    else if (k->binary != NULL) k->binary(x[0], x[1], x[2], n, p);
    else if (k->take != NULL) k->take(x[0], x[1], n, k->entries);
    else if (k->quantize != NULL) k->quantize(x[0], x[1], n, p);
    else k->dequantize_a(x[0], x[1], n, p);
}

/* Codes of shape (outer, channels, inner), each channel with its own `entry_bytes` of the table */
static inline void take_channels(const program *k, const char *x, char *y, size_t outer,
                                 size_t channels, size_t inner, size_t entry_bytes) {
    for (size_t i = 0; i < outer; i++)
        for (size_t c = 0; c < channels; c++) {
            k->take(x, y, inner, (const char *)k->entries + c * entry_bytes);
            x += inner * k->a_size;
            y += inner * k->y_size;
        }
}

static inline void run_elementwise(const runs *r, void *const *x, size_t n, const qops_params *p) {
    run_program(r->context, x, n, p);
}

#endif
