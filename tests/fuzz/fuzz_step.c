/* Random batches. A good one gives the lanes that a recount confirms; a bad one a status, and the step keeps
 * what it had. Good and bad are told apart here independently of the library. */
#include <smla/smla.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"

enum { REQUESTS = 8, ROWS = 24, WIDTH = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz {
    smla_problem problem;
    smla_plan_options maxima;
    smla_batch batch;
    int32_t start[REQUESTS + 1], seq_lens[REQUESTS], table[REQUESTS * WIDTH];
};

static void require(int truth)
{
    if (!truth)
        abort();
}

static void make_plan(struct fuzz *f, struct bytes *bytes)
{
    smla_problem_init(&f->problem);
    smla_plan_options_init(&f->maxima);
    f->problem.heads = 1 + take_below(bytes, 16);
    f->problem.block_size = 1 + take_below(bytes, 9);
    f->problem.topk_kind = 1 + take_below(bytes, 2);
    f->problem.dcp_world_size = 1 << take_below(bytes, 3);
    f->problem.dcp_rank = take_below(bytes, f->problem.dcp_world_size);
    f->problem.dcp_interleave = 1 + take_below(bytes, 4);
    f->maxima.max_rows = take_below(bytes, ROWS + 1);
    f->maxima.max_requests = take_below(bytes, REQUESTS + 1);
    f->maxima.max_blocks = take_below(bytes, WIDTH + 1);
    f->maxima.decode_rows_max = take_below(bytes, 6);
}

static void make_batch(struct fuzz *f, struct bytes *bytes)
{
    int32_t requests = take_below(bytes, REQUESTS + 1), width = take_below(bytes, WIDTH + 1);
    int32_t blocks = take_below(bytes, 40);
    for (int32_t r = 0; r < REQUESTS; r++) {
        int32_t rows = take_below(bytes, 5);
        f->start[r + 1] = take_odd(bytes, plus(f->start[r], rows));
        f->seq_lens[r] = take_odd(bytes, rows + take_below(bytes, 20));
        for (int32_t b = 0; b < WIDTH; b++)
            f->table[r * WIDTH + b] = take_odd(bytes, blocks ? take_below(bytes, blocks) : -1);
    }
    f->start[0] = take_odd(bytes, 0);
    smla_batch_init(&f->batch);
    f->batch.requests = take_odd(bytes, requests);
    f->batch.rows = take_odd(bytes, f->start[requests]);
    f->batch.query_start_loc = f->start;
    f->batch.seq_lens = f->seq_lens;
    f->batch.block_table = take_byte(bytes) < 240 ? f->table : NULL;
    f->batch.block_table_width = take_odd(bytes, width);
    f->batch.block_table_stride = WIDTH * 4;
    f->batch.cache_blocks = take_odd(bytes, blocks);
}

static int64_t blocks_owned(const smla_problem *problem, int64_t seq_len)
{
    int64_t local = 0;
    for (int64_t p = 0; p < seq_len; p++)
        local += p / problem->dcp_interleave % problem->dcp_world_size == problem->dcp_rank;
    return (local + problem->block_size - 1) / problem->block_size;
}

static bool request_is_good(const struct fuzz *f, int64_t r)
{
    int64_t rows = (int64_t)f->start[r + 1] - f->start[r], seq_len = f->seq_lens[r];
    if (seq_len < 0 || seq_len < rows)
        return false;
    if (rows == 0 || !f->batch.block_table)
        return true;
    if (seq_len > 2 * WIDTH * 9 * 4) /* more than any width here could hold on any rank */
        return false;
    int64_t owned = blocks_owned(&f->problem, seq_len);
    if (owned > f->batch.block_table_width)
        return false;
    for (int64_t b = 0; b < owned; b++)
        if (f->table[r * WIDTH + b] >= f->batch.cache_blocks)
            return false;
    return true;
}

static bool batch_is_good(const struct fuzz *f)
{
    const smla_batch *batch = &f->batch;
    bool table = f->problem.topk_kind == SMLA_TOPK_POSITIONS;
    if (batch->requests < 0 || batch->rows < 0 || batch->cache_blocks < 0)
        return false;
    if (batch->requests > f->maxima.max_requests || batch->rows > f->maxima.max_rows)
        return false;
    if (batch->requests == 0)
        return batch->rows == 0;
    if (batch->block_table &&
        (batch->block_table_width < 0 || batch->block_table_width > f->maxima.max_blocks))
        return false;
    if (f->start[0] != 0 || (table && batch->rows && !batch->block_table))
        return false;
    for (int64_t r = 0; r < batch->requests; r++)
        if (f->start[r + 1] < f->start[r] || !request_is_good(f, r))
            return false;
    return f->start[batch->requests] == batch->rows;
}

static void recount(const struct fuzz *f, const smla_step_info *info, int32_t decode_max)
{
    int64_t at = 0, lanes[2] = {0};
    for (int lane = 0; lane < 2; lane++)
        for (int64_t r = 0; r < f->batch.requests; r++) {
            int32_t length = f->start[r + 1] - f->start[r];
            if ((length > decode_max) != lane)
                continue;
            lanes[lane] += length > 0;
            for (int32_t t = f->start[r]; t < f->start[r + 1]; t++) {
                require(info->lane_rows[at++] == t);
                require(info->row_request[t] == r);
            }
        }
    require(at == f->batch.rows && info->rows == at && info->requests == f->batch.requests);
    require(info->decode_requests == lanes[0] && info->prefill_requests == lanes[1]);
    require(info->decode_rows + info->prefill_rows == at);
}

static void try_batch(const struct fuzz *f, smla_context *context, smla_step *step, int32_t decode_max)
{
    smla_step_info before = {.struct_size = sizeof before}, after = before;
    smla_status had = smla_step_get_info(step, &before);
    smla_status status = smla_step_update(step, &f->batch, NULL);
    require((status == SMLA_OK) == batch_is_good(f));
    if (status == SMLA_OK) {
        require(smla_step_get_info(step, &after) == SMLA_OK);
        recount(f, &after, decode_max);
        return;
    }
    require(smla_context_error(context)[0] != '\0');
    require(smla_step_get_info(step, &after) == had);
    require(had != SMLA_OK || memcmp(&before, &after, sizeof before) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {data, size};
    struct fuzz f = {0};
    smla_context *context;
    smla_plan *plan;
    smla_step *step;
    smla_context_options options;
    smla_plan_info info = {.struct_size = sizeof info};
    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CPU;
    options.threads = 1;
    make_plan(&f, &bytes);
    require(smla_context_create(&context, &options) == SMLA_OK);
    require(smla_plan_create(&plan, context, &f.problem, &f.maxima) == SMLA_OK);
    require(smla_plan_get_info(plan, &info) == SMLA_OK);
    require(smla_step_create(&step, plan) == SMLA_OK);
    for (int i = 0; i < 4; i++) {
        make_batch(&f, &bytes);
        try_batch(&f, context, step, info.decode_rows_max);
        f.start[0] = 0;
    }
    smla_step_destroy(step);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
    return 0;
}
