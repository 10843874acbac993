/* programs.h - what is done with a run: one kernel, or several through buffers of float32.
 *
 * A kernel that a program needs is not NULL; the others are. */
#ifndef QOPS_PROGRAMS_H
#define QOPS_PROGRAMS_H

#include "runs.h"

#define COMPOSED_CHUNK 2048 /* elements in a buffer of float32: two of them fit the L1 cache */

typedef struct {
    qops_convert_fn *dequantize_a, *dequantize_b, *quantize;
    qops_binary_fn *binary;
    qops_table_fn *take;
    const void *entries;           /* of the table */
    size_t a_size, b_size, y_size; /* of an element, in bytes */
} program;

/* The parameters of the m elements from the one i on of the rows from the one r on */
static inline qops_params params_from(const qops_params *p, size_t r, size_t i, size_t m) {
    qops_params q = *p;
    q.row = m;
    qops_pairs *const sets[] = {&q.a, &q.b, &q.y};
    for (int k = 0; k < 3; k++)
        if (sets[k]->scale != NULL)
            *sets[k] = pairs_from(*sets[k], (ptrdiff_t)r * sets[k]->row_step +
                                                (sets[k]->per_element ? (ptrdiff_t)i : 0));
    return q;
}

static inline void *element_of(const void *x, size_t r, ptrdiff_t step, size_t i, size_t size) {
    return (char *)x + (ptrdiff_t)r * step + i * size;
}

/* m elements from the one i on of so many rows from the one r on: they fit the buffers a and b */
static inline void run_composed_part(const program *k, void *const *x, const qops_params *p,
                                     size_t r, size_t rows, size_t i, size_t m, float *a,
                                     float *b) {
    const size_t n = rows * m;
    const ptrdiff_t buffer_step = (ptrdiff_t)(m * sizeof *a);
    void *const y = x[k->binary != NULL ? 2 : 1];
    qops_params q = params_from(p, r, i, m);
    q.y_step = buffer_step;
    q.stream = false; /* the buffers are read at once */
    k->dequantize_a(element_of(x[0], r, p->a_step, i, k->a_size), a, n, &q);
    if (k->binary != NULL) {
        qops_params of_b = q; /* the dequantize kernels take their pairs from a */
        of_b.a = q.b;
        of_b.a_step = p->b_step;
        k->dequantize_b(element_of(x[1], r, p->b_step, i, k->b_size), b, n, &of_b);
        of_b.row = n;
        k->binary(a, b, a, n, &of_b);
    }
    q.a_step = buffer_step;
    q.y_step = p->y_step;
    k->quantize(a, element_of(y, r, p->y_step, i, k->y_size), n, &q);
}

/* quantize(dequantize(a)), or quantize(dequantize(a) o dequantize(b)), a buffer at a time. Not
 * inlined: its buffers on the stack would be paid for by the short programs too. */
static __attribute__((noinline)) void run_composed(const program *k, void *const *x, size_t n,
                                                   const qops_params *p) {
    float a[COMPOSED_CHUNK], b[COMPOSED_CHUNK];
    const size_t all_rows = n / p->row, most = COMPOSED_CHUNK;
    if (k->binary == NULL && all_rows == 1 && n <= most) { /* nothing has to be moved */
        k->dequantize_a(x[0], a, n, p);
        k->quantize(a, x[1], n, p);
        return;
    }
    const size_t together = p->row < most ? most / p->row : 1;
    for (size_t r = 0; r < all_rows; r += together)
        for (size_t i = 0; i < p->row; i += most)
            run_composed_part(k, x, p, r, least(together, all_rows - r), i, least(most, p->row - i),
                              a, b);
}

static inline void run_take(const program *k, void *const *x, size_t n, const qops_params *p) {
    for (size_t r = 0; r < n / p->row; r++)
        k->take(element_of(x[0], r, p->a_step, 0, 0), element_of(x[1], r, p->y_step, 0, 0), p->row,
                k->entries);
}

static inline void run_program(const program *k, void *const *x, size_t n, const qops_params *p) {
    if (k->dequantize_a != NULL && k->quantize != NULL) run_composed(k, x, n, p);
    else if (k->binary != NULL) k->binary(x[0], x[1], x[2], n, p);
    else if (k->take != NULL) run_take(k, x, n, p);
    else if (k->quantize != NULL) k->quantize(x[0], x[1], n, p);
    else k->dequantize_a(x[0], x[1], n, p);
}

/* Codes of shape (channels, inner) with an inner dimension too short for calls of a kernel */
static inline __attribute__((always_inline)) void
take_short_of(const char *entries, size_t entry_bytes, const char *x, char *y, size_t channels,
              size_t inner, size_t x_size, size_t y_size) {
    for (size_t c = 0; c < channels; c++, entries += entry_bytes)
        for (size_t i = 0; i < inner; i++, x += x_size, y += y_size) {
            uint16_t code = (uint8_t)*x;
            if (x_size == 2) memcpy(&code, x, 2);
            memcpy(y, entries + code * y_size, y_size);
        }
}

static inline void take_short(const program *k, size_t entry_bytes, const char *x, char *y,
                              size_t channels, size_t inner) {
    const char *const e = k->entries;
    switch (k->a_size * 16 + k->y_size) { /* constants, with which memcpy is a single move */
    case 0x11: take_short_of(e, entry_bytes, x, y, channels, inner, 1, 1); break;
    case 0x12: take_short_of(e, entry_bytes, x, y, channels, inner, 1, 2); break;
    case 0x14: take_short_of(e, entry_bytes, x, y, channels, inner, 1, 4); break;
    case 0x18: take_short_of(e, entry_bytes, x, y, channels, inner, 1, 8); break;
    default: take_short_of(e, entry_bytes, x, y, channels, inner, 2, k->y_size);
    }
}

/* Codes of shape (outer, channels, inner), each channel with its own `entry_bytes` of the table */
static inline void take_channels(const program *k, const char *x, char *y, size_t outer,
                                 size_t channels, size_t inner, size_t entry_bytes) {
    if (inner < RUN_SCALARS) {
        const size_t n = channels * inner;
        for (size_t i = 0; i < outer; i++)
            take_short(k, entry_bytes, x + i * n * k->a_size, y + i * n * k->y_size, channels,
                       inner);
        return;
    }
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
