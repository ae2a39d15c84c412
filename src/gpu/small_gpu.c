/* Cache write and merge on a GPU: one launch each. */
#include <inttypes.h>

#include "args.h"
#include "gpu.h"
#include "run_gpu.h"

smla_status smla__gpu_small_open(struct smla__gpu *gpu, struct smla__detail *detail)
{
    smla_status status = SMLA_OK;
    if (!gpu->cache_write)
        status = smla__gpu_function(gpu, SMLA__IMAGE_CACHE_WRITE, "smla_cache_write", 0, false,
                                    &gpu->cache_write, detail);
    if (status == SMLA_OK && !gpu->merge)
        status = smla__gpu_function(gpu, SMLA__IMAGE_MERGE, "smla_merge", 0, false, &gpu->merge, detail);
    return status;
}

/* Launches one of the two kernels. */
static smla_status launch(smla_context *context, struct CUfunc_st *const *function, int64_t items,
                          void *arguments, struct CUstream_st *stream)
{
    struct smla__gpu *gpu = smla__gpu_of(context);
    bool pushed;
    smla_status status = smla__gpu_enter(gpu, &pushed, &context->detail);
    if (status != SMLA_OK)
        return status;
    status = smla__gpu_small_open(gpu, &context->detail);
    const struct smla__grid grid = smla__gpu_warps(*function, items);
    if (status == SMLA_OK)
        status = smla__gpu_launch(gpu, &grid, arguments, stream, &context->detail);
    smla__gpu_leave(gpu, pushed);
    return status;
}

smla_status smla__gpu_cache_write(smla_context *context, const smla_problem *problem,
                                  const smla_cache_rows *rows, struct CUstream_st *stream)
{
    const struct smla__aligned items[] = {{"latent", (uintptr_t)rows->latent},
                                          {"latent_row_stride", (uint64_t)rows->latent_row_stride},
                                          {"rope", (uintptr_t)rows->rope},
                                          {"rope_row_stride", (uint64_t)rows->rope_row_stride},
                                          {"kv_cache", (uintptr_t)rows->kv_cache},
                                          {"cache_block_stride", (uint64_t)rows->cache_block_stride},
                                          {"cache_row_stride", (uint64_t)rows->cache_row_stride}};
    smla_status status = smla__gpu_check_aligned(items, sizeof items / sizeof *items, &context->detail);
    if (status != SMLA_OK)
        return status;
    struct smla_cache_write_args args = {
        .latent = rows->latent,
        .rope = rows->rope,
        .latent_row = rows->latent_row_stride,
        .rope_row = rows->rope_row_stride,
        .slots = rows->slots,
        .cache = rows->kv_cache,
        .cache_block = rows->cache_block_stride,
        .cache_row = rows->cache_row_stride,
        .cache_blocks = rows->cache_blocks,
        .block_size = problem->block_size,
        .rows = rows->rows,
    };
    return launch(context, &smla__gpu_of(context)->cache_write, rows->rows, &args, stream);
}

smla_status smla__gpu_merge(smla_context *context, const smla_partials *partials, struct CUstream_st *stream)
{
    const struct smla__aligned items[] = {{"part_out", (uintptr_t)partials->part_out},
                                          {"part_out_part_stride", (uint64_t)partials->part_out_part_stride},
                                          {"part_out_row_stride", (uint64_t)partials->part_out_row_stride},
                                          {"part_out_head_stride", (uint64_t)partials->part_out_head_stride},
                                          {"out", (uintptr_t)partials->out},
                                          {"out_row_stride", (uint64_t)partials->out_row_stride},
                                          {"out_head_stride", (uint64_t)partials->out_head_stride}};
    smla_status status = smla__gpu_check_aligned(items, sizeof items / sizeof *items, &context->detail);
    if (status == SMLA_OK && partials->dim != SMLA__LATENT)
        status = smla__fail(&context->detail, SMLA_UNSUPPORTED_HEAD_DIM,
                            "dim = %" PRId32 ": 512 is accepted by the cuda backend", partials->dim);
    if (status != SMLA_OK)
        return status;
    bool natural = partials->lse_base == SMLA_LSE_NATURAL;
    struct smla_merge_args args = {
        .part_out = partials->part_out,
        .part_out_part = partials->part_out_part_stride,
        .part_out_row = partials->part_out_row_stride,
        .part_out_head = partials->part_out_head_stride,
        .part_lse = partials->part_lse,
        .part_lse_part = partials->part_lse_part_stride,
        .part_lse_row = partials->part_lse_row_stride,
        .part_lse_head = partials->part_lse_head_stride,
        .out = partials->out,
        .out_row = partials->out_row_stride,
        .out_head = partials->out_head_stride,
        .lse = partials->lse,
        .lse_row = partials->lse_row_stride,
        .lse_head = partials->lse_head_stride,
        .parts = partials->parts,
        .rows = partials->rows,
        .heads = partials->heads,
        .part_f32 = partials->part_dtype == SMLA_F32,
        .out_f32 = partials->out_dtype == SMLA_F32,
        .base_factor = natural ? 1.4426950408889634f : 1.0f,
        .empty_lse = partials->empty_lse == SMLA_EMPTY_POS_INF ? __builtin_inff() : -__builtin_inff(),
    };
    return launch(context, &smla__gpu_of(context)->merge, partials->rows * partials->heads, &args, stream);
}
