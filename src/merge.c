#include <inttypes.h>

#include "internal.h"
#include "shape.h"

void smla_partials_init(smla_partials *partials, int64_t parts, int64_t rows, int32_t heads)
{
    const int64_t head = 2 * SMLA__LATENT, lse = sizeof(float);
    /* Unsigned: absurd counts give absurd strides, which smla_merge refuses. */
    const uint64_t items = (uint64_t)rows * (uint64_t)heads;
    *partials = (smla_partials){
        .struct_size = sizeof *partials,
        .parts = parts,
        .rows = rows,
        .heads = heads,
        .dim = SMLA__LATENT,
        .part_dtype = SMLA_BF16,
        .out_dtype = SMLA_BF16,
        .lse_base = SMLA_LSE_NATURAL,
        .empty_lse = SMLA_EMPTY_NEG_INF,
        .part_out_part_stride = (int64_t)(items * (uint64_t)head),
        .part_out_row_stride = heads * head,
        .part_out_head_stride = head,
        .part_lse_part_stride = (int64_t)(items * (uint64_t)lse),
        .part_lse_row_stride = heads * lse,
        .part_lse_head_stride = lse,
        .out_row_stride = heads * head,
        .out_head_stride = head,
        .lse_row_stride = heads * lse,
        .lse_head_stride = lse,
    };
}

static smla_status check_range(const char *name, int64_t value, int64_t low, int64_t high,
                               struct smla__detail *detail)
{
    if (value >= low && value <= high)
        return SMLA_OK;
    return smla__fail(detail, SMLA_ERROR_ARGUMENT, "%s = %" PRId64 ": %" PRId64 " .. %" PRId64 " is accepted",
                      name, value, low, high);
}

static smla_status check_numbers(const smla_partials *p, struct smla__detail *detail)
{
    const struct {
        const char *name;
        int64_t value, low, high;
    } ranges[] = {
        {"parts", p->parts, 1, INT32_MAX},
        {"rows", p->rows, 0, INT64_MAX},
        {"heads", p->heads, 1, INT32_MAX},
        {"dim", p->dim, 1, 1 << 20},
        {"lse_base", p->lse_base, SMLA_LSE_NATURAL, SMLA_LSE_BASE2},
        {"empty_lse", p->empty_lse, SMLA_EMPTY_NEG_INF, SMLA_EMPTY_POS_INF},
    };
    smla_status status = SMLA_OK;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && status == SMLA_OK; i++)
        status = check_range(ranges[i].name, ranges[i].value, ranges[i].low, ranges[i].high, detail);
    return status;
}

static smla_status check_dtype(const char *name, int32_t dtype, struct smla__detail *detail)
{
    if (dtype == SMLA_BF16 || dtype == SMLA_F32)
        return SMLA_OK;
    return smla__fail(detail, SMLA_UNSUPPORTED_DTYPE,
                      "%s = %" PRId32 ": SMLA_BF16 (1) and SMLA_F32 (2) are accepted", name, dtype);
}

static smla_status check_pointers(const smla_partials *p, struct smla__detail *detail)
{
    const char *missing = !p->part_out ? "part_out" : !p->part_lse ? "part_lse" : !p->out ? "out" : NULL;
    return missing ? smla__fail(detail, SMLA_ERROR_NULL,
                                "%s = NULL: a tensor of %" PRId64 " rows is accepted", missing, p->rows)
                   : SMLA_OK;
}

static smla_status check_part_stride(const char *name, int64_t stride, int64_t parts, int64_t align,
                                     struct smla__detail *detail)
{
    const struct smla__array array = {name, name, name, NULL, parts, stride, 1, 0, align, align, false};
    return smla__check_array(&array, detail);
}

static smla_status check_layout(const smla_partials *p, struct smla__detail *detail)
{
    int64_t part = smla__dtype_bytes(p->part_dtype), out = smla__dtype_bytes(p->out_dtype);
    int64_t f32 = sizeof(float);
    const struct smla__array arrays[] = {
        {"part_out", "part_out_row_stride", "part_out_head_stride", p->part_out, p->rows,
         p->part_out_row_stride, p->heads, p->part_out_head_stride, p->dim * part, part, false},
        {"part_lse", "part_lse_row_stride", "part_lse_head_stride", p->part_lse, p->rows,
         p->part_lse_row_stride, p->heads, p->part_lse_head_stride, f32, f32, false},
        {"out", "out_row_stride", "out_head_stride", p->out, p->rows, p->out_row_stride, p->heads,
         p->out_head_stride, p->dim * out, out, true},
        {"lse", "lse_row_stride", "lse_head_stride", p->lse, p->rows, p->lse_row_stride, p->heads,
         p->lse_head_stride, f32, f32, p->lse != NULL},
    };
    smla_status status =
        check_part_stride("part_out_part_stride", p->part_out_part_stride, p->parts, part, detail);
    if (status == SMLA_OK)
        status = check_part_stride("part_lse_part_stride", p->part_lse_part_stride, p->parts, f32, detail);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && status == SMLA_OK; i++)
        status = smla__check_array(&arrays[i], detail);
    return status;
}

smla_status smla_merge(smla_context *context, const smla_partials *partials, struct CUstream_st *stream)
{
    if (!context)
        return SMLA_ERROR_NULL;
    struct smla__detail *detail = &context->detail;
    if (!partials)
        return smla__fail(detail, SMLA_ERROR_NULL, "partials = NULL: a filled smla_partials is accepted");
    if (partials->struct_size != sizeof *partials)
        return smla__fail(detail, SMLA_ERROR_STRUCT_SIZE,
                          "partials.struct_size = %zu: %zu is accepted (call smla_partials_init)",
                          partials->struct_size, sizeof *partials);
    smla_status status = check_numbers(partials, detail);
    if (status == SMLA_OK)
        status = check_dtype("part_dtype", partials->part_dtype, detail);
    if (status == SMLA_OK)
        status = check_dtype("out_dtype", partials->out_dtype, detail);
    if (status != SMLA_OK || partials->rows == 0)
        return status;
    status = check_pointers(partials, detail);
    if (status == SMLA_OK)
        status = check_layout(partials, detail);
    return status == SMLA_OK ? context->backend->merge(context, partials, stream) : status;
}
