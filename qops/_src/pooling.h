/* pooling.h - windows over up to three dimensions of arrays (outer, depth, height, width, channels).
 *
 * For each output index of a dimension the caller says where its window begins, how many taps of it
 * lie inside the array, and of which kind it is: padding, strides and adaptive windows are all the
 * same here. A kernel gets a pointer for each tap, and outputs that follow each other as one run.
 *
 * With few channels and sliding windows, rows are first copied between padding, of a code that
 * changes nothing, and taken apart by the stride's phases: then all taps are inside, and each tap of
 * all outputs of a row is contiguous. */
#ifndef QOPS_POOLING_H
#define QOPS_POOLING_H

#include "qops.h"

#include <string.h>

#define POOL_DIMS 3
#define POOL_CHUNK 2048 /* sums in a buffer: 4 KiB */

typedef struct {
    size_t in, out;
    ptrdiff_t dilation;
    const int64_t *first, *taps, *kind; /* of each output index */
    size_t kinds, most;                 /* how many there are; the most taps */
} pool_dim;

typedef struct {
    qops_window_fn *fn;
    qops_table_fn *take;    /* from sums to results; NULL: the kernel gives these */
    const void *const *how; /* for each kind of depth, height and width a table or a mean */
    pool_dim dim[POOL_DIMS];
    size_t channels, y_size;
    const void **taps; /* room for those of the largest window */
    const char **rows; /* and for its rows */

    char *padded; /* room for its rows with their padding; NULL: they are not copied */
    int pad;      /* code */
    size_t kernel, stride, padding, phase; /* of the width; columns of a phase of a row */
} pooling;

/* Columns of n sums from the taps, which are moved, to the results by a table */
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
    for (size_t o = 0, length; o < d->out; o += length) {
        length = pool_alike(p, o);
        const size_t taps = (size_t)d->taps[o];
        const ptrdiff_t step = length > 1 ? (ptrdiff_t)(d->first[o + 1] - d->first[o]) : 1;
        const size_t n = step == 1 ? length * c : c, columns = step == 1 ? 1 : length;
        size_t count = 0;
        for (size_t r = 0; r < rows; r++) {
            const char *tap = p->rows[r] + (ptrdiff_t)d->first[o] * (ptrdiff_t)c;
            for (size_t j = 0; j < taps; j++, tap += d->dilation * (ptrdiff_t)c)
                p->taps[count++] = tap;
        }
        pool_columns(p, count, step * (ptrdiff_t)c, n, columns, y + o * c * p->y_size, row_kind, o);
    }
}

/* A row with its padding, phase by phase */
static inline void pool_pad(const pooling *p, const char *row, char *to) {
    const size_t c = p->channels, s = p->stride, n = p->dim[2].in;
    memset(to, p->pad, s * p->phase * c);
    if (s == 1) {
        const size_t room = p->phase - p->padding;
        memcpy(to + p->padding * c, row, (n < room ? n : room) * c);
        return;
    }
    for (size_t f = 0; f < s; f++, to += p->phase * c) {
        /* element t is in this phase if t + padding = f + k * stride */
        size_t k = p->padding > f ? (p->padding - f + s - 1) / s : 0;
        for (size_t t = f + k * s - p->padding; k < p->phase && t < n; k++, t += s)
            for (size_t i = 0; i < c; i++) to[k * c + i] = row[t * c + i];
    }
}

/* A row of outputs from padded rows; the windows of all outputs have all taps */
static inline void pool_padded_row(const pooling *p, size_t rows, size_t row_kind, char *y) {
    const pool_dim *d = &p->dim[2];
    const size_t c = p->channels, s = p->stride;
    size_t count = 0;
    for (size_t r = 0; r < rows; r++) {
        char *padded = p->padded + r * s * p->phase * c;
        pool_pad(p, p->rows[r], padded);
        for (size_t j = 0; j < p->kernel; j++) {
            const size_t u = j * (size_t)d->dilation;
            p->taps[count++] = padded + (u % s * p->phase + u / s) * c;
        }
    }
    for (size_t o = 0, length; o < d->out; o += length) {
        length = 1;
        while (o + length < d->out && d->kind[o + length] == d->kind[o]) length++;
        const size_t n = length * c;
        pool_columns(p, count, (ptrdiff_t)n, n, 1, y + o * c * p->y_size, row_kind, o);
        if (p->take == NULL) /* pool_sums has moved the taps on to the next ones */
            for (size_t k = 0; k < count; k++) p->taps[k] = (const char *)p->taps[k] + n;
    }
}

/* One array without the outer dimension */
static inline void pool(const pooling *p, const char *x, char *y) {
    const pool_dim *d = p->dim;
    const size_t row_bytes = d[2].in * p->channels, y_bytes = d[2].out * p->channels * p->y_size;
    for (size_t a = 0; a < d[0].out; a++)
        for (size_t b = 0; b < d[1].out; b++, y += y_bytes) {
            size_t rows = 0;
            for (int64_t i = 0; i < d[0].taps[a]; i++)
                for (int64_t j = 0; j < d[1].taps[b]; j++) {
                    const int64_t plane = d[0].first[a] + i * d[0].dilation;
                    const int64_t row = d[1].first[b] + j * d[1].dilation;
                    p->rows[rows++] = x + ((size_t)plane * d[1].in + (size_t)row) * row_bytes;
                }
            const size_t kind = (size_t)d[0].kind[a] * d[1].kinds + (size_t)d[1].kind[b];
            if (p->padded != NULL) pool_padded_row(p, rows, kind, y);
            else pool_row(p, rows, kind, y);
        }
}

#endif
