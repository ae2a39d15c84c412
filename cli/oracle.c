#include "oracle.h"

#include <math.h>
#include <ref_attn.h>
#include <stdlib.h>
#include <string.h>

int32_t *oracle_row_requests(const struct capture *capture)
{
    int32_t *row_request = malloc((size_t)capture->rows * sizeof *row_request);
    if (!row_request)
        return NULL;
    for (int64_t r = 0; r < capture->requests; r++)
        for (int64_t t = capture->query_start_loc[r]; t < capture->query_start_loc[r + 1]; t++)
            row_request[t] = (int32_t)r;
    return row_request;
}

static struct ref_problem problem_from(const struct capture *capture, const int32_t *row_request,
                                       int64_t first, int64_t count)
{
    return (struct ref_problem){
        .rows = count,
        .heads = capture->heads,
        .topk = capture->topk,
        .cache_blocks = capture->cache_blocks,
        .block_size = capture->block_size,
        .requests = capture->requests,
        .block_table_width = capture->block_table_width,
        .scale = capture->scale,
        .positions = 1,
        .dcp_world = 1,
        .dcp_interleave = 1,
        .q = capture->q + first * capture->heads * CAPTURE_ROW,
        .kv = capture->kv_cache,
        .topk_list = capture->topk_indices + first * capture->topk,
        .topk_length = capture->topk_length ? capture->topk_length + first : NULL,
        .row_request = row_request + first,
        .seq_lens = capture->seq_lens,
        .block_table = capture->block_table,
        .sinks = capture->sinks,
    };
}

bool oracle_attend(const struct capture *capture, const int32_t *row_request, int64_t first, int64_t count,
                   double *out, double *lse)
{
    const struct ref_problem problem = problem_from(capture, row_request, first, count);
    return ref_attend(&problem, out, lse) == 0;
}

int64_t oracle_valid_entries(const struct capture *capture, const int32_t *row_request)
{
    const struct ref_problem problem = problem_from(capture, row_request, 0, capture->rows);
    int64_t count = 0;
    for (int64_t t = 0; t < capture->rows; t++)
        for (int64_t entry = 0; entry < capture->topk; entry++)
            count += ref_slot(&problem, t, entry) >= 0;
    return count;
}

static double row_norm(const uint16_t *row)
{
    double square = 0;
    for (int c = 0; c < CAPTURE_ROW; c++) {
        uint32_t bits = (uint32_t)row[c] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        square += (double)value * (double)value;
    }
    return sqrt(square);
}

/* The larger one; norms of rows with NaN or Inf in them say nothing about rounding. */
static double larger(double a, double b)
{
    return isfinite(b) && b > a ? b : a;
}

double oracle_score_size(const struct capture *capture, const int32_t *row_request, int64_t t)
{
    const struct ref_problem problem = problem_from(capture, row_request, t, 1);
    double query = 0, key = 0;
    for (int64_t h = 0; h < capture->heads; h++)
        query = larger(query, row_norm(problem.q + h * CAPTURE_ROW));
    for (int64_t entry = 0; entry < capture->topk; entry++) {
        int64_t slot = ref_slot(&problem, 0, entry);
        if (slot >= 0)
            key = larger(key, row_norm(capture->kv_cache + slot * CAPTURE_ROW));
    }
    return fabs(capture->scale) * query * key;
}
