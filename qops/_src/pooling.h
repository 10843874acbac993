/* pooling.h - windows over up to three dimensions of arrays (outer, depth, height, width, channels).
 *
 * For each output index of a dimension the caller says where its window begins, how many taps of it
 * lie inside the array, and of which kind it is: padding, strides and adaptive windows are all the
 * same here. A kernel gets a pointer for each tap, and outputs that follow each other as one run.
 *
 * With few channels and sliding windows, rows are first copied between padding, of a code that
 * changes nothing, and taken apart by the stride's phases: then all taps are inside, and each tap of
 * all outputs of a row is contiguous.
 *
 * Means of more than 8-bit codes and small windows come from sums of 64 bits, a window at a time:
 * `sums` says how. */
#ifndef QOPS_POOLING_H
#define QOPS_POOLING_H

#include "qops.h"

#include <string.h>

#define POOL_DIMS 3
#define POOL_CHUNK 2048 /* sums in a buffer: 4 KiB, or 16 of 64 bits */
#define POOL_FEW 16     /* fewer channels are not worth a step of a kernel for each column */

typedef struct {
    size_t in, out;
    ptrdiff_t dilation;
    const int64_t *first, *taps, *kind; /* of each output index */
    size_t kinds, most;                 /* how many there are; the most taps */
} pool_dim;

/* Of a kind of windows */
typedef struct {
    int64_t taps;
    double divisor;
} pool_count;

/* How sums of 64 bits become means */
typedef struct {
    qops_accumulate_fn *add;
    qops_convert_fn *quantize;
    const double *scale; /* of each channel */
    const int64_t *zero; /* likewise */
    qops_params params;  /* y is one pair, or that of each channel if it is per element */
    size_t channels;     /* all of them, though they may be in the outer dimension */
} pool_means;

typedef struct {
    const pool_means *means; /* NULL: there are none, and what follows counts */
    qops_window_fn *fn;
    qops_table_fn *take;    /* from sums to results; NULL: the kernel gives these */
    const void *const *how; /* for each kind of depth, height and width a table, mean or count */
    pool_dim dim[POOL_DIMS];
    size_t channels, x_size, y_size;
    const void **taps; /* room for those of the largest window */
    const char **rows; /* and for its rows */

    char *padded; /* room for its rows with their padding; NULL: they are not copied */
    int32_t pad;  /* code */
    size_t kernel, stride, padding, phase; /* of the width; columns of a phase of a row */
} pooling;

/* Columns of n sums of bytes from the taps, which are moved, to the results by a table */
static inline void pool_sums(const pooling *p, size_t count, ptrdiff_t x_step, size_t n,
                             size_t columns, char *y, const void *table) {
    uint16_t sums[POOL_CHUNK];
    const size_t most = n < POOL_CHUNK ? POOL_CHUNK / n : 1;
    for (size_t c = 0; c < columns; c += most) {
        const size_t some = columns - c < most ? columns - c : most;
        for (size_t i = 0; i < n; i += POOL_CHUNK) {
            const size_t m = n - i < POOL_CHUNK ? n - i : POOL_CHUNK;
            const ptrdiff_t on = n - i > m ? (ptrdiff_t)m : (ptrdiff_t)some * x_step - (ptrdiff_t)i;
            p->fn(p->taps, count, x_step, sums, m, some, NULL);
            p->take(sums, y, m * some, table);
            y += m * some * p->y_size;
            for (size_t k = 0; k < count; k++) p->taps[k] = (const char *)p->taps[k] + on;
        }
    }
}

static inline void pool_columns(const pooling *p, size_t count, ptrdiff_t x_step, size_t n,
                                size_t columns, char *y, size_t row_kind, size_t o) {
    const pool_dim *d = &p->dim[2];
    const void *how = p->how[row_kind * d->kinds + (size_t)d->kind[o]];
    if (p->take == NULL) p->fn(p->taps, count, x_step, y, n, columns, how);
    else pool_sums(p, count, x_step, n, columns, y, how);
}

/* How many outputs from o on are of one kind, and the same step apart */
static inline size_t pool_alike(const pooling *p, size_t o) {
    const pool_dim *d = &p->dim[2];
    if (o + 1 == d->out) return 1;
    const int64_t step = d->first[o + 1] - d->first[o];
    size_t n = 1;
    while (o + n < d->out && d->kind[o + n] == d->kind[o] && d->taps[o + n] == d->taps[o] &&
           d->first[o + n] - d->first[o + n - 1] == step)
        n++;
    return n;
}

/* A row of outputs, straight from so many rows of the input */
static inline void pool_row(const pooling *p, size_t rows, size_t row_kind, char *y) {
    const pool_dim *d = &p->dim[2];
    const size_t c = p->channels;
    const ptrdiff_t column = (ptrdiff_t)(c * p->x_size);
    for (size_t o = 0, length; o < d->out; o += length) {
        length = pool_alike(p, o);
        const size_t taps = (size_t)d->taps[o];
        const ptrdiff_t step = length > 1 ? (ptrdiff_t)(d->first[o + 1] - d->first[o]) : 1;
        const size_t n = step == 1 ? length * c : c, columns = step == 1 ? 1 : length;
        size_t count = 0;
        for (size_t r = 0; r < rows; r++) {
            const char *tap = p->rows[r] + (ptrdiff_t)d->first[o] * column;
            for (size_t j = 0; j < taps; j++, tap += d->dilation * column) p->taps[count++] = tap;
        }
        pool_columns(p, count, step * (ptrdiff_t)c, n, columns, y + o * c * p->y_size, row_kind, o);
    }
}

/* to[i] = from[j], of codes of so many bytes */
static inline void pool_copy(void *to, size_t i, const void *from, size_t j, size_t size) {
    if (size == 1) ((uint8_t *)to)[i] = ((const uint8_t *)from)[j];
    else if (size == 2) ((uint16_t *)to)[i] = ((const uint16_t *)from)[j];
    else ((uint32_t *)to)[i] = ((const uint32_t *)from)[j];
}

/* A row with its padding, phase by phase */
static inline void pool_pad_sized(const pooling *p, const char *row, char *to, size_t size) {
    const size_t c = p->channels, s = p->stride, n = p->dim[2].in;
    const uint8_t byte = (uint8_t)p->pad;
    const uint16_t word = (uint16_t)p->pad;
    const void *pad = size == 1 ? (const void *)&byte : size == 2 ? (const void *)&word : &p->pad;
    for (size_t i = 0; i < s * p->phase * c; i++) pool_copy(to, i, pad, 0, size);
    if (s == 1) {
        const size_t room = p->phase - p->padding;
        memcpy(to + p->padding * c * size, row, (n < room ? n : room) * c * size);
        return;
    }
    for (size_t f = 0; f < s; f++, to += p->phase * c * size) {
        /* element t is in this phase if t + padding = f + k * stride */
        size_t k = p->padding > f ? (p->padding - f + s - 1) / s : 0;
        for (size_t t = f + k * s - p->padding; k < p->phase && t < n; k++, t += s)
            for (size_t i = 0; i < c; i++) pool_copy(to, k * c + i, row, t * c + i, size);
    }
}

static inline void pool_pad(const pooling *p, const char *row, char *to) {
    if (p->x_size == 1) pool_pad_sized(p, row, to, 1);
    else if (p->x_size == 2) pool_pad_sized(p, row, to, 2);
    else pool_pad_sized(p, row, to, 4);
}

/* A row of outputs from padded rows; the windows of all outputs have all taps */
static inline void pool_padded_row(const pooling *p, size_t rows, size_t row_kind, char *y) {
    const pool_dim *d = &p->dim[2];
    const size_t c = p->channels, s = p->stride;
    size_t count = 0;
    for (size_t r = 0; r < rows; r++) {
        char *padded = p->padded + r * s * p->phase * c * p->x_size;
        pool_pad(p, p->rows[r], padded);
        for (size_t j = 0; j < p->kernel; j++) {
            const size_t u = j * (size_t)d->dilation;
            p->taps[count++] = padded + (u % s * p->phase + u / s) * c * p->x_size;
        }
    }
    for (size_t o = 0, length; o < d->out; o += length) {
        length = 1;
        while (o + length < d->out && d->kind[o + length] == d->kind[o]) length++;
        const size_t n = length * c;
        pool_columns(p, count, (ptrdiff_t)n, n, 1, y + o * c * p->y_size, row_kind, o);
        if (p->take == NULL) /* pool_sums has moved the taps on to the next ones */
            for (size_t k = 0; k < count; k++)
                p->taps[k] = (const char *)p->taps[k] + n * p->x_size;
    }
}

/* The rows of the input that a row of outputs is made of */
typedef struct {
    const char *x;
    size_t planes, rows;
    ptrdiff_t plane_step, row_step;
} pool_block;

/* float32(float64(sum) * scale / divisor) */
static inline float pool_mean(int64_t sum, double scale, double divisor) {
    return (float)((double)sum * scale / divisor);
}

static inline void pool_add(const pooling *p, const char *x, ptrdiff_t step, size_t rows,
                            int64_t *sums, size_t n) {
    for (size_t r = 0, m; r < rows; r += m, x += step * (ptrdiff_t)m) {
        m = rows - r < ACCUMULATED_ROWS ? rows - r : ACCUMULATED_ROWS;
        p->means->add(x, step, m, sums, n);
    }
}

/* sums[i] += window o of the channels from c on */
static inline void pool_add_window(const pooling *p, const pool_block *b, size_t o, size_t c,
                                   int64_t *sums, size_t n) {
    const pool_dim *d = &p->dim[2];
    const size_t column = p->channels * p->x_size;
    const size_t from = (size_t)d->first[o] * column + c * p->x_size;
    for (size_t i = 0; i < b->planes; i++)
        for (size_t j = 0; j < b->rows; j++) {
            const char *row = b->x + (ptrdiff_t)i * b->plane_step + (ptrdiff_t)j * b->row_step;
            pool_add(p, row + from, (ptrdiff_t)column, (size_t)d->taps[o], sums, n);
        }
}

/* Sums of columns i..end) over the rows of a block, of as many as fit */
typedef struct {
    size_t i, end; /* in codes */
    int64_t sums[POOL_CHUNK];
} pool_held;

/* The same for few channels: columns are summed first, and kept for the windows that follow */
static inline void pool_add_held(const pooling *p, const pool_block *b, size_t o, pool_held *held,
                                 int64_t *sums) {
    const pool_dim *d = &p->dim[2];
    const size_t c = p->channels, width = d->in * c, most = POOL_CHUNK / c * c;
    const size_t end = (size_t)(d->first[o] + d->taps[o]) * c;
    for (size_t t = (size_t)d->first[o] * c, stop; t < end; t = stop) {
        if (t < held->i || end > held->end) {
            held->i = t;
            held->end = width - t < most ? width : t + most;
            memset(held->sums, 0, (held->end - t) * sizeof(int64_t));
            for (size_t i = 0; i < b->planes; i++)
                pool_add(p, b->x + (ptrdiff_t)i * b->plane_step + t * p->x_size, b->row_step,
                         b->rows, held->sums, held->end - t);
        }
        stop = end < held->end ? end : held->end;
        for (size_t i = 0; i < c; i++)
            for (size_t k = t + i; k < stop; k += c) sums[i] += held->sums[k - held->i];
    }
}

/* A row of means from the rows of a block; c is the first channel, y its outputs */
static inline void pool_means_row(const pooling *p, const pool_block *b, size_t row_kind, size_t c,
                                  char *y) {
    const pool_dim *d = &p->dim[2];
    const pool_means *means = p->means;
    const size_t most = p->channels < POOL_CHUNK ? p->channels : POOL_CHUNK;
    const bool each = means->params.y.per_element && p->channels > 1;
    qops_params params = means->params;
    if (!each && params.y.per_element) {
        params.y = pairs_from(params.y, (ptrdiff_t)c);
        params.y.per_element = false;
    }
    int64_t sums[POOL_CHUNK];
    float real[POOL_CHUNK];
    pool_held held;
    held.i = held.end = 0; /* no columns; the sums need no value */
    size_t ready = 0;
    for (size_t o = 0; o < d->out; o++) {
        const pool_count *count = p->how[row_kind * d->kinds + (size_t)d->kind[o]];
        for (size_t i = 0, n; i < p->channels; i += n) {
            n = p->channels - i < most ? p->channels - i : most;
            memset(sums, 0, n * sizeof *sums);
            if (p->channels < POOL_FEW) pool_add_held(p, b, o, &held, sums);
            else pool_add_window(p, b, o, i, sums, n);
            const double *scale = means->scale + c + i;
            const int64_t *zero = means->zero + c + i;
            for (size_t k = 0; k < n; k++)
                real[ready + k] = pool_mean(sums[k] - count->taps * zero[k], scale[k],
                                            count->divisor);
            ready += n;
            const bool last = o + 1 == d->out && i + n == p->channels;
            if (!last && !each && ready + most <= POOL_CHUNK) continue;
            if (each) params.y = pairs_from(means->params.y, (ptrdiff_t)i);
            params.row = ready;
            means->quantize(real, y, ready, &params);
            y += ready * p->y_size;
            ready = 0;
        }
    }
}

/* Some rows of outputs, counted over all of the outer dimension */
static inline void pool(const pooling *p, const char *x, char *y, size_t from, size_t to) {
    const pool_dim *d = p->dim;
    const size_t row_bytes = d[2].in * p->channels * p->x_size;
    const size_t y_bytes = d[2].out * p->channels * p->y_size;
    for (size_t k = from; k < to; k++) {
        const size_t b = k % d[1].out, a = k / d[1].out % d[0].out;
        const size_t outer = k / d[1].out / d[0].out;
        const size_t kind = (size_t)d[0].kind[a] * d[1].kinds + (size_t)d[1].kind[b];
        const size_t first = (outer * d[0].in + (size_t)d[0].first[a]) * d[1].in;
        const pool_block block = {.x = x + (first + (size_t)d[1].first[b]) * row_bytes,
                                  .planes = (size_t)d[0].taps[a],
                                  .rows = (size_t)d[1].taps[b],
                                  .plane_step = d[0].dilation * (ptrdiff_t)(d[1].in * row_bytes),
                                  .row_step = d[1].dilation * (ptrdiff_t)row_bytes};
        if (p->means != NULL) {
            const size_t c = outer * p->channels % p->means->channels;
            pool_means_row(p, &block, kind, c, y + k * y_bytes);
            continue;
        }
        size_t rows = 0;
        for (size_t i = 0; i < block.planes; i++)
            for (size_t j = 0; j < block.rows; j++)
                p->rows[rows++] = block.x + (ptrdiff_t)i * block.plane_step +
                                  (ptrdiff_t)j * block.row_step;
        if (p->padded != NULL) pool_padded_row(p, rows, kind, y + k * y_bytes);
        else pool_row(p, rows, kind, y + k * y_bytes);
    }
}

#endif
