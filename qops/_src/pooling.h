/* pooling.h - windows over up to three dimensions of arrays (outer, depth, height, width, channels).
 *
 * For each output index of a dimension the caller says where its window begins, how many taps of it
 * lie inside the array, and of which kind it is: padding, strides and adaptive windows are all the
 * same here. A kernel gets a pointer for each tap, and outputs that follow each other as one run.
 *
 * With few channels and windows that slide in small steps, rows are first copied between padding, of
 * a code that changes nothing, and taken apart by the stride's phases: then all taps are inside, and
 * each tap of all outputs of a row is contiguous. They are kept for the windows below.
 *
 * Other maxima are those of columns first. Means come from sums of 16 bits where these suffice, else
 * from sums of 64 (pool_means): of windows, or of few channels from those of columns. */
#ifndef QOPS_POOLING_H
#define QOPS_POOLING_H

#include "qops.h"

#include <string.h>

#define POOL_DIMS 3
#define POOL_CHUNK 2048 /* sums in a buffer: 4 KiB, or 16 of 64 bits */
#define POOL_WIDE 4     /* maxima of wider windows are those of columns first */
#define POOL_FEW 16     /* fewer channels are not worth a step of a kernel for each column */

typedef struct {
    size_t in, out;
    ptrdiff_t dilation;
    const int64_t *first, *taps, *kind; /* of each output index */
    size_t kinds, most;                 /* how many there are; the most taps */
    size_t extent;                      /* from the first of that many taps to the last */
} pool_dim;

/* Of a kind of windows */
typedef struct {
    int64_t taps;
    double divisor;
} pool_count;

/* How sums of 64 bits become means */
typedef struct {
    qops_accumulate_fn *add;
    qops_reduce_fn *reduce;
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
    qops_dtype dtype;    /* of the input */
    const int64_t *runs; /* lengths of what follows each other in a row and is alike */
    char *columns;       /* room for a row of maxima; NULL: windows are taken as they are */
    const void **taps;   /* room for those of the largest window */

    char *padded;      /* room for pool_slots rows with their padding; NULL: they are not copied */
    const char **held; /* which rows these are */
    int32_t pad;       /* code */
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

/* The rows of the input that a row of outputs is made of */
typedef struct {
    const char *x;
    size_t planes, rows, row; /* how many, and which is the first of a plane */
    ptrdiff_t plane_step, row_step;
} pool_block;

static inline const char *pool_row_of(const pool_block *b, size_t i, size_t j) {
    return b->x + (ptrdiff_t)i * b->plane_step + (ptrdiff_t)j * b->row_step;
}

/* A row of outputs, straight from the input */
static inline void pool_row(const pooling *p, const pool_block *b, size_t row_kind, char *y) {
    const pool_dim *d = &p->dim[2];
    const size_t c = p->channels;
    const ptrdiff_t column = (ptrdiff_t)(c * p->x_size);
    for (size_t o = 0, r = 0, length; o < d->out; o += length, r++) {
        length = (size_t)p->runs[r];
        const size_t taps = (size_t)d->taps[o];
        const ptrdiff_t step = length > 1 ? (ptrdiff_t)(d->first[o + 1] - d->first[o]) : 1;
        const size_t n = step == 1 ? length * c : c, columns = step == 1 ? 1 : length;
        size_t count = 0;
        for (size_t i = 0; i < b->planes; i++)
            for (size_t j = 0; j < b->rows; j++) {
                const char *tap = pool_row_of(b, i, j) + (ptrdiff_t)d->first[o] * column;
                for (size_t k = 0; k < taps; k++, tap += d->dilation * column)
                    p->taps[count++] = tap;
            }
        pool_columns(p, count, step * (ptrdiff_t)c, n, columns, y + o * c * p->y_size, row_kind, o);
    }
}

/* Maxima of a row of few channels, too short a run of each for a step of a kernel */
static inline void pool_few_maxima(const pooling *p, const void *x, void *y, qops_dtype t) {
    const pool_dim *d = &p->dim[2];
    const size_t c = p->channels, step = (size_t)d->dilation * c;
    for (size_t o = 0, i = 0; o < d->out; o++)
        for (size_t j = 0; j < c; j++, i++) {
            const size_t first = (size_t)d->first[o] * c + j;
            int32_t most = code_min(t);
            for (size_t k = 0, at = first; k < (size_t)d->taps[o]; k++, at += step) {
                const int32_t q = t == u8    ? ((const uint8_t *)x)[at]
                                  : t == i8  ? ((const int8_t *)x)[at]
                                  : t == u16 ? ((const uint16_t *)x)[at]
                                  : t == i16 ? ((const int16_t *)x)[at]
                                             : ((const int32_t *)x)[at];
                if (q > most) most = q;
            }
            if (t == u8 || t == i8) ((uint8_t *)y)[i] = (uint8_t)most;
            else if (t == i32) ((int32_t *)y)[i] = most;
            else ((uint16_t *)y)[i] = (uint16_t)most;
        }
}

/* A row of maxima: those of columns first, so that no column is read twice */
static inline void pool_max_row(const pooling *p, const pool_block *b, char *y) {
    size_t rows = 0;
    for (size_t i = 0; i < b->planes; i++)
        for (size_t j = 0; j < b->rows; j++) p->taps[rows++] = pool_row_of(b, i, j);
    p->fn(p->taps, rows, 0, p->columns, p->dim[2].in * p->channels, 1, NULL);
    const pool_block columns = {.x = p->columns, .planes = 1, .rows = 1};
    if (p->channels >= POOL_FEW) pool_row(p, &columns, 0, y);
    else if (p->dtype == u8) pool_few_maxima(p, p->columns, y, u8);
    else if (p->dtype == i8) pool_few_maxima(p, p->columns, y, i8);
    else if (p->dtype == u16) pool_few_maxima(p, p->columns, y, u16);
    else if (p->dtype == i16) pool_few_maxima(p, p->columns, y, i16);
    else pool_few_maxima(p, p->columns, y, i32);
}

/* to[i * c] = from[i * c * s], of c codes of so many bytes each */
static inline void pool_every(void *restrict to, const void *restrict from, size_t n, size_t c,
                              size_t s, size_t size) {
    for (size_t i = 0; i < n; i++)
        for (size_t k = i * c, j = k * s, end = k + c; k < end; k++, j++) {
            if (size == 1) ((uint8_t *)to)[k] = ((const uint8_t *)from)[j];
            else if (size == 2) ((uint16_t *)to)[k] = ((const uint16_t *)from)[j];
            else ((uint32_t *)to)[k] = ((const uint32_t *)from)[j];
        }
}

/* A row between its padding, phase by phase */
static inline void pool_pad(const pooling *p, const char *row, char *to) {
    const size_t s = p->stride, n = p->dim[2].in, c = p->channels, column = c * p->x_size;
    for (size_t f = 0; f < s; f++, to += p->phase * column) {
        /* element t is in this phase if t + padding = f + k * stride */
        const size_t k = p->padding > f ? (p->padding - f + s - 1) / s : 0;
        const size_t t = f + k * s - p->padding;
        if (k >= p->phase || t >= n) continue;
        const size_t left = (n - t + s - 1) / s, room = p->phase - k;
        const size_t count = left < room ? left : room;
        const char *from = row + t * column;
        if (s == 1) memcpy(to + k * column, from, count * column);
        else if (p->x_size == 4) pool_every(to + k * column, from, count, c, s, 4);
        else if (p->x_size == 2) pool_every(to + k * column, from, count, c, s, 2);
        else if (c > 1) pool_every(to + k * column, from, count, c, s, 1);
        else if (s > 2) pool_every(to + k, from, count, 1, s, 1);
        else pool_every(to + k, from, count, 1, 2, 1); /* compilers make vectors of this */
    }
}

/* How many rows with their padding the largest window can need */
static inline size_t pool_slots(const pooling *p) {
    return p->stride > 0 ? p->dim[0].most * p->dim[1].extent : 0;
}

static inline size_t pool_slot_bytes(const pooling *p) {
    return p->stride * p->phase * p->channels * p->x_size;
}

/* Fill the rows with padding, where it stays, and hold none */
static inline void pool_clear(const pooling *p) {
    const size_t slots = pool_slots(p), n = slots * pool_slot_bytes(p) / p->x_size;
    for (size_t i = 0; i < slots; i++) p->held[i] = NULL;
    for (size_t i = 0; i < n; i++) {
        if (p->x_size == 1) ((uint8_t *)p->padded)[i] = (uint8_t)p->pad;
        else if (p->x_size == 2) ((uint16_t *)p->padded)[i] = (uint16_t)p->pad;
        else ((int32_t *)p->padded)[i] = p->pad;
    }
}

/* A row of outputs from padded rows; the windows of all outputs have all taps */
static inline void pool_padded_row(const pooling *p, const pool_block *b, size_t row_kind,
                                   char *y) {
    const pool_dim *d = &p->dim[2], *height = &p->dim[1];
    const size_t c = p->channels, extent = height->extent, rows = b->planes * b->rows;
    for (size_t i = 0; i < b->planes; i++) {
        size_t place = b->row % extent;
        for (size_t j = 0; j < b->rows; j++) {
            const size_t slot = i * extent + place;
            const char *row = pool_row_of(b, i, j);
            char *padded = p->padded + slot * pool_slot_bytes(p);
            if (p->held[slot] != row) pool_pad(p, row, padded);
            p->held[slot] = row;
            p->taps[i * b->rows + j] = padded;
            place += (size_t)height->dilation;
            if (place >= extent) place -= extent;
        }
    }
    const size_t count = rows * p->kernel;
    for (size_t k = 1; k < p->kernel; k++) {
        const size_t u = k * (size_t)d->dilation, at = u % p->stride * p->phase + u / p->stride;
        for (size_t r = 0; r < rows; r++)
            p->taps[k * rows + r] = (const char *)p->taps[r] + at * c * p->x_size;
    }
    for (size_t o = 0, r = 0, length; o < d->out; o += length, r++) {
        length = (size_t)p->runs[r];
        const size_t n = length * c;
        pool_columns(p, count, (ptrdiff_t)n, n, 1, y + o * c * p->y_size, row_kind, o);
        if (p->take == NULL) /* pool_sums has moved the taps on to the next ones */
            for (size_t k = 0; k < count; k++)
                p->taps[k] = (const char *)p->taps[k] + n * p->x_size;
    }
}

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

/* sums = window o of n channels from c on */
static inline void pool_window(const pooling *p, const pool_block *b, size_t o, size_t c,
                               int64_t *sums, size_t n) {
    const pool_dim *d = &p->dim[2];
    const size_t column = p->channels * p->x_size;
    const size_t from = (size_t)d->first[o] * column + c * p->x_size;
    memset(sums, 0, n * sizeof *sums);
    for (size_t i = 0; i < b->planes; i++)
        for (size_t j = 0; j < b->rows; j++)
            pool_add(p, pool_row_of(b, i, j) + from, (ptrdiff_t)column, (size_t)d->taps[o], sums,
                     n);
}

/* Of columns i..end) of a block, in codes, as many as fit: sums of those before each */
typedef struct {
    size_t i, end;
    int64_t before[POOL_CHUNK + POOL_FEW];
} pool_held;

static inline void pool_hold(const pooling *p, const pool_block *b, size_t i, pool_held *held) {
    const size_t c = p->channels, left = p->dim[2].in * c - i, most = POOL_CHUNK / c * c;
    const size_t n = left < most ? left : most;
    int64_t *before = held->before;
    held->i = i;
    held->end = i + n;
    memset(before, 0, (c + n) * sizeof *before);
    for (size_t k = 0; k < b->planes; k++)
        pool_add(p, pool_row_of(b, k, 0) + i * p->x_size, b->row_step, b->rows, before + c, n);
    for (size_t j = 0; j < c; j++) {
        int64_t sum = 0; /* in a register: to load what was just stored takes its time */
        for (size_t k = c + j; k < c + n; k += c) before[k] = sum += before[k];
    }
}

/* sums = n windows from o on, of few channels */
static inline void pool_few_sums(const pooling *p, const pool_block *b, size_t o, size_t n,
                                 pool_held *held, int64_t *sums, size_t c) {
    const pool_dim *d = &p->dim[2];
    for (const size_t out = o + n; o < out; o++, sums += c) {
        const size_t end = (size_t)(d->first[o] + d->taps[o]) * c;
        for (size_t i = 0; i < c; i++) sums[i] = 0;
        for (size_t t = (size_t)d->first[o] * c, stop; t < end; t = stop) {
            if (t < held->i || end > held->end) pool_hold(p, b, t, held);
            stop = end < held->end ? end : held->end;
            const int64_t *from = held->before + (t - held->i), *to = from + (stop - t);
            for (size_t i = 0; i < c; i++) sums[i] += to[i] - from[i];
        }
    }
}

/* The sum of a window of one channel that has whole rows, and so is one run in each plane */
static inline int64_t pool_whole_sum(const pooling *p, const pool_block *b) {
    qops_total total = {0, 0};
    for (size_t i = 0; i < b->planes; i++)
        p->means->reduce(pool_row_of(b, i, 0), b->rows * p->dim[2].in, &total);
    return (int64_t)total.low; /* the rest is its sign */
}

/* Means of n sums, of channels of their own or all of one */
static inline void pool_real(const pool_means *m, const pool_count *count, const int64_t *sums,
                             size_t n, size_t channel, bool own, float *real) {
    const int64_t *zero = m->zero + channel;
    const double *scale = m->scale + channel, divisor = count->divisor;
    for (size_t i = 0; i < n; i++) {
        const size_t c = own ? i : 0;
        real[i] = pool_mean(sums[i] - count->taps * zero[c], scale[c], divisor);
    }
}

/* A row of means from the rows of a block; c is the first channel, y its outputs */
static inline void pool_means_row(const pooling *p, const pool_block *b, size_t row_kind, size_t c,
                                  char *y) {
    const pool_dim *d = &p->dim[2];
    const pool_means *means = p->means;
    const bool one = p->channels == 1;
    const bool whole = one && (size_t)d->taps[0] == d->in && p->dim[1].dilation == 1;
    const size_t most = p->channels < POOL_CHUNK ? p->channels : POOL_CHUNK;
    qops_params params = means->params;
    if (one && params.y.per_element) {
        params.y = pairs_from(params.y, (ptrdiff_t)c);
        params.y.per_element = false;
    }
    int64_t sums[POOL_CHUNK];
    float real[POOL_CHUNK];
    pool_held held;
    held.i = held.end = 0; /* no columns; the sums need no value */
    size_t ready = 0, end = 0;
    for (size_t o = 0, r = 0, m; o < d->out; o += m) { /* m outputs of a kind */
        if (o == end) end += (size_t)p->runs[r++];
        m = (POOL_CHUNK - ready) / most;
        if (m > end - o) m = end - o;
        const pool_count *count = p->how[row_kind * d->kinds + (size_t)d->kind[o]];
        for (size_t i = 0, n; i < p->channels; i += n) { /* n channels of them */
            n = p->channels - i < most ? p->channels - i : most;
            if (whole) sums[0] = pool_whole_sum(p, b);
            else if (one) pool_few_sums(p, b, o, m, &held, sums, 1);
            else if (p->channels < POOL_FEW) pool_few_sums(p, b, o, m, &held, sums, n);
            else
                for (size_t k = 0; k < m; k++) pool_window(p, b, o + k, i, sums + k * n, n);
            if (one) pool_real(means, count, sums, m, c, false, real + ready);
            else
                for (size_t k = 0; k < m * n; k += n)
                    pool_real(means, count, sums + k, n, c + i, true, real + ready + k);
            ready += m * n;
            if (o + m < d->out && ready + most <= POOL_CHUNK) continue;
            if (params.y.per_element) params.y = pairs_from(means->params.y, (ptrdiff_t)i);
            params.row = params.y.per_element ? n : ready;
            params.a_step = (ptrdiff_t)(n * sizeof *real);
            params.y_step = (ptrdiff_t)(n * p->y_size);
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
    y += from * y_bytes;
    size_t b = from % d[1].out, a = from / d[1].out % d[0].out;
    size_t outer = from / d[1].out / d[0].out;
    for (size_t k = from; k < to; k++, y += y_bytes) {
        const size_t kind = (size_t)d[0].kind[a] * d[1].kinds + (size_t)d[1].kind[b];
        const size_t first = (outer * d[0].in + (size_t)d[0].first[a]) * d[1].in;
        const pool_block block = {.x = x + (first + (size_t)d[1].first[b]) * row_bytes,
                                  .planes = (size_t)d[0].taps[a],
                                  .rows = (size_t)d[1].taps[b],
                                  .row = (size_t)d[1].first[b],
                                  .plane_step = d[0].dilation * (ptrdiff_t)(d[1].in * row_bytes),
                                  .row_step = d[1].dilation * (ptrdiff_t)row_bytes};
        if (p->means != NULL)
            pool_means_row(p, &block, kind, outer * p->channels % p->means->channels, y);
        else if (p->padded != NULL) pool_padded_row(p, &block, kind, y);
        else if (p->columns != NULL) pool_max_row(p, &block, y);
        else pool_row(p, &block, kind, y);
        if (++b < d[1].out) continue;
        b = 0;
        if (++a < d[0].out) continue;
        a = 0;
        outer++;
    }
}

#endif
