#include "cpu_ops.h"

bool smla__cpu_ops_fill(struct smla__cpu_ops *ops, uint32_t isa_mask)
{
    static const struct smla__attn *const ladder[SMLA_ISA_COUNT] = {
        [SMLA_ISA_SCALAR] = &smla__attn_scalar,
#ifdef SMLA__X86
        [SMLA_ISA_AVX2] = &smla__attn_avx2,
        [SMLA_ISA_AVX512] = &smla__attn_avx512,
        [SMLA_ISA_AVX512_BF16] = &smla__attn_avx512_bf16,
        [SMLA_ISA_AMX_BF16] = &smla__attn_amx_bf16,
#endif
    };
    uint32_t fp32 = 1u << SMLA_ISA_AVX512, pairs = 1u << SMLA_ISA_AVX512_BF16;
    if (isa_mask & fp32 && smla__cpu_slow_pairs())
        isa_mask &= ~pairs;
    *ops = (struct smla__cpu_ops){0};
    for (int isa = 0; isa < SMLA_ISA_COUNT; isa++)
        if (ladder[isa] && isa_mask >> isa & 1)
            *ops = (struct smla__cpu_ops){(smla_isa)isa, ladder[isa]};
    return ops->attn != NULL;
}
