#include <inttypes.h>
#include <stdlib.h>

#include "internal.h"
#include "support.h"

void smla_plan_options_init(smla_plan_options *options)
{
    *options = (smla_plan_options){.struct_size = sizeof *options};
}

static smla_status check_maximum(const char *name, int64_t value, struct smla__detail *detail)
{
    if (value >= 0 && value <= INT32_MAX)
        return SMLA_OK;
    return smla__fail(detail, SMLA_ERROR_ARGUMENT, "%s = %" PRId64 ": 0 .. 2147483647 is accepted", name,
                      value);
}

static smla_status check_switch(const char *name, int32_t value, struct smla__detail *detail)
{
    if (value == 0 || value == 1)
        return SMLA_OK;
    return smla__fail(detail, SMLA_ERROR_ARGUMENT, "%s = %" PRId32 ": 0 and 1 are accepted", name, value);
}

static smla_status check_options(const smla_plan_options *options, struct smla__detail *detail)
{
    if (options->struct_size != sizeof *options)
        return smla__fail(detail, SMLA_ERROR_STRUCT_SIZE,
                          "options.struct_size = %zu: %zu is accepted (call smla_plan_options_init)",
                          options->struct_size, sizeof *options);
    smla_status status = check_maximum("max_rows", options->max_rows, detail);
    if (status == SMLA_OK)
        status = check_maximum("max_requests", options->max_requests, detail);
    if (status == SMLA_OK)
        status = check_maximum("max_blocks", options->max_blocks, detail);
    if (status == SMLA_OK)
        status = check_maximum("decode_rows_max", options->decode_rows_max, detail);
    if (status != SMLA_OK)
        return status;
    status = check_switch("checked", options->checked, detail);
    if (status == SMLA_OK)
        status = check_switch("cuda_pdl", options->cuda_pdl, detail);
    if (status == SMLA_OK)
        status = check_switch("cuda_portable", options->cuda_portable, detail);
    if (status != SMLA_OK)
        return status;
    if (options->splits < 0 || options->splits > SMLA__SPLITS_MAX)
        return smla__fail(detail, SMLA_ERROR_ARGUMENT,
                          "splits = %" PRId32 ": 0 (planned) or 1 .. %d is accepted", options->splits,
                          SMLA__SPLITS_MAX);
    return SMLA_OK;
}

/* The reorder threshold of vLLM's FlashAttention-4 sparse MLA backend, by heads of a rank. */
static int32_t default_decode_rows(int32_t heads)
{
    switch (heads) {
    case 8:
    case 16:
    case 32:
        return 128;
    case 64:
        return 256;
    default:
        return 1024;
    }
}

static void fill_info(smla_plan *plan)
{
    const smla_plan_options *options = &plan->options;
    plan->info = (smla_plan_info){
        .struct_size = sizeof plan->info,
        .backend = (int32_t)plan->context->backend->id,
        .decode_rows_max =
            options->decode_rows_max ? options->decode_rows_max : default_decode_rows(plan->problem.heads),
        .max_rows = options->max_rows,
        .max_requests = options->max_requests,
        .max_blocks = options->max_blocks,
    };
}

smla_status smla_plan_create(smla_plan **out, smla_context *context, const smla_problem *problem,
                             const smla_plan_options *options)
{
    if (out)
        *out = NULL;
    if (!context)
        return SMLA_ERROR_NULL;
    struct smla__detail *detail = &context->detail;
    if (!out || !problem || !options)
        return smla__fail(detail, SMLA_ERROR_NULL, "%s = NULL: a valid pointer is accepted",
                          !out       ? "out"
                          : !problem ? "problem"
                                     : "options");
    smla_status status = smla__support(problem, context->backend, context->arch, NULL, detail);
    if (status == SMLA_OK)
        status = check_options(options, detail);
    if (status != SMLA_OK)
        return status;
    smla_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return smla__fail(detail, SMLA_ERROR_MEMORY, "no memory for a plan of %zu bytes", sizeof *plan);
    plan->context = context;
    plan->problem = *problem;
    plan->options = *options;
    fill_info(plan);
    status = context->backend->plan_open(plan);
    if (status != SMLA_OK) {
        free(plan);
        return status;
    }
    *out = plan;
    return SMLA_OK;
}

void smla_plan_destroy(smla_plan *plan)
{
    if (!plan)
        return;
    plan->context->backend->plan_close(plan);
    free(plan);
}

size_t smla_plan_workspace_bytes(const smla_plan *plan)
{
    return plan ? plan->workspace_bytes : 0;
}

smla_status smla_plan_get_info(const smla_plan *plan, smla_plan_info *info)
{
    if (!plan)
        return SMLA_ERROR_NULL;
    if (!info)
        return smla__fail(&plan->context->detail, SMLA_ERROR_NULL,
                          "info = NULL: a smla_plan_info is accepted");
    if (info->struct_size != sizeof *info)
        return smla__fail(&plan->context->detail, SMLA_ERROR_STRUCT_SIZE,
                          "info.struct_size = %zu: %zu is accepted", info->struct_size, sizeof *info);
    *info = plan->info;
    return SMLA_OK;
}
