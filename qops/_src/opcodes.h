/* opcodes.h - numbers for the names of opcodes.def. */
#ifndef QOPS_OPCODES_H
#define QOPS_OPCODES_H

#define OPCODE(name) name,
enum tile_opcode {
#include "opcodes.def"
    QOPS_N_OPCODES
};
#undef OPCODE

#endif
