/* tables.h - the list of kernels, and for each of them the function in use. */
#ifndef QOPS_TABLES_H
#define QOPS_TABLES_H

#include "qops.h"

#include <stdatomic.h>

#define KERNEL(family, op, in, out) {#op, family, in, out, NULL},
static const qops_kernel listed[] = {
#include "kernels.def"
};
#undef KERNEL

typedef struct {
    qops_any_fn *fn[QOPS_N_KERNELS];
} kernel_table;

/* A call takes the pointer once, so that a change of level does not reach into it. */
static _Atomic(const kernel_table *) in_use;
static inline const kernel_table *table_in_use(void) { return atomic_load(&in_use); }
static inline void use_table(const kernel_table *t) { atomic_store(&in_use, t); }

#endif
