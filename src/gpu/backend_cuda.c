/* The CUDA backend's table of functions, and what it says without a context. */
#include <inttypes.h>
#include <stdio.h>

#include "gpu.h"
#include "run_gpu.h"
#include "step_gpu.h"

static smla_status support_arch(int arch, struct smla__detail *detail)
{
    bool here = arch == 0 && smla__image_count() > 0;
    smla_status status = here ? smla__gpu_current_arch(&arch, detail) : SMLA_OK;
    return status == SMLA_OK ? smla__gpu_check_arch(arch, detail) : status;
}

static uint64_t address(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static smla_status support_tensors(const smla_problem *problem, const smla_tensors *t,
                                   struct smla__detail *detail)
{
    const struct smla__aligned packed[] = {{"q", address(t->q)},
                                           {"q_row_stride", (uint64_t)t->q_row_stride},
                                           {"q_head_stride", (uint64_t)t->q_head_stride}};
    const struct smla__aligned split[] = {{"q_latent", address(t->q_latent)},
                                          {"q_latent_row_stride", (uint64_t)t->q_latent_row_stride},
                                          {"q_latent_head_stride", (uint64_t)t->q_latent_head_stride},
                                          {"q_rope", address(t->q_rope)},
                                          {"q_rope_row_stride", (uint64_t)t->q_rope_row_stride},
                                          {"q_rope_head_stride", (uint64_t)t->q_rope_head_stride}};
    const struct smla__aligned rest[] = {{"kv_cache", address(t->kv_cache)},
                                         {"cache_block_stride", (uint64_t)t->cache_block_stride},
                                         {"cache_row_stride", (uint64_t)t->cache_row_stride},
                                         {"out", address(t->out)},
                                         {"out_row_stride", (uint64_t)t->out_row_stride},
                                         {"out_head_stride", (uint64_t)t->out_head_stride}};
    smla_status status = t->q                       ? smla__gpu_check_aligned(packed, 3, detail)
                         : t->q_latent || t->q_rope ? smla__gpu_check_aligned(split, 6, detail)
                                                    : SMLA_OK;
    if (status == SMLA_OK)
        status = smla__gpu_check_aligned(rest, 6, detail);
    if (status == SMLA_OK && t->cache_blocks > INT32_MAX / problem->block_size)
        status = smla__fail(detail, SMLA_ERROR_ARGUMENT,
                            "cache_blocks = %" PRId64 ": at most %" PRId32
                            " (below 2^31 rows) are accepted by the cuda backend",
                            t->cache_blocks, INT32_MAX / problem->block_size);
    return status;
}

static smla_status support(const smla_problem *problem, int arch, const smla_tensors *tensors,
                           struct smla__detail *detail)
{
    smla_status status = support_arch(arch, detail);
    return status == SMLA_OK && tensors && tensors->rows ? support_tensors(problem, tensors, detail) : status;
}

const struct smla__backend smla__backend_cuda = {
    .id = SMLA_BACKEND_CUDA,
    .name = "cuda",
    .support = support,
    .context_open = smla__gpu_open,
    .context_close = smla__gpu_close,
    .plan_open = smla__gpu_plan_open,
    .plan_close = smla__gpu_plan_close,
    .step_open = smla__gpu_step_open,
    .step_close = smla__gpu_step_close,
    .step_begin = smla__gpu_step_begin,
    .step_upload = smla__gpu_step_upload,
    .run = smla__gpu_run,
    .verify = smla__gpu_verify,
    .cache_write = smla__gpu_cache_write,
    .merge = smla__gpu_merge,
};

void smla__cuda_machine(smla_machine *machine)
{
    struct smla__detail detail = {machine->cuda_detail, sizeof machine->cuda_detail};
    const struct smla__driver *driver;
    machine->cuda_kernels = smla__image_count();
    machine->cuda_status = (int32_t)support_arch(0, &detail);
    if (machine->cuda_kernels == 0 || smla__driver_open(&driver, NULL) != SMLA_OK)
        return;
    int device = 0;
    struct CUctx_st *current = NULL;
    machine->cuda_driver = driver->version;
    machine->cuda_devices = driver->devices;
    if (smla__gpu_current_arch(&machine->cuda_arch, NULL) != SMLA_OK)
        return;
    if (driver->cuCtxGetCurrent(&current) || !current || driver->cuCtxGetDevice(&device))
        driver->cuDeviceGet(&device, 0);
    driver->cuDeviceGetName(machine->cuda_name, sizeof machine->cuda_name, device);
}
