/* Field case C31, as far as a CPU goes: a run allocates nothing. The linker hands every heap call of the
 * library to the counters below (--wrap), so this program links the static library. */
#include <stdlib.h>

#include "harness.h"

static int counting, calls;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
void __real_free(void *old);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
void __wrap_free(void *old);

void *__wrap_malloc(size_t bytes)
{
    calls += counting;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    calls += counting;
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    calls += counting;
    return __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    calls += counting;
    return __real_aligned_alloc(align, bytes);
}

int __wrap_posix_memalign(void **out, size_t align, size_t bytes)
{
    calls += counting;
    return __real_posix_memalign(out, align, bytes);
}

void __wrap_free(void *old)
{
    calls += counting;
    __real_free(old);
}

/* Step updates belong to the loop of an engine as much as runs do. */
static void count_run(const struct scene *scene, const struct setting *setting)
{
    struct stage stage;
    smla_context *context;
    smla_plan *plan;
    smla_step *step;
    smla_plan_options maxima = scene_maxima(scene, setting);
    smla_batch batch = scene_batch(scene);
    stage_open(&stage, scene, setting);
    assert_int_equal(open_context(&context, setting), SMLA_OK);
    assert_int_equal(smla_plan_create(&plan, context, &stage.problem, &maxima), SMLA_OK);
    assert_int_equal(smla_step_create(&step, plan), SMLA_OK);
    size_t bytes = smla_plan_workspace_bytes(plan);
    void *workspace = must_malloc(bytes);
    calls = 0;
    counting = 1;
    smla_status updated = smla_step_update(step, &batch, NULL);
    smla_status run = smla_run(plan, step, &stage.tensors, workspace, bytes, NULL);
    smla_status begun = smla_slices_begin(plan, step, &stage.tensors, workspace, bytes, 1);
    smla_status sliced = smla_slice_run(plan, workspace, 0);
    counting = 0;
    assert_int_equal(updated, SMLA_OK);
    assert_int_equal(run, SMLA_OK);
    assert_int_equal(begun, SMLA_OK);
    assert_int_equal(sliced, SMLA_OK);
    assert_int_equal(calls, 0);
    free(workspace);
    smla_step_destroy(step);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
    stage_close(&stage);
}

static void C31_run_allocates_nothing(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C31",
                                    .q_lens = (int32_t[]){1, 40, 2},
                                    .topk = 200,
                                    .heads = 20,
                                    .contexts = (int32_t[]){300, 9, 999}};
    scene_build(&scene, &spec);
    FOR_EACH_ISA(isa)
    for (int32_t i = 0; i < 6; i++)
        count_run(&scene, &(const struct setting){
                              .isa = isa, .threads = 1 + i % 3, .splits = i, .batch_invariant = i & 1});
    scene_close(&scene);
}

/* The counters do count: creating a context is seen. */
static void C31_counters_work(void **state)
{
    (void)state;
    smla_context *context;
    calls = 0;
    counting = 1;
    smla_status status = smla_context_create(&context, NULL);
    counting = 0;
    assert_int_equal(status, SMLA_OK);
    assert_true(calls > 0);
    smla_context_destroy(context);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(C31_run_allocates_nothing),
    cmocka_unit_test(C31_counters_work),
};

HARNESS_MAIN(tests)
