/* What must be the same bit for bit: repeated calls, batch-invariant rows, slices, equivalent inputs. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static const struct scene_spec mixed = {.name = "bits",
                                        .requests = 4,
                                        .q_lens = (int32_t[]){1, 7, 2, 1},
                                        .contexts = (int32_t[]){400, 90, 200, 30},
                                        .topk = 200,
                                        .heads = 9,
                                        .invalid = 0.1,
                                        .lengths = LENGTHS_RANDOM};

/* Runs under both settings; results must be right, and the same. */
static void expect_same(const struct scene *scene, const struct setting *one, const struct setting *other)
{
    struct result first, second;
    scene_run(scene, one, &first);
    scene_run(scene, other, &second);
    bool right = result_right(scene, one, &first) && result_right(scene, other, &second);
    bool same = results_same(&first, &second);
    if (!same) {
        setting_print(scene, one);
        setting_print(scene, other);
    }
    result_close(&first);
    result_close(&second);
    assert_true(right && same);
}

static void same_call_twice(void **state)
{
    (void)state;
    struct scene scene;
    scene_build(&scene, &mixed);
    FOR_EACH_ISA(isa)
    for (int32_t i = 0; i < 24; i++) {
        struct setting setting = {
            .isa = isa, .threads = 1 + i % 3, .splits = i / 3, .out_dtype = i & 1 ? SMLA_BF16 : SMLA_F32};
        expect_same(&scene, &setting, &setting);
    }
    scene_close(&scene);
}

/* Forms of the same input: nothing but the way of reading differs. */
static void same_input_otherwise_given(void **state)
{
    (void)state;
    struct scene scene;
    scene_build(&scene, &mixed);
    FOR_EACH_ISA(isa)
    for (int32_t splits = 0; splits < 4; splits++) {
        struct setting plain = {.isa = isa, .threads = 2, .splits = splits}, other = plain;
        other.slots = true;
        expect_same(&scene, &plain, &other);
        other.with_step = true;
        expect_same(&scene, &plain, &other);
        other = plain;
        other.split_query = true;
        expect_same(&scene, &plain, &other);
        other = plain;
        other.dense = true;
        expect_same(&scene, &plain, &other);
        other = plain;
        other.no_lse = true;
        expect_same(&scene, &plain, &other);
        other = plain;
        other.workspace_shift = 13;
        expect_same(&scene, &plain, &other);
    }
    scene_close(&scene);
}

/* bf16 output is the f32 output rounded once, to nearest even. */
static void bf16_is_rounded_f32(void **state)
{
    (void)state;
    struct scene scene;
    scene_build(&scene, &mixed);
    FOR_EACH_ISA(isa)
    for (int32_t splits = 0; splits < 4; splits++) {
        struct setting setting = {.isa = isa, .threads = 2, .splits = splits};
        struct result f32, bf16;
        scene_run(&scene, &setting, &f32);
        setting.out_dtype = SMLA_BF16;
        scene_run(&scene, &setting, &bf16);
        assert_int_equal(f32.status, SMLA_OK);
        assert_int_equal(bf16.status, SMLA_OK);
        for (int64_t i = 0; i < f32.rows * f32.heads * REF_LATENT; i++)
            assert_int_equal(((uint16_t *)bf16.out_bits)[i], bf16_from(((float *)f32.out_bits)[i]));
        result_close(&f32);
        result_close(&bf16);
    }
    scene_close(&scene);
}

static void batch_invariant_over_threads(void **state)
{
    (void)state;
    struct scene scene;
    scene_build(&scene, &mixed);
    FOR_EACH_ISA(isa)
    for (int32_t splits = 0; splits < 4; splits += 3)
        for (int32_t threads = 2; threads <= 5; threads++) {
            struct setting one = {.isa = isa, .threads = 1, .splits = splits, .batch_invariant = true},
                           more = one;
            more.threads = threads;
            more.spare_rows = 300 * threads;
            expect_same(&scene, &one, &more);
        }
    scene_close(&scene);
}

/* Slices in order, backwards and at once against smla_run. */
static void slices_equal_run(void **state)
{
    (void)state;
    static const int32_t counts[] = {1, 2, 5};
    struct scene scene;
    scene_build(&scene, &mixed);
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++)
        for (int entry = ENTRY_SLICES; entry <= ENTRY_SLICES_AT_ONCE; entry++)
            for (int32_t splits = 0; splits < 8; splits += 7) {
                struct setting run = {.isa = isa, .threads = 5, .splits = splits}, slices = run;
                slices.entry = (enum entry)entry;
                slices.slices = counts[i];
                slices.workspace_shift = 3 * counts[i];
                expect_right(&scene, &slices);
                run.batch_invariant = slices.batch_invariant = true;
                expect_same(&scene, &run, &slices);
            }
    scene_close(&scene);
}

/* A row of its own for a long list: slices share the splits of one row. */
static void slices_of_one_row(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {
        .name = "one row", .requests = 1, .contexts = (int32_t[]){1500}, .topk = 1400};
    scene_build(&scene, &spec);
    FOR_EACH_ISA(isa)
    for (int32_t repeat = 0; repeat < 10; repeat++)
        for (int32_t splits = 0; splits < 10; splits += 3)
            expect_right(&scene, &(const struct setting){.isa = isa,
                                                         .threads = 5,
                                                         .splits = splits,
                                                         .entry = ENTRY_SLICES_AT_ONCE,
                                                         .slices = 2 + repeat % 4});
    scene_close(&scene);
}

/* Rows that list the same keys may be computed together: each must still be what it is alone. */
enum likeness {
    EQUAL,
    PREFIXES,
    PAIRS,
    EQUAL_AT_THE_END,
    PARTING_WITHIN_A_TILE,
    ONE_ENTRY_APART,
    LIKENESSES
};

/* Entry i of row t's list. */
static int32_t like_entry(enum likeness kind, int64_t t, int32_t i)
{
    int64_t variant = 0;
    switch (kind) {
    case PAIRS:
        variant = t / 2;
        break;
    case EQUAL_AT_THE_END:
        variant = i < 70 ? t : 0;
        break;
    case PARTING_WITHIN_A_TILE:
        variant = i >= 66 + t ? t : 0;
        break;
    case ONE_ENTRY_APART:
        variant = i == 100 ? t : 0;
        break;
    default:
        break;
    }
    return (int32_t)((i * 7 + variant * 13) % 400);
}

static void shared_lists(enum likeness kind, int64_t rows)
{
    static const char *const names[LIKENESSES] = {
        "equal lists", "prefixes", "pairs", "equal at the end", "parting within a tile", "one entry apart"};
    struct scene scene;
    const struct scene_spec spec = {.name = names[kind], .topk = 150, .heads = 3, .lengths = LENGTHS_EXACT};
    scene_open_shared(&scene, &spec, rows, 400);
    for (int64_t t = 0; t < rows; t++) {
        scene.length[t] = kind == PREFIXES ? (int32_t)(150 - 7 * t) : 150;
        for (int32_t i = 0; i < 150; i++)
            scene_list(&scene, t)[i] = like_entry(kind, t, i);
    }
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    FOR_EACH_ISA(isa)
    {
        struct setting setting = {.isa = isa, .threads = 1, .batch_invariant = true};
        struct result all, one;
        scene_run(&scene, &setting, &all);
        for (int64_t t = 0; t < rows; t++) {
            struct scene single;
            scene_single(&single, &scene, t);
            scene_run(&single, &setting, &one);
            assert_true(rows_same(&all, t, &one, 0));
            result_close(&one);
        }
        result_close(&all);
    }
    scene_close(&scene);
}

static void rows_that_share_keys(void **state)
{
    (void)state;
    for (int kind = EQUAL; kind < LIKENESSES; kind++)
        for (int64_t rows = 2; rows <= 9; rows += rows == 2 ? 2 : 5)
            shared_lists((enum likeness)kind, rows);
}

/* Inputs are only read: their pages forbid writing. */
static void inputs_stay(void **state)
{
    (void)state;
    struct scene scene;
    scene_build(&scene, &mixed);
    FOR_EACH_ISA(isa)
    {
        struct setting setting = {.isa = isa, .threads = 2, .slots = true};
        struct stage stage;
        smla_context *context;
        smla_plan *plan;
        smla_plan_options maxima = scene_maxima(&scene, &setting);
        stage_open(&stage, &scene, &setting);
        guard_protect(&stage.q);
        guard_protect(&stage.kv);
        guard_protect(&stage.topk);
        guard_protect(&stage.length);
        assert_int_equal(open_context(&context, &setting), SMLA_OK);
        assert_int_equal(smla_plan_create(&plan, context, &stage.problem, &maxima), SMLA_OK);
        size_t bytes = smla_plan_workspace_bytes(plan);
        void *workspace = must_malloc(bytes);
        assert_int_equal(smla_run(plan, NULL, &stage.tensors, workspace, bytes, NULL), SMLA_OK);
        free(workspace);
        smla_plan_destroy(plan);
        smla_context_destroy(context);
        stage_close(&stage);
    }
    scene_close(&scene);
}

struct visitor {
    const struct scene *scene;
    struct setting setting;
    bool right;
    pthread_t thread;
};

static void *visit(void *argument)
{
    struct visitor *visitor = argument;
    smla_machine machine = {.struct_size = sizeof machine};
    struct result result;
    visitor->right = smla_machine_query(&machine) == SMLA_OK;
    for (int i = 0; i < 5; i++) {
        scene_run(visitor->scene, &visitor->setting, &result);
        visitor->right &= result_right(visitor->scene, &visitor->setting, &result);
        result_close(&result);
    }
    return NULL;
}

/* Contexts are independent: several threads, each with its own, over the same inputs. */
static void contexts_in_several_threads(void **state)
{
    (void)state;
    struct scene scene;
    struct visitor visitors[4];
    scene_build(&scene, &mixed);
    FOR_EACH_ISA(isa)
    {
        for (int32_t i = 0; i < 4; i++) {
            visitors[i] =
                (struct visitor){.scene = &scene, .setting = {.isa = isa, .threads = 1 + i % 2, .splits = i}};
            assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
        }
        for (int32_t i = 0; i < 4; i++)
            pthread_join(visitors[i].thread, NULL);
        for (int32_t i = 0; i < 4; i++)
            assert_true(visitors[i].right);
    }
    scene_close(&scene);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(same_call_twice),
    cmocka_unit_test(same_input_otherwise_given),
    cmocka_unit_test(bf16_is_rounded_f32),
    cmocka_unit_test(batch_invariant_over_threads),
    cmocka_unit_test(slices_equal_run),
    cmocka_unit_test(slices_of_one_row),
    cmocka_unit_test(rows_that_share_keys),
    cmocka_unit_test(inputs_stay),
    cmocka_unit_test(contexts_in_several_threads),
};

HARNESS_MAIN(tests)
