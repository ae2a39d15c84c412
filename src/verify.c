#include <inttypes.h>

#include "internal.h"

static smla_status check_plan(const smla_plan *plan, struct smla__detail *detail)
{
    if (plan->options.checked)
        return SMLA_OK;
    return smla__fail(detail, SMLA_ERROR_ARGUMENT,
                      "plan: is not checked; one with smla_plan_options.checked = 1 is accepted");
}

static smla_status name_length(const smla_plan *plan, const struct smla__offence *offence,
                               struct smla__detail *detail)
{
    return smla__fail(detail, SMLA_ERROR_SLOT,
                      "topk_length[%" PRId64 "] = %" PRId32 ": 0 .. %" PRId32 " is accepted", offence->row,
                      offence->value, plan->problem.topk);
}

static smla_status name_entry(const struct smla__offence *offence, struct smla__detail *detail)
{
    bool inside = offence->value >= 0 && offence->value < offence->limit;
    if (inside)
        return smla__fail(
            detail, SMLA_ERROR_SLOT,
            "topk[%" PRId64 "][%" PRId64 "] = %" PRId32
            ": the table has no block of the cache for it; -1 or a position with one is accepted",
            offence->row, offence->entry, offence->value);
    if (offence->limit <= 0)
        return smla__fail(detail, SMLA_ERROR_SLOT,
                          "topk[%" PRId64 "][%" PRId64 "] = %" PRId32 ": -1 is accepted", offence->row,
                          offence->entry, offence->value);
    return smla__fail(detail, SMLA_ERROR_SLOT,
                      "topk[%" PRId64 "][%" PRId64 "] = %" PRId32 ": -1 or 0 .. %" PRId64 " is accepted",
                      offence->row, offence->entry, offence->value, offence->limit - 1);
}

/* The place alone: of runs on several streams at once the value can be lost. */
static smla_status name_place(const smla_plan *plan, const struct smla__offence *offence,
                              struct smla__detail *detail)
{
    const smla_problem *problem = &plan->problem;
    if (offence->entry == problem->topk)
        return smla__fail(detail, SMLA_ERROR_SLOT,
                          "topk_length[%" PRId64 "]: is outside 0 .. %" PRId32 ", which is accepted",
                          offence->row, problem->topk);
    return smla__fail(
        detail, SMLA_ERROR_SLOT, "topk[%" PRId64 "][%" PRId64 "]: names no cache row; -1 or %s is accepted",
        offence->row, offence->entry,
        problem->topk_kind == SMLA_TOPK_SLOTS ? "a slot of the cache" : "a position with a block");
}

smla_status smla_plan_verify(smla_plan *plan, struct CUstream_st *stream)
{
    if (!plan)
        return SMLA_ERROR_NULL;
    struct smla__detail *detail = &plan->context->detail;
    struct smla__offence offence = {0};
    smla_status status = check_plan(plan, detail);
    if (status == SMLA_OK)
        status = plan->context->backend->verify(plan, stream, &offence);
    if (status != SMLA_OK || !offence.found)
        return status;
    if (!offence.known)
        return name_place(plan, &offence, detail);
    return offence.entry == plan->problem.topk ? name_length(plan, &offence, detail)
                                               : name_entry(&offence, detail);
}
