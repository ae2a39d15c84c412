#include <inttypes.h>

#include "internal.h"
#include "shape.h"
#include "support.h"

void smla_tensors_init(smla_tensors *tensors, const smla_problem *problem)
{
    int64_t heads = smla__run_heads(problem), out_bytes = smla__dtype_bytes(problem->out_dtype);
    int64_t row = 2 * SMLA__ROW, latent = 2 * SMLA__LATENT, rope = 2 * SMLA__ROPE;
    int64_t out = SMLA__LATENT * out_bytes;
    *tensors = (smla_tensors){
        .struct_size = sizeof *tensors,
        .q_row_stride = heads * row,
        .q_head_stride = row,
        .q_elem_stride = 2,
        .q_latent_row_stride = heads * latent,
        .q_latent_head_stride = latent,
        .q_latent_elem_stride = 2,
        .q_rope_row_stride = heads * rope,
        .q_rope_head_stride = rope,
        .q_rope_elem_stride = 2,
        .cache_block_stride = problem->block_size * row,
        .cache_row_stride = row,
        .cache_elem_stride = 2,
        .topk_row_stride = (int64_t)sizeof(int32_t) * problem->topk,
        .topk_elem_stride = sizeof(int32_t),
        .out_row_stride = heads * out,
        .out_head_stride = out,
        .out_elem_stride = out_bytes,
        .lse_row_stride = heads * (int64_t)sizeof(float),
        .lse_head_stride = sizeof(float),
    };
}

static smla_status check_step(const smla_plan *plan, const smla_step *step, struct smla__detail *detail)
{
    if (!step && plan->problem.topk_kind == SMLA_TOPK_POSITIONS)
        return smla__fail(detail, SMLA_ERROR_NULL, "step = NULL: positions need an updated step");
    if (step && step->plan != plan)
        return smla__fail(detail, SMLA_ERROR_STEP,
                          "step: belongs to another plan; one of this plan is accepted");
    if (step && !step->ready)
        return smla__fail(detail, SMLA_ERROR_STEP, "step: holds no batch yet; call smla_step_update first");
    return SMLA_OK;
}

static smla_status check_pointers(const smla_tensors *t, struct smla__detail *detail)
{
    const char *missing = !t->q && !t->q_latent && !t->q_rope ? "q"
                          : !t->q && !t->q_latent             ? "q_latent"
                          : !t->q && !t->q_rope               ? "q_rope"
                          : !t->kv_cache && t->cache_blocks   ? "kv_cache"
                          : !t->topk                          ? "topk"
                          : !t->out                           ? "out"
                                                              : NULL;
    return missing ? smla__fail(detail, SMLA_ERROR_NULL,
                                "%s = NULL: a tensor of %" PRId64 " rows is accepted", missing, t->rows)
                   : SMLA_OK;
}

static smla_status check_workspace(const smla_plan *plan, const void *workspace, size_t bytes,
                                   struct smla__detail *detail)
{
    if (bytes < plan->workspace_bytes)
        return smla__fail(detail, SMLA_ERROR_WORKSPACE, "workspace_bytes = %zu: %zu or more is accepted",
                          bytes, plan->workspace_bytes);
    if (!workspace && plan->workspace_bytes)
        return smla__fail(detail, SMLA_ERROR_NULL, "workspace = NULL: %zu bytes are accepted",
                          plan->workspace_bytes);
    return SMLA_OK;
}

/* Everything a run asks, common to smla_run and the slices. T = 0 passes whatever the pointers. */
static smla_status check_run(const smla_plan *plan, const smla_step *step, const smla_tensors *tensors,
                             const void *workspace, size_t workspace_bytes)
{
    struct smla__detail *detail = &plan->context->detail;
    if (!tensors)
        return smla__fail(detail, SMLA_ERROR_NULL, "tensors = NULL: a filled smla_tensors is accepted");
    smla_status status = smla__check_tensors(&plan->problem, tensors, detail);
    if (status != SMLA_OK || tensors->rows == 0)
        return status;
    if (tensors->rows > plan->info.max_rows)
        return smla__fail(detail, SMLA_ERROR_LIMIT, "rows = %" PRId64 ": the plan accepts at most %" PRId64,
                          tensors->rows, plan->info.max_rows);
    status = check_step(plan, step, detail);
    if (status == SMLA_OK)
        status = check_pointers(tensors, detail);
    if (status == SMLA_OK)
        status = plan->context->backend->support(&plan->problem, plan->context->arch, tensors, detail);
    return status == SMLA_OK ? check_workspace(plan, workspace, workspace_bytes, detail) : status;
}

smla_status smla_run(const smla_plan *plan, const smla_step *step, const smla_tensors *tensors,
                     void *workspace, size_t workspace_bytes, struct CUstream_st *stream)
{
    if (!plan)
        return SMLA_ERROR_NULL;
    smla_status status = check_run(plan, step, tensors, workspace, workspace_bytes);
    if (status != SMLA_OK || tensors->rows == 0)
        return status;
    return plan->context->backend->run(plan, step, tensors, workspace, stream);
}

smla_status smla_slices_begin(const smla_plan *plan, const smla_step *step, const smla_tensors *tensors,
                              void *workspace, size_t workspace_bytes, int32_t slices)
{
    if (!plan)
        return SMLA_ERROR_NULL;
    const struct smla__backend *backend = plan->context->backend;
    struct smla__detail *detail = &plan->context->detail;
    if (!backend->slices_begin)
        return smla__fail(detail, SMLA_UNSUPPORTED_BACKEND, "backend = %s: slices need the cpu backend",
                          backend->name);
    if (slices < 1 || slices > plan->info.threads)
        return smla__fail(detail, SMLA_ERROR_ARGUMENT,
                          "slices = %" PRId32 ": 1 .. %" PRId32 " (the plan's threads) is accepted", slices,
                          plan->info.threads);
    smla_status status = check_run(plan, step, tensors, workspace, workspace_bytes);
    if (status == SMLA_OK) /* of no rows too: the slices read the workspace */
        status = check_workspace(plan, workspace, workspace_bytes, detail);
    return status == SMLA_OK ? backend->slices_begin(plan, step, tensors, workspace, slices) : status;
}

smla_status smla_slice_run(const smla_plan *plan, void *workspace, int32_t slice)
{
    if (!plan || !workspace)
        return SMLA_ERROR_NULL;
    if (!plan->context->backend->slice_run)
        return SMLA_UNSUPPORTED_BACKEND;
    return plan->context->backend->slice_run(plan, workspace, slice);
}
