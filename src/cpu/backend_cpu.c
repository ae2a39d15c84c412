/* The CPU backend's table of functions. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "keys.h"
#include "parallel.h"
#include "run_cpu.h"
#include "write_merge_cpu.h"

/* Whatever passes the common checks can be attended: bf16 needs the alignment of its elements, no more. */
static smla_status support(const smla_problem *problem, int arch, const smla_tensors *tensors,
                           struct smla__detail *detail)
{
    (void)problem, (void)arch, (void)tensors, (void)detail;
    return SMLA_OK;
}

/* Names of the instruction sets of a mask, each followed by a blank; all of them fit. */
static const char *name_sets(char text[64], uint32_t mask)
{
    char *end = text;
    *end = '\0';
    for (int isa = 0; isa < SMLA_ISA_COUNT; isa++)
        if (mask >> isa & 1)
            end += snprintf(end, (size_t)(text + 64 - end), "%s ", smla_isa_name((smla_isa)isa));
    return text;
}

static smla_status context_open(smla_context *context, const smla_context_options *options)
{
    uint32_t have = smla__cpu_isa_mask();
    struct smla__cpu_ops *ops = malloc(sizeof *ops);
    if (!ops)
        return smla__fail(&context->detail, SMLA_ERROR_MEMORY, "no memory for %zu bytes", sizeof *ops);
    if (!smla__cpu_ops_fill(ops, have & options->isa_mask)) {
        char sets[64];
        free(ops);
        return smla__fail(&context->detail, SMLA_UNSUPPORTED_ISA,
                          "isa_mask = 0x%" PRIx32 ": this CPU accepts %s(0x%" PRIx32 ")", options->isa_mask,
                          name_sets(sets, have), have);
    }
    context->state = ops;
    context->isa = ops->isa;
    context->threads = options->threads ? options->threads : smla__cpu_count();
    return SMLA_OK;
}

static void context_close(smla_context *context)
{
    free(context->state);
}

static const struct smla__attn *attn_of(const smla_plan *plan)
{
    return ((const struct smla__cpu_ops *)plan->context->state)->attn;
}

static smla_status plan_open(smla_plan *plan)
{
    plan->info.isa = (int32_t)plan->context->isa;
    plan->info.threads = plan->context->threads;
    plan->info.kernel = attn_of(plan)->kernel;
    plan->workspace_bytes = smla__cpu_workspace_bytes(plan, attn_of(plan), plan->info.threads);
    if (!plan->options.checked)
        return SMLA_OK;
    plan->state = calloc(1, sizeof(struct smla__offence));
    return plan->state ? SMLA_OK
                       : smla__fail(&plan->context->detail, SMLA_ERROR_MEMORY, "no memory for %zu bytes",
                                    sizeof(struct smla__offence));
}

static void plan_close(smla_plan *plan)
{
    free(plan->state);
}

/* A checked plan keeps the first offence of its runs. */
static void check_lists(const smla_plan *plan, const smla_step *step, const smla_tensors *tensors)
{
    struct smla__offence *first = plan->state, offence;
    struct smla__lists lists;
    smla__lists_init(&lists, plan, step ? &step->lanes : NULL, tensors);
    for (int64_t row = 0; row < tensors->rows; row++) {
        if (!smla__lists_offence(&lists, row, &offence))
            continue;
        if (!first->found || row < first->row || (row == first->row && offence.entry < first->entry))
            *first = offence;
        return;
    }
}

static smla_status verify(smla_plan *plan, struct CUstream_st *stream, struct smla__offence *offence)
{
    (void)stream;
    struct smla__offence *first = plan->state;
    *offence = *first;
    first->found = false;
    return SMLA_OK;
}

static smla_status step_open(smla_step *step)
{
    (void)step;
    return SMLA_OK;
}

static void step_close(smla_step *step)
{
    (void)step;
}

/* A run reads the step's metadata where they are. */
static smla_status step_upload(smla_step *step, struct CUstream_st *stream)
{
    (void)step, (void)stream;
    return SMLA_OK;
}

static void work(void *workspace, int32_t worker)
{
    (void)worker;
    smla__cpu_work(workspace);
}

static smla_status run(const smla_plan *plan, const smla_step *step, const smla_tensors *tensors,
                       void *workspace, struct CUstream_st *stream)
{
    (void)stream;
    if (plan->options.checked)
        check_lists(plan, step, tensors);
    smla__cpu_begin(plan, attn_of(plan), step, tensors, workspace, plan->info.threads);
    smla__parallel(smla__cpu_useful_workers(workspace), work, workspace);
    return SMLA_OK;
}

static smla_status slices_begin(const smla_plan *plan, const smla_step *step, const smla_tensors *tensors,
                                void *workspace, int32_t slices)
{
    if (plan->options.checked)
        check_lists(plan, step, tensors);
    smla__cpu_begin(plan, attn_of(plan), step, tensors, workspace, slices);
    return SMLA_OK;
}

static smla_status slice_run(const smla_plan *plan, void *workspace, int32_t slice)
{
    (void)plan;
    bool known = slice >= 0 && slice < smla__cpu_workers(workspace);
    return known && smla__cpu_work(workspace) ? SMLA_OK : SMLA_ERROR_ARGUMENT;
}

const struct smla__backend smla__backend_cpu = {
    .id = SMLA_BACKEND_CPU,
    .name = "cpu",
    .support = support,
    .context_open = context_open,
    .context_close = context_close,
    .plan_open = plan_open,
    .plan_close = plan_close,
    .step_open = step_open,
    .step_close = step_close,
    .step_upload = step_upload,
    .run = run,
    .verify = verify,
    .slices_begin = slices_begin,
    .slice_run = slice_run,
    .cache_write = smla__cpu_cache_write,
    .merge = smla__cpu_merge,
};
