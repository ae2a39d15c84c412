#include "support.h"

#include <inttypes.h>
#include <math.h>

#include "shape.h"

void smla_problem_init(smla_problem *problem)
{
    *problem = (smla_problem){
        .struct_size = sizeof *problem,
        .heads = SMLA__HEADS_MAX,
        .kv_lora_rank = SMLA__LATENT,
        .qk_rope_head_dim = SMLA__ROPE,
        .topk = 2048,
        .block_size = 64,
        .query_dtype = SMLA_BF16,
        .out_dtype = SMLA_BF16,
        .cache_format = SMLA_CACHE_BF16,
        .topk_kind = SMLA_TOPK_POSITIONS,
        .lse_base = SMLA_LSE_NATURAL,
        .empty_lse = SMLA_EMPTY_NEG_INF,
        .scale = 1.0f / 24.0f, /* 576^-0.5 */
        .dcp_world_size = 1,
        .dcp_interleave = 1,
    };
}

static const struct smla__backend *const priority[] = {&smla__backend_cuda, &smla__backend_cpu};
enum { BACKENDS = sizeof priority / sizeof *priority };

smla_backend smla_backend_at(int i)
{
    return i >= 0 && i < BACKENDS ? priority[i]->id : SMLA_BACKEND_AUTO;
}

const struct smla__backend *smla__backend_find(smla_backend id)
{
    for (int i = 0; i < BACKENDS; i++)
        if (priority[i]->id == id)
            return priority[i];
    return NULL;
}

const char *smla_backend_name(smla_backend backend)
{
    const struct smla__backend *found = smla__backend_find(backend);
    return found ? found->name : backend == SMLA_BACKEND_AUTO ? "auto" : NULL;
}

static smla_status check_head_dims(const smla_problem *p, struct smla__detail *detail)
{
    if (p->kv_lora_rank != SMLA__LATENT)
        return smla__fail(detail, SMLA_UNSUPPORTED_HEAD_DIM, "kv_lora_rank = %" PRId32 ": 512 is accepted",
                          p->kv_lora_rank);
    if (p->qk_rope_head_dim != SMLA__ROPE)
        return smla__fail(detail, SMLA_UNSUPPORTED_HEAD_DIM, "qk_rope_head_dim = %" PRId32 ": 64 is accepted",
                          p->qk_rope_head_dim);
    return SMLA_OK;
}

static const char *cache_name(int32_t format)
{
    static const char *const names[] = {"none", "bf16", "fp16", "fp8_e4m3", "fp8_ds_mla"};
    return format >= SMLA_CACHE_BF16 && format <= SMLA_CACHE_FP8_DS_MLA ? names[format] : "unknown";
}

static smla_status check_types(const smla_problem *p, struct smla__detail *detail)
{
    if (p->query_dtype != SMLA_BF16)
        return smla__fail(detail, SMLA_UNSUPPORTED_DTYPE,
                          "query_dtype = %" PRId32 ": SMLA_BF16 (1) is accepted", p->query_dtype);
    if (p->out_dtype != SMLA_BF16 && p->out_dtype != SMLA_F32)
        return smla__fail(detail, SMLA_UNSUPPORTED_DTYPE,
                          "out_dtype = %" PRId32 ": SMLA_BF16 (1) and SMLA_F32 (2) are accepted",
                          p->out_dtype);
    if (p->cache_format != SMLA_CACHE_BF16)
        return smla__fail(detail, SMLA_UNSUPPORTED_CACHE_FORMAT,
                          "cache_format = %" PRId32 " (%s): 1 (bf16) is accepted", p->cache_format,
                          cache_name(p->cache_format));
    return SMLA_OK;
}

static smla_status check_dcp(const smla_problem *p, struct smla__detail *detail)
{
    if (p->dcp_world_size < 1)
        return smla__fail(detail, SMLA_UNSUPPORTED_DCP, "dcp_world_size = %" PRId32 ": 1 or more is accepted",
                          p->dcp_world_size);
    if (p->dcp_rank < 0 || p->dcp_rank >= p->dcp_world_size)
        return smla__fail(detail, SMLA_UNSUPPORTED_DCP,
                          "dcp_rank = %" PRId32 ": 0 .. %" PRId32 " is accepted", p->dcp_rank,
                          p->dcp_world_size - 1);
    if (p->dcp_interleave < 1)
        return smla__fail(detail, SMLA_UNSUPPORTED_DCP, "dcp_interleave = %" PRId32 ": 1 or more is accepted",
                          p->dcp_interleave);
    return SMLA_OK;
}

static smla_status check_heads(const smla_problem *p, struct smla__detail *detail)
{
    int64_t gathered = (int64_t)p->heads * p->dcp_world_size;
    if (p->heads < 1 || p->heads > SMLA__HEADS_MAX)
        return smla__fail(detail, SMLA_UNSUPPORTED_HEADS, "heads = %" PRId32 ": 1 .. 128 is accepted",
                          p->heads);
    if (gathered > SMLA__HEADS_MAX)
        return smla__fail(detail, SMLA_UNSUPPORTED_HEADS,
                          "heads * dcp_world_size = %" PRId64 ": 1 .. 128 is accepted", gathered);
    return SMLA_OK;
}

/* One of two enum values. */
static smla_status check_choice(const char *name, int32_t value, int32_t low, const char *accepted,
                                struct smla__detail *detail)
{
    if (value == low || value == low + 1)
        return SMLA_OK;
    return smla__fail(detail, SMLA_ERROR_ARGUMENT, "%s = %" PRId32 ": %s are accepted", name, value,
                      accepted);
}

static smla_status check_options(const smla_problem *p, struct smla__detail *detail)
{
    smla_status status = check_choice("topk_kind", p->topk_kind, SMLA_TOPK_POSITIONS,
                                      "SMLA_TOPK_POSITIONS (1) and SMLA_TOPK_SLOTS (2)", detail);
    if (status == SMLA_OK)
        status = check_choice("lse_base", p->lse_base, SMLA_LSE_NATURAL,
                              "SMLA_LSE_NATURAL (1) and SMLA_LSE_BASE2 (2)", detail);
    if (status == SMLA_OK)
        status = check_choice("empty_lse", p->empty_lse, SMLA_EMPTY_NEG_INF,
                              "SMLA_EMPTY_NEG_INF (1) and SMLA_EMPTY_POS_INF (2)", detail);
    if (status == SMLA_OK)
        status = check_choice("batch_invariant", p->batch_invariant, 0, "0 and 1", detail);
    return status;
}

static smla_status check_sizes(const smla_problem *p, struct smla__detail *detail)
{
    if (p->topk < 1)
        return smla__fail(detail, SMLA_ERROR_ARGUMENT, "topk = %" PRId32 ": 1 or more is accepted", p->topk);
    if (p->block_size < 1)
        return smla__fail(detail, SMLA_ERROR_ARGUMENT, "block_size = %" PRId32 ": 1 or more is accepted",
                          p->block_size);
    /* Times log2(e) it must still be a float. */
    if (!(fabsf(p->scale) <= 1e38f))
        return smla__fail(detail, SMLA_ERROR_ARGUMENT, "scale = %g: -1e38 .. 1e38 is accepted",
                          (double)p->scale);
    return SMLA_OK;
}

smla_status smla__check_problem(const smla_problem *problem, struct smla__detail *detail)
{
    if (!problem)
        return smla__fail(detail, SMLA_ERROR_NULL, "problem = NULL: a filled smla_problem is accepted");
    if (problem->struct_size != sizeof *problem)
        return smla__fail(detail, SMLA_ERROR_STRUCT_SIZE,
                          "problem.struct_size = %zu: %zu is accepted (call smla_problem_init)",
                          problem->struct_size, sizeof *problem);
    smla_status (*const checks[])(const smla_problem *, struct smla__detail *) = {
        check_head_dims, check_types, check_dcp, check_heads, check_options, check_sizes};
    smla_status status = SMLA_OK;
    for (size_t i = 0; i < sizeof checks / sizeof *checks && status == SMLA_OK; i++)
        status = checks[i](problem, detail);
    return status;
}

smla_status smla__check_tensors(const smla_problem *problem, const smla_tensors *tensors,
                                struct smla__detail *detail)
{
    if (tensors->struct_size != sizeof *tensors)
        return smla__fail(detail, SMLA_ERROR_STRUCT_SIZE,
                          "tensors.struct_size = %zu: %zu is accepted (call smla_tensors_init)",
                          tensors->struct_size, sizeof *tensors);
    if (tensors->rows < 0)
        return smla__fail(detail, SMLA_ERROR_ARGUMENT, "rows = %" PRId64 ": 0 or more is accepted",
                          tensors->rows);
    if (tensors->rows == 0)
        return SMLA_OK;
    if (tensors->cache_blocks < 0 || tensors->cache_blocks > INT64_MAX / problem->block_size)
        return smla__fail(detail, SMLA_ERROR_ARGUMENT,
                          "cache_blocks = %" PRId64 ": 0 .. (2^63 - 1) / block_size is accepted",
                          tensors->cache_blocks);
    return smla__check_layout(problem, tensors, detail);
}

smla_status smla__support(const smla_problem *problem, const struct smla__backend *backend, int cuda_arch,
                          const smla_tensors *tensors, struct smla__detail *detail)
{
    smla_status status = smla__check_problem(problem, detail);
    if (status == SMLA_OK && tensors)
        status = smla__check_tensors(problem, tensors, detail);
    return status == SMLA_OK ? backend->support(problem, cuda_arch, tensors, detail) : status;
}

smla_status smla_support_query(const smla_problem *problem, smla_backend backend, int cuda_arch,
                               const smla_tensors *tensors, char *reason, size_t reason_size)
{
    struct smla__detail detail = {reason, reason_size};
    const struct smla__backend *one = smla__backend_find(backend);
    smla_status status = SMLA_OK;
    smla__detail_clear(&detail);
    if (!one && backend != SMLA_BACKEND_AUTO)
        return smla__fail(&detail, SMLA_ERROR_ARGUMENT,
                          "backend = %d: 0 (auto), 1 (cpu) and 2 (cuda) are accepted", (int)backend);
    if (cuda_arch < 0)
        return smla__fail(&detail, SMLA_ERROR_ARGUMENT,
                          "cuda_arch = %d: 0 (this machine) or a number such as 90 is accepted", cuda_arch);
    if (one)
        return smla__support(problem, one, cuda_arch, tensors, &detail);
    for (int i = 0; i < BACKENDS; i++) {
        status = smla__support(problem, priority[i], cuda_arch, tensors, &detail);
        if (status == SMLA_OK) {
            smla__detail_clear(&detail);
            break;
        }
    }
    return status;
}
