/* What one core can do at most. */
#ifndef PEAK_H
#define PEAK_H

#include <smla/smla.h>

/* GFLOP/s of this core in multiply-adds, measured now in about 50 ms for each kind: peaks[i] becomes that of
 * instruction set i, for those up to `isa` that are in `isa_mask`, else 0. bf16 dot products for avx512_bf16, tile
 * products for amx_bf16, fp32 fused multiply-adds for avx2 and avx512, and 128-bit multiplications and additions
 * for scalar, which is what compilers make of plain C. Gives the largest: a newer instruction need not be faster,
 * and whoever has it has the older ones too. */
double peak_measure(smla_isa isa, uint32_t isa_mask, double peaks[SMLA_ISA_COUNT]);

#endif
