/* interpolation.h - blend two neighbours along each of up to three dimensions of arrays (outer,
 * depth, height, columns), columns of one or more channels.
 *
 * Columns first: a row of the input becomes a row of float32 numbers, kept for all outputs that
 * need it while they follow each other. Blocks of columns are so short that these rows stay in the
 * first-level cache. */
#ifndef QOPS_INTERPOLATION_H
#define QOPS_INTERPOLATION_H

#include "qops.h"

#define BLENDED 2048 /* numbers of a row of a block: four rows are 32 KiB */

/* The neighbours of each output index, and what each counts */
typedef struct {
    size_t in, out;
    const int64_t *low, *high;
    const float *low_weight, *high_weight;
} blend_dim;

typedef struct {
    qops_neighbors_fn *columns;
    qops_blend_fn *rows;
    qops_params params;
    int32_t zero;
    blend_dim dim[3]; /* of the last, `in` counts codes and low and high are in codes */
    size_t channels;  /* of a column */
    size_t x_size, y_size;
} interpolation;

/* Some channels of the columns j..j+n) of the rows from..to) */
static inline void interpolate_block(const interpolation *p, const char *x, char *y, size_t from,
                                     size_t to, size_t j, size_t n, size_t c, size_t channels) {
    const blend_dim *depth = &p->dim[0], *height = &p->dim[1], *width = &p->dim[2];
    const qops_taps taps = {width->low + j, width->high + j, width->low_weight + j,
                            width->high_weight + j, p->zero};
    float numbers[4][BLENDED];
    const char *held[4] = {NULL, NULL, NULL, NULL};
    qops_rows r = {.four = depth->out > 1 || depth->in > 1};
    for (size_t i = from; i < to; i++) {
        const size_t a = i / height->out, b = i % height->out;
        for (int k = 0; k < (r.four ? 4 : 2); k++) {
            const int64_t plane = k < 2 ? depth->low[a] : depth->high[a];
            const int64_t row = k % 2 == 0 ? height->low[b] : height->high[b];
            const size_t at = ((size_t)plane * height->in + (size_t)row) * width->in + c;
            /* neighbours are one row apart, so they never want the same place */
            const int place = k / 2 * 2 + (int)(row & 1);
            const char *source = x + at * p->x_size;
            if (held[place] != source) {
                p->columns(source, &taps, numbers[place], n, channels);
                held[place] = source;
            }
            r.x[k] = numbers[place];
        }
        r.weight[0] = height->low_weight[b];
        r.weight[1] = height->high_weight[b];
        r.weight[2] = depth->low_weight[a];
        r.weight[3] = depth->high_weight[a];
        const size_t at = (i * width->out + j) * p->channels + c;
        p->rows(&r, y + at * p->y_size, n * channels, &p->params);
    }
}

/* The rows from..to) of one array without the outer dimension, planes one after the other */
static inline void interpolate(const interpolation *p, const char *x, char *y, size_t from,
                               size_t to) {
    for (size_t c = 0; c < p->channels; c += BLENDED) {
        const size_t channels = p->channels - c < BLENDED ? p->channels - c : BLENDED;
        const size_t most = p->channels < BLENDED ? BLENDED / p->channels : 1;
        for (size_t j = 0; j < p->dim[2].out; j += most) {
            const size_t n = p->dim[2].out - j < most ? p->dim[2].out - j : most;
            interpolate_block(p, x, y, from, to, j, n, c, channels);
        }
    }
}

#endif
