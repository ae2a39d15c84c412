#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "shape.h"

void smla_batch_init(smla_batch *batch)
{
    *batch = (smla_batch){.struct_size = sizeof *batch};
}

/* At least one item, so that an empty array is not NULL. */
static int32_t *new_array(int64_t outer, int64_t inner)
{
    size_t count, bytes;
    if (!smla__size_mul(outer, inner, &count) || __builtin_mul_overflow(count, sizeof(int32_t), &bytes))
        return NULL;
    return malloc(bytes ? bytes : sizeof(int32_t));
}

static void close_lanes(struct smla__lanes *lanes)
{
    free(lanes->row_request);
    free(lanes->lane_rows);
    free(lanes->seq_lens);
    free(lanes->block_table);
}

static bool open_lanes(struct smla__lanes *lanes, const smla_plan_info *maxima)
{
    lanes->row_request = new_array(maxima->max_rows, 1);
    lanes->lane_rows = new_array(maxima->max_rows, 1);
    lanes->seq_lens = new_array(maxima->max_requests, 1);
    lanes->block_table = new_array(maxima->max_requests, maxima->max_blocks);
    return lanes->row_request && lanes->lane_rows && lanes->seq_lens && lanes->block_table;
}

smla_status smla_step_create(smla_step **out, const smla_plan *plan)
{
    if (out)
        *out = NULL;
    if (!plan)
        return SMLA_ERROR_NULL;
    struct smla__detail *detail = &plan->context->detail;
    if (!out)
        return smla__fail(detail, SMLA_ERROR_NULL, "out = NULL: the address of a pointer is accepted");
    smla_step *step = calloc(1, sizeof *step);
    if (!step || !open_lanes(&step->lanes, &plan->info)) {
        if (step)
            close_lanes(&step->lanes);
        free(step);
        return smla__fail(detail, SMLA_ERROR_MEMORY,
                          "no memory for a step of %" PRId64 " rows and %" PRId64 " x %" PRId64 " blocks",
                          plan->info.max_rows, plan->info.max_requests, plan->info.max_blocks);
    }
    step->plan = plan;
    smla_status status = plan->context->backend->step_open(step);
    if (status != SMLA_OK) {
        close_lanes(&step->lanes);
        free(step);
        return status;
    }
    *out = step;
    return SMLA_OK;
}

void smla_step_destroy(smla_step *step)
{
    if (!step)
        return;
    step->plan->context->backend->step_close(step);
    close_lanes(&step->lanes);
    free(step);
}

/* ---- Checks of a batch ---- */

static smla_status check_count(const char *name, int64_t value, int64_t maximum, struct smla__detail *detail)
{
    if (value < 0)
        return smla__fail(detail, SMLA_ERROR_ARGUMENT, "%s = %" PRId64 ": 0 or more is accepted", name,
                          value);
    if (value > maximum)
        return smla__fail(detail, SMLA_ERROR_LIMIT, "%s = %" PRId64 ": the plan accepts at most %" PRId64,
                          name, value, maximum);
    return SMLA_OK;
}

static smla_status check_counts(const smla_plan *plan, const smla_batch *batch, struct smla__detail *detail)
{
    smla_status status = check_count("requests", batch->requests, plan->info.max_requests, detail);
    if (status == SMLA_OK)
        status = check_count("rows", batch->rows, plan->info.max_rows, detail);
    if (status == SMLA_OK)
        status = check_count("cache_blocks", batch->cache_blocks, INT64_MAX, detail);
    if (status == SMLA_OK && batch->requests && batch->block_table)
        status = check_count("block_table_width", batch->block_table_width, plan->info.max_blocks, detail);
    return status;
}

static smla_status check_pointers(const smla_plan *plan, const smla_batch *batch, struct smla__detail *detail)
{
    bool table = plan->problem.topk_kind == SMLA_TOPK_POSITIONS && batch->rows;
    const char *missing = !batch->query_start_loc        ? "query_start_loc"
                          : !batch->seq_lens             ? "seq_lens"
                          : table && !batch->block_table ? "block_table"
                                                         : NULL;
    if (missing)
        return smla__fail(detail, SMLA_ERROR_NULL,
                          "%s = NULL: an array over %" PRId64 " requests is accepted", missing,
                          batch->requests);
    const struct smla__array starts = {.name = "query_start_loc",
                                       .outer_name = "query_start_loc stride",
                                       .inner_name = "query_start_loc stride",
                                       .data = batch->query_start_loc,
                                       .align = sizeof(int32_t)};
    struct smla__array lens = starts;
    lens.name = "seq_lens";
    lens.data = batch->seq_lens;
    smla_status status = smla__check_array(&starts, detail);
    if (status == SMLA_OK)
        status = smla__check_array(&lens, detail);
    if (status != SMLA_OK || !batch->block_table)
        return status;
    const struct smla__array array = {"block_table",
                                      "block_table_stride",
                                      "block_table element stride",
                                      batch->block_table,
                                      batch->requests,
                                      batch->block_table_stride,
                                      batch->block_table_width,
                                      sizeof(int32_t),
                                      sizeof(int32_t),
                                      sizeof(int32_t),
                                      false};
    return smla__check_array(&array, detail);
}

static smla_status check_starts(const smla_batch *batch, struct smla__detail *detail)
{
    const int32_t *starts = batch->query_start_loc;
    if (starts[0] != 0)
        return smla__fail(detail, SMLA_ERROR_QUERY_START, "query_start_loc[0] = %" PRId32 ": 0 is accepted",
                          starts[0]);
    for (int64_t r = 0; r < batch->requests; r++)
        if (starts[r + 1] < starts[r])
            return smla__fail(detail, SMLA_ERROR_QUERY_START,
                              "query_start_loc[%" PRId64 "] = %" PRId32 ": %" PRId32 " or more is accepted",
                              r + 1, starts[r + 1], starts[r]);
    if (starts[batch->requests] != batch->rows)
        return smla__fail(detail, SMLA_ERROR_ROW_TOTAL,
                          "query_start_loc[%" PRId64 "] = %" PRId32 ": rows = %" PRId64 " is accepted",
                          batch->requests, starts[batch->requests], batch->rows);
    return SMLA_OK;
}

static const int32_t *table_of(const smla_batch *batch, int64_t request)
{
    return (const int32_t *)((const char *)batch->block_table + request * batch->block_table_stride);
}

/* Blocks of this rank that a request's positions reach. */
static int64_t blocks_needed(const smla_plan *plan, int64_t seq_len)
{
    int64_t local = smla__local_length(&plan->problem, seq_len);
    return (local + plan->problem.block_size - 1) / plan->problem.block_size;
}

static smla_status check_request(const smla_plan *plan, const smla_batch *batch, int64_t r,
                                 struct smla__detail *detail)
{
    int32_t rows = batch->query_start_loc[r + 1] - batch->query_start_loc[r];
    int32_t seq_len = batch->seq_lens[r];
    if (seq_len < 0 || seq_len < rows)
        return smla__fail(detail, SMLA_ERROR_SEQ_LEN,
                          "seq_lens[%" PRId64 "] = %" PRId32 ": %" PRId32
                          " (the request's query rows) or more is accepted",
                          r, seq_len, rows);
    if (rows == 0 || !batch->block_table)
        return SMLA_OK;
    int64_t needed = blocks_needed(plan, seq_len);
    if (needed > batch->block_table_width)
        return smla__fail(detail, SMLA_ERROR_BLOCK_TABLE,
                          "block_table_width = %" PRId64 ": request %" PRId64 " with seq_len %" PRId32
                          " needs %" PRId64,
                          batch->block_table_width, r, seq_len, needed);
    const int32_t *table = table_of(batch, r);
    for (int64_t b = 0; b < needed; b++)
        if (table[b] >= batch->cache_blocks)
            return smla__fail(detail, SMLA_ERROR_BLOCK_ID,
                              "block_table[%" PRId64 "][%" PRId64 "] = %" PRId32
                              ": an id below cache_blocks = %" PRId64 " (or negative) is accepted",
                              r, b, table[b], batch->cache_blocks);
    return SMLA_OK;
}

static smla_status check_batch(const smla_plan *plan, const smla_batch *batch, struct smla__detail *detail)
{
    smla_status status = check_counts(plan, batch, detail);
    if (status != SMLA_OK)
        return status;
    if (batch->requests == 0)
        return batch->rows == 0
                   ? SMLA_OK
                   : smla__fail(detail, SMLA_ERROR_ROW_TOTAL,
                                "rows = %" PRId64 ": 0 is accepted when requests = 0", batch->rows);
    status = check_pointers(plan, batch, detail);
    if (status == SMLA_OK)
        status = check_starts(batch, detail);
    for (int64_t r = 0; r < batch->requests && status == SMLA_OK; r++)
        status = check_request(plan, batch, r, detail);
    return status;
}

/* ---- Taking a batch in ---- */

static void copy_requests(const smla_plan *plan, const smla_batch *batch, struct smla__lanes *lanes)
{
    lanes->block_table_width = batch->block_table ? batch->block_table_width : 0;
    lanes->cache_blocks = batch->cache_blocks;
    for (int64_t r = 0; r < batch->requests; r++) {
        int32_t rows = batch->query_start_loc[r + 1] - batch->query_start_loc[r];
        lanes->seq_lens[r] = batch->seq_lens[r];
        if (rows && batch->block_table)
            memcpy(lanes->block_table + r * plan->info.max_blocks, table_of(batch, r),
                   (size_t)blocks_needed(plan, batch->seq_lens[r]) * sizeof(int32_t));
    }
}

/* Counts requests and rows of both lanes and sees whether all have the same number of rows. */
static void count_lanes(const smla_plan *plan, const smla_batch *batch, smla_step_info *info)
{
    bool uniform = true;
    int32_t first = 0;
    for (int64_t r = 0; r < batch->requests; r++) {
        int32_t rows = batch->query_start_loc[r + 1] - batch->query_start_loc[r];
        if (rows == 0)
            continue;
        bool decode = rows <= plan->info.decode_rows_max;
        first = first ? first : rows;
        uniform = uniform && decode && rows == first;
        info->decode_requests += decode;
        info->decode_rows += decode ? rows : 0;
        info->prefill_requests += !decode;
        info->prefill_rows += decode ? 0 : rows;
    }
    info->uniform_rows = uniform ? first : 0;
}

static void fill_lanes(const smla_plan *plan, const smla_batch *batch, struct smla__lanes *lanes)
{
    smla_step_info info = {.struct_size = sizeof info,
                           .requests = batch->requests,
                           .rows = batch->rows,
                           .order_kept = 1,
                           .row_request = lanes->row_request,
                           .lane_rows = lanes->lane_rows};
    count_lanes(plan, batch, &info);
    int64_t decode = 0, prefill = info.decode_rows;
    for (int64_t r = 0; r < batch->requests; r++) {
        int32_t start = batch->query_start_loc[r], end = batch->query_start_loc[r + 1];
        int64_t *next = end - start <= plan->info.decode_rows_max ? &decode : &prefill;
        for (int32_t row = start; row < end; row++) {
            info.order_kept &= *next == row;
            lanes->row_request[row] = (int32_t)r;
            lanes->lane_rows[(*next)++] = row;
        }
    }
    lanes->info = info;
}

smla_status smla_step_update(smla_step *step, const smla_batch *batch, struct CUstream_st *stream)
{
    if (!step)
        return SMLA_ERROR_NULL;
    const smla_plan *plan = step->plan;
    struct smla__detail *detail = &plan->context->detail;
    if (!batch)
        return smla__fail(detail, SMLA_ERROR_NULL, "batch = NULL: a filled smla_batch is accepted");
    if (batch->struct_size != sizeof *batch)
        return smla__fail(detail, SMLA_ERROR_STRUCT_SIZE,
                          "batch.struct_size = %zu: %zu is accepted (call smla_batch_init)",
                          batch->struct_size, sizeof *batch);
    const struct smla__backend *backend = plan->context->backend;
    smla_status status = check_batch(plan, batch, detail);
    if (status == SMLA_OK && backend->step_begin)
        status = backend->step_begin(step, stream);
    if (status != SMLA_OK)
        return status;
    copy_requests(plan, batch, &step->lanes);
    fill_lanes(plan, batch, &step->lanes);
    /* A failed copy may have left a mixture behind. */
    status = backend->step_upload(step, stream);
    step->ready = status == SMLA_OK;
    return status;
}

smla_status smla_step_get_info(const smla_step *step, smla_step_info *info)
{
    if (!step)
        return SMLA_ERROR_NULL;
    struct smla__detail *detail = &step->plan->context->detail;
    if (!info)
        return smla__fail(detail, SMLA_ERROR_NULL, "info = NULL: a smla_step_info is accepted");
    if (info->struct_size != sizeof *info)
        return smla__fail(detail, SMLA_ERROR_STRUCT_SIZE, "info.struct_size = %zu: %zu is accepted",
                          info->struct_size, sizeof *info);
    if (!step->ready)
        return smla__fail(detail, SMLA_ERROR_STEP, "step: holds no batch yet; call smla_step_update first");
    *info = step->lanes.info;
    return SMLA_OK;
}
