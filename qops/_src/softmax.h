/* softmax.h - softmax of rows of 8-bit codes.
 *
 * A quotient depends on the code and on the row alone. So a long row gets a table of all codes, and a
 * short one a quotient for each of its own. */
#ifndef QOPS_SOFTMAX_H
#define QOPS_SOFTMAX_H

#include "pairs.h"

#define SOFTMAX_ROWS 64      /* as many as share a call */
#define SOFTMAX_LONG_ROW 128 /* from it on a table takes less than quotients */

typedef struct {
    qops_rows_fn *exponentials;
    qops_table_fn *take_numbers, *take;
    qops_convert_fn *quantize;
    const int32_t *units; /* of each difference from the highest code, and the number itself */
    const float *numbers;
    double unit;
    float scale;
    int32_t zero;
    qops_dtype out;
} softmax_rows;

/* Differences from the highest code become codes, in place. */
static inline void softmax_row(const softmax_rows *p, uint8_t *y, size_t n, int64_t total) {
    /* Of a scale beyond float32 all is zero, and of the highest one too. */
    const double scale = (double)total * p->unit * (double)p->scale;
    one_pair pair;
    prepare_pair(&pair, scale < FLT_MAX ? scale : FLT_MAX, p->zero, true);
    qops_params q = {.y = pairs_of_one(&pair)};
    q.divide = !pairs_limit(&q.y, p->out, pair.scale, pair.scale);
    if (n >= SOFTMAX_LONG_ROW) {
        uint8_t table[256];
        q.row = 256;
        p->quantize(p->numbers, table, 256, &q);
        p->take(y, y, n, table);
        return;
    }
    float numbers[SOFTMAX_LONG_ROW];
    q.row = n;
    p->take_numbers(y, numbers, n, p->numbers);
    p->quantize(numbers, y, n, &q);
}

static inline void softmax(const softmax_rows *p, const uint8_t *x, uint8_t *y, size_t rows,
                           size_t n) {
    int64_t total[SOFTMAX_ROWS];
    for (size_t r = 0; r < rows; r += SOFTMAX_ROWS) {
        const size_t m = rows - r < SOFTMAX_ROWS ? rows - r : SOFTMAX_ROWS;
        p->exponentials(x + r * n, y + r * n, m, n, p->units, total);
        for (size_t i = 0; i < m; i++) softmax_row(p, y + (r + i) * n, n, total[i]);
    }
}

#endif
