/*
 * CUDA contexts: whatever the caller has current, none included, is current after every call, and the work goes where
 * smla.h says (C30). Memory and streams belong to a CUDA context, so that a run that went elsewhere would fail.
 */
#include "rig.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, BLOCKS = 80, BLOCK = 16, TOPK = 160 };

/* Where the smla context is made, where its memory then is, and what is current while it is used. */
struct tour {
    const char *name;
    struct CUctx_st *home, *memory, *away;
};

/* None is current once the thread's whole stack of contexts is gone. */
static void use(struct CUctx_st *context)
{
    do
        gpu_must(device_context_use(gpu_device(), context));
    while (!context && device_context_current(gpu_device()));
}

/* To be asked after every call. */
static void stays(const struct tour *tour, struct CUctx_st *current, const char *call)
{
    struct CUctx_st *now = device_context_current(gpu_device());
    if (now != current)
        fail_msg("%s: %s left %p current, not %p", tour->name, call, (void *)now, (void *)current);
}

static void expect(const struct tour *tour, smla_status got, smla_status wanted, const smla_context *context,
                   const char *call)
{
    stays(tour, tour->away, call);
    if (got != wanted)
        fail_msg("%s: %s: %s, '%s'", tour->name, call, smla_status_name(got), smla_context_error(context));
}

static smla_context *create(const struct tour *tour)
{
    smla_context_options options;
    smla_context *context;
    char detail[256] = "";
    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CUDA;
    options.detail = detail;
    options.detail_size = sizeof detail;
    use(tour->home);
    smla_status status = smla_context_create(&context, &options);
    stays(tour, tour->home, "smla_context_create");
    if (status != SMLA_OK)
        fail_msg("%s: %s, '%s'", tour->name, smla_status_name(status), detail);
    return context;
}

/* The calls that need no memory of the GPU, and some that fail. */
static void ask(const struct tour *tour, smla_context *context, const smla_plan *plan, const struct rig *rig)
{
    smla_machine machine = {.struct_size = sizeof machine};
    smla_plan_info info = {.struct_size = sizeof info};
    smla_step_info step_info = {.struct_size = sizeof step_info};
    smla_tensors bad = rig->tensors;
    smla_problem problem;
    char reason[256];
    expect(tour, smla_machine_query(&machine), SMLA_OK, context, "smla_machine_query");
    smla_problem_init(&problem);
    expect(tour, smla_support_query(&problem, SMLA_BACKEND_CUDA, 0, NULL, reason, sizeof reason), SMLA_OK,
           context, "smla_support_query");
    expect(tour, smla_plan_get_info(plan, &info), SMLA_OK, context, "smla_plan_get_info");
    expect(tour, smla_step_get_info(rig->step, &step_info), SMLA_OK, context, "smla_step_get_info");
    assert_true(smla_plan_workspace_bytes(plan) == rig->workspace_bytes);
    stays(tour, tour->away, "smla_plan_workspace_bytes");
    bad.out_row_stride += 8;
    expect(tour, smla_run(plan, rig->step, &bad, rig->workspace, rig->workspace_bytes, rig->stream),
           SMLA_ERROR_ALIGNMENT, context, "a refused smla_run");
    expect(tour, smla_slices_begin(plan, rig->step, &rig->tensors, rig->workspace, rig->workspace_bytes, 1),
           SMLA_UNSUPPORTED_BACKEND, context, "smla_slices_begin");
}

/* What launches. The cache write repeats what the cache holds; the merge turns one partial, the run's out, into merged. */
static void work(const struct tour *tour, smla_context *context, smla_plan *plan, struct rig *rig,
                 const smla_cache_rows *rows, const smla_partials *partials)
{
    const smla_batch batch = scene_batch(&rig->scene);
    smla_problem problem;
    smla_problem_init(&problem);
    problem.block_size = BLOCK;
    expect(tour, smla_step_update(rig->step, &batch, rig->stream), SMLA_OK, context, "smla_step_update");
    expect(tour, smla_cache_write(context, &problem, rows, rig->stream), SMLA_OK, context,
           "smla_cache_write");
    expect(tour, smla_run(plan, rig->step, &rig->tensors, rig->workspace, rig->workspace_bytes, rig->stream),
           SMLA_OK, context, "smla_run");
    expect(tour, smla_merge(context, partials, rig->stream), SMLA_OK, context, "smla_merge");
    expect(tour, smla_plan_verify(plan, rig->stream), SMLA_OK, context, "smla_plan_verify");
}

/* Memory of the two small calls, made where the rig's is. */
struct extras {
    smla_cache_rows rows;
    smla_partials partials;
    unsigned char *key, *slot, *merged;
    size_t out_bytes;
};

static void extras_open(struct extras *e, const struct rig *rig)
{
    struct device *gpu = gpu_device();
    const struct scene *scene = &rig->scene;
    const smla_tensors *t = &rig->tensors;
    int64_t slot = -1;
    smla_problem problem;
    for (int64_t entry = 0; slot < 0; entry++)
        slot = ref_slot(&scene->ref, 0, entry);
    e->out_bytes = rig->stage.out.bytes;
    e->key = device_alloc(gpu, 2 * REF_ROW);
    e->slot = device_alloc(gpu, sizeof slot);
    e->merged = device_alloc(gpu, e->out_bytes);
    gpu_must(e->key && e->slot && e->merged &&
             device_upload(gpu, e->key, scene_key(scene, slot), 2 * REF_ROW));
    gpu_must(device_upload(gpu, e->slot, &slot, sizeof slot));
    smla_problem_init(&problem);
    problem.block_size = BLOCK;
    smla_cache_rows_init(&e->rows, &problem);
    e->rows.rows = 1;
    e->rows.latent = e->key;
    e->rows.rope = e->key + 2 * REF_LATENT;
    e->rows.slots = (const int64_t *)(void *)e->slot;
    e->rows.kv_cache = (void *)(uintptr_t)t->kv_cache;
    e->rows.cache_blocks = t->cache_blocks;
    e->rows.cache_block_stride = t->cache_block_stride;
    e->rows.cache_row_stride = t->cache_row_stride;
    smla_partials_init(&e->partials, 1, ROWS, rig->shape.heads);
    e->partials.part_dtype = e->partials.out_dtype = SMLA_F32;
    e->partials.part_out = t->out;
    e->partials.part_out_row_stride = e->partials.out_row_stride = t->out_row_stride;
    e->partials.part_out_head_stride = e->partials.out_head_stride = t->out_head_stride;
    e->partials.part_lse = t->lse;
    e->partials.part_lse_row_stride = t->lse_row_stride;
    e->partials.part_lse_head_stride = t->lse_head_stride;
    e->partials.out = e->merged;
}

static void extras_close(struct extras *e, const struct rig *rig)
{
    unsigned char *one = must_malloc(e->out_bytes), *two = must_malloc(e->out_bytes);
    const smla_tensors *t = &rig->tensors;
    gpu_must(device_download(gpu_device(), one, t->out, e->out_bytes, NULL));
    gpu_must(device_download(gpu_device(), two, e->merged, e->out_bytes, NULL));
    for (int64_t g = 0; g < ROWS * rig->shape.heads; g++) {
        int64_t at = g / rig->shape.heads * t->out_row_stride + g % rig->shape.heads * t->out_head_stride;
        assert_memory_equal(one + at, two + at, sizeof(float) * REF_LATENT);
    }
    free(one);
    free(two);
    device_free(gpu_device(), e->key);
    device_free(gpu_device(), e->slot);
    device_free(gpu_device(), e->merged);
}

static void go_lane(const struct tour *tour, int lane)
{
    const struct rig_shape shape = {.rows = ROWS,
                                    .blocks = BLOCKS,
                                    .block_size = BLOCK,
                                    .heads = 16,
                                    .topk = TOPK,
                                    .checked = true,
                                    .portable = lane == 1};
    struct scene scene;
    struct rig rig;
    struct extras extras;
    struct result result;
    smla_context *context = create(tour);
    use(tour->away);
    smla_plan *plan = rig_plan(context, &shape);
    stays(tour, tour->away, "smla_plan_create");
    if (!plan) {
        smla_context_destroy(context);
        return;
    }
    use(tour->memory);
    rig_scene(&scene, &shape, &(const struct rig_batch){.requests = ROWS, .seed = 5});
    rig_open(&rig, plan, &shape, &scene);
    extras_open(&extras, &rig);
    gpu_must(device_wait(gpu_device()));
    smla_step *used = rig.step, *spare;
    use(tour->away);
    expect(tour, smla_step_create(&spare, plan), SMLA_OK, context, "smla_step_create");
    ask(tour, context, plan, &rig);
    work(tour, context, plan, &rig, &extras.rows, &extras.partials);
    use(tour->memory);
    rig_collect(&rig, &result);
    rig_expect_right(&rig, &result, tour->name);
    result_close(&result);
    extras_close(&extras, &rig);
    rig.step = NULL;
    use(tour->away);
    smla_step_destroy(used);
    smla_step_destroy(spare);
    stays(tour, tour->away, "smla_step_destroy");
    use(tour->memory);
    rig_close(&rig);
    use(tour->away);
    smla_plan_destroy(plan);
    stays(tour, tour->away, "smla_plan_destroy");
    smla_context_destroy(context);
    stays(tour, tour->away, "smla_context_destroy");
}

static void go(const struct tour *tour)
{
    for (int lane = 0; lane < RIG_LANES; lane++)
        go_lane(tour, lane);
}

/* The caller has contexts of its own beside the primary one. */
static void C30_current_context_stays(void **state)
{
    (void)state;
    struct device *gpu = gpu_device();
    struct CUctx_st *primary = device_context_primary(gpu), *own = device_context_new(gpu),
                    *other = device_context_new(gpu);
    gpu_must(own && other);
    const struct tour tours[] = {
        {"made and used in the caller's own context", own, own, own},
        {"made in the caller's own context, used with the primary one current", own, own, primary},
        {"made in the caller's own context, used with another of its own current", own, own, other},
        {"made in the caller's own context, used with none current", own, own, NULL},
        {"made in the primary context, used with the caller's own current", primary, primary, own},
        {"made with none current, used with the caller's own current", NULL, primary, own},
        {"made with none current, used with the primary one current", NULL, primary, primary},
        {"made and used with none current", NULL, primary, NULL},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(tours); i++)
        go(&tours[i]);
    use(primary);
    device_context_free(gpu, other);
    device_context_free(gpu, own);
    use(primary);
}

/* A fresh thread has no current context, and none afterwards. A check that fails there ends the program. */
static void *thread_main(void *argument)
{
    go(argument);
    return NULL;
}

static void threads_without_a_context(void **state)
{
    (void)state;
    struct device *gpu = gpu_device();
    struct CUctx_st *primary = device_context_primary(gpu), *own = device_context_new(gpu);
    gpu_must(own != NULL);
    struct tour tour = {"a fresh thread", NULL, primary, NULL};
    for (int turn = 0; turn < 3; turn++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, thread_main, &tour), 0);
        pthread_join(thread, NULL);
        assert_ptr_equal(device_context_current(gpu), own); /* the main thread's */
    }
    use(primary);
    device_context_free(gpu, own);
    use(primary);
}

/* ---- The primary context, without anything else that holds it ---- */

struct driver {
    int (*init)(unsigned flags);
    int (*primary_state)(int device, unsigned *flags, int *active);
    int (*current)(struct CUctx_st **context);
};

static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    if (!found)
        fail_msg("the driver has no %s", name);
    memcpy(function, &found, sizeof found);
}

static bool primary_active(const struct driver *driver)
{
    unsigned flags;
    int active = 0;
    assert_int_equal(driver->primary_state(0, &flags, &active), 0);
    return active != 0;
}

/* Nobody holds the primary context; smla takes it, works in it, and gives it back. */
static void primary_is_given_back(void **state)
{
    (void)state;
    struct driver driver;
    smla_context_options options;
    struct CUctx_st *current = NULL;
    const struct rig_shape shape = {
        .rows = 1, .blocks = 1, .block_size = 16, .heads = 16, .topk = 64, .checked = true};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(library);
    find(library, "cuInit", &driver.init);
    find(library, "cuDevicePrimaryCtxGetState", &driver.primary_state);
    find(library, "cuCtxGetCurrent", &driver.current);
    assert_int_equal(driver.init(0), 0);
    if (primary_active(&driver))
        fail_msg("something holds the primary context already: run this test alone");
    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CUDA;
    for (int turn = 0; turn < 3; turn++) {
        smla_context *context, *second;
        smla_step *step;
        const smla_batch batch = {.struct_size = sizeof batch};
        options.cuda_device = turn == 1 ? 0 : -1;
        assert_int_equal(smla_context_create(&context, &options), SMLA_OK);
        assert_true(primary_active(&driver));
        assert_int_equal(smla_context_create(&second, &options), SMLA_OK);
        smla_plan *plan = rig_plan(context, &shape);
        assert_int_equal(smla_step_create(&step, plan), SMLA_OK);
        assert_int_equal(smla_step_update(step, &batch, NULL), SMLA_OK);
        assert_int_equal(smla_plan_verify(plan, NULL), SMLA_OK);
        smla_step_destroy(step);
        smla_plan_destroy(plan);
        smla_context_destroy(context);
        assert_true(primary_active(&driver)); /* the second holds it */
        smla_context_destroy(second);
        assert_false(primary_active(&driver));
        assert_int_equal(driver.current(&current), 0);
        assert_null(current);
    }
    /* Nor does a context hold it that could not be made. */
    smla_context *none;
    options.cuda_device = 1000;
    assert_int_equal(smla_context_create(&none, &options), SMLA_ERROR_NO_DEVICE);
    assert_null(none);
    assert_false(primary_active(&driver));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(primary_is_given_back), /* before anything opens the GPU for good */
    cmocka_unit_test(C30_current_context_stays),
    cmocka_unit_test(threads_without_a_context),
};

RIG_MAIN(tests)
