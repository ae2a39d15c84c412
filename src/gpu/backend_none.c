/* The CUDA backend of a build without GPU kernels: the same functions, each saying what is missing. */
#include <stdio.h>

#include "internal.h"

static const char missing[] = "this build carries no GPU kernels: use the cpu backend";

static smla_status support(const smla_problem *problem, int arch, const smla_tensors *tensors,
                           struct smla__detail *detail)
{
    (void)problem, (void)arch, (void)tensors;
    return smla__fail(detail, SMLA_ERROR_NO_KERNELS, "%s", missing);
}

static smla_status context_open(smla_context *context, const smla_context_options *options)
{
    (void)options;
    return smla__fail(&context->detail, SMLA_ERROR_NO_KERNELS, "%s", missing);
}

/* No context can be opened, so nothing else is ever called. */
const struct smla__backend smla__backend_cuda = {
    .id = SMLA_BACKEND_CUDA,
    .name = "cuda",
    .support = support,
    .context_open = context_open,
};

void smla__cuda_machine(smla_machine *machine)
{
    machine->cuda_status = SMLA_ERROR_NO_KERNELS;
    snprintf(machine->cuda_detail, sizeof machine->cuda_detail, "%s", missing);
}
