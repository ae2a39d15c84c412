/* A step's metadata on the device, and the record of checked plans. */
#include <args.h>
#include <string.h>

#include "fake_gpu.h"

/* A plan for positions, two requests of up to three blocks, with a step. */
struct stepped {
    struct small small;
    smla_step *step;
    smla_batch batch;
    int32_t starts[3], lens[2], table[2][4];
};

static void open_stepped(struct stepped *s, smla_context *context)
{
    small_init(&s->small);
    s->small.problem.topk_kind = SMLA_TOPK_POSITIONS;
    s->small.options.max_requests = 2;
    s->small.options.max_blocks = 4;
    small_open(&s->small, context, 3);
    CHECK(smla_step_create(&s->step, s->small.plan) == SMLA_OK);
    smla_batch_init(&s->batch);
    memcpy(s->starts, (const int32_t[]){0, 2, 3}, sizeof s->starts);
    memcpy(s->lens, (const int32_t[]){20, 33}, sizeof s->lens);
    memcpy(s->table, (const int32_t[2][4]){{3, 1, 99, 99}, {2, -1, 0, 99}}, sizeof s->table);
    s->batch.requests = 2;
    s->batch.rows = 3;
    s->batch.query_start_loc = s->starts;
    s->batch.seq_lens = s->lens;
    s->batch.block_table = s->table[0];
    s->batch.block_table_width = 3;
    s->batch.block_table_stride = sizeof s->table[0];
    s->batch.cache_blocks = 4;
}

static void close_stepped(struct stepped *s)
{
    smla_step_destroy(s->step);
    smla_plan_destroy(s->small.plan);
}

static const struct smla_lists *lists_of_run(struct stepped *s)
{
    CHECK(small_run(&s->small, s->step) == SMLA_OK);
    return &((const struct smla_decode_args *)last_launch()->arguments)->lists;
}

static void metadata(void)
{
    struct stepped s;
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    open_stepped(&s, context);
    CHECK(small_run(&s.small, s.step) == SMLA_ERROR_STEP);
    CHECK(smla_step_update(s.step, &s.batch, NULL) == SMLA_OK);
    const struct smla_lists *lists = lists_of_run(&s), first = *lists;
    CHECK(lists->positions && lists->step->rows == 3 && lists->step->requests == 2);
    CHECK(lists->step->table_width == 3 && lists->table_stride == 4);
    CHECK(memcmp(lists->row_request, (const int32_t[]){0, 0, 1}, 12) == 0);
    CHECK(memcmp(lists->seq_lens, (const int32_t[]){20, 33}, 8) == 0);
    CHECK(memcmp(lists->block_table, (const int32_t[]){3, 1, -1}, 12) == 0);
    CHECK(memcmp(lists->block_table + 4, (const int32_t[]){2, -1, 0}, 12) == 0);
    /* Another batch stands at the same addresses; requests without rows have no blocks. */
    memcpy(s.starts, (const int32_t[]){0, 0, 1}, sizeof s.starts);
    s.batch.rows = 1;
    s.lens[1] = 48;
    CHECK(smla_step_update(s.step, &s.batch, NULL) == SMLA_OK);
    lists = lists_of_run(&s);
    CHECK(lists->step == first.step && lists->row_request == first.row_request);
    CHECK(lists->seq_lens == first.seq_lens && lists->block_table == first.block_table);
    CHECK(lists->step->rows == 1 && lists->row_request[0] == 1 && lists->seq_lens[1] == 48);
    CHECK(lists->block_table[0] == -1 && lists->block_table[4] == 2 && lists->block_table[6] == 0);
    s.batch.requests = s.batch.rows = 0;
    CHECK(smla_step_update(s.step, &s.batch, NULL) == SMLA_OK);
    CHECK(lists_of_run(&s)->step->rows == 0);
    close_stepped(&s);
    smla_context_destroy(context);
    check_undisturbed(0);
}

static void step_metadata_arrive(void **state)
{
    (void)state;
    in_process(metadata);
}

/* Two buffers take turns: an update waits for the one before the last, never for the last. */
static void buffers(void)
{
    struct stepped s;
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    open_stepped(&s, context);
    int waits = fake()->waits, allocations = fake()->allocations;
    for (int i = 0; i < 6; i++) {
        CHECK(smla_step_update(s.step, &s.batch, NULL) == SMLA_OK);
        CHECK(fake()->waits - waits == (i < 2 ? 0 : i - 1));
    }
    CHECK(fake()->allocations == allocations);
    close_stepped(&s);
    smla_context_destroy(context);
}

static void step_buffers_take_turns(void **state)
{
    (void)state;
    in_process(buffers);
}

static void captured_stream(void)
{
    struct stepped s;
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    open_stepped(&s, context);
    CHECK(smla_step_update(s.step, &s.batch, NULL) == SMLA_OK);
    fake()->capturing = true;
    s.lens[0] = 21;
    int copies = fake()->copies;
    CHECK(smla_step_update(s.step, &s.batch, NULL) == SMLA_ERROR_ARGUMENT);
    check_text(context, "stream: is being captured");
    CHECK(fake()->copies == copies);
    CHECK(lists_of_run(&s)->seq_lens[0] == 20); /* a run may be captured, and sees the former batch */
    close_stepped(&s);
    smla_context_destroy(context);
    check_undisturbed(0);
}

static void update_of_a_captured_stream(void **state)
{
    (void)state;
    in_process(captured_stream);
}

/* A copy that fails leaves a step without a batch, not one with half of two. */
static void failed_upload(void)
{
    struct stepped s;
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    open_stepped(&s, context);
    CHECK(smla_step_update(s.step, &s.batch, NULL) == SMLA_OK);
    fake()->failing = "cuMemcpy2DAsync";
    fake()->fail_result = 719;
    CHECK(smla_step_update(s.step, &s.batch, NULL) == SMLA_ERROR_DEVICE);
    fake()->failing = NULL;
    CHECK(small_run(&s.small, s.step) == SMLA_ERROR_STEP);
    CHECK(smla_step_update(s.step, &s.batch, NULL) == SMLA_OK);
    CHECK(small_run(&s.small, s.step) == SMLA_OK);
    close_stepped(&s);
    smla_context_destroy(context);
}

static void update_that_fails(void **state)
{
    (void)state;
    in_process(failed_upload);
}

/* ---- Checked plans ---- */

static void unchecked(void)
{
    struct small small;
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    small_init(&small);
    small_open(&small, context, 1);
    CHECK(smla_plan_verify(small.plan, NULL) == SMLA_ERROR_ARGUMENT);
    check_text(context, "plan: is not checked");
    smla_plan_destroy(small.plan);
    smla_context_destroy(context);
}

/* The kernels that write the record do not run here: the test writes what they would. */
static void checked(void)
{
    struct small small;
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    small_init(&small);
    small.options.checked = 1;
    small_open(&small, context, 8);
    CHECK(small_run(&small, NULL) == SMLA_OK && fake()->launch_count == 3);
    CHECK(strcmp(fake()->launches[0].entry, "smla_check_lists") == 0);
    CHECK(strcmp(fake()->launches[1].entry, "smla_check_note") == 0);
    CHECK(strncmp(fake()->launches[2].entry, "smla_decode_", 12) == 0);
    const struct smla_check_args *args = (const struct smla_check_args *)fake()->launches[0].arguments;
    CHECK(args->rows == 8 && args->lists.topk == small.tensors.topk && args->lists.cache_blocks == 4);
    CHECK(smla_plan_verify(small.plan, NULL) == SMLA_OK);
    struct smla_offence *record = args->offence;
    *record =
        (struct smla_offence){.place = 6ull << 32 | 5, .noted = 6ull << 32 | 5, .value = 99999, .limit = 64};
    CHECK(smla_plan_verify(small.plan, NULL) == SMLA_ERROR_SLOT);
    check_text(context, "topk[6][5] = 99999: -1 or 0 .. 63 is accepted");
    CHECK(record->place == ~0ull && record->noted == ~0ull);
    CHECK(smla_plan_verify(small.plan, NULL) == SMLA_OK);
    *record = (struct smla_offence){.place = 1ull << 32 | 64, .noted = 1ull << 32 | 64, .value = -3};
    CHECK(smla_plan_verify(small.plan, NULL) == SMLA_ERROR_SLOT);
    check_text(context, "topk_length[1] = -3: 0 .. 64 is accepted");
    /* The place alone, where runs on several streams crossed. */
    *record = (struct smla_offence){.place = 2ull << 32 | 7, .noted = ~0ull};
    CHECK(smla_plan_verify(small.plan, NULL) == SMLA_ERROR_SLOT);
    check_text(context, "topk[2][7]: names no cache row");
    fake()->capturing = true;
    CHECK(smla_plan_verify(small.plan, NULL) == SMLA_ERROR_ARGUMENT);
    check_text(context, "stream: is being captured");
    smla_plan_destroy(small.plan);
    CHECK(fake()->memory == 0);
    smla_context_destroy(context);
    check_undisturbed(0);
}

static void checked_plan(void **state)
{
    (void)state;
    in_process(unchecked);
    in_process(checked);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(step_metadata_arrive),
    cmocka_unit_test(step_buffers_take_turns),
    cmocka_unit_test(update_of_a_captured_stream),
    cmocka_unit_test(update_that_fails),
    cmocka_unit_test(checked_plan),
};

HARNESS_MAIN(tests)
