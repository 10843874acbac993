/* quantizer.h - the parameters of a float32 quantization in vectors: for one step, or for all. */
#ifndef QOPS_QUANTIZER_H
#define QOPS_QUANTIZER_H

#include "kernel.h"

/* Plain numbers, of the one pair: vectors are made of them in the step, where compilers keep them in
 * registers (gcc 12 keeps a struct of 20 vectors in memory: quantize 9.9 -> 2.6 G/s at 512 bits). */
typedef struct {
    float scale, recip, recip_low, limit;
    int32_t zero;
} one_quantizer;

typedef struct {
    vquotient quotient;
    vi32 zero;
} quantizer;

static INLINE one_quantizer one_quantizer_load(qops_pairs p) {
    return (one_quantizer){*p.scale, *p.recip, *p.recip_low, p.limit, *p.zero};
}

static INLINE quantizer quantizer_set(one_quantizer k) {
    return (quantizer){
        {vf32_set(k.scale), vf32_set(k.recip), vf32_set(k.recip_low), vf32_set(k.limit)},
        vi32_set(k.zero)};
}

/* of the pairs i..i+m) */
static INLINE quantizer quantizer_load(qops_pairs p, size_t i, size_t m) {
    return (quantizer){{vf32_load(p.scale + i, m), vf32_load(p.recip + i, m),
                        vf32_load(p.recip_low + i, m), vf32_set(p.limit)},
                       vi32_load(p.zero + i, m)};
}

/* The cheapest quotient that is exact for all codes of dtype out. */
static INLINE quotient_how quotient_for(qops_dtype out) {
    return out == u8 || out == i8 ? TWO_STEPS : THREE_STEPS;
}

#endif
