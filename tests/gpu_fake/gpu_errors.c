/* The ways in which a GPU can be out of reach, each with its own status and words. */
#include <string.h>

#include "fake_gpu.h"

/* Opening a context, asking for support and asking about the machine agree. */
static void check_refusal(smla_status status, const char *text)
{
    smla_context *context = (smla_context *)1;
    smla_context_options options;
    smla_problem problem;
    smla_machine machine = {.struct_size = sizeof machine};
    char detail[256] = "", reason[256] = "";
    smla_context_options_init(&options);
    smla_problem_init(&problem);
    options.backend = SMLA_BACKEND_CUDA;
    options.detail = detail;
    options.detail_size = sizeof detail;
    CHECK(smla_context_create(&context, &options) == status);
    CHECK(!context && strstr(detail, text));
    CHECK(smla_support_query(&problem, SMLA_BACKEND_CUDA, 0, NULL, reason, sizeof reason) == status);
    CHECK(strcmp(detail, reason) == 0);
    CHECK(smla_machine_query(&machine) == SMLA_OK);
    CHECK((smla_status)machine.cuda_status == status && strstr(machine.cuda_detail, text));
    /* A GPU elsewhere is another matter, and the CPU serves in its stead. */
    CHECK(smla_support_query(&problem, SMLA_BACKEND_CUDA, 90, NULL, reason, sizeof reason) == SMLA_OK);
    CHECK(smla_context_create(&context, NULL) == SMLA_OK);
    smla_context_destroy(context);
}

static void missing_driver(void)
{
    check_refusal(SMLA_ERROR_NO_DRIVER, "libcuda.so.1");
}

/* CTest starts this one without the path to the fake. */
static void driver_missing(void **state)
{
    (void)state;
    in_process_without_driver(missing_driver);
}

static void no_images(void)
{
    smla_context_options options;
    smla_context *context;
    smla_problem problem;
    smla_machine machine = {.struct_size = sizeof machine};
    char detail[256] = "";
    smla_context_options_init(&options);
    smla_problem_init(&problem);
    fake_image_count = 0;
    options.backend = SMLA_BACKEND_CUDA;
    options.detail = detail;
    options.detail_size = sizeof detail;
    CHECK(smla_context_create(&context, &options) == SMLA_ERROR_NO_KERNELS);
    CHECK(strstr(detail, "this build carries no GPU kernels"));
    CHECK(smla_support_query(&problem, SMLA_BACKEND_CUDA, 90, NULL, NULL, 0) == SMLA_ERROR_NO_KERNELS);
    CHECK(smla_support_query(&problem, SMLA_BACKEND_CUDA, 0, NULL, NULL, 0) == SMLA_ERROR_NO_KERNELS);
    CHECK(smla_machine_query(&machine) == SMLA_OK);
    CHECK(machine.cuda_status == SMLA_ERROR_NO_KERNELS && machine.cuda_kernels == 0);
    CHECK(fake()->calls == 0);
}

static void kernels_missing(void **state)
{
    (void)state;
    in_process(no_images);
}

static void old_version(void)
{
    fake()->version = 11080;
    check_refusal(SMLA_ERROR_OLD_DRIVER, "for CUDA 11.8: one for 12.0 or later is accepted");
}

static void missing_symbol(void)
{
    fake()->missing = "cuLaunchKernelEx";
    check_refusal(SMLA_ERROR_OLD_DRIVER, "(for CUDA 12.8) has no cuLaunchKernelEx: one for 12.0");
}

static void no_devices(void)
{
    fake()->devices = 0;
    check_refusal(SMLA_ERROR_NO_DEVICE, "finds no GPU");
}

static void init_finds_none(void)
{
    fake()->init_result = 100;
    check_refusal(SMLA_ERROR_NO_DEVICE, "cuInit");
}

static void init_mismatch(void)
{
    fake()->init_result = 803;
    check_refusal(SMLA_ERROR_OLD_DRIVER, "cuInit");
}

static void init_broken(void)
{
    fake()->init_result = 719;
    check_refusal(SMLA_ERROR_DEVICE, "CUDA_ERROR_LAUNCH_FAILED (719), unspecified launch failure");
}

static void old_architecture(void)
{
    fake()->arch[0] = 75;
    check_refusal(SMLA_ERROR_DEVICE_ARCH, "sm_75");
}

static void driver_old(void **state)
{
    (void)state;
    in_process(old_version);
    in_process(missing_symbol);
    in_process(init_mismatch);
}

static void driver_without_device(void **state)
{
    (void)state;
    in_process(no_devices);
    in_process(init_finds_none);
}

static void driver_reports_an_error(void **state)
{
    (void)state;
    in_process(init_broken);
}

static void device_too_old(void **state)
{
    (void)state;
    in_process(old_architecture);
}

static void ordinals(void)
{
    smla_context *context;
    smla_context_options options;
    char detail[256] = "";
    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CUDA;
    options.cuda_device = fake()->devices = 2;
    options.detail = detail;
    options.detail_size = sizeof detail;
    CHECK(smla_context_create(&context, &options) == SMLA_ERROR_NO_DEVICE);
    CHECK(strstr(detail, "cuda_device = 2: -1 or 0 .. 1 is accepted"));
    check_undisturbed(-1);
    CHECK(fake()->retained[0] == 0 && fake()->retained[1] == 0);
}

static void device_ordinal_out_of_range(void **state)
{
    (void)state;
    in_process(ordinals);
}

/* An architecture that is asked for by name needs no GPU, no driver and says what it wants. */
static void architectures(void)
{
    smla_problem problem;
    char reason[256];
    smla_problem_init(&problem);
    fake()->devices = 0;
    CHECK(smla_support_query(&problem, SMLA_BACKEND_CUDA, 90, NULL, reason, sizeof reason) == SMLA_OK);
    CHECK(smla_support_query(&problem, SMLA_BACKEND_CUDA, 75, NULL, reason, sizeof reason) ==
          SMLA_ERROR_DEVICE_ARCH);
    CHECK(strstr(reason, "sm_75: sm_80 and later are accepted"));
    CHECK(fake()->calls == 0);
}

static void architecture_by_name(void **state)
{
    (void)state;
    in_process(architectures);
}

static void machine_facts(void)
{
    smla_machine machine = {.struct_size = sizeof machine};
    fake()->devices = 2;
    fake_current_device(1);
    fake()->arch[1] = 90;
    CHECK(smla_machine_query(&machine) == SMLA_OK);
    CHECK(machine.cuda_status == SMLA_OK && machine.cuda_detail[0] == '\0');
    CHECK(machine.cuda_driver == 12080 && machine.cuda_devices == 2 && machine.cuda_arch == 90);
    CHECK(strcmp(machine.cuda_name, "second fake") == 0);
    check_undisturbed(1);
}

static void machine_tells_of_the_gpu(void **state)
{
    (void)state;
    in_process(machine_facts);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(driver_missing),
    cmocka_unit_test(kernels_missing),
    cmocka_unit_test(driver_old),
    cmocka_unit_test(driver_without_device),
    cmocka_unit_test(driver_reports_an_error),
    cmocka_unit_test(device_too_old),
    cmocka_unit_test(device_ordinal_out_of_range),
    cmocka_unit_test(architecture_by_name),
    cmocka_unit_test(machine_tells_of_the_gpu),
};

HARNESS_MAIN(tests)
