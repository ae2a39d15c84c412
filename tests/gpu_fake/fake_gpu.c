#include "fake_gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAILED = 1 };

_Noreturn void check_failed(const char *text, const char *file, int line)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, text);
    _exit(FAILED);
}

static void run_in_process(void (*body)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void *function_of(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

void in_process(void (*body)(void))
{
    if (!function_of("fake_driver_state"))
        harness_skip("the fake driver is not on LD_LIBRARY_PATH");
    run_in_process(body);
}

void in_process_without_driver(void (*body)(void))
{
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
        harness_skip("this machine has a GPU driver");
    run_in_process(body);
}

struct fake *fake(void)
{
    static struct fake *state;
    if (!state) {
        void *function = function_of("fake_driver_state");
        fake_state *get;
        memcpy(&get, &function, sizeof get);
        state = get();
    }
    return state;
}

void fake_current_device(int device)
{
    void *function = function_of("fake_driver_set_current");
    fake_set_current *set;
    memcpy(&set, &function, sizeof set);
    set(device);
}

static void *current_context(void)
{
    void *function = function_of("fake_driver_current");
    fake_current *get;
    memcpy(&get, &function, sizeof get);
    return get();
}

void check_undisturbed(int device)
{
    if (fake()->complaint)
        fprintf(stderr, "the driver complains of %s\n", fake()->complaint);
    CHECK(!fake()->complaint);
    CHECK(fake()->pushes == fake()->pops);
    void *found = current_context();
    fake_current_device(device);
    CHECK(found == current_context());
}

smla_context *open_gpu(int device)
{
    smla_context *context;
    smla_context_options options;
    char detail[256] = "";
    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CUDA;
    options.cuda_device = device;
    options.detail = detail;
    options.detail_size = sizeof detail;
    if (smla_context_create(&context, &options) != SMLA_OK)
        check_failed(detail, __FILE__, __LINE__);
    return context;
}

void check_text(const smla_context *context, const char *text)
{
    if (strstr(smla_context_error(context), text))
        return;
    fprintf(stderr, "'%s' is not in '%s'\n", text, smla_context_error(context));
    check_failed("the text names it", __FILE__, __LINE__);
}

void small_init(struct small *small)
{
    *small = (struct small){0};
    smla_problem_init(&small->problem);
    smla_plan_options_init(&small->options);
    small->problem.heads = 1;
    small->problem.topk = 64;
    small->problem.block_size = 16;
    small->problem.topk_kind = SMLA_TOPK_SLOTS;
}

/* The fake runs no kernel, so that tensors need an address but no contents. */
smla_status small_plan(struct small *small, smla_context *context, int64_t rows)
{
    static _Alignas(16) char memory[16];
    small->options.max_rows = rows;
    smla_tensors_init(&small->tensors, &small->problem);
    small->tensors.rows = rows;
    small->tensors.q = small->tensors.kv_cache = memory;
    small->tensors.out = memory;
    small->tensors.cache_blocks = 4;
    small->tensors.topk = small->lists[0];
    return smla_plan_create(&small->plan, context, &small->problem, &small->options);
}

void small_open(struct small *small, smla_context *context, int64_t rows)
{
    if (small_plan(small, context, rows) != SMLA_OK)
        check_failed(smla_context_error(context), __FILE__, __LINE__);
}

smla_status small_run(struct small *small, const smla_step *step)
{
    size_t bytes = smla_plan_workspace_bytes(small->plan);
    char *workspace = bytes ? malloc(bytes) : NULL;
    smla_status status = smla_run(small->plan, step, &small->tensors, workspace, bytes, NULL);
    free(workspace);
    return status;
}

const struct fake_launch *last_launch(void)
{
    CHECK(fake()->launch_count > 0);
    return &fake()->launches[fake()->launch_count - 1];
}
