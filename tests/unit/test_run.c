#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* A good call to spoil. */
struct call {
    struct scene scene;
    struct stage stage;
    smla_context *context;
    smla_plan *plan, *other_plan;
    smla_step *step, *fresh_step, *other_step;
    smla_tensors tensors;
    struct guard workspace;
    /* arguments of smla_run */
    const smla_plan *run_plan;
    const smla_step *run_step;
    const smla_tensors *run_tensors;
    void *run_workspace;
    size_t run_bytes;
};

static void call_open(struct call *c, bool slots)
{
    *c = (struct call){0};
    const struct scene_spec spec = {.name = "run", .lengths = LENGTHS_RANDOM};
    const struct setting setting = {.threads = 2, .slots = slots, .splits = 3};
    scene_build(&c->scene, &spec);
    stage_open(&c->stage, &c->scene, &setting);
    smla_plan_options maxima = scene_maxima(&c->scene, &setting);
    smla_batch batch = scene_batch(&c->scene);
    assert_int_equal(open_context(&c->context, &setting), SMLA_OK);
    assert_int_equal(smla_plan_create(&c->plan, c->context, &c->stage.problem, &maxima), SMLA_OK);
    assert_int_equal(smla_plan_create(&c->other_plan, c->context, &c->stage.problem, &maxima), SMLA_OK);
    assert_int_equal(smla_step_create(&c->step, c->plan), SMLA_OK);
    assert_int_equal(smla_step_create(&c->fresh_step, c->plan), SMLA_OK);
    assert_int_equal(smla_step_create(&c->other_step, c->other_plan), SMLA_OK);
    assert_int_equal(smla_step_update(c->step, &batch, NULL), SMLA_OK);
    assert_int_equal(smla_step_update(c->other_step, &batch, NULL), SMLA_OK);
    c->tensors = c->stage.tensors;
    c->workspace = guard_open(smla_plan_workspace_bytes(c->plan), 0xff);
    c->run_plan = c->plan;
    c->run_step = c->step;
    c->run_tensors = &c->tensors;
    c->run_workspace = c->workspace.data;
    c->run_bytes = c->workspace.bytes;
}

static void call_close(struct call *c)
{
    smla_step_destroy(c->step);
    smla_step_destroy(c->fresh_step);
    smla_step_destroy(c->other_step);
    smla_plan_destroy(c->plan);
    smla_plan_destroy(c->other_plan);
    smla_context_destroy(c->context);
    guard_close(&c->workspace);
    stage_close(&c->stage);
    scene_close(&c->scene);
}

static smla_status call_run(const struct call *c)
{
    return smla_run(c->run_plan, c->run_step, c->run_tensors, c->run_workspace, c->run_bytes, NULL);
}

static smla_status call_slices(const struct call *c)
{
    return smla_slices_begin(c->run_plan, c->run_step, c->run_tensors, c->run_workspace, c->run_bytes, 2);
}

static bool untouched(const struct call *c)
{
    return guard_filled(c->stage.out.data, c->stage.out.bytes, 0xff) &&
           guard_filled(c->stage.lse.data, c->stage.lse.bytes, 0xff);
}

/* ---- Each spoils the good call in a single way ---- */

static void no_plan(struct call *c)
{
    c->run_plan = NULL;
}
static void no_step(struct call *c)
{
    c->run_step = NULL;
}
static void no_tensors(struct call *c)
{
    c->run_tensors = NULL;
}
static void no_workspace(struct call *c)
{
    c->run_workspace = NULL;
}
static void short_workspace(struct call *c)
{
    c->run_bytes--;
}
static void zero_workspace(struct call *c)
{
    c->run_bytes = 0;
}
static void fresh_step(struct call *c)
{
    c->run_step = c->fresh_step;
}
static void foreign_step(struct call *c)
{
    c->run_step = c->other_step;
}
static void no_struct_size(struct call *c)
{
    c->tensors.struct_size = 0;
}
static void negative_rows(struct call *c)
{
    c->tensors.rows = -1;
}
static void too_many_rows(struct call *c)
{
    c->tensors.rows = c->scene.rows + 1;
}
static void negative_blocks(struct call *c)
{
    c->tensors.cache_blocks = -1;
}
static void no_q(struct call *c)
{
    c->tensors.q = NULL;
}
static void no_rope(struct call *c)
{
    c->tensors.q_latent = c->tensors.q, c->tensors.q = NULL;
}
static void no_latent(struct call *c)
{
    c->tensors.q_rope = c->tensors.q, c->tensors.q = NULL;
}
static void no_cache(struct call *c)
{
    c->tensors.kv_cache = NULL;
}
static void no_topk(struct call *c)
{
    c->tensors.topk = NULL;
}
static void no_out(struct call *c)
{
    c->tensors.out = NULL;
}
static void odd_q(struct call *c)
{
    c->tensors.q = (const char *)c->tensors.q + 1;
}
static void odd_out(struct call *c)
{
    c->tensors.out = (char *)c->tensors.out + 2;
}
static void odd_lse(struct call *c)
{
    c->tensors.lse = (float *)((uintptr_t)c->tensors.lse + 1);
}
static void odd_topk(struct call *c)
{
    c->tensors.topk = (int32_t *)((uintptr_t)c->tensors.topk + 2);
}
static void q_elem(struct call *c)
{
    c->tensors.q_elem_stride = 4;
}
static void out_elem(struct call *c)
{
    c->tensors.out_elem_stride = 8;
}
static void negative_stride(struct call *c)
{
    c->tensors.cache_row_stride *= -1;
}
static void overlapping_out(struct call *c)
{
    c->tensors.out_head_stride = 4 * REF_LATENT - 4;
}
static void overlapping_lse(struct call *c)
{
    c->tensors.lse_row_stride = 0;
}

static const struct {
    const char *name;
    void (*spoil)(struct call *);
    smla_status status;
    const char *fact;
} wrong[] = {
    {"no_plan", no_plan, SMLA_ERROR_NULL, ""},
    {"no_step", no_step, SMLA_ERROR_NULL, "step"},
    {"no_tensors", no_tensors, SMLA_ERROR_NULL, "tensors"},
    {"no_workspace", no_workspace, SMLA_ERROR_NULL, "workspace"},
    {"short_workspace", short_workspace, SMLA_ERROR_WORKSPACE, "workspace_bytes"},
    {"zero_workspace", zero_workspace, SMLA_ERROR_WORKSPACE, "workspace_bytes = 0"},
    {"fresh_step", fresh_step, SMLA_ERROR_STEP, "step"},
    {"foreign_step", foreign_step, SMLA_ERROR_STEP, "step"},
    {"no_struct_size", no_struct_size, SMLA_ERROR_STRUCT_SIZE, "struct_size"},
    {"negative_rows", negative_rows, SMLA_ERROR_ARGUMENT, "rows = -1"},
    {"too_many_rows", too_many_rows, SMLA_ERROR_LIMIT, "rows = 4"},
    {"negative_blocks", negative_blocks, SMLA_ERROR_ARGUMENT, "cache_blocks = -1"},
    {"no_q", no_q, SMLA_ERROR_NULL, "q = NULL"},
    {"no_rope", no_rope, SMLA_ERROR_NULL, "q_rope = NULL"},
    {"no_latent", no_latent, SMLA_ERROR_NULL, "q_latent = NULL"},
    {"no_cache", no_cache, SMLA_ERROR_NULL, "kv_cache = NULL"},
    {"no_topk", no_topk, SMLA_ERROR_NULL, "topk = NULL"},
    {"no_out", no_out, SMLA_ERROR_NULL, "out = NULL"},
    {"odd_q", odd_q, SMLA_ERROR_ALIGNMENT, "q = "},
    {"odd_out", odd_out, SMLA_ERROR_ALIGNMENT, "out = "},
    {"odd_lse", odd_lse, SMLA_ERROR_ALIGNMENT, "lse = "},
    {"odd_topk", odd_topk, SMLA_ERROR_ALIGNMENT, "topk = "},
    {"q_elem", q_elem, SMLA_ERROR_STRIDE, "q_elem_stride = 4: 2"},
    {"out_elem", out_elem, SMLA_ERROR_STRIDE, "out_elem_stride = 8: 4"},
    {"negative_stride", negative_stride, SMLA_ERROR_STRIDE, "cache_row_stride = -"},
    {"overlapping_out", overlapping_out, SMLA_ERROR_STRIDE, "out_head_stride = 2044"},
    {"overlapping_lse", overlapping_lse, SMLA_ERROR_STRIDE, "lse_row_stride = 0"},
};

static void expect_wrong(smla_status (*run)(const struct call *))
{
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        struct call c;
        call_open(&c, false);
        wrong[i].spoil(&c);
        smla_status status = run(&c);
        if (status != wrong[i].status || !strstr(smla_context_error(c.context), wrong[i].fact))
            fail_msg("%s: %s: %s", wrong[i].name, smla_status_name(status), smla_context_error(c.context));
        if (!untouched(&c) || !guard_filled(c.workspace.data, c.workspace.bytes, 0xff))
            fail_msg("%s: something was written", wrong[i].name);
        call_close(&c);
    }
}

static void run_wrong_arguments(void **state)
{
    (void)state;
    expect_wrong(call_run);
}

static void run_wrong_slices(void **state)
{
    (void)state;
    expect_wrong(call_slices);
    struct call c;
    call_open(&c, false);
    for (int32_t slices = -1; slices <= 3; slices += slices == 0 ? 3 : 1)
        assert_int_equal(smla_slices_begin(c.plan, c.step, &c.tensors, c.run_workspace, c.run_bytes, slices),
                         SMLA_ERROR_ARGUMENT);
    assert_true(guard_filled(c.workspace.data, c.workspace.bytes, 0xff));
    assert_int_equal(call_slices(&c), SMLA_OK);
    assert_int_equal(smla_slice_run(NULL, c.run_workspace, 0), SMLA_ERROR_NULL);
    assert_int_equal(smla_slice_run(c.plan, NULL, 0), SMLA_ERROR_NULL);
    assert_int_equal(smla_slice_run(c.plan, c.run_workspace, -1), SMLA_ERROR_ARGUMENT);
    assert_int_equal(smla_slice_run(c.plan, c.run_workspace, 2), SMLA_ERROR_ARGUMENT);
    assert_true(untouched(&c));
    assert_int_equal(smla_slice_run(c.plan, c.run_workspace, 1), SMLA_OK);
    assert_int_equal(smla_slice_run(c.plan, c.run_workspace, 0), SMLA_OK);
    assert_false(untouched(&c));
    call_close(&c);
}

/* The good call is good, and optional arguments may be absent. */
static void run_optional_arguments(void **state)
{
    (void)state;
    struct call c;
    call_open(&c, true);
    assert_int_equal(call_run(&c), SMLA_OK);
    c.tensors.lse = NULL;
    c.tensors.topk_length = NULL;
    c.run_step = NULL;
    assert_int_equal(call_run(&c), SMLA_OK);
    c.tensors.rows = 1;
    assert_int_equal(call_run(&c), SMLA_OK);
    call_close(&c);
}

/* No rows: nothing is looked at, wherever it points. */
static void run_no_rows(void **state)
{
    (void)state;
    struct call c;
    smla_tensors empty;
    call_open(&c, false);
    smla_tensors_init(&empty, &c.stage.problem);
    c.run_tensors = &empty;
    c.run_workspace = NULL;
    c.run_bytes = 0;
    for (int i = 0; i < 2; i++) {
        c.run_step = i ? NULL : c.step;
        assert_int_equal(call_run(&c), SMLA_OK);
        empty.q = empty.kv_cache = empty.out = (void *)1;
        empty.topk = (const int32_t *)3;
        empty.lse = (float *)5;
    }
    assert_true(untouched(&c));
    call_close(&c);
}

static void run_slices_of_no_rows(void **state)
{
    (void)state;
    struct call c;
    smla_tensors empty;
    call_open(&c, false);
    smla_tensors_init(&empty, &c.stage.problem);
    c.run_tensors = &empty;
    assert_int_equal(call_slices(&c), SMLA_OK);
    for (int32_t slice = 0; slice < 2; slice++)
        assert_int_equal(smla_slice_run(c.plan, c.run_workspace, slice), SMLA_OK);
    assert_true(untouched(&c));
    c.run_bytes--; /* slices read the workspace, if there are rows or not */
    assert_int_equal(call_slices(&c), SMLA_ERROR_WORKSPACE);
    c.run_workspace = NULL;
    c.run_bytes++;
    assert_int_equal(call_slices(&c), SMLA_ERROR_NULL);
    call_close(&c);
}

/* A cache without blocks: every entry is invalid and the pointer is never used. */
static void run_no_cache(void **state)
{
    (void)state;
    struct call c;
    call_open(&c, true);
    c.tensors.kv_cache = NULL;
    c.tensors.cache_blocks = 0;
    assert_int_equal(call_run(&c), SMLA_OK);
    for (int64_t i = 0; i < c.scene.rows * c.scene.spec.heads; i++)
        assert_true(guard_filled(c.stage.out.data + i / 4 * c.tensors.out_row_stride +
                                     i % 4 * c.tensors.out_head_stride,
                                 4 * REF_LATENT, 0));
    call_close(&c);
}

/* Slots end where the run's cache ends, whatever the step was told. */
static void run_smaller_cache_than_step(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "smaller cache", .block_size = 8, .topk = 40};
    scene_open_shared(&scene, &spec, 3, 40);
    for (int64_t i = 0; i < 3 * 40; i++)
        scene.topk[i] = (int32_t)(i * 3 % 40);
    scene_fill(&scene);
    struct setting setting = {.threads = 2};
    struct stage stage;
    stage_open(&stage, &scene, &setting);
    smla_context *context;
    smla_plan *plan;
    smla_step *step;
    smla_plan_options maxima = scene_maxima(&scene, &setting);
    smla_batch batch = scene_batch(&scene);
    assert_int_equal(open_context(&context, &setting), SMLA_OK);
    assert_int_equal(smla_plan_create(&plan, context, &stage.problem, &maxima), SMLA_OK);
    assert_int_equal(smla_step_create(&step, plan), SMLA_OK);
    assert_int_equal(smla_step_update(step, &batch, NULL), SMLA_OK);
    struct guard workspace = guard_open(smla_plan_workspace_bytes(plan), 0xff);
    stage.tensors.cache_blocks = 2;
    scene.ref.cache_blocks = 2;
    scene_expect(&scene);
    assert_int_equal(smla_run(plan, step, &stage.tensors, workspace.data, workspace.bytes, NULL), SMLA_OK);
    for (int64_t i = 0; i < 3 * 4; i++) {
        float lse;
        memcpy(&lse,
               stage.lse.data + i / 4 * stage.tensors.lse_row_stride + i % 4 * stage.tensors.lse_head_stride,
               4);
        assert_true((double)lse - scene.want_lse[i] < 1e-5 && scene.want_lse[i] - (double)lse < 1e-5);
    }
    guard_close(&workspace);
    smla_step_destroy(step);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
    stage_close(&stage);
    scene_close(&scene);
}

/* The step holds copies: the batch's arrays may change or go. */
static void run_after_the_batch_is_gone(void **state)
{
    (void)state;
    struct call c;
    call_open(&c, false);
    assert_int_equal(call_run(&c), SMLA_OK);
    unsigned char *first = must_malloc(c.stage.out.bytes);
    memcpy(first, c.stage.out.data, c.stage.out.bytes);
    memset(c.scene.query_start_loc, 0x55, sizeof(int32_t) * (size_t)(c.scene.spec.requests + 1));
    memset(c.scene.seq_lens, 0x55, sizeof(int32_t) * (size_t)c.scene.spec.requests);
    memset(c.scene.block_table, 0x55,
           sizeof(int32_t) * (size_t)(c.scene.spec.requests * c.scene.ref.block_table_width));
    memset(c.stage.out.data, 0xff, c.stage.out.bytes);
    assert_int_equal(call_run(&c), SMLA_OK);
    assert_memory_equal(first, c.stage.out.data, c.stage.out.bytes);
    free(first);
    call_close(&c);
}

/* Workspaces at every alignment, larger than asked for too, give the same bits. */
static void run_workspace_at_any_alignment(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {
        .name = "alignment", .requests = 2, .contexts = (int32_t[]){200, 100}, .topk = 150};
    scene_build(&scene, &spec);
    FOR_EACH_ISA(isa)
    {
        struct result first, other;
        struct setting setting = {.isa = isa, .threads = 2, .splits = 3};
        scene_run(&scene, &setting, &first);
        assert_true(result_right(&scene, &setting, &first));
        for (setting.workspace_shift = 1; setting.workspace_shift <= 64; setting.workspace_shift++) {
            scene_run(&scene, &setting, &other);
            assert_true(results_same(&first, &other));
            result_close(&other);
        }
        result_close(&first);
    }
    scene_close(&scene);
}

static void run_tensors_init(void **state)
{
    (void)state;
    smla_problem problem;
    smla_tensors t;
    memset(&t, 0x55, sizeof t);
    smla_problem_init(&problem);
    problem.heads = 8;
    problem.dcp_world_size = 4;
    problem.topk = 77;
    problem.block_size = 5;
    problem.out_dtype = SMLA_F32;
    smla_tensors_init(&t, &problem);
    assert_true(t.struct_size == sizeof t && t.rows == 0 && t.cache_blocks == 0);
    assert_true(!t.q && !t.q_latent && !t.q_rope && !t.kv_cache && !t.topk && !t.topk_length && !t.sinks);
    assert_true(!t.out && !t.lse);
    assert_true(t.q_row_stride == 32 * 1152 && t.q_head_stride == 1152 && t.q_elem_stride == 2);
    assert_true(t.q_latent_row_stride == 32 * 1024 && t.q_latent_head_stride == 1024 &&
                t.q_latent_elem_stride == 2);
    assert_true(t.q_rope_row_stride == 32 * 128 && t.q_rope_head_stride == 128 && t.q_rope_elem_stride == 2);
    assert_true(t.cache_block_stride == 5 * 1152 && t.cache_row_stride == 1152 && t.cache_elem_stride == 2);
    assert_true(t.topk_row_stride == 77 * 4 && t.topk_elem_stride == 4);
    assert_true(t.out_row_stride == 32 * 2048 && t.out_head_stride == 2048 && t.out_elem_stride == 4);
    assert_true(t.lse_row_stride == 32 * 4 && t.lse_head_stride == 4);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(run_wrong_arguments),
    cmocka_unit_test(run_wrong_slices),
    cmocka_unit_test(run_optional_arguments),
    cmocka_unit_test(run_no_rows),
    cmocka_unit_test(run_slices_of_no_rows),
    cmocka_unit_test(run_no_cache),
    cmocka_unit_test(run_smaller_cache_than_step),
    cmocka_unit_test(run_after_the_batch_is_gone),
    cmocka_unit_test(run_workspace_at_any_alignment),
    cmocka_unit_test(run_tensors_init),
};

HARNESS_MAIN(tests)
