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
        return smla__fail(detail, SMLA_ERROR_SLOT,
                          "topk[%" PRId64 "][%" PRId64 "] = %" PRId32
                          ": its block is not in the table; -1 or a position with a block is accepted",
                          offence->row, offence->entry, offence->value);
    if (offence->limit <= 0)
        return smla__fail(detail, SMLA_ERROR_SLOT,
                          "topk[%" PRId64 "][%" PRId64 "] = %" PRId32 ": -1 is accepted", offence->row,
                          offence->entry, offence->value);
    return smla__fail(detail, SMLA_ERROR_SLOT,
                      "topk[%" PRId64 "][%" PRId64 "] = %" PRId32 ": -1 or 0 .. %" PRId64 " is accepted",
                      offence->row, offence->entry, offence->value, offence->limit - 1);
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
    bool length = offence.entry == plan->problem.topk;
    if (!offence.known)
        return smla__fail(detail, SMLA_ERROR_SLOT,
                          "%s of row %" PRId64 ", entry %" PRId64 ": a valid one is accepted",
                          length ? "topk_length" : "topk", offence.row, offence.entry);
    return length ? name_length(plan, &offence, detail) : name_entry(&offence, detail);
}
