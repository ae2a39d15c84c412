#include "run_gpu.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "args.h"
#include "check_gpu.h"
#include "decode_plan.h"
#include "portable.h"
#include "step_gpu.h"

/* Rows whose CTAs a launch can count, with the fewest heads a CTA and the largest clusters: more than any memory
 * holds results of. */
static int64_t rows_max(const smla_plan *plan)
{
    enum { HEADS = 8, RANKS = 16 };
    return INT32_MAX / ((smla__run_heads(&plan->problem) + HEADS - 1) / HEADS * RANKS);
}

static const double log2_e = 1.4426950408889634;

/* What a plan holds on a GPU: one of the two lanes, and its record if it is checked. */
struct gpu_plan {
    bool portable;
    struct smla__decode_plan decode;
    struct smla__portable lane;
    struct smla__gpu_check check;
};

static smla_status open_lane(smla_plan *plan, struct gpu_plan *state)
{
    state->portable = smla__gpu_portable(plan);
    if (!state->portable) {
        plan->info.arch = 90;
        return smla__decode_plan_open(plan, &state->decode);
    }
    plan->info.arch = 80;
    plan->info.kernel = "portable_h16";
    plan->workspace_bytes = smla__portable_workspace_bytes(plan);
    return smla__portable_open(plan, &state->lane);
}

/* Everything that a plan loads, so that a run loads nothing. */
static smla_status open_kernels(smla_plan *plan, struct gpu_plan *state)
{
    struct smla__gpu *gpu = smla__gpu_of(plan->context);
    struct smla__detail *detail = &plan->context->detail;
    bool pushed;
    smla_status status = smla__gpu_enter(gpu, &pushed, detail);
    if (status != SMLA_OK)
        return status;
    status = open_lane(plan, state);
    if (status == SMLA_OK)
        status = smla__gpu_small_open(gpu, detail);
    if (status == SMLA_OK && plan->options.checked)
        status = smla__gpu_check_open(gpu, &state->check, detail);
    smla__gpu_leave(gpu, pushed);
    return status;
}

smla_status smla__gpu_plan_open(smla_plan *plan)
{
    struct smla__detail *detail = &plan->context->detail;
    if (plan->info.max_rows > rows_max(plan))
        return smla__fail(detail, SMLA_ERROR_LIMIT,
                          "max_rows = %" PRId64 ": the cuda backend accepts at most %" PRId64,
                          plan->info.max_rows, rows_max(plan));
    struct gpu_plan *state = calloc(1, sizeof *state);
    if (!state)
        return smla__fail(detail, SMLA_ERROR_MEMORY, "no memory for %zu bytes", sizeof *state);
    plan->info.isa = SMLA_ISA_SCALAR;
    plan->info.threads = 0;
    plan->workspace_bytes = 0; /* in the Hopper lane partial results meet in distributed shared memory */
    smla_status status = open_kernels(plan, state);
    if (status != SMLA_OK) {
        free(state);
        return status;
    }
    plan->state = state;
    return SMLA_OK;
}

void smla__gpu_plan_close(smla_plan *plan)
{
    const struct smla__gpu *gpu = smla__gpu_of(plan->context);
    struct gpu_plan *state = plan->state;
    bool pushed;
    if (state->check.record && smla__gpu_enter(gpu, &pushed, NULL) == SMLA_OK) {
        smla__gpu_check_close(gpu, &state->check);
        smla__gpu_leave(gpu, pushed);
    }
    free(state);
}

static struct smla_divisor divisor(uint32_t d)
{
    uint32_t shift = 0;
    while (((uint64_t)1 << shift) < d)
        shift++;
    return (struct smla_divisor){d, (uint32_t)(((uint64_t)1 << (31 + shift)) / d + 1), shift};
}

static void fill_lists(const smla_plan *plan, const smla_step *step, const smla_tensors *t,
                       struct smla_lists *lists)
{
    const smla_problem *p = &plan->problem;
    /* Positions are below 2^31: a longer turn is one that never ends. */
    int64_t turn = (int64_t)p->dcp_interleave * p->dcp_world_size;
    int64_t first = (int64_t)p->dcp_interleave * p->dcp_rank;
    *lists = (struct smla_lists){
        .topk = t->topk,
        .topk_row = t->topk_row_stride,
        .topk_length = t->topk_length,
        .cache = t->kv_cache,
        .cache_block = t->cache_block_stride,
        .cache_row = t->cache_row_stride,
        .cache_blocks = (uint32_t)t->cache_blocks,
        .topk_width = (uint32_t)p->topk,
        .block = divisor((uint32_t)p->block_size),
        .turn = divisor(turn > INT32_MAX ? (uint32_t)1 << 31 : (uint32_t)turn),
        .dcp_first = (int32_t)(first > INT32_MAX ? INT32_MAX : first),
        .dcp_interleave = p->dcp_interleave,
        .positions = p->topk_kind == SMLA_TOPK_POSITIONS,
        .dense = t->cache_block_stride == p->block_size * t->cache_row_stride,
    };
    if (step)
        smla__gpu_step_lists(step, lists);
}

/* Sizes below 2^-126 count as that, so that the product with log2(e) does not vanish. */
static float scale_log2(float scale)
{
    double size = fmax(fabs((double)scale), 0x1p-126);
    return (float)(copysign(size, (double)scale) * log2_e);
}

static void fill_query(const smla_tensors *t, struct smla_decode_args *args)
{
    args->q_latent = t->q ? t->q : t->q_latent;
    args->q_latent_row = t->q ? t->q_row_stride : t->q_latent_row_stride;
    args->q_latent_head = t->q ? t->q_head_stride : t->q_latent_head_stride;
    args->q_rope = t->q ? (const char *)t->q + 2 * SMLA__LATENT : t->q_rope;
    args->q_rope_row = t->q ? t->q_row_stride : t->q_rope_row_stride;
    args->q_rope_head = t->q ? t->q_head_stride : t->q_rope_head_stride;
}

static struct smla_decode_args decode_args(const smla_plan *plan, const smla_step *step,
                                           const smla_tensors *t)
{
    const smla_problem *p = &plan->problem;
    const double lse_unit = p->lse_base == SMLA_LSE_BASE2 ? 1 : 1 / log2_e;
    struct smla_decode_args args = {
        .sinks = t->sinks,
        .out = t->out,
        .out_row = t->out_row_stride,
        .out_head = t->out_head_stride,
        .lse = t->lse,
        .lse_row = t->lse_row_stride,
        .lse_head = t->lse_head_stride,
        .scale_log2 = scale_log2(p->scale),
        .lse_factor = (float)lse_unit,
        .lse_rest = (float)(lse_unit - (double)(float)lse_unit),
        .empty_lse = p->empty_lse == SMLA_EMPTY_POS_INF ? INFINITY : -INFINITY,
        .heads = smla__run_heads(p),
        .rows = (int32_t)t->rows,
        .out_f32 = p->out_dtype == SMLA_F32,
    };
    fill_lists(plan, step, t, &args.lists);
    fill_query(t, &args);
    return args;
}

static smla_status run_hopper(const smla_plan *plan, struct smla__decode_plan *decode,
                              struct smla_decode_args *args, struct CUstream_st *stream)
{
    const struct smla__decode_kernel *kernel = smla__decode_choose(plan, decode, args->rows);
    args->head_groups = smla__decode_head_groups(plan, kernel);
    args->splits = 1;
    struct smla__grid grid = smla__decode_grid(plan, kernel, args->rows);
    return smla__gpu_launch(smla__gpu_of(plan->context), &grid, args, stream, &plan->context->detail);
}

smla_status smla__gpu_run(const smla_plan *plan, const smla_step *step, const smla_tensors *tensors,
                          void *workspace, struct CUstream_st *stream)
{
    const struct smla__gpu *gpu = smla__gpu_of(plan->context);
    struct gpu_plan *state = plan->state;
    struct smla__detail *detail = &plan->context->detail;
    struct smla_decode_args args = decode_args(plan, step, tensors);
    bool pushed;
    smla_status status = smla__gpu_enter(gpu, &pushed, detail);
    if (status != SMLA_OK)
        return status;
    if (state->check.record)
        status = smla__gpu_check_run(gpu, &state->check, &args.lists, tensors->rows, stream, detail);
    if (status == SMLA_OK)
        status = state->portable ? smla__portable_run(plan, &state->lane, &args, workspace, stream)
                                 : run_hopper(plan, &state->decode, &args, stream);
    smla__gpu_leave(gpu, pushed);
    return status;
}

smla_status smla__gpu_verify(smla_plan *plan, struct CUstream_st *stream, struct smla__offence *offence)
{
    const struct gpu_plan *state = plan->state;
    return smla__gpu_check_verify(smla__gpu_of(plan->context), &state->check, stream, offence,
                                  &plan->context->detail);
}
