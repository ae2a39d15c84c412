#include "internal.h"

smla_status smla_machine_query(smla_machine *machine)
{
    if (!machine)
        return SMLA_ERROR_NULL;
    if (machine->struct_size != sizeof *machine)
        return SMLA_ERROR_STRUCT_SIZE;
    *machine = (smla_machine){.struct_size = sizeof *machine};
    machine->isa_mask = smla__cpu_isa_mask();
    machine->cpus = smla__cpu_count();
    smla__cpu_name(machine->cpu_name, sizeof machine->cpu_name);
    smla__cuda_machine(machine);
    return SMLA_OK;
}

const char *smla_isa_name(smla_isa isa)
{
    static const char *const names[SMLA_ISA_COUNT] = {"scalar", "avx2", "avx512", "avx512_bf16", "amx_bf16"};
    return (int)isa >= 0 && (int)isa < SMLA_ISA_COUNT ? names[isa] : NULL;
}
