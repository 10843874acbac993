/* tiles.h - run a tile program: a list of instructions on pieces of arrays that fit the caches.
 *
 * Operands have been broadcast to one shape, outermost dimension first, and are taken in its order, a
 * tile of so many elements at a time. What lies in that order in memory, aligned and native, is read
 * and written there; anything else goes through a buffer. Nothing here can fail. */
#ifndef QOPS_TILES_H
#define QOPS_TILES_H

#include "opcodes.h"
#include "runs.h"

#define OPCODE(name) #name,
static const char *const opcode_names[] = {
#include "opcodes.def"
};
#undef OPCODE

#define TILE_ELEMENT 4 /* bytes of the largest element in a tile */
#define TILE_OPERANDS 3

/* A place is a tile, 0 and up, or operand k as -1 - k. */
typedef struct {
    int opcode, arg;
    int to, from[TILE_OPERANDS];
    int number;  /* of TEXPANDS, and the first of the scale and zero point of (de)quantization */
    int in, out; /* dtypes */
    qops_any_fn *fn; /* NULL for TEXPANDS */
} tile_step;

typedef struct {
    char *data;
    ptrdiff_t strides[RUN_DIMS];
    size_t size; /* of an element */
    bool direct, swapped, result;
} tile_operand;

typedef struct {
    const tile_step *steps;
    size_t n_steps, n_first; /* of which the first need to be done once only */
    const double *numbers;
    const one_pair *pairs; /* for each step; of (de)quantization only */
    const uint8_t *divide;
    const float *limit;
    tile_operand *operands;
    size_t n_operands;
    int ndim;
    size_t shape[RUN_DIMS];
    size_t tile; /* elements */
} tile_program;

/* Bytes of the tiles and of the buffers of operands that are not direct, which follow them */
static inline size_t tile_bytes(const tile_program *p, size_t n_tiles) {
    return (n_tiles + p->n_operands) * p->tile * TILE_ELEMENT;
}

static inline void *tile_place(const tile_program *p, int place, size_t first, char *tiles,
                               char *buffers) {
    const size_t bytes = p->tile * TILE_ELEMENT;
    if (place >= 0) return tiles + (size_t)place * bytes;
    const tile_operand *x = &p->operands[-1 - place];
    return x->direct ? x->data + first * x->size : buffers + (size_t)(-1 - place) * bytes;
}

/* Copy n elements from the one with number `first` on to a buffer, or back. */
static inline void tile_copy(const tile_program *p, const tile_operand *x, size_t first, size_t n,
                             char *buffer) {
    size_t index[RUN_DIMS];
    char *data = x->data;
    const int last = p->ndim - 1;
    for (int d = last; d >= 0; d--) {
        index[d] = first % p->shape[d];
        first /= p->shape[d];
        data += (ptrdiff_t)index[d] * x->strides[d];
    }
    const ptrdiff_t size = (ptrdiff_t)x->size, stride = x->strides[last];
    while (n > 0) {
        const size_t m = least(n, p->shape[last] - index[last]);
        if (x->result) copy_run(data, stride, buffer, size, m, x->size, x->swapped);
        else copy_run(buffer, size, data, stride, m, x->size, x->swapped);
        n -= m;
        if (n == 0) return;
        buffer += m * x->size;
        data -= (ptrdiff_t)index[last] * stride;
        index[last] = 0;
        for (int d = last - 1; d >= 0; d--) {
            data += x->strides[d];
            if (++index[d] < p->shape[d]) break;
            data -= (ptrdiff_t)index[d] * x->strides[d];
            index[d] = 0;
        }
    }
}

static inline void tile_expand(double number, int dtype, void *to, size_t n) {
    if (dtype == f32) {
        const float v = (float)number;
        for (size_t i = 0; i < n; i++) ((float *)to)[i] = v;
    } else {
        const int32_t v = (int32_t)number;
        for (size_t i = 0; i < n; i++) ((int32_t *)to)[i] = v;
    }
}

static inline void tile_run_step(const tile_program *p, size_t k, size_t first, size_t n,
                                 char *tiles, char *buffers) {
    const tile_step *s = &p->steps[k];
    void *x[TILE_OPERANDS];
    void *const y = tile_place(p, s->to, first, tiles, buffers);
    for (int i = 0; i < TILE_OPERANDS; i++) x[i] = tile_place(p, s->from[i], first, tiles, buffers);
    if (s->fn == NULL) tile_expand(p->numbers[s->number], s->out, y, n);
    else if (s->number >= 0) {
        qops_params q = {.a = pairs_of_one(&p->pairs[k]), .y = pairs_of_one(&p->pairs[k])};
        q.row = n;
        q.divide = p->divide[k];
        q.y.limit = p->limit[k];
        ((qops_convert_fn *)s->fn)(x[0], y, n, &q);
    } else ((qops_tile_fn *)s->fn)(s->opcode, s->arg, (const void *const *)x, y, n);
}

/* The elements first..end), with memory of tile_bytes */
static inline void tiles_run(const tile_program *p, size_t first, size_t end, char *tiles,
                             size_t n_tiles) {
    char *const buffers = tiles + n_tiles * p->tile * TILE_ELEMENT;
    for (size_t k = 0; k < p->n_first; k++) tile_run_step(p, k, first, p->tile, tiles, buffers);
    for (size_t n; first < end; first += n) {
        n = least(p->tile, end - first);
        for (int result = 0; result < 2; result++) {
            if (result)
                for (size_t k = p->n_first; k < p->n_steps; k++)
                    tile_run_step(p, k, first, n, tiles, buffers);
            for (size_t i = 0; i < p->n_operands; i++) {
                const tile_operand *x = &p->operands[i];
                if (!x->direct && x->result == result)
                    tile_copy(p, x, first, n, buffers + i * p->tile * TILE_ELEMENT);
            }
        }
    }
}

#endif
