#include <inttypes.h>

#include "internal.h"
#include "shape.h"
#include "support.h"

void smla_cache_rows_init(smla_cache_rows *rows, const smla_problem *problem)
{
    *rows = (smla_cache_rows){
        .struct_size = sizeof *rows,
        .latent_row_stride = 2 * SMLA__LATENT,
        .rope_row_stride = 2 * SMLA__ROPE,
        .cache_block_stride = problem->block_size * (int64_t)(2 * SMLA__ROW),
        .cache_row_stride = 2 * SMLA__ROW,
    };
}

static smla_status check_pointers(const smla_cache_rows *rows, struct smla__detail *detail)
{
    const char *missing = !rows->latent                           ? "latent"
                          : !rows->rope                           ? "rope"
                          : !rows->slots                          ? "slots"
                          : !rows->kv_cache && rows->cache_blocks ? "kv_cache"
                                                                  : NULL;
    return missing ? smla__fail(detail, SMLA_ERROR_NULL,
                                "%s = NULL: a tensor for %" PRId64 " rows is accepted", missing, rows->rows)
                   : SMLA_OK;
}

static smla_status check_layout(const smla_problem *problem, const smla_cache_rows *rows,
                                struct smla__detail *detail)
{
    const struct smla__array arrays[] = {
        {"latent", "latent_row_stride", "latent element stride", rows->latent, rows->rows,
         rows->latent_row_stride, 1, 0, 2 * SMLA__LATENT, 2, false},
        {"rope", "rope_row_stride", "rope element stride", rows->rope, rows->rows, rows->rope_row_stride, 1,
         0, 2 * SMLA__ROPE, 2, false},
        {"slots", "slots stride", "slots stride", rows->slots, rows->rows, sizeof(int64_t), 1, 0,
         sizeof(int64_t), sizeof(int64_t), false},
        {"kv_cache", "cache_block_stride", "cache_row_stride", rows->kv_cache, rows->cache_blocks,
         rows->cache_block_stride, problem->block_size, rows->cache_row_stride, 2 * SMLA__ROW, 2, true},
    };
    smla_status status = SMLA_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && status == SMLA_OK; i++)
        status = smla__check_array(&arrays[i], detail);
    return status;
}

smla_status smla_cache_write(smla_context *context, const smla_problem *problem, const smla_cache_rows *rows,
                             struct CUstream_st *stream)
{
    if (!context)
        return SMLA_ERROR_NULL;
    struct smla__detail *detail = &context->detail;
    smla_status status = smla__check_problem(problem, detail);
    if (status != SMLA_OK)
        return status;
    if (!rows)
        return smla__fail(detail, SMLA_ERROR_NULL, "rows = NULL: a filled smla_cache_rows is accepted");
    if (rows->struct_size != sizeof *rows)
        return smla__fail(detail, SMLA_ERROR_STRUCT_SIZE,
                          "rows.struct_size = %zu: %zu is accepted (call smla_cache_rows_init)",
                          rows->struct_size, sizeof *rows);
    if (rows->rows < 0)
        return smla__fail(detail, SMLA_ERROR_ARGUMENT, "rows = %" PRId64 ": 0 or more is accepted",
                          rows->rows);
    if (rows->rows == 0)
        return SMLA_OK;
    if (rows->cache_blocks < 0 || rows->cache_blocks > INT64_MAX / problem->block_size)
        return smla__fail(detail, SMLA_ERROR_ARGUMENT,
                          "cache_blocks = %" PRId64 ": 0 .. (2^63 - 1) / block_size is accepted",
                          rows->cache_blocks);
    status = check_pointers(rows, detail);
    if (status == SMLA_OK)
        status = check_layout(problem, rows, detail);
    return status == SMLA_OK ? context->backend->cache_write(context, problem, rows, stream) : status;
}
