/* reductions.h - exact sums of codes over any axes of an array of any layout.
 *
 * Where a reduced axis is the innermost in memory, the reduce kernel makes a total of each output's
 * runs. Where a kept one is, the accumulate kernel adds rows to a row of int64 accumulators, so
 * that memory is read in order either way. */
#ifndef QOPS_REDUCTIONS_H
#define QOPS_REDUCTIONS_H

#include "runs.h"

/* So many squares of 16-bit codes, or int32 codes, fit an int64. */
#define MOST_ACCUMULATED ((size_t)1 << 30)

typedef struct {
    qops_reduce_fn *reduce;
    qops_accumulate_fn *accumulate; /* may be NULL */
} reduction;

static inline void run_reduce(const runs *r, void *const *x, size_t n, const qops_params *p) {
    for (size_t row = 0; row < n / p->row; row++)
        ((const reduction *)r->context)
            ->reduce((char *)x[0] + (ptrdiff_t)row * p->a_step, p->row, r->total);
}

static inline bool total_fits_int64(const qops_total *t) {
    return t->high == ((int64_t)t->low < 0 ? -1 : 0);
}

/* The next index of `ndim` dimensions, outermost first, and what it does to an address in x;
 * false after the last. */
static inline bool next_index(size_t *index, char **x, int ndim, const size_t *shape,
                              const ptrdiff_t *strides) {
    for (int d = ndim - 1; d >= 0; d--) {
        *x += strides[d];
        if (++index[d] < shape[d]) return true;
        *x -= (ptrdiff_t)index[d] * strides[d];
        index[d] = 0;
    }
    return false;
}

/* reduced: a plan over the reduced axes. The kept ones are walked in order, and so are the totals. */
static inline void totals_of_runs(runs *reduced, int n_kept, const size_t *shape,
                                  const ptrdiff_t *strides, qops_total *totals,
                                  run_buffers *buffers) {
    size_t index[RUN_DIMS] = {0};
    char *x = reduced->arrays[0].data;
    const bool one_run = reduced->rows_direct && reduced->ndim == 1; /* many are short */
    do {
        *totals = (qops_total){0, 0};
        if (one_run) ((const reduction *)reduced->context)->reduce(x, reduced->shape[0], totals);
        reduced->total = totals++;
        if (!one_run) do_runs(reduced, &x, buffers);
    } while (next_index(index, &x, n_kept, shape, strides));
}

/* How the columns of one row of accumulators lie in x, and what is added up in them. */
typedef struct {
    qops_accumulate_fn *add;
    const run_array *x; /* its strides are not used */
    ptrdiff_t stride;
    int n_reduced;
    size_t shape[RUN_DIMS];
    ptrdiff_t strides[RUN_DIMS];
} columns;

/* Add so many rows of m columns, from x on, to acc */
static inline void accumulate_rows(const columns *c, char *x, ptrdiff_t step, size_t rows,
                                   int64_t *acc, size_t m, void *buffer) {
    const size_t size = c->x->size;
    const bool direct = runs_native(c->x) && c->stride == (ptrdiff_t)size;
    const size_t most = direct ? ACCUMULATED_ROWS : 1;
    for (size_t row = 0; row < rows; row += most, x += step * (ptrdiff_t)most) {
        if (!direct) copy_run(buffer, (ptrdiff_t)size, x, c->stride, m, size, c->x->swapped);
        c->add(direct ? x : buffer, step, least(most, rows - row), acc, m);
    }
}

/* acc[i] += all x[i], n columns from `x` on; several rows that follow each other in memory are
 * taken as one, with accumulators of their own. */
static inline void accumulate_columns(const columns *c, char *x, int64_t *acc, size_t n,
                                      void *buffer) {
    const int last = c->n_reduced - 1;
    const bool joined = last >= 0 && c->strides[last] == (ptrdiff_t)n * c->stride;
    const size_t rows = last >= 0 ? c->shape[last] : 1;
    const size_t most = joined ? least(rows, RUN_CHUNK / n) : 1;
    const ptrdiff_t step = last >= 0 ? c->strides[last] : 0;
    const size_t wide = rows / most, rest = rows % most;
    memset(acc, 0, n * most * sizeof *acc);
    size_t index[RUN_DIMS] = {0};
    do {
        accumulate_rows(c, x, step * (ptrdiff_t)most, wide, acc, n * most, buffer);
        if (rest > 0)
            accumulate_rows(c, x + step * (ptrdiff_t)(wide * most), 0, 1, acc, n * rest, buffer);
    } while (next_index(index, &x, last, c->shape, c->strides));
    for (size_t row = 1; row < most; row++)
        for (size_t i = 0; i < n; i++) acc[i] += acc[row * n + i];
}

/* Sums with kept dimensions, outermost first; the last one is that of the columns. */
static inline void sums_of_columns(const columns *c, int n_kept, const size_t *shape,
                                   const ptrdiff_t *strides, const ptrdiff_t *y_strides, int64_t *y,
                                   run_buffers *buffers) {
    const int inner = n_kept - 1;
    int64_t *acc = (int64_t *)buffers->arrays[1];
    size_t index[RUN_DIMS] = {0};
    char *x = c->x->data;
    do {
        for (size_t i = 0, n; i < shape[inner]; i += n) {
            n = least(RUN_CHUNK, shape[inner] - i);
            accumulate_columns(c, x + (ptrdiff_t)i * c->stride, acc, n, buffers->arrays[0]);
            int64_t *to = y + (ptrdiff_t)i * y_strides[inner];
            for (int d = 0; d < inner; d++) to += (ptrdiff_t)index[d] * y_strides[d];
            for (size_t k = 0; k < n; k++) to[(ptrdiff_t)k * y_strides[inner]] = acc[k];
        }
    } while (next_index(index, &x, inner, shape, strides));
}

#endif
