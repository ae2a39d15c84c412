#include <limits.h>
#include <string.h>

#include "harness.h"
#include "internal.h"

enum { ROWS = 4, TOPK = 8, BLOCKS = 3, BLOCK = 16, PADDED = ROWS + 1 };

/* A checked plan on the CPU: two requests of two rows, 20 and 40 tokens long, their lists full of valid entries. */
struct checked {
    smla_context *context;
    smla_plan *plan;
    smla_step *step;
    smla_problem problem;
    smla_tensors tensors;
    struct guard workspace;
    int32_t lists[PADDED][TOPK], lengths[PADDED];
};

static uint16_t query[PADDED][576], cache[BLOCKS][BLOCK][576];
static float out[PADDED][512];

static void update(struct checked *c)
{
    static const int32_t table[2][3] = {{2, 1, 77}, {0, -1, 1}};
    smla_batch batch;
    smla_batch_init(&batch);
    batch.requests = 2;
    batch.rows = ROWS;
    batch.query_start_loc = (const int32_t[]){0, 2, 4};
    batch.seq_lens = (const int32_t[]){20, 40};
    batch.block_table = table[0];
    batch.block_table_width = 3;
    batch.block_table_stride = sizeof table[0];
    batch.cache_blocks = BLOCKS;
    assert_int_equal(smla_step_update(c->step, &batch, NULL), SMLA_OK);
}

static void open_checked(struct checked *c, int32_t kind, int32_t dcp_world)
{
    smla_plan_options options;
    *c = (struct checked){0};
    smla_problem_init(&c->problem);
    smla_plan_options_init(&options);
    c->problem.heads = 1;
    c->problem.topk = TOPK;
    c->problem.block_size = BLOCK;
    c->problem.topk_kind = kind;
    c->problem.out_dtype = SMLA_F32;
    c->problem.dcp_world_size = dcp_world;
    options.max_rows = PADDED;
    options.max_requests = 2;
    options.max_blocks = 3;
    options.checked = 1;
    assert_int_equal(open_context(&c->context, &(const struct setting){.threads = 2}), SMLA_OK);
    assert_int_equal(smla_plan_create(&c->plan, c->context, &c->problem, &options), SMLA_OK);
    assert_int_equal(smla_step_create(&c->step, c->plan), SMLA_OK);
    update(c);
    c->problem.heads = 1;
    smla_tensors_init(&c->tensors, &c->problem);
    c->tensors.q_row_stride = sizeof query[0];
    c->tensors.q_head_stride = 0;
    c->tensors.rows = PADDED;
    c->tensors.q = query;
    c->tensors.kv_cache = cache;
    c->tensors.cache_blocks = BLOCKS;
    c->tensors.topk = c->lists[0];
    c->tensors.topk_length = c->lengths;
    c->tensors.out = out;
    for (int t = 0; t < PADDED; t++) {
        c->lengths[t] = TOPK;
        for (int i = 0; i < TOPK; i++)
            c->lists[t][i] = i;
    }
    c->workspace = guard_open(smla_plan_workspace_bytes(c->plan), 0xff);
}

static void close_checked(struct checked *c)
{
    smla_step_destroy(c->step);
    smla_plan_destroy(c->plan);
    smla_context_destroy(c->context);
    guard_close(&c->workspace);
}

static void run(struct checked *c)
{
    assert_int_equal(smla_run(c->plan, c->step, &c->tensors, c->workspace.data, c->workspace.bytes, NULL),
                     SMLA_OK);
}

/* The run's verdict: NULL for nothing to complain of, else a part of the text. */
static void expect_verdict(struct checked *c, const char *text)
{
    smla_status status = smla_plan_verify(c->plan, NULL);
    if (status != (text ? SMLA_ERROR_SLOT : SMLA_OK) ||
        (text && !strstr(smla_context_error(c->context), text)))
        fail_msg("%s: '%s', expected '%s'", smla_status_name(status), smla_context_error(c->context),
                 text ? text : "");
    assert_int_equal(smla_plan_verify(c->plan, NULL), SMLA_OK); /* the record is cleared */
}

/* One spoilt entry at a time, in lists that are valid otherwise. */
static void verify_entries(void **state)
{
    (void)state;
    static const struct {
        int32_t kind, row, value;
        const char *text;
    } cases[] = {
        {SMLA_TOPK_SLOTS, 0, 0, NULL},
        {SMLA_TOPK_SLOTS, 3, -1, NULL},
        {SMLA_TOPK_SLOTS, 3, BLOCKS * BLOCK - 1, NULL},
        {SMLA_TOPK_SLOTS, 3, BLOCKS * BLOCK, "topk[3][5] = 48: -1 or 0 .. 47 is accepted"},
        {SMLA_TOPK_SLOTS, 2, -2, "topk[2][5] = -2: -1 or 0 .. 47 is accepted"},
        {SMLA_TOPK_SLOTS, 0, INT_MIN, "topk[0][5] = -2147483648: "},
        {SMLA_TOPK_SLOTS, 1, INT_MAX, "topk[1][5] = 2147483647: "},
        {SMLA_TOPK_SLOTS, ROWS, 99999, NULL}, /* a padded row */
        {SMLA_TOPK_POSITIONS, 1, 19, NULL},
        {SMLA_TOPK_POSITIONS, 1, 20, "topk[1][5] = 20: -1 or 0 .. 19 is accepted"},
        {SMLA_TOPK_POSITIONS, 2, 39, NULL},
        {SMLA_TOPK_POSITIONS, 2, 40, "topk[2][5] = 40: -1 or 0 .. 39 is accepted"},
        {SMLA_TOPK_POSITIONS, 3, 16, "topk[3][5] = 16: the table has no block of the cache for it"},
        {SMLA_TOPK_POSITIONS, 3, 32, NULL},
        {SMLA_TOPK_POSITIONS, 3, 31, "topk[3][5] = 31: the table has no block of the cache for it"},
        {SMLA_TOPK_POSITIONS, 3, 15, NULL},
        {SMLA_TOPK_POSITIONS, 0, -7, "topk[0][5] = -7: -1 or 0 .. 19 is accepted"},
        {SMLA_TOPK_POSITIONS, ROWS, -7, NULL},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct checked c;
        open_checked(&c, cases[i].kind, 1);
        c.lists[cases[i].row][5] = cases[i].value;
        run(&c);
        expect_verdict(&c, cases[i].text);
        c.lengths[cases[i].row] = 5; /* the entry is past the list's end then */
        run(&c);
        expect_verdict(&c, NULL);
        close_checked(&c);
    }
}

static void verify_lengths(void **state)
{
    (void)state;
    struct checked c;
    open_checked(&c, SMLA_TOPK_SLOTS, 1);
    c.lengths[2] = 0;
    run(&c);
    expect_verdict(&c, NULL);
    c.lengths[ROWS] = 1000; /* a padded row's */
    run(&c);
    expect_verdict(&c, NULL);
    c.lengths[2] = -1;
    run(&c);
    expect_verdict(&c, "topk_length[2] = -1: 0 .. 8 is accepted");
    c.lengths[2] = TOPK + 1;
    run(&c);
    expect_verdict(&c, "topk_length[2] = 9: 0 .. 8 is accepted");
    c.lists[2][7] = -9; /* entries stand before their length */
    run(&c);
    expect_verdict(&c, "topk[2][7] = -9");
    c.tensors.topk_length = NULL;
    c.lists[2][7] = 0;
    run(&c);
    expect_verdict(&c, NULL);
    close_checked(&c);
}

/* A run's cache may be smaller than its batch's, or empty. */
static void verify_small_caches(void **state)
{
    (void)state;
    struct checked c;
    open_checked(&c, SMLA_TOPK_POSITIONS, 1);
    c.tensors.cache_blocks = BLOCKS - 1;
    run(&c);
    expect_verdict(&c, "topk[0][0] = 0: the table has no block of the cache for it");
    close_checked(&c);
    open_checked(&c, SMLA_TOPK_SLOTS, 1);
    c.lists[0][0] = -1;
    c.tensors.cache_blocks = 0;
    run(&c);
    expect_verdict(&c, "topk[0][1] = 1: -1 is accepted");
    close_checked(&c);
}

/* A backend that found an offence and knows no more than its place. */
static int64_t place_row, place_entry;

static smla_status verify_place(smla_plan *plan, struct CUstream_st *stream, struct smla__offence *offence)
{
    (void)plan, (void)stream;
    *offence = (struct smla__offence){.found = place_row >= 0, .row = place_row, .entry = place_entry};
    place_row = -1;
    return SMLA_OK;
}

static void verify_places_alone(void **state)
{
    (void)state;
    static const struct {
        int32_t kind;
        int64_t row, entry;
        const char *text;
    } cases[] = {
        {SMLA_TOPK_SLOTS, 3, 5, "topk[3][5]: names no cache row; -1 or a slot of the cache is accepted"},
        {SMLA_TOPK_POSITIONS, 0, 0, "topk[0][0]: names no cache row; -1 or a position with a block is"},
        {SMLA_TOPK_SLOTS, 2, TOPK, "topk_length[2]: is outside 0 .. 8, which is accepted"},
        {SMLA_TOPK_SLOTS, INT32_MAX - 1, 1, "topk[2147483646][1]: names no cache row"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct checked c;
        open_checked(&c, cases[i].kind, 1);
        const struct smla__backend *backend = c.context->backend;
        struct smla__backend blind = *backend;
        blind.verify = verify_place;
        c.context->backend = &blind;
        place_row = cases[i].row;
        place_entry = cases[i].entry;
        expect_verdict(&c, cases[i].text);
        c.context->backend = backend;
        close_checked(&c);
    }
}

/* Runs whose first offences stand in one row, whichever comes first. */
static void verify_runs_of_one_row(void **state)
{
    (void)state;
    static const int32_t entries[][3] = {{5, 3, 6}, {3, 6, 5}, {6, 5, 3}, {TOPK, 3, 6}};
    for (size_t i = 0; i < ARRAY_LENGTH(entries); i++) {
        struct checked c;
        open_checked(&c, SMLA_TOPK_SLOTS, 1);
        for (int j = 0; j < 3; j++) {
            int32_t entry = entries[i][j], *place = entry == TOPK ? &c.lengths[2] : &c.lists[2][entry];
            int32_t valid = *place;
            *place = 100 + entry;
            run(&c);
            *place = valid;
        }
        expect_verdict(&c, "topk[2][3] = 103");
        close_checked(&c);
    }
}

/* The first offence of all runs since the last answer; slices count too; a refused run does not. */
static void verify_many_runs(void **state)
{
    (void)state;
    struct checked c;
    open_checked(&c, SMLA_TOPK_POSITIONS, 1);
    c.lists[3][6] = 100;
    run(&c);
    c.lists[2][7] = 101;
    c.lists[2][1] = 102;
    run(&c);
    c.lists[2][1] = c.lists[2][7] = c.lists[3][6] = -1;
    run(&c);
    expect_verdict(&c, "topk[2][1] = 102");
    c.lists[1][0] = 55;
    assert_int_equal(smla_slices_begin(c.plan, c.step, &c.tensors, c.workspace.data, c.workspace.bytes, 1),
                     SMLA_OK);
    assert_int_equal(smla_slice_run(c.plan, c.workspace.data, 0), SMLA_OK);
    expect_verdict(&c, "topk[1][0] = 55");
    assert_int_equal(smla_run(c.plan, NULL, &c.tensors, c.workspace.data, c.workspace.bytes, NULL),
                     SMLA_ERROR_NULL);
    expect_verdict(&c, NULL);
    c.tensors.rows = 0;
    run(&c);
    expect_verdict(&c, NULL);
    close_checked(&c);
}

/* Of two ranks each has every other position: the other's are no offence, nor is a block that is not ours. */
static void verify_under_dcp(void **state)
{
    (void)state;
    struct checked c;
    open_checked(&c, SMLA_TOPK_POSITIONS, 2);
    c.tensors.q_row_stride = c.tensors.out_row_stride = 0;
    c.tensors.out_row_stride = 4 * 2 * 512;
    static float wide[PADDED][2][512];
    c.tensors.out = wide;
    c.lists[1][4] = 19;
    c.lists[3][5] = 33; /* rank 1's */
    run(&c);
    expect_verdict(&c, NULL);
    c.lists[3][5] = 34; /* ours, at 17: in the block that is missing */
    run(&c);
    expect_verdict(&c, "topk[3][5] = 34: the table has no block of the cache for it");
    c.lists[3][5] = 41;
    run(&c);
    expect_verdict(&c, "topk[3][5] = 41: -1 or 0 .. 39 is accepted");
    close_checked(&c);
}

/* Results are those of a plan that is not checked. */
static void verify_changes_nothing(void **state)
{
    (void)state;
    struct checked c;
    smla_plan *plain;
    smla_plan_options options;
    static float again[PADDED][512];
    open_checked(&c, SMLA_TOPK_SLOTS, 1);
    for (size_t i = 0; i < sizeof cache / 2; i++)
        ((uint16_t *)cache)[i] = (uint16_t)(0x3f00 + i % 61);
    c.lists[0][2] = 4711;
    run(&c);
    smla_plan_options_init(&options);
    options.max_rows = PADDED;
    assert_int_equal(smla_plan_create(&plain, c.context, &c.problem, &options), SMLA_OK);
    c.tensors.out = again;
    assert_int_equal(smla_run(plain, NULL, &c.tensors, c.workspace.data, c.workspace.bytes, NULL), SMLA_OK);
    assert_memory_equal(out, again, ROWS * sizeof out[0]);
    assert_int_equal(smla_plan_verify(plain, NULL), SMLA_ERROR_ARGUMENT);
    assert_non_null(strstr(smla_context_error(c.context), "plan: is not checked"));
    assert_int_equal(smla_plan_verify(NULL, NULL), SMLA_ERROR_NULL);
    smla_plan_destroy(plain);
    close_checked(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(verify_entries),         cmocka_unit_test(verify_lengths),
    cmocka_unit_test(verify_small_caches),    cmocka_unit_test(verify_places_alone),
    cmocka_unit_test(verify_runs_of_one_row), cmocka_unit_test(verify_many_runs),
    cmocka_unit_test(verify_under_dcp),       cmocka_unit_test(verify_changes_nothing),
};

HARNESS_MAIN(tests)
