/* runs.h - arrays of any layout, cut into the rows that kernels want.
 *
 * plan_runs orders and merges the dimensions of up to three arrays and three sets of pairs that
 * have been broadcast to one shape; do_runs then calls a function on one run after the other. Where
 * every array is contiguous, aligned and native along the innermost dimension, a run is as many
 * rows of the arrays themselves as the next dimension has. Where the output alone is, a run is a
 * tile of two dimensions, and the other inputs' part of it is copied to a buffer. Else a run is a
 * single row of buffers, to which arrays and pairs are copied as they need it; short dimensions are
 * taken together, so that a row is long whatever the shape. Nothing here can fail. */
#ifndef QOPS_RUNS_H
#define QOPS_RUNS_H

#include "pairs.h"

#include <string.h>

#define RUN_DIMS 66    /* NumPy's 64, one more for blocks, and a spare */
#define RUN_CHUNK 1024 /* elements in a buffer: all of them together fit the L1 or L2 cache */
#define RUN_SHORT 512  /* up to it a run takes in a further dimension */
#define RUN_SCALARS 16 /* from it on a row is worth a call, and a pair of its own */
#define TILE_BYTES 64  /* what a tile takes of a column: a cache line */
#define TILE_COLUMNS 128

typedef struct {
    char *data;
    ptrdiff_t strides[RUN_DIMS]; /* in bytes */
    size_t size;                 /* of an element, in bytes */
    bool swapped;                /* not in native byte order */
    bool aligned;                /* every element is */
} run_array;

typedef struct {
    qops_pairs pairs; /* not used: scale is NULL */
    ptrdiff_t strides[RUN_DIMS];
} run_pairs;

typedef struct runs runs;
typedef void run_fn(const runs *r, void *const *x, size_t n, const qops_params *p);

struct runs {
    /* Set by the caller: dimensions outermost first, the output last among the arrays */
    int ndim;
    size_t shape[RUN_DIMS];
    int n_arrays, n_inputs;
    run_array arrays[3];
    run_pairs pairs[3]; /* a, b, y */
    bool relu, divide;
    qops_dtype codes;
    run_fn *fn;
    const void *context; /* for fn */
    void *total;

    /* Set by plan_runs: dimensions innermost first */
    bool rows_direct; /* a run is rows of the arrays: dimension 0, and 1 if there is one */
    bool tiles;       /* a run is a part of these rows, and inputs not direct are copied */
    size_t tile_rows, tile_columns;
    int inner_dims;    /* else a run goes over so many, over a part of the last */
    size_t inner_size; /* elements of all of these but the last */
    size_t most_rows;  /* how much of the last a run takes at most */
    bool direct[3];    /* the array needs no buffer even so */
    bool vary[3];      /* there are several pairs of the set in a run */
};

typedef struct {
    double arrays[3][RUN_CHUNK];
    char pairs[3][PAIRS_BYTES(RUN_CHUNK)];
} run_buffers;

static inline size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Dimensions */

static inline ptrdiff_t stride_size(ptrdiff_t stride) { return stride < 0 ? -stride : stride; }

/* Does dimension i have to be outside of j: by the output's strides, else by an input's? */
static inline bool runs_outside(const runs *r, int i, int j) {
    for (int k = r->n_arrays - 1; k >= 0; k--) {
        const ptrdiff_t si = stride_size(r->arrays[k].strides[i]);
        const ptrdiff_t sj = stride_size(r->arrays[k].strides[j]);
        if (si != sj) return si > sj;
    }
    return false;
}

static inline void runs_move_dim(runs *r, int to, int from) {
    r->shape[to] = r->shape[from];
    for (int k = 0; k < 3; k++) {
        r->arrays[k].strides[to] = r->arrays[k].strides[from];
        r->pairs[k].strides[to] = r->pairs[k].strides[from];
    }
}

static inline void runs_swap_dims(runs *r, int i, int j) {
    runs_move_dim(r, RUN_DIMS - 1, i);
    runs_move_dim(r, i, j);
    runs_move_dim(r, j, RUN_DIMS - 1);
}

static inline void runs_flip_dim(runs *r, int i) {
    const ptrdiff_t last = (ptrdiff_t)r->shape[i] - 1;
    for (int k = 0; k < r->n_arrays; k++) {
        r->arrays[k].data += last * r->arrays[k].strides[i];
        r->arrays[k].strides[i] *= -1;
    }
    for (int k = 0; k < 3; k++) {
        if (r->pairs[k].pairs.scale == NULL) continue;
        r->pairs[k].pairs = pairs_from(r->pairs[k].pairs, last * r->pairs[k].strides[i]);
        r->pairs[k].strides[i] *= -1;
    }
}

/* Is going on from dimension `inner` to the next one outside as going on within it? */
static inline bool runs_mergeable(const runs *r, int outer, int inner) {
    const ptrdiff_t n = (ptrdiff_t)r->shape[inner];
    for (int k = 0; k < r->n_arrays; k++)
        if (r->arrays[k].strides[outer] != n * r->arrays[k].strides[inner]) return false;
    for (int k = 0; k < 3; k++)
        if (r->pairs[k].pairs.scale != NULL &&
            r->pairs[k].strides[outer] != n * r->pairs[k].strides[inner])
            return false;
    return true;
}

static inline void runs_order_dims(runs *r) {
    int n = 0;
    for (int i = 0; i < r->ndim; i++) /* drop those of one element */
        if (r->shape[i] != 1) runs_move_dim(r, n++, i);
    if (n == 0) { /* a single element: keep one dimension */
        runs_move_dim(r, 0, RUN_DIMS - 1);
        r->shape[0] = n = 1;
        for (int k = 0; k < 3; k++) {
            r->arrays[k].strides[0] = (ptrdiff_t)r->arrays[k].size;
            r->pairs[k].strides[0] = 0;
        }
    }
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && runs_outside(r, j, j - 1); j--) runs_swap_dims(r, j, j - 1);
    for (int i = 0; i < n; i++)
        if (r->arrays[r->n_arrays - 1].strides[i] < 0) runs_flip_dim(r, i);
    for (int i = n - 2; i >= 0; i--) { /* merge i + 1 into i */
        if (!runs_mergeable(r, i, i + 1)) continue;
        r->shape[i + 1] *= r->shape[i];
        for (int j = i; j + 1 < n; j++) runs_move_dim(r, j, j + 1);
        n--;
    }
    r->ndim = n;
    for (int i = 0; i < n / 2; i++) runs_swap_dims(r, i, n - 1 - i); /* innermost first */
}

/* Is walking the first `dims` dimensions walking on by `step` from element to element? */
static inline bool runs_steady(const runs *r, const ptrdiff_t *strides, ptrdiff_t step, int dims) {
    for (int i = 0; i < dims; i++) {
        if (r->shape[i] != 1 && strides[i] != step) return false;
        step *= (ptrdiff_t)r->shape[i];
    }
    return true;
}

static inline bool runs_pairs_vary(const runs *r, int set, int first_dim, int dims) {
    for (int i = first_dim; i < dims; i++)
        if (r->pairs[set].pairs.scale != NULL && r->pairs[set].strides[i] != 0) return true;
    return false;
}

static inline bool runs_any_pairs_vary(const runs *r, int first_dim, int dims) {
    for (int k = 0; k < 3; k++)
        if (runs_pairs_vary(r, k, first_dim, dims)) return true;
    return false;
}

static inline bool runs_native(const run_array *a) { return a->aligned && !a->swapped; }

static inline bool runs_row_contiguous(const runs *r, int array) {
    const run_array *a = &r->arrays[array];
    return runs_native(a) && runs_steady(r, a->strides, (ptrdiff_t)a->size, 1);
}

/* Can kernels take pairs, and the result be written, as they are in dimension 0? */
static inline bool runs_rows(const runs *r) {
    if (r->ndim > 1 && r->shape[0] < RUN_SCALARS) return false;
    for (int k = r->n_inputs; k < r->n_arrays; k++)
        if (!runs_row_contiguous(r, k)) return false;
    for (int k = 0; k < 3; k++)
        if (runs_pairs_vary(r, k, 0, 1) && !runs_steady(r, r->pairs[k].strides, 1, 1)) return false;
    return true;
}

/* Make dimension 1 the one along which an input that lies otherwise is contiguous, or nearly so, and
 * choose the size of a tile: of such an input, whole cache lines. */
static inline void plan_tiles(runs *r) {
    size_t size = 1;
    bool across = false;
    for (int k = 0; k < r->n_inputs; k++) {
        const run_array *a = &r->arrays[k];
        if (r->direct[k]) continue;
        if (a->size > size) size = a->size;
        int least_dim = 0;
        for (int d = 1; d < r->ndim; d++)
            if (a->strides[d] != 0 &&
                stride_size(a->strides[d]) < stride_size(a->strides[least_dim]))
                least_dim = d;
        if (least_dim == 0 || across) continue;
        runs_swap_dims(r, 1, least_dim);
        across = true;
    }
    r->tile_columns = least(r->shape[0], across ? TILE_COLUMNS : RUN_CHUNK);
    r->tile_rows = across ? TILE_BYTES / size : RUN_CHUNK / r->tile_columns;
    if (r->ndim == 1) r->tile_rows = 1;
}

static inline void plan_runs(runs *r) {
    runs_order_dims(r);
    const bool rows = runs_rows(r);
    r->rows_direct = rows;
    for (int k = 0; k < r->n_inputs; k++) {
        r->direct[k] = runs_row_contiguous(r, k);
        if (!r->direct[k]) r->rows_direct = false;
    }
    r->tiles = rows && !r->rows_direct;
    size_t n = r->shape[0];
    r->inner_dims = 1;
    if (r->tiles) plan_tiles(r);
    if (rows) {
        r->inner_dims = r->ndim > 1 ? 2 : 1;
        for (int k = 0; k < 3; k++) {
            r->pairs[k].pairs.per_element = runs_pairs_vary(r, k, 0, 1);
            r->pairs[k].pairs.row_step = r->ndim > 1 ? r->pairs[k].strides[1] : 0;
        }
        return;
    }
    while (r->inner_dims < r->ndim && n <= RUN_SHORT) {
        const int d = r->inner_dims;
        if (n >= RUN_SCALARS && !runs_any_pairs_vary(r, 0, d) && runs_any_pairs_vary(r, d, d + 1))
            break;
        n *= r->shape[d];
        r->inner_dims++;
    }
    r->inner_size = 1;
    for (int i = 0; i < r->inner_dims - 1; i++) r->inner_size *= r->shape[i];
    for (int k = 0; k < r->n_arrays; k++) {
        const run_array *a = &r->arrays[k];
        r->direct[k] = runs_native(a) &&
                       runs_steady(r, a->strides, (ptrdiff_t)a->size, r->inner_dims);
    }
    for (int k = 0; k < 3; k++) r->vary[k] = runs_pairs_vary(r, k, 0, r->inner_dims);
    r->most_rows = least(r->shape[r->inner_dims - 1], RUN_CHUNK / r->inner_size);
}

/* Buffers */

static inline __attribute__((always_inline)) void copy_elements(char *y, ptrdiff_t y_stride,
                                                                const char *x, ptrdiff_t x_stride,
                                                                size_t n, size_t size,
                                                                bool swapped) {
    for (; n > 0; n--, x += x_stride, y += y_stride) {
        char e[8], reversed[8];
        memcpy(e, x, size);
        for (size_t i = 0; i < size; i++) reversed[i] = e[size - 1 - i];
        memcpy(y, swapped ? reversed : e, size);
    }
}

/* y[i] = x[i] with any strides, in bytes; a switch makes the size a constant */
static inline void copy_run(char *y, ptrdiff_t y_stride, const char *x, ptrdiff_t x_stride,
                            size_t n, size_t size, bool swapped) {
    if (!swapped && x_stride == (ptrdiff_t)size && y_stride == (ptrdiff_t)size) {
        memcpy(y, x, n * size);
        return;
    }
    if (!swapped && x_stride == 2 * (ptrdiff_t)size && y_stride == (ptrdiff_t)size) {
        switch (size) { /* a stride that is known makes vector instructions of the loop */
        case 1: copy_elements(y, 1, x, 2, n, 1, false); break;
        case 2: copy_elements(y, 2, x, 4, n, 2, false); break;
        case 4: copy_elements(y, 4, x, 8, n, 4, false); break;
        default: copy_elements(y, 8, x, 16, n, 8, false);
        }
        return;
    }
    switch (size * 2 + swapped) {
    case 2:
    case 3: copy_elements(y, y_stride, x, x_stride, n, 1, false); break;
    case 4: copy_elements(y, y_stride, x, x_stride, n, 2, false); break;
    case 5: copy_elements(y, y_stride, x, x_stride, n, 2, true); break;
    case 8: copy_elements(y, y_stride, x, x_stride, n, 4, false); break;
    case 9: copy_elements(y, y_stride, x, x_stride, n, 4, true); break;
    case 16: copy_elements(y, y_stride, x, x_stride, n, 8, false); break;
    default: copy_elements(y, y_stride, x, x_stride, n, 8, true);
    }
}

/* Between a run of an array at `data`, with strides of `unit` bytes, and a buffer. */
static inline void copy_buffer(const runs *r, char *buffer, bool to_buffer, char *data,
                               const ptrdiff_t *strides, ptrdiff_t unit, size_t size, bool swapped,
                               size_t rows) {
    const ptrdiff_t step = (ptrdiff_t)size;
    const int outer = r->inner_dims - 1;
    const size_t n = outer == 0 ? rows : r->shape[0];
    size_t index[RUN_DIMS] = {0};
    for (;;) {
        if (to_buffer) copy_run(buffer, step, data, strides[0] * unit, n, size, swapped);
        else copy_run(data, strides[0] * unit, buffer, step, n, size, swapped);
        buffer += n * size;
        int d = 1;
        for (; d <= outer; d++) {
            data += strides[d] * unit;
            if (++index[d] < (d == outer ? rows : r->shape[d])) break;
            data -= (ptrdiff_t)index[d] * strides[d] * unit;
            index[d] = 0;
        }
        if (d > outer) return;
    }
}

static inline qops_pairs buffer_pairs(const runs *r, const ptrdiff_t *strides, qops_pairs at,
                                      void *memory, size_t rows) {
    qops_pairs to = pairs_in(memory, RUN_CHUNK);
    to.limit = at.limit;
    to.per_element = true;
    const void *x[] = {at.scale, at.recip, at.recip_low, at.zero};
    const void *y[] = {to.scale, to.recip, to.recip_low, to.zero};
    for (int k = 0; k < 4; k++)
        copy_buffer(r, (char *)y[k], true, (char *)x[k], strides, 4, 4, false, rows);
    copy_buffer(r, (char *)to.scale64, true, (char *)at.scale64, strides, 8, 8, false, rows);
    return to;
}

/* Columns of a cache line each, from x to a buffer that has them row by row. Some at a time are
 * interleaved, in loops that compilers turn into vector instructions (1024 x 1024 bytes: 3.4 -> 16
 * G/s, float32 1.6 -> 5.0). Returns how many are done. */
static inline __attribute__((always_inline)) size_t transpose_elements(char *y, const char *x,
                                                                       ptrdiff_t x_column, size_t n,
                                                                       size_t size) {
    const size_t rows = TILE_BYTES / size, some = 16 / size;
    size_t i = 0;
    for (; i + some <= n; i += some, x += (ptrdiff_t)some * x_column) {
        char mixed[TILE_BYTES * 16];
        for (size_t r = 0; r < rows; r++)
            for (size_t k = 0; k < some; k++)
                memcpy(mixed + (r * some + k) * size,
                       x + (ptrdiff_t)k * x_column + (ptrdiff_t)(r * size), size);
        for (size_t r = 0; r < rows; r++) memcpy(y + (r * n + i) * size, mixed + r * 16, 16);
    }
    return i;
}

static inline size_t transpose(char *y, const char *x, ptrdiff_t x_column, size_t n, size_t size) {
    switch (size) { /* a constant in each call */
    case 1: return transpose_elements(y, x, x_column, n, 1);
    case 2: return transpose_elements(y, x, x_column, n, 2);
    case 4: return transpose_elements(y, x, x_column, n, 4);
    default: return transpose_elements(y, x, x_column, n, 8);
    }
}

/* rows x columns elements, to a buffer row by row. Columns that lie together are read one by one, so
 * that a cache line is done with before the next: lines of many columns may compete for one place. */
static inline void copy_tile(const runs *r, char *y, const char *x, const run_array *a, size_t rows,
                             size_t columns) {
    const ptrdiff_t x_column = a->strides[0], x_row = r->ndim > 1 ? a->strides[1] : 0;
    const ptrdiff_t size = (ptrdiff_t)a->size;
    if (rows == 1 || stride_size(x_column) <= stride_size(x_row)) {
        for (size_t i = 0; i < rows; i++, x += x_row, y += size * (ptrdiff_t)columns)
            copy_run(y, size, x, x_column, columns, a->size, a->swapped);
        return;
    }
    size_t i = 0;
    if (x_row == size && rows * a->size == TILE_BYTES && !a->swapped)
        i = transpose(y, x, x_column, columns, a->size);
    for (; i < columns; i++)
        copy_run(y + (ptrdiff_t)i * size, size * (ptrdiff_t)columns, x + (ptrdiff_t)i * x_column,
                 x_row, rows, a->size, a->swapped);
}

/* Runs */

/* Where a run begins: in the arrays, and in the sets of pairs. It is moved, never copied: compilers
 * copy such a struct in pieces other than it was written in, which costs 15 ns a run. */
typedef struct {
    void *data[3];
    ptrdiff_t pair[3];
} runs_position;

static inline void runs_advance(const runs *r, runs_position *at, int dim, ptrdiff_t by) {
    for (int k = 0; k < r->n_arrays; k++)
        at->data[k] = (char *)at->data[k] + by * r->arrays[k].strides[dim];
    for (int k = 0; k < 3; k++) at->pair[k] += by * r->pairs[k].strides[dim];
}

/* What the buffers of pairs hold: the pairs of so many rows from so many pairs on */
typedef struct {
    ptrdiff_t pair[3];
    size_t rows[3];
} held_pairs;

static inline void runs_set_pairs(const runs *r, const runs_position *at, qops_params *p,
                                  held_pairs *held, run_buffers *buffers, size_t rows) {
    qops_pairs *const to[] = {&p->a, &p->b, &p->y};
    for (int k = 0; k < 3; k++) {
        const run_pairs *set = &r->pairs[k];
        if (set->pairs.scale == NULL) continue;
        const qops_pairs from = pairs_from(set->pairs, at->pair[k]);
        if (!r->vary[k]) {
            *to[k] = from;
        } else if (held->pair[k] != at->pair[k] || held->rows[k] < rows) {
            *to[k] = buffer_pairs(r, set->strides, from, buffers->pairs[k], rows);
            held->pair[k] = at->pair[k];
            held->rows[k] = rows;
        }
    }
}

/* A run through buffers: a single row */
static inline void do_run(const runs *r, const runs_position *at, size_t rows, qops_params *p,
                          run_buffers *buffers) {
    void *x[3];
    p->row = r->inner_size * rows;
    for (int k = 0; k < r->n_arrays; k++) {
        const run_array *a = &r->arrays[k];
        x[k] = r->direct[k] ? at->data[k] : buffers->arrays[k];
        if (k < r->n_inputs && !r->direct[k])
            copy_buffer(r, x[k], true, at->data[k], a->strides, 1, a->size, a->swapped, rows);
    }
    r->fn(r, x, p->row, p);
    for (int k = r->n_inputs; k < r->n_arrays; k++) {
        const run_array *a = &r->arrays[k];
        if (!r->direct[k])
            copy_buffer(r, x[k], false, at->data[k], a->strides, 1, a->size, a->swapped, rows);
    }
}

static inline void do_buffered_runs(const runs *r, runs_position *at, qops_params *p,
                                    held_pairs *held, run_buffers *buffers) {
    const size_t all_rows = r->shape[r->inner_dims - 1];
    for (size_t row = 0, rows; row < all_rows; row += rows) {
        rows = least(r->most_rows, all_rows - row);
        runs_set_pairs(r, at, p, held, buffers, rows);
        do_run(r, at, rows, p, buffers);
        runs_advance(r, at, r->inner_dims - 1, (ptrdiff_t)rows);
    }
    runs_advance(r, at, r->inner_dims - 1, -(ptrdiff_t)all_rows);
}

static inline void do_direct_run(const runs *r, const runs_position *at, qops_params *p) {
    qops_pairs *const to[] = {&p->a, &p->b, &p->y};
    for (int k = 0; k < 3; k++)
        if (r->pairs[k].pairs.scale != NULL) *to[k] = pairs_from(r->pairs[k].pairs, at->pair[k]);
    r->fn(r, at->data, p->row * (r->ndim > 1 ? r->shape[1] : 1), p);
}

static inline void do_tile(const runs *r, const runs_position *at, qops_params *p, size_t rows,
                           size_t columns, run_buffers *buffers) {
    void *x[3];
    ptrdiff_t *const step[] = {&p->a_step, r->n_arrays > 2 ? &p->b_step : &p->y_step, &p->y_step};
    qops_pairs *const to[] = {&p->a, &p->b, &p->y};
    p->row = columns;
    for (int k = 0; k < r->n_arrays; k++) {
        const run_array *a = &r->arrays[k];
        x[k] = at->data[k];
        *step[k] = r->ndim > 1 ? a->strides[1] : 0;
        if (k < r->n_inputs && !r->direct[k]) {
            x[k] = buffers->arrays[k];
            copy_tile(r, x[k], at->data[k], a, rows, columns);
            *step[k] = (ptrdiff_t)(columns * a->size);
        }
    }
    for (int k = 0; k < 3; k++)
        if (r->pairs[k].pairs.scale != NULL) *to[k] = pairs_from(r->pairs[k].pairs, at->pair[k]);
    r->fn(r, x, rows * columns, p);
}

static inline void do_tiles(const runs *r, runs_position *at, qops_params *p,
                            run_buffers *buffers) {
    const size_t all_rows = r->ndim > 1 ? r->shape[1] : 1, all_columns = r->shape[0];
    for (size_t row = 0; row < all_rows; row += r->tile_rows) {
        const size_t rows = least(r->tile_rows, all_rows - row);
        for (size_t column = 0; column < all_columns; column += r->tile_columns) {
            do_tile(r, at, p, rows, least(r->tile_columns, all_columns - column), buffers);
            runs_advance(r, at, 0, (ptrdiff_t)r->tile_columns);
        }
        const size_t done = (all_columns + r->tile_columns - 1) / r->tile_columns;
        runs_advance(r, at, 0, -(ptrdiff_t)(done * r->tile_columns));
        if (r->ndim > 1) runs_advance(r, at, 1, (ptrdiff_t)rows);
    }
    if (r->ndim > 1) runs_advance(r, at, 1, -(ptrdiff_t)all_rows);
}

/* Where rows are direct, all runs have the same steps. */
static inline void runs_set_rows(const runs *r, qops_params *p) {
    const bool rows = r->ndim > 1;
    p->row = r->shape[0];
    if (!rows) return;
    p->a_step = r->arrays[0].strides[1];
    p->b_step = r->arrays[1].strides[1];
    p->y_step = r->arrays[r->n_arrays - 1].strides[1];
}

/* Call r->fn on all runs of the arrays, whose first elements are at `data` (r->arrays[k].data, or
 * where another part of the same layout is). No array may be empty. */
static inline void do_runs(const runs *r, char *const *data, run_buffers *buffers) {
    runs_position at = {{NULL}, {0}};
    for (int k = 0; k < r->n_arrays; k++) at.data[k] = data[k];
    qops_params p = {.divide = r->divide, .relu = r->relu, .codes = r->codes};
    held_pairs held = {{0}, {0}};
    if (r->rows_direct) runs_set_rows(r, &p);
    size_t index[RUN_DIMS] = {0};
    for (;;) {
        if (r->rows_direct) do_direct_run(r, &at, &p);
        else if (r->tiles) do_tiles(r, &at, &p, buffers);
        else do_buffered_runs(r, &at, &p, &held, buffers);
        int d = r->inner_dims;
        for (; d < r->ndim; d++) {
            runs_advance(r, &at, d, 1);
            if (++index[d] < r->shape[d]) break;
            runs_advance(r, &at, d, -(ptrdiff_t)index[d]);
            index[d] = 0;
        }
        if (d >= r->ndim) return;
    }
}

#endif
