/* Whose CUDA context is used, and that the caller finds current what was current, whatever fails. */
#include <string.h>

#include "fake_gpu.h"

/* The context follows `device` while the caller's own context is on `own`. */
static void follow(int device, int own, int expected, int retained)
{
    struct small small;
    fake()->devices = 2;
    fake()->arch[1] = 90;
    fake_current_device(own);
    smla_context *context = open_gpu(device);
    check_undisturbed(own);
    CHECK(fake()->retained[0] + fake()->retained[1] == retained);
    CHECK(fake()->retained[expected] == retained);
    small_init(&small);
    small_open(&small, context, 2);
    check_undisturbed(own);
    int pushes = fake()->pushes;
    CHECK(small_run(&small, NULL) == SMLA_OK);
    check_undisturbed(own);
    CHECK(last_launch()->device == expected);
    CHECK(fake()->pushes - pushes == retained); /* none for a context that is current already */
    smla_plan_destroy(small.plan);
    smla_context_destroy(context);
    check_undisturbed(own);
    CHECK(fake()->retained[0] == 0 && fake()->retained[1] == 0);
    CHECK(fake()->libraries == 0 && fake()->memory == 0 && fake()->pinned == 0);
}

static void nothing_current(void)
{
    follow(-1, -1, 0, 1);
}

static void current_is_taken(void)
{
    follow(-1, 1, 1, 0);
}

static void ordinal_is_current(void)
{
    follow(1, 1, 1, 0);
}

static void ordinal_is_another(void)
{
    follow(0, 1, 0, 1);
}

static void ordinal_alone(void)
{
    follow(1, -1, 1, 1);
}

static void context_choice(void **state)
{
    (void)state;
    in_process(nothing_current);
    in_process(current_is_taken);
    in_process(ordinal_is_current);
    in_process(ordinal_is_another);
    in_process(ordinal_alone);
}

/* The caller turns to another device after the context was made: C30. */
static void turn_away(void)
{
    struct small small;
    fake()->devices = 2;
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    small_init(&small);
    small.problem.topk_kind = SMLA_TOPK_POSITIONS;
    small.options.max_requests = small.options.max_blocks = 2;
    fake()->arch[1] = 75; /* of no concern */
    fake_current_device(1);
    small_open(&small, context, 2);
    smla_step *step;
    smla_batch batch;
    smla_batch_init(&batch);
    batch.requests = batch.rows = 2;
    batch.query_start_loc = (const int32_t[]){0, 1, 2};
    batch.seq_lens = (const int32_t[]){5, 20};
    batch.block_table = (const int32_t[]){0, 1, 2, 3};
    batch.block_table_width = 2;
    batch.block_table_stride = 8;
    batch.cache_blocks = 4;
    CHECK(smla_step_create(&step, small.plan) == SMLA_OK);
    check_undisturbed(1);
    CHECK(smla_step_update(step, &batch, NULL) == SMLA_OK);
    check_undisturbed(1);
    CHECK(small_run(&small, step) == SMLA_OK);
    CHECK(last_launch()->device == 0);
    check_undisturbed(1);
    smla_step_destroy(step);
    smla_plan_destroy(small.plan);
    check_undisturbed(1);
    smla_context_destroy(context);
    check_undisturbed(1);
    CHECK(fake()->memory == 0 && fake()->pinned == 0 && fake()->events == 0);
}

static void context_follows_its_device(void **state)
{
    (void)state;
    in_process(turn_away);
}

/* Everything once, up to the first failure; gives its status. */
static smla_status use_everything(void)
{
    smla_context *context = NULL;
    smla_context_options options;
    struct small small;
    smla_step *step = NULL;
    smla_batch batch;
    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CUDA;
    options.cuda_device = 0;
    smla_status status = smla_context_create(&context, &options);
    if (status != SMLA_OK)
        return status;
    small_init(&small);
    small.options.checked = 1;
    small.problem.topk = 2048; /* clusters of every size */
    small.options.max_requests = small.options.max_blocks = 1;
    status = small_plan(&small, context, 1);
    if (status == SMLA_OK)
        status = smla_step_create(&step, small.plan);
    smla_batch_init(&batch);
    batch.requests = batch.rows = 1;
    batch.query_start_loc = (const int32_t[]){0, 1};
    batch.seq_lens = (const int32_t[]){5};
    batch.block_table = (const int32_t[]){0};
    batch.block_table_width = 1;
    batch.block_table_stride = 4;
    batch.cache_blocks = 4;
    if (status == SMLA_OK)
        status = smla_step_update(step, &batch, NULL);
    if (status == SMLA_OK)
        status = small_run(&small, step);
    if (status == SMLA_OK)
        status = smla_plan_verify(small.plan, NULL);
    if (status != SMLA_OK)
        CHECK(smla_context_error(context)[0]);
    smla_step_destroy(step);
    smla_plan_destroy(small.plan);
    smla_context_destroy(context);
    return status;
}

/* The first call of each function fails, then the second: an error comes back, nothing leaks, nothing stays current. */
static void fail_everywhere(void)
{
    static const char *const names[] = {"cuDeviceGet",
                                        "cuDeviceGetAttribute",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuCtxGetCurrent",
                                        "cuCtxGetDevice",
                                        "cuCtxPushCurrent",
                                        "cuLibraryLoadData",
                                        "cuLibraryGetKernel",
                                        "cuKernelGetFunction",
                                        "cuFuncSetAttribute",
                                        "cuOccupancyMaxActiveClusters",
                                        "cuLaunchKernelEx",
                                        "cuMemAlloc",
                                        "cuMemHostAlloc",
                                        "cuMemcpyHtoDAsync",
                                        "cuMemcpyDtoHAsync",
                                        "cuMemsetD32Async",
                                        "cuEventCreate",
                                        "cuEventRecord",
                                        "cuStreamIsCapturing",
                                        "cuStreamSynchronize"};
    fake()->devices = 2;
    fake_current_device(1);
    CHECK(use_everything() == SMLA_OK);
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        for (int after = 0; after < 2; after++) {
            fake()->failing = names[i];
            fake()->fail_result = 719;
            fake()->fail_after = after;
            fake()->launch_count = 0;
            smla_status status = use_everything();
            bool failed = fake()->fail_after < 0;
            fake()->failing = NULL;
            if (status != (failed ? SMLA_ERROR_DEVICE : SMLA_OK) || (after == 0 && !failed))
                check_failed(names[i], __FILE__, __LINE__);
            check_undisturbed(1);
            if (fake()->retained[0] || fake()->memory || fake()->pinned || fake()->events ||
                fake()->libraries)
                check_failed(names[i], "left behind", after);
        }
}

static void every_call_may_fail(void **state)
{
    (void)state;
    in_process(fail_everywhere);
}

/* Errors of the driver that have a status of their own. */
static void named_errors(void)
{
    static const struct {
        const char *name;
        int result;
        smla_status status;
    } cases[] = {
        {"cuMemAlloc", 2, SMLA_ERROR_MEMORY},
        {"cuLibraryLoadData", 209, SMLA_ERROR_DEVICE_ARCH},
        {"cuKernelGetFunction", 209, SMLA_ERROR_DEVICE_ARCH},
        {"cuLibraryLoadData", 222, SMLA_ERROR_OLD_DRIVER},
    };
    fake_current_device(1);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        fake()->failing = cases[i].name;
        fake()->fail_result = cases[i].result;
        fake()->fail_after = 0;
        CHECK(use_everything() == cases[i].status);
        check_undisturbed(1);
    }
}

static void errors_with_a_status(void **state)
{
    (void)state;
    in_process(named_errors);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(context_choice),
    cmocka_unit_test(context_follows_its_device),
    cmocka_unit_test(every_call_may_fail),
    cmocka_unit_test(errors_with_a_status),
};

HARNESS_MAIN(tests)
