/* What the CPU backend runs for an instruction set. */
#ifndef SMLA_CPU_OPS_H
#define SMLA_CPU_OPS_H

#include "attn.h"

struct smla__cpu_ops {
    smla_isa isa;
    const struct smla__attn *attn;
};

/* Fills the table from the ground up with what is built in and `isa_mask` allows, past steps that do not
 * lead up on this CPU; false if nothing is. */
bool smla__cpu_ops_fill(struct smla__cpu_ops *ops, uint32_t isa_mask);

/* Does the bf16 dot product of AVX-512 do less than fp32 products would in its time? */
bool smla__cpu_slow_pairs(void);

#endif
