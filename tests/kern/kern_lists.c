/* Field cases: lists and which of their entries are valid. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness.h"

/* C01: a kernel took its running maximum from a wholly masked first tile and gave NaN. */
static void leading_gaps(int32_t topk, const int32_t *gaps, int64_t rows)
{
    struct scene scene;
    const struct scene_spec spec = {.name = "C01", .topk = topk, .heads = 3};
    scene_open_shared(&scene, &spec, rows, 40);
    for (int64_t t = 0; t < rows; t++) {
        int32_t *list = scene_list(&scene, t);
        for (int32_t i = 0; i < gaps[t]; i++)
            list[i] = t % 2 ? -1 : 40 + i;
        for (int32_t i = 0; i < 3; i++)
            list[gaps[t] + i] = (int32_t)(t + 5 * i) % 40;
    }
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    scene_close(&scene);
}

static void C01_leading_gap(void **state)
{
    (void)state;
    leading_gaps(64, (int32_t[]){1, 15, 16, 17, 61}, 5);
    leading_gaps(130, (int32_t[]){1, 15, 16, 17, 63, 64, 127}, 7);
    leading_gaps(2048, (int32_t[]){1, 15, 16, 17, 63, 64, 127, 128, 2045}, 9);
}

/* C02: an empty row took over its neighbour's sum. */
static void C02_empty_middle_row(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C02", .requests = 3, .contexts = (int32_t[]){90, 80, 70}};
    scene_build(&scene, &spec);
    FOR_EACH_ISA(isa)
    for (int32_t splits = 0; splits < 4; splits++) {
        struct setting setting = {.isa = isa, .threads = 2, .splits = splits};
        struct result full, empty;
        int32_t kept[64];
        memcpy(kept, scene_list(&scene, 1), sizeof kept);
        scene_run(&scene, &setting, &full);
        memset(scene_list(&scene, 1), 0xff, sizeof kept);
        scene_expect(&scene);
        scene_run(&scene, &setting, &empty);
        assert_true(result_right(&scene, &setting, &empty));
        assert_true(rows_same(&full, 0, &empty, 0));
        assert_true(rows_same(&full, 2, &empty, 2));
        assert_true(empty.lse[4] == -INFINITY);
        memcpy(scene_list(&scene, 1), kept, sizeof kept);
        result_close(&full);
        result_close(&empty);
    }
    scene_close(&scene);
}

/* C03: such entries were clamped to slot 0 and attended. Slot 0 is NaN here. */
static void C03_position_without_slot(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {
        .name = "C03", .requests = 3, .contexts = (int32_t[]){100, 37, 0}, .width_spare = 2};
    scene_open(&scene, &spec);
    for (int64_t t = 0; t < 3; t++)
        for (int32_t i = 0; i < 64; i += 3)
            scene_list(&scene, t)[i] = scene.seq_lens[t] + i / 2;
    for (int64_t b = 0; b < 3 * scene.ref.block_table_width; b++)
        if (b % 3 == 1 || scene.block_table[b] == 0)
            scene.block_table[b] = -1 - (int32_t)b;
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    FOR_EACH_ISA(isa)
    expect_right(&scene, &(const struct setting){.isa = isa, .threads = 2, .padded_rows = 5});
    scene_close(&scene);
}

/* C04: whole tiles past the active length were walked and their NaN multiplied by zero. */
static void past_the_length(int64_t rows)
{
    struct scene scene;
    const struct scene_spec spec = {.name = "C04", .topk = 100, .heads = 2, .lengths = LENGTHS_EXACT};
    scene_open_shared(&scene, &spec, rows, 80);
    for (int64_t t = 0; t < rows; t++) {
        scene.length[t] = 5;
        for (int32_t i = 0; i < 100; i++)
            scene_list(&scene, t)[i] = i < 5        ? 1 + (int32_t)(t * 7 + i * 11) % 79
                                       : i % 3 == 0 ? INT32_MAX
                                       : i % 3 == 1 ? -7
                                                    : (int32_t)(t + i) % 80;
        scene_list(&scene, t)[5] = 0;
    }
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    FOR_EACH_ISA(isa)
    {
        struct setting setting = {.isa = isa, .threads = 2};
        struct result garbage, padded;
        scene_run(&scene, &setting, &garbage);
        struct scene clean = scene;
        clean.topk = must_malloc(sizeof(int32_t) * 100 * (size_t)rows);
        clean.ref.topk_list = clean.topk;
        for (int64_t i = 0; i < 100 * rows; i++)
            clean.topk[i] = i % 100 < 5 ? scene.topk[i] : -1;
        scene_run(&clean, &setting, &padded);
        assert_true(results_same(&garbage, &padded));
        result_close(&garbage);
        result_close(&padded);
        free(clean.topk);
    }
    scene_close(&scene);
}

static void C04_garbage_past_length(void **state)
{
    (void)state;
    past_the_length(64);
    past_the_length(65);
}

/* C05: the row behind the cache was loaded and then masked: a fault at the end of mapped memory. */
static void C05_cache_ends_at_a_hole(void **state)
{
    (void)state;
    struct scene scene;
    static const int32_t beyond[] = {48, 49, INT32_MAX, INT32_MIN, 47, 12};
    const struct scene_spec spec = {.name = "C05", .topk = 65};
    scene_open_shared(&scene, &spec, 6, 48);
    for (int64_t t = 0; t < 6; t++)
        for (int32_t i = 0; i < 65; i++)
            scene_list(&scene, t)[i] = beyond[(t + i) % (i < 10 ? 6 : 4)];
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    FOR_EACH_ISA(isa)
    for (int slots = 0; slots < 2; slots++)
        expect_right(&scene,
                     &(const struct setting){.isa = isa, .threads = 1, .dense = true, .slots = slots});
    scene_close(&scene);
}

/* C06: one backend masked ids past the cache, another attended them. */
static void C06_ids_past_two_blocks(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C06", .topk = 81, .block_size = 64};
    scene_open_shared(&scene, &spec, 2, 128);
    for (int32_t i = 0; i < 81; i++) {
        scene_list(&scene, 0)[i] = 120 + i;
        scene_list(&scene, 1)[i] = 200 - i;
    }
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    scene_close(&scene);
}

/* C07: the answer depended on list order, and changed from call to call. */
static void C07_order_and_repetition(void **state)
{
    (void)state;
    enum { K = 2048 };
    struct scene scene;
    const struct scene_spec spec = {.name = "C07", .topk = K, .heads = 2, .block_size = 64};
    scene_open_shared(&scene, &spec, 3, K);
    int32_t *sorted = scene_list(&scene, 0), *reversed = scene_list(&scene, 1),
            *shuffled = scene_list(&scene, 2);
    for (int32_t i = 0; i < K; i++) {
        int64_t other = rng_below(&scene.rng, i + 1);
        sorted[i] = i;
        reversed[i] = K - 1 - i;
        shuffled[i] = shuffled[other];
        shuffled[other] = i;
    }
    memcpy(scene_query(&scene, 1, 0), scene_query(&scene, 0, 0), 2 * 2 * REF_ROW);
    memcpy(scene_query(&scene, 2, 0), scene_query(&scene, 0, 0), 2 * 2 * REF_ROW);
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    FOR_EACH_ISA(isa)
    {
        struct setting setting = {.isa = isa, .threads = 2};
        struct result first, again;
        scene_run(&scene, &setting, &first);
        for (int i = 0; i < (isa == SMLA_ISA_SCALAR ? 5 : 100); i++) {
            scene_run(&scene, &setting, &again);
            assert_true(results_same(&first, &again));
            result_close(&again);
        }
        result_close(&first);
    }
    scene_close(&scene);
}

/* C08: one backend removed repeated entries, another counted them. */
static void C08_repeated_entries(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C08", .topk = 4};
    scene_open_shared(&scene, &spec, 2, 16);
    memcpy(scene_list(&scene, 0), (int32_t[]){7, 7, 7, 3}, 16);
    memcpy(scene_list(&scene, 1), (int32_t[]){7, 3, -1, -1}, 16);
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    scene_close(&scene);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Best of several runs; the harness's own copying is outside. */
static double run_seconds(const struct scene *scene, smla_isa isa)
{
    struct stage stage;
    struct setting setting = {.isa = isa, .threads = 1, .slots = true, .dense = true};
    smla_context *context;
    smla_plan *plan;
    smla_plan_options maxima = scene_maxima(scene, &setting);
    stage_open(&stage, scene, &setting);
    assert_int_equal(open_context(&context, &setting), SMLA_OK);
    assert_int_equal(smla_plan_create(&plan, context, &stage.problem, &maxima), SMLA_OK);
    size_t bytes = smla_plan_workspace_bytes(plan);
    void *workspace = must_malloc(bytes);
    double best = INFINITY;
    for (int i = 0; i < 5; i++) {
        double begin = seconds();
        assert_int_equal(smla_run(plan, NULL, &stage.tensors, workspace, bytes, NULL), SMLA_OK);
        best = fmin(best, seconds() - begin);
    }
    free(workspace);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
    stage_close(&stage);
    return best;
}

/* C09: padding was computed and thrown away. A full list is 55 times the work of 37 entries. */
static void C09_time_follows_length(void **state)
{
    (void)state;
    enum { K = 2048, L = 37 };
    const struct scene_spec spec = {.name = "C09", .topk = K, .block_size = 64, .lengths = LENGTHS_EXACT};
    struct scene scene, full;
    scene_open_shared(&scene, &spec, 3, K);
    scene_open_shared(&full, &spec, 3, K);
    for (int64_t t = 0; t < 3; t++)
        for (int32_t i = 0; i < K; i++) {
            scene_list(&full, t)[i] = (i * 5 + 1) % K;
            scene_list(&scene, t)[i] = t != 0 && i >= L ? -1 : (i * 5 + 1) % K;
        }
    scene.length[0] = scene.length[2] = L;
    for (int64_t t = 1; t < 3; t++)
        memcpy(scene_query(&scene, t, 0), scene_query(&scene, 0, 0), 2 * 4 * REF_ROW);
    scene_fill(&scene);
    scene_fill(&full);
    scene_expect(&scene);
    expect_everywhere(&scene);
    FOR_EACH_ISA(isa)
    {
        struct result result;
        scene_run(&scene, &(const struct setting){.isa = isa, .threads = 2}, &result);
        assert_true(rows_same(&result, 0, &result, 1));
        assert_true(rows_same(&result, 0, &result, 2));
        result_close(&result);
        assert_true(run_seconds(&scene, isa) * 6 < run_seconds(&full, isa));
    }
    scene_close(&scene);
    scene_close(&full);
}

/* C10: an empty batch crashed on its null pointers. */
static void C10_no_rows(void **state)
{
    (void)state;
    struct setting setting = {.isa = SMLA_ISA_SCALAR, .threads = 2};
    smla_context *context;
    smla_plan *plan;
    smla_step *step;
    smla_problem problem;
    smla_plan_options maxima;
    smla_tensors tensors;
    smla_batch batch;
    smla_problem_init(&problem);
    maxima_init(&maxima);
    smla_batch_init(&batch);
    smla_tensors_init(&tensors, &problem);
    assert_int_equal(open_context(&context, &setting), SMLA_OK);
    for (maxima.max_rows = 0; maxima.max_rows < 9; maxima.max_rows += 8) {
        assert_int_equal(smla_plan_create(&plan, context, &problem, &maxima), SMLA_OK);
        assert_int_equal(smla_step_create(&step, plan), SMLA_OK);
        assert_int_equal(smla_step_update(step, &batch, NULL), SMLA_OK);
        assert_int_equal(smla_run(plan, step, &tensors, NULL, 0, NULL), SMLA_OK);
        assert_int_equal(smla_run(plan, NULL, &tensors, NULL, 0, NULL), SMLA_OK);
        smla_step_destroy(step);
        smla_plan_destroy(plan);
    }
    smla_context_destroy(context);
}

/* C11: the first row's length was used for its whole request. */
static void C11_lengths_per_row(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C11",
                                    .requests = 2,
                                    .q_lens = (int32_t[]){3, 3},
                                    .contexts = (int32_t[]){150, 90},
                                    .topk = 80,
                                    .lengths = LENGTHS_EXACT};
    scene_open(&scene, &spec);
    memcpy(scene.length, (int32_t[]){1, 64, 0, 65, 80, 17}, 6 * sizeof(int32_t));
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    scene_close(&scene);
}

/* C12: K stood in for the row stride of the list buffer. */
static void C12_list_row_stride(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C12", .requests = 5, .topk = 100, .invalid = 0.1};
    scene_build(&scene, &spec);
    expect_everywhere_with(&scene, &(const struct setting){.topk_row_gap = 28 * 4});
    expect_everywhere_with(&scene, &(const struct setting){.topk_row_gap = 2076 * 4});
    scene_close(&scene);
}

static void one_list_for_all(smla_tensors *tensors, const struct scene *scene)
{
    (void)scene;
    tensors->topk_row_stride = 0;
}

/* A row stride of 0: every row reads the same list. */
static void C12_one_list_for_all_rows(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C12 one list", .topk = 100};
    scene_open_shared(&scene, &spec, 6, 150);
    for (int64_t i = 0; i < 6 * 100; i++)
        scene.topk[i] = (int32_t)(i % 100 * 3 % 160);
    scene_fill(&scene);
    scene_expect(&scene);
    FOR_EACH_ISA(isa)
    for (int32_t threads = 1; threads <= 3; threads++)
        expect_right(&scene,
                     &(const struct setting){.isa = isa, .threads = threads, .edit = one_list_for_all});
    scene_close(&scene);
}

/* C13: per-row arrays were read and written up to the plan's maximum. All buffers end at a hole. */
static void C13_fewer_rows_than_planned(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C13", .requests = 5, .lengths = LENGTHS_WILD};
    scene_build(&scene, &spec);
    FOR_EACH_ISA(isa)
    for (int32_t i = 0; i < 16; i++)
        expect_right(&scene, &(const struct setting){.isa = isa,
                                                     .threads = 1 + i % 3,
                                                     .splits = i / 4,
                                                     .dense = i & 1,
                                                     .slots = i >> 1 & 1,
                                                     .spare_rows = 1 + i * i});
    scene_close(&scene);
}

/* C42: an empty row left the caller's old output standing. */
static void C42_empty_rows_are_written(void **state)
{
    (void)state;
    for (int64_t rows = 1; rows <= 4; rows += 3)
        for (int lengths = 0; lengths < 2; lengths++) {
            struct scene scene;
            const struct scene_spec spec = {.name = "C42", .lengths = lengths ? LENGTHS_EXACT : LENGTHS_NONE};
            scene_open_shared(&scene, &spec, rows, 20);
            for (int64_t t = 0; t < rows && lengths; t++) {
                scene.length[t] = 0;
                scene_list(&scene, t)[0] = 3;
            }
            scene_expect(&scene);
            expect_everywhere(&scene);
            FOR_EACH_ISA(isa)
            for (int bf16 = 0; bf16 < 2; bf16++) {
                struct result result;
                scene_run(&scene,
                          &(const struct setting){
                              .isa = isa, .threads = 2, .out_dtype = bf16 ? SMLA_BF16 : SMLA_F32},
                          &result);
                assert_true(guard_filled(result.out_bits, result.out_bytes, 0));
                result_close(&result);
            }
            scene_close(&scene);
        }
}

/* Only the first 17 rows of two blocks of 16 exist: the rest of the second block is a hole. */
static void place_17_rows(struct stage *stage, const struct scene *scene)
{
    stage->tensors.cache_blocks = 2;
    stage->kv = guard_open(17 * 2 * REF_ROW, 0);
    memcpy(stage->kv.data, scene->kv, stage->kv.bytes);
    stage->tensors.kv_cache = stage->kv.data;
}

/* C43: a whole tile was read from a partly filled last block. */
static void C43_last_block_partly_filled(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C43", .topk = 17, .block_size = 16};
    scene_open_shared(&scene, &spec, 3, 17);
    for (int64_t t = 0; t < 3; t++)
        for (int32_t i = 0; i < 17; i++)
            scene_list(&scene, t)[i] = (int32_t)((i + t) % 17);
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere_with(&scene, &(const struct setting){.place_cache = place_17_rows});
    scene_close(&scene);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(C01_leading_gap),
    cmocka_unit_test(C02_empty_middle_row),
    cmocka_unit_test(C03_position_without_slot),
    cmocka_unit_test(C04_garbage_past_length),
    cmocka_unit_test(C05_cache_ends_at_a_hole),
    cmocka_unit_test(C06_ids_past_two_blocks),
    cmocka_unit_test(C07_order_and_repetition),
    cmocka_unit_test(C08_repeated_entries),
    cmocka_unit_test(C09_time_follows_length),
    cmocka_unit_test(C10_no_rows),
    cmocka_unit_test(C11_lengths_per_row),
    cmocka_unit_test(C12_list_row_stride),
    cmocka_unit_test(C12_one_list_for_all_rows),
    cmocka_unit_test(C13_fewer_rows_than_planned),
    cmocka_unit_test(C42_empty_rows_are_written),
    cmocka_unit_test(C43_last_block_partly_filled),
};

HARNESS_MAIN(tests)
