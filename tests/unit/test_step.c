#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { REQUESTS = 4, ROWS = 9, WIDTH = 5, BLOCKS = 40 };

/* A plan and step, and a good batch to spoil: rows 1, 0, 6, 2. */
struct bench {
    smla_context *context;
    smla_plan *plan;
    smla_step *step;
    smla_problem problem;
    smla_plan_options maxima;
    smla_batch batch;
    int32_t start[REQUESTS + 1], seq_lens[REQUESTS], table[REQUESTS][WIDTH];
};

static void bench_init(struct bench *b)
{
    *b = (struct bench){.start = {0, 1, 1, 7, 9}, .seq_lens = {70, 0, 80, 2}};
    for (int32_t i = 0; i < REQUESTS * WIDTH; i++)
        b->table[i / WIDTH][i % WIDTH] = i;
    smla_problem_init(&b->problem);
    b->problem.heads = 16;
    b->problem.block_size = 16;
    smla_plan_options_init(&b->maxima);
    b->maxima.max_rows = 12;
    b->maxima.max_requests = 6;
    b->maxima.max_blocks = 7;
    b->maxima.decode_rows_max = 4;
    smla_batch_init(&b->batch);
    b->batch.requests = REQUESTS;
    b->batch.rows = ROWS;
    b->batch.query_start_loc = b->start;
    b->batch.seq_lens = b->seq_lens;
    b->batch.block_table = b->table[0];
    b->batch.block_table_width = WIDTH;
    b->batch.block_table_stride = sizeof b->table[0];
    b->batch.cache_blocks = BLOCKS;
}

static void bench_open(struct bench *b)
{
    assert_int_equal(open_context(&b->context, &(const struct setting){.threads = 1}), SMLA_OK);
    assert_int_equal(smla_plan_create(&b->plan, b->context, &b->problem, &b->maxima), SMLA_OK);
    assert_int_equal(smla_step_create(&b->step, b->plan), SMLA_OK);
}

static void bench_close(struct bench *b)
{
    smla_step_destroy(b->step);
    smla_plan_destroy(b->plan);
    smla_context_destroy(b->context);
}

static smla_step_info info_of(const struct bench *b)
{
    smla_step_info info = {.struct_size = sizeof info};
    assert_int_equal(smla_step_get_info(b->step, &info), SMLA_OK);
    return info;
}

static void step_null_arguments(void **state)
{
    (void)state;
    struct bench b;
    smla_step *step;
    smla_step_info info = {.struct_size = sizeof info};
    bench_init(&b);
    bench_open(&b);
    assert_int_equal(smla_step_create(NULL, b.plan), SMLA_ERROR_NULL);
    assert_int_equal(smla_step_create(&step, NULL), SMLA_ERROR_NULL);
    assert_int_equal(smla_step_update(NULL, &b.batch, NULL), SMLA_ERROR_NULL);
    assert_int_equal(smla_step_update(b.step, NULL, NULL), SMLA_ERROR_NULL);
    assert_int_equal(smla_step_get_info(NULL, &info), SMLA_ERROR_NULL);
    assert_int_equal(smla_step_get_info(b.step, NULL), SMLA_ERROR_NULL);
    assert_non_null(strstr(smla_context_error(b.context), "info = NULL"));
    assert_int_equal(smla_step_get_info(b.step, &info), SMLA_ERROR_STEP);
    assert_int_equal(smla_step_update(b.step, &b.batch, NULL), SMLA_OK);
    info.struct_size = 1;
    assert_int_equal(smla_step_get_info(b.step, &info), SMLA_ERROR_STRUCT_SIZE);
    smla_step_destroy(NULL);
    bench_close(&b);
}

static void step_lanes(void **state)
{
    (void)state;
    static const int32_t requests[ROWS] = {0, 2, 2, 2, 2, 2, 2, 3, 3},
                         lanes[ROWS] = {0, 7, 8, 1, 2, 3, 4, 5, 6};
    struct bench b;
    bench_init(&b);
    bench_open(&b);
    assert_int_equal(smla_step_update(b.step, &b.batch, NULL), SMLA_OK);
    smla_step_info info = info_of(&b);
    assert_true(info.requests == 4 && info.rows == 9);
    assert_true(info.decode_requests == 2 && info.decode_rows == 3);
    assert_true(info.prefill_requests == 1 && info.prefill_rows == 6);
    assert_int_equal(info.uniform_rows, 0);
    assert_int_equal(info.order_kept, 0);
    assert_memory_equal(info.row_request, requests, sizeof requests);
    assert_memory_equal(info.lane_rows, lanes, sizeof lanes);
    bench_close(&b);
}

/* What the header says, counted the long way. */
static void expect_lanes(const smla_step_info *info, const int32_t *start, int64_t requests,
                         int32_t decode_max)
{
    int64_t counts[2] = {0}, rows[2] = {0}, at = 0;
    int32_t first = 0, uniform = 1, kept = 1;
    for (int lane = 0; lane < 2; lane++)
        for (int64_t r = 0; r < requests; r++) {
            int32_t length = start[r + 1] - start[r];
            if (length == 0 || (length > decode_max) != lane)
                continue;
            counts[lane]++;
            rows[lane] += length;
            uniform &= lane == 0 && (first == 0 || length == first);
            first = length;
            for (int32_t t = start[r]; t < start[r + 1]; t++) {
                kept &= at == t;
                assert_int_equal(info->lane_rows[at++], t);
                assert_int_equal(info->row_request[t], r);
            }
        }
    assert_true(info->decode_requests == counts[0] && info->decode_rows == rows[0]);
    assert_true(info->prefill_requests == counts[1] && info->prefill_rows == rows[1]);
    assert_true(info->requests == requests && info->rows == start[requests]);
    assert_int_equal(info->uniform_rows, uniform ? first : 0);
    assert_int_equal(info->order_kept, kept);
}

static void step_random_batches(void **state)
{
    (void)state;
    enum { MAX = 30 };
    struct rng rng = {3};
    struct bench b;
    int32_t start[MAX + 1] = {0}, seq_lens[MAX], table[MAX] = {0};
    bench_init(&b);
    b.maxima.max_rows = 9 * MAX;
    b.maxima.max_requests = MAX;
    b.maxima.max_blocks = 1;
    b.problem.block_size = 1000;
    bench_open(&b);
    const int32_t *row_request = NULL, *lane_rows = NULL;
    for (int i = 0; i < 2000; i++) {
        int64_t requests = rng_below(&rng, MAX + 1), spread = 1 + rng_below(&rng, 9),
                base = rng_below(&rng, 3);
        for (int64_t r = 0; r < requests; r++) {
            int32_t rows = (int32_t)(i % 3 ? rng_below(&rng, spread) : rng_below(&rng, 4) ? base : 0);
            start[r + 1] = start[r] + rows;
            seq_lens[r] = rows + (int32_t)rng_below(&rng, 900);
        }
        b.batch = (smla_batch){sizeof b.batch, requests, start[requests], start, seq_lens, table, 1, 4, 1};
        assert_int_equal(smla_step_update(b.step, &b.batch, NULL), SMLA_OK);
        smla_step_info info = info_of(&b);
        expect_lanes(&info, start, requests, 4);
        assert_true(i == 0 || (info.row_request == row_request && info.lane_rows == lane_rows));
        row_request = info.row_request;
        lane_rows = info.lane_rows;
    }
    bench_close(&b);
}

static void step_uniform_batches(void **state)
{
    (void)state;
    static const struct {
        int32_t start[REQUESTS + 1];
        int32_t uniform, kept;
    } cases[] = {
        {{0, 1, 2, 3, 4}, 1, 1}, {{0, 2, 4, 6, 8}, 2, 1}, {{0, 0, 2, 4, 4}, 2, 1},
        {{0, 0, 0, 0, 0}, 0, 1}, {{0, 1, 3, 4, 5}, 0, 1}, {{0, 4, 8, 8, 8}, 4, 1},
        {{0, 5, 5, 5, 5}, 0, 1}, {{0, 1, 6, 6, 6}, 0, 1}, {{0, 5, 6, 6, 6}, 0, 0},
    };
    struct bench b;
    bench_init(&b);
    bench_open(&b);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        memcpy(b.start, cases[i].start, sizeof b.start);
        memcpy(b.seq_lens, (int32_t[]){9, 9, 9, 9}, sizeof b.seq_lens);
        b.batch.rows = b.start[REQUESTS];
        assert_int_equal(smla_step_update(b.step, &b.batch, NULL), SMLA_OK);
        smla_step_info info = info_of(&b);
        assert_int_equal(info.uniform_rows, cases[i].uniform);
        assert_int_equal(info.order_kept, cases[i].kept);
    }
    bench_close(&b);
}

/* One row more than the threshold is prefill, for the default of every kind of head count. */
static void step_thresholds(void **state)
{
    (void)state;
    static const int32_t cases[][2] = {{8, 128},    {16, 128},  {32, 128}, {64, 256},
                                       {128, 1024}, {24, 1024}, {1, 1024}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        for (int32_t over = 0; over < 2; over++) {
            struct bench b;
            int32_t rows = cases[i][1] + over;
            bench_init(&b);
            b.problem.heads = cases[i][0];
            b.problem.block_size = 2000;
            b.maxima.max_rows = 2000;
            b.maxima.decode_rows_max = 0;
            bench_open(&b);
            memcpy(b.start, (int32_t[]){0, rows}, 8);
            b.seq_lens[0] = rows;
            b.batch.requests = 1;
            b.batch.rows = rows;
            assert_int_equal(smla_step_update(b.step, &b.batch, NULL), SMLA_OK);
            smla_step_info info = info_of(&b);
            assert_int_equal(info.decode_rows, over ? 0 : rows);
            assert_int_equal(info.prefill_rows, over ? rows : 0);
            bench_close(&b);
        }
}

/* ---- Malformed batches: each spoils the good one in a single way ---- */

static void null_starts(struct bench *b)
{
    b->batch.query_start_loc = NULL;
}
static void null_seq_lens(struct bench *b)
{
    b->batch.seq_lens = NULL;
}
static void null_table(struct bench *b)
{
    b->batch.block_table = NULL;
}
static void no_struct_size(struct bench *b)
{
    b->batch.struct_size = 0;
}
static void negative_requests(struct bench *b)
{
    b->batch.requests = -1;
}
static void negative_rows(struct bench *b)
{
    b->batch.rows = -9;
}
static void negative_width(struct bench *b)
{
    b->batch.block_table_width = -1;
}
static void negative_blocks(struct bench *b)
{
    b->batch.cache_blocks = -1;
}
static void too_many_requests(struct bench *b)
{
    b->batch.requests = 7;
}
static void too_many_rows(struct bench *b)
{
    b->batch.rows = 13;
}
static void too_wide(struct bench *b)
{
    b->batch.block_table_width = 8;
}
static void huge_requests(struct bench *b)
{
    b->batch.requests = INT64_MAX;
}
static void huge_rows(struct bench *b)
{
    b->batch.rows = INT64_MAX;
}
static void first_not_zero(struct bench *b)
{
    b->start[0] = 1;
}
static void first_negative(struct bench *b)
{
    b->start[0] = -1;
}
static void decreasing(struct bench *b)
{
    b->start[2] = 0;
}
static void decreasing_far(struct bench *b)
{
    b->start[1] = INT32_MAX;
}
static void total_below(struct bench *b)
{
    b->batch.rows = 8;
}
static void total_above(struct bench *b)
{
    b->batch.rows = 10;
}
static void rows_without_requests(struct bench *b)
{
    b->batch.requests = 0;
}
static void negative_seq_len(struct bench *b)
{
    b->seq_lens[0] = -1;
}
static void least_seq_len(struct bench *b)
{
    b->seq_lens[3] = INT32_MIN;
}
static void seq_len_below_rows(struct bench *b)
{
    b->seq_lens[2] = 5;
}
static void padded_seq_len_negative(struct bench *b)
{
    b->seq_lens[1] = -1;
}
static void seq_len_too_long(struct bench *b)
{
    b->seq_lens[0] = 81;
}
static void seq_len_huge(struct bench *b)
{
    b->seq_lens[2] = INT32_MAX;
}
static void no_width(struct bench *b)
{
    b->batch.block_table_width = 0;
}
static void id_beyond(struct bench *b)
{
    b->table[0][4] = BLOCKS;
}
static void id_huge(struct bench *b)
{
    b->table[2][0] = INT32_MAX;
}
static void no_cache(struct bench *b)
{
    b->batch.cache_blocks = 0;
}
static void starts_misaligned(struct bench *b)
{
    b->batch.query_start_loc = (const int32_t *)(const void *)((const char *)b->start + 1);
}
static void seq_lens_misaligned(struct bench *b)
{
    b->batch.seq_lens = (const int32_t *)(const void *)((const char *)b->seq_lens + 2);
}
static void table_stride_negative(struct bench *b)
{
    b->batch.block_table_stride = -20;
}

static const struct {
    const char *name;
    void (*spoil)(struct bench *);
    smla_status status;
    const char *fact;
} malformed[] = {
    {"null_starts", null_starts, SMLA_ERROR_NULL, "query_start_loc"},
    {"null_seq_lens", null_seq_lens, SMLA_ERROR_NULL, "seq_lens"},
    {"null_table", null_table, SMLA_ERROR_NULL, "block_table"},
    {"starts_misaligned", starts_misaligned, SMLA_ERROR_ALIGNMENT, "query_start_loc = 0x"},
    {"seq_lens_misaligned", seq_lens_misaligned, SMLA_ERROR_ALIGNMENT, "seq_lens = 0x"},
    {"no_struct_size", no_struct_size, SMLA_ERROR_STRUCT_SIZE, "struct_size"},
    {"negative_requests", negative_requests, SMLA_ERROR_ARGUMENT, "requests = -1"},
    {"negative_rows", negative_rows, SMLA_ERROR_ARGUMENT, "rows = -9"},
    {"negative_width", negative_width, SMLA_ERROR_ARGUMENT, "block_table_width = -1"},
    {"negative_blocks", negative_blocks, SMLA_ERROR_ARGUMENT, "cache_blocks = -1"},
    {"too_many_requests", too_many_requests, SMLA_ERROR_LIMIT, "requests = 7"},
    {"too_many_rows", too_many_rows, SMLA_ERROR_LIMIT, "rows = 13"},
    {"too_wide", too_wide, SMLA_ERROR_LIMIT, "block_table_width = 8"},
    {"huge_requests", huge_requests, SMLA_ERROR_LIMIT, "requests = 9223372036854775807"},
    {"huge_rows", huge_rows, SMLA_ERROR_LIMIT, "rows = 9223372036854775807"},
    {"first_not_zero", first_not_zero, SMLA_ERROR_QUERY_START, "query_start_loc[0] = 1"},
    {"first_negative", first_negative, SMLA_ERROR_QUERY_START, "query_start_loc[0] = -1"},
    {"decreasing", decreasing, SMLA_ERROR_QUERY_START, "query_start_loc[2] = 0"},
    {"decreasing_far", decreasing_far, SMLA_ERROR_QUERY_START, "query_start_loc[2] = 1"},
    {"total_below", total_below, SMLA_ERROR_ROW_TOTAL, "rows = 8"},
    {"total_above", total_above, SMLA_ERROR_ROW_TOTAL, "rows = 10"},
    {"rows_without_requests", rows_without_requests, SMLA_ERROR_ROW_TOTAL, "rows = 9"},
    {"negative_seq_len", negative_seq_len, SMLA_ERROR_SEQ_LEN, "seq_lens[0] = -1"},
    {"least_seq_len", least_seq_len, SMLA_ERROR_SEQ_LEN, "seq_lens[3] = -2147483648"},
    {"seq_len_below_rows", seq_len_below_rows, SMLA_ERROR_SEQ_LEN, "seq_lens[2] = 5"},
    {"padded_seq_len_negative", padded_seq_len_negative, SMLA_ERROR_SEQ_LEN, "seq_lens[1] = -1"},
    {"seq_len_too_long", seq_len_too_long, SMLA_ERROR_BLOCK_TABLE, "seq_len 81"},
    {"seq_len_huge", seq_len_huge, SMLA_ERROR_BLOCK_TABLE, "request 2"},
    {"no_width", no_width, SMLA_ERROR_BLOCK_TABLE, "block_table_width = 0"},
    {"id_beyond", id_beyond, SMLA_ERROR_BLOCK_ID, "block_table[0][4] = 40"},
    {"id_huge", id_huge, SMLA_ERROR_BLOCK_ID, "block_table[2][0] = 2147483647"},
    {"no_cache", no_cache, SMLA_ERROR_BLOCK_ID, "cache_blocks = 0"},
};

static void step_malformed_batches(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(malformed); i++) {
        struct bench b;
        bench_init(&b);
        bench_open(&b);
        assert_int_equal(smla_step_update(b.step, &b.batch, NULL), SMLA_OK);
        smla_step_info before = info_of(&b);
        int32_t requests[ROWS], lanes[ROWS];
        memcpy(requests, before.row_request, sizeof requests);
        memcpy(lanes, before.lane_rows, sizeof lanes);
        malformed[i].spoil(&b);
        smla_status status = smla_step_update(b.step, &b.batch, NULL);
        if (status != malformed[i].status || !strstr(smla_context_error(b.context), malformed[i].fact))
            fail_msg("%s: %s: %s", malformed[i].name, smla_status_name(status),
                     smla_context_error(b.context));
        smla_step_info after = info_of(&b);
        assert_memory_equal(&before, &after, sizeof before);
        assert_memory_equal(after.row_request, requests, sizeof requests);
        assert_memory_equal(after.lane_rows, lanes, sizeof lanes);
        bench_close(&b);
    }
}

/* Negative strides are refused; which code is the library's choice of two. */
static void step_negative_table_stride(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    bench_open(&b);
    table_stride_negative(&b);
    smla_status status = smla_step_update(b.step, &b.batch, NULL);
    assert_true(status == SMLA_ERROR_ARGUMENT || status == SMLA_ERROR_STRIDE);
    assert_non_null(strstr(smla_context_error(b.context), "block_table_stride = -20"));
    bench_close(&b);
}

/* Accepted: negative ids (no block), anything past what a request owns, and tables of requests without rows. */
static void step_lenient_tables(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    bench_open(&b);
    b.table[0][2] = -5;
    b.table[3][1] = INT32_MAX; /* seq_len 2 owns one block of 16 */
    b.table[1][0] = INT32_MAX; /* no rows */
    assert_int_equal(smla_step_update(b.step, &b.batch, NULL), SMLA_OK);
    b.seq_lens[0] = 80; /* all five blocks */
    assert_int_equal(smla_step_update(b.step, &b.batch, NULL), SMLA_OK);
    bench_close(&b);
}

/* Lists of slots need no block table. */
static void step_without_table(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    b.problem.topk_kind = SMLA_TOPK_SLOTS;
    b.maxima.max_blocks = 0;
    bench_open(&b);
    b.batch.block_table = NULL;
    b.batch.block_table_width = 0;
    assert_int_equal(smla_step_update(b.step, &b.batch, NULL), SMLA_OK);
    assert_int_equal(info_of(&b).decode_rows, 3);
    bench_close(&b);
}

static void step_no_requests(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    bench_open(&b);
    smla_batch_init(&b.batch);
    assert_int_equal(smla_step_update(b.step, &b.batch, NULL), SMLA_OK);
    smla_step_info info = info_of(&b);
    assert_true(info.rows == 0 && info.requests == 0 && info.uniform_rows == 0 && info.order_kept == 1);
    bench_close(&b);
}

/* This rank's part of a sequence, by the width of table that is just enough: blocks of one row. */
static void step_dcp_local_lengths(void **state)
{
    (void)state;
    int32_t table[64] = {0}, start[2] = {0, 0}, length;
    for (int32_t world = 1; world <= 4; world *= 2)
        for (int32_t interleave = 1; interleave <= 4; interleave *= 2)
            for (int32_t rank = 0; rank < world; rank++) {
                struct bench b;
                bench_init(&b);
                b.problem.dcp_world_size = world;
                b.problem.dcp_rank = rank;
                b.problem.dcp_interleave = interleave;
                b.problem.block_size = 1;
                b.maxima.max_blocks = 64;
                bench_open(&b);
                for (length = 1; length <= 32; length++) {
                    int64_t local = 0;
                    for (int32_t p = 0; p < length; p++)
                        local += p / interleave % world == rank;
                    start[1] = 1;
                    b.batch = (smla_batch){sizeof b.batch, 1, 1, start, &length, table, local, 256, 1};
                    assert_int_equal(smla_step_update(b.step, &b.batch, NULL), SMLA_OK);
                    b.batch.block_table_width = local - 1;
                    if (local > 0)
                        assert_int_equal(smla_step_update(b.step, &b.batch, NULL), SMLA_ERROR_BLOCK_TABLE);
                }
                bench_close(&b);
            }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(step_null_arguments),
    cmocka_unit_test(step_lanes),
    cmocka_unit_test(step_random_batches),
    cmocka_unit_test(step_uniform_batches),
    cmocka_unit_test(step_thresholds),
    cmocka_unit_test(step_malformed_batches),
    cmocka_unit_test(step_negative_table_stride),
    cmocka_unit_test(step_lenient_tables),
    cmocka_unit_test(step_without_table),
    cmocka_unit_test(step_no_requests),
    cmocka_unit_test(step_dcp_local_lengths),
};

HARNESS_MAIN(tests)
