#include "shape.h"

#include <inttypes.h>

int64_t smla__dtype_bytes(int32_t dtype)
{
    switch (dtype) {
    case SMLA_BF16:
    case SMLA_F16:
        return 2;
    case SMLA_F32:
        return 4;
    default:
        return 0;
    }
}

bool smla__size_mul(int64_t a, int64_t b, size_t *product)
{
    return a >= 0 && b >= 0 && !__builtin_mul_overflow((size_t)a, (size_t)b, product);
}

int64_t smla__local_length(const smla_problem *problem, int64_t length)
{
    int64_t interleave = problem->dcp_interleave;
    int64_t round = interleave * problem->dcp_world_size;
    int64_t rest = length % round - problem->dcp_rank * interleave;
    rest = rest < 0 ? 0 : rest > interleave ? interleave : rest;
    return length / round * interleave + rest;
}

/* Last byte offset of the array + 1; false if it does not fit 63 bits. */
static bool extent(int64_t count, int64_t stride, int64_t item, int64_t *bytes)
{
    int64_t last;
    return !__builtin_mul_overflow(count > 0 ? count - 1 : 0, stride, &last) &&
           !__builtin_add_overflow(last, item, bytes);
}

static smla_status check_stride(const struct smla__array *array, const char *name, int64_t stride,
                                struct smla__detail *detail)
{
    if (stride < 0)
        return smla__fail(detail, SMLA_ERROR_STRIDE,
                          "%s = %" PRId64 ": 0 or a positive number of bytes is accepted", name, stride);
    if (stride % array->align)
        return smla__fail(detail, SMLA_ERROR_ALIGNMENT,
                          "%s = %" PRId64 ": a multiple of %" PRId64 " bytes is accepted", name, stride,
                          array->align);
    return SMLA_OK;
}

/* Items must lie apart: one level nests inside a single stride of the other. */
static bool apart(const struct smla__array *array)
{
    int64_t inner, outer;
    bool inner_ok = array->inner <= 1 || array->inner_stride >= array->item;
    bool outer_ok = array->outer <= 1 || array->outer_stride >= array->item;
    if (!inner_ok || !outer_ok)
        return false;
    if (array->outer <= 1 || array->inner <= 1)
        return true;
    return (extent(array->inner, array->inner_stride, array->item, &inner) && array->outer_stride >= inner) ||
           (extent(array->outer, array->outer_stride, array->item, &outer) && array->inner_stride >= outer);
}

smla_status smla__check_array(const struct smla__array *array, struct smla__detail *detail)
{
    int64_t inner, whole;
    if ((uintptr_t)array->data % (uintptr_t)array->align)
        return smla__fail(detail, SMLA_ERROR_ALIGNMENT,
                          "%s = %p: a multiple of %" PRId64 " bytes is accepted", array->name, array->data,
                          array->align);
    smla_status status = check_stride(array, array->outer_name, array->outer_stride, detail);
    if (status == SMLA_OK)
        status = check_stride(array, array->inner_name, array->inner_stride, detail);
    if (status != SMLA_OK)
        return status;
    if (!extent(array->inner, array->inner_stride, array->item, &inner) ||
        !extent(array->outer, array->outer_stride, inner, &whole))
        return smla__fail(detail, SMLA_ERROR_STRIDE,
                          "%s = %" PRId64 " and %s = %" PRId64 " over %" PRId64 " x %" PRId64
                          " items pass 2^63 bytes; smaller ones are accepted",
                          array->outer_name, array->outer_stride, array->inner_name, array->inner_stride,
                          array->outer, array->inner);
    if (array->written && !apart(array))
        return smla__fail(detail, SMLA_ERROR_STRIDE,
                          "%s = %" PRId64 " and %s = %" PRId64 " make %" PRId64
                          "-byte items overlap; strides that keep them apart are accepted",
                          array->outer_name, array->outer_stride, array->inner_name, array->inner_stride,
                          array->item);
    return SMLA_OK;
}

static smla_status check_elem(const char *name, int64_t stride, int64_t size, struct smla__detail *detail)
{
    if (stride == size)
        return SMLA_OK;
    return smla__fail(detail, SMLA_ERROR_STRIDE,
                      "%s = %" PRId64 ": %" PRId64 " (the element size) is accepted", name, stride, size);
}

static smla_status check_elems(const smla_problem *problem, const smla_tensors *t,
                               struct smla__detail *detail)
{
    const struct {
        const char *name;
        int64_t stride, size;
    } elems[] = {
        {"q_elem_stride", t->q_elem_stride, smla__dtype_bytes(problem->query_dtype)},
        {"q_latent_elem_stride", t->q_latent_elem_stride, smla__dtype_bytes(problem->query_dtype)},
        {"q_rope_elem_stride", t->q_rope_elem_stride, smla__dtype_bytes(problem->query_dtype)},
        {"cache_elem_stride", t->cache_elem_stride, 2},
        {"topk_elem_stride", t->topk_elem_stride, (int64_t)sizeof(int32_t)},
        {"out_elem_stride", t->out_elem_stride, smla__dtype_bytes(problem->out_dtype)},
    };
    smla_status status = SMLA_OK;
    for (size_t i = 0; i < sizeof elems / sizeof *elems && status == SMLA_OK; i++)
        status = check_elem(elems[i].name, elems[i].stride, elems[i].size, detail);
    return status;
}

/* The query is packed or in two parts; only the form in use is judged. */
static smla_status check_query(const smla_problem *problem, const smla_tensors *t,
                               struct smla__detail *detail)
{
    int64_t heads = smla__run_heads(problem);
    const struct smla__array q = {.name = "q",
                                  .outer_name = "q_row_stride",
                                  .inner_name = "q_head_stride",
                                  .data = t->q,
                                  .outer = t->rows,
                                  .outer_stride = t->q_row_stride,
                                  .inner = heads,
                                  .inner_stride = t->q_head_stride,
                                  .item = 2 * SMLA__ROW,
                                  .align = 2};
    struct smla__array latent = q, rope = q;
    latent.name = "q_latent";
    latent.outer_name = "q_latent_row_stride";
    latent.inner_name = "q_latent_head_stride";
    latent.data = t->q_latent;
    latent.outer_stride = t->q_latent_row_stride;
    latent.inner_stride = t->q_latent_head_stride;
    latent.item = 2 * SMLA__LATENT;
    rope.name = "q_rope";
    rope.outer_name = "q_rope_row_stride";
    rope.inner_name = "q_rope_head_stride";
    rope.data = t->q_rope;
    rope.outer_stride = t->q_rope_row_stride;
    rope.inner_stride = t->q_rope_head_stride;
    rope.item = 2 * SMLA__ROPE;
    if (t->q || (!t->q_latent && !t->q_rope))
        return smla__check_array(&q, detail);
    smla_status status = smla__check_array(&latent, detail);
    return status == SMLA_OK ? smla__check_array(&rope, detail) : status;
}

static smla_status check_inputs(const smla_problem *problem, const smla_tensors *t,
                                struct smla__detail *detail)
{
    const struct smla__array arrays[] = {
        {"kv_cache", "cache_block_stride", "cache_row_stride", t->kv_cache, t->cache_blocks,
         t->cache_block_stride, problem->block_size, t->cache_row_stride, 2 * SMLA__ROW, 2, false},
        {"topk", "topk_row_stride", "topk_elem_stride", t->topk, t->rows, t->topk_row_stride, problem->topk,
         t->topk_elem_stride, sizeof(int32_t), sizeof(int32_t), false},
        {"topk_length", "topk_length stride", "topk_length stride", t->topk_length, t->rows, sizeof(int32_t),
         1, 0, sizeof(int32_t), sizeof(int32_t), false},
        {"sinks", "sinks stride", "sinks stride", t->sinks, 1, 0, smla__run_heads(problem), sizeof(float),
         sizeof(float), sizeof(float), false},
    };
    smla_status status = SMLA_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && status == SMLA_OK; i++)
        status = smla__check_array(&arrays[i], detail);
    return status;
}

static smla_status check_outputs(const smla_problem *problem, const smla_tensors *t,
                                 struct smla__detail *detail)
{
    int64_t bytes = smla__dtype_bytes(problem->out_dtype);
    const struct smla__array out = {"out",
                                    "out_row_stride",
                                    "out_head_stride",
                                    t->out,
                                    t->rows,
                                    t->out_row_stride,
                                    smla__run_heads(problem),
                                    t->out_head_stride,
                                    bytes * SMLA__LATENT,
                                    bytes,
                                    true};
    const struct smla__array lse = {"lse",
                                    "lse_row_stride",
                                    "lse_head_stride",
                                    t->lse,
                                    t->rows,
                                    t->lse_row_stride,
                                    smla__run_heads(problem),
                                    t->lse_head_stride,
                                    sizeof(float),
                                    sizeof(float),
                                    true};
    smla_status status = smla__check_array(&out, detail);
    return status == SMLA_OK && t->lse ? smla__check_array(&lse, detail) : status;
}

smla_status smla__check_layout(const smla_problem *problem, const smla_tensors *tensors,
                               struct smla__detail *detail)
{
    smla_status status = check_elems(problem, tensors, detail);
    if (status == SMLA_OK)
        status = check_query(problem, tensors, detail);
    if (status == SMLA_OK)
        status = check_inputs(problem, tensors, detail);
    return status == SMLA_OK ? check_outputs(problem, tensors, detail) : status;
}
