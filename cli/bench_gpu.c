#include "bench_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench_graph.h"
#include "command.h"
#include "report.h"

enum { ROW_BYTES = 2 * BENCH_ROW, ROW_FLOPS = 2 * (BENCH_ROW + 512), POOL_ROWS = 2 << 20 };

static int fail(char error[BENCH_TEXT], int code, const char *what, const char *reason)
{
    snprintf(error, BENCH_TEXT, "%s%s%.511s", what, *what ? ": " : "", reason);
    return code;
}

static int fail_status(const struct bench_gpu *gpu, char error[BENCH_TEXT], smla_status status)
{
    const char *detail = gpu->context ? smla_context_error(gpu->context) : "";
    return fail(error, report_exit_of(status), smla_status_name(status),
                *detail ? detail : smla_status_text(status));
}

/* ---- The GPU ---- */

static int open_context(struct bench_gpu *gpu, char error[BENCH_TEXT])
{
    smla_context_options options;
    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CUDA;
    options.detail = error;
    options.detail_size = BENCH_TEXT;
    smla_status status = smla_context_create(&gpu->context, &options);
    return status == SMLA_OK ? EXIT_RIGHT : report_exit_of(status);
}

static bool fill_pool(struct bench_gpu *gpu)
{
    int64_t rows = gpu->options.pool_rows ? gpu->options.pool_rows : POOL_ROWS;
    gpu->pool_rows = (rows + BENCH_BLOCK_SIZE - 1) / BENCH_BLOCK_SIZE * BENCH_BLOCK_SIZE;
    size_t bytes = (size_t)gpu->pool_rows * ROW_BYTES;
    gpu->pool = device_alloc(gpu->device, bytes);
    return gpu->pool && bench_floor_fill(&gpu->floor, gpu->pool, bytes, 1, gpu->stream) &&
           device_stream_wait(gpu->device, gpu->stream);
}

int bench_gpu_open(struct bench_gpu *gpu, const struct bench_gpu_options *options, char error[BENCH_TEXT])
{
    struct io_error reason;
    *gpu = (struct bench_gpu){.options = *options, .floor_us = NAN};
    gpu->device = device_open(0, &reason);
    if (!gpu->device)
        return fail(error, EXIT_UNSUPPORTED, "", reason.text);
    int code = open_context(gpu, error);
    if (code != EXIT_RIGHT)
        return code;
    gpu->stream = device_stream_new(gpu->device);
    if (!gpu->stream)
        return fail(error, EXIT_FAILED, "", device_error(gpu->device));
    if (!bench_floor_open(&gpu->floor, gpu->device, &reason))
        return fail(error, EXIT_FAILED, "", reason.text);
    if (!fill_pool(gpu))
        return fail(error, EXIT_FAILED, "pool", device_error(gpu->device));
    return EXIT_RIGHT;
}

void bench_gpu_close(struct bench_gpu *gpu)
{
    if (!gpu->device)
        return;
    bench_lists_free(&gpu->lists);
    device_free(gpu->device, gpu->pool);
    bench_floor_close(&gpu->floor);
    smla_context_destroy(gpu->context);
    device_stream_free(gpu->device, gpu->stream);
    device_close(gpu->device);
}

/* ---- A shape ---- */

int bench_gpu_lists(struct bench_gpu *gpu, const struct bench_case *shape, char error[BENCH_TEXT])
{
    const struct bench_lists_shape wanted = {.tokens = shape->tokens,
                                             .topk = shape->topk,
                                             .pool_blocks = gpu->pool_rows / BENCH_BLOCK_SIZE,
                                             .positions = gpu->options.positions,
                                             .invalid = gpu->options.invalid};
    struct io_error reason;
    if (gpu->lists.device && gpu->lists.tokens == shape->tokens && gpu->lists.topk == shape->topk)
        return EXIT_RIGHT;
    gpu->floor_us = NAN;
    if (!bench_lists_make(&gpu->lists, gpu->device, &wanted, &reason)) {
        bench_lists_free(&gpu->lists);
        return fail(error, EXIT_FAILED, "", reason.text);
    }
    return EXIT_RIGHT;
}

static smla_status open_plan(struct bench_gpu_case *open, const struct bench_case *shape)
{
    struct bench_gpu *gpu = open->gpu;
    smla_problem problem;
    smla_plan_options options;
    bench_problem(&problem, shape);
    problem.topk_kind = gpu->options.positions ? SMLA_TOPK_POSITIONS : SMLA_TOPK_SLOTS;
    smla_plan_options_init(&options);
    options.max_rows = shape->tokens;
    options.splits = gpu->options.splits;
    options.cuda_pdl = gpu->options.pdl;
    options.cuda_portable = gpu->options.portable;
    if (gpu->options.positions) {
        options.max_requests = shape->tokens;
        options.max_blocks = gpu->lists.width;
    }
    smla_status status = smla_plan_create(&open->plan, gpu->context, &problem, &options);
    open->info.struct_size = sizeof open->info;
    if (status == SMLA_OK)
        status = smla_plan_get_info(open->plan, &open->info);
    smla_tensors_init(&open->tensors, &problem);
    return status;
}

static smla_status open_step(struct bench_gpu_case *open)
{
    struct bench_gpu *gpu = open->gpu;
    smla_batch batch;
    if (!gpu->options.positions)
        return SMLA_OK;
    smla_status status = smla_step_create(&open->step, open->plan);
    bench_lists_batch(&gpu->lists, gpu->pool_rows / BENCH_BLOCK_SIZE, &batch);
    return status == SMLA_OK ? smla_step_update(open->step, &batch, gpu->stream) : status;
}

static bool place_tensors(struct bench_gpu_case *open, const struct bench_case *shape)
{
    struct bench_gpu *gpu = open->gpu;
    struct device *device = gpu->device;
    size_t queries = (size_t)shape->tokens * (size_t)shape->heads, q_bytes = queries * ROW_BYTES;
    open->workspace_bytes = smla_plan_workspace_bytes(open->plan);
    open->out_bytes = queries * 512 * sizeof(uint16_t);
    open->q = device_alloc(device, q_bytes);
    open->out = device_alloc(device, open->out_bytes);
    open->lse = device_alloc(device, queries * sizeof(float));
    open->workspace = device_alloc(device, open->workspace_bytes);
    if (!open->q || !open->out || !open->lse || !open->workspace)
        return false;
    smla_tensors *tensors = &open->tensors;
    tensors->rows = shape->tokens;
    tensors->q = open->q;
    tensors->kv_cache = gpu->pool;
    tensors->cache_blocks = gpu->pool_rows / BENCH_BLOCK_SIZE;
    tensors->out = open->out;
    tensors->lse = open->lse;
    /* all ones are NaN: a number that nothing writes is seen by the check */
    return bench_floor_fill(&gpu->floor, open->q, q_bytes, 2, gpu->stream) &&
           device_fill(device, open->out, 0xff, open->out_bytes, gpu->stream) &&
           device_fill(device, open->lse, 0xff, queries * sizeof(float), gpu->stream) &&
           device_fill(device, open->workspace, 0xff, open->workspace_bytes, gpu->stream);
}

int bench_gpu_case_open(struct bench_gpu_case *open, struct bench_gpu *gpu, const struct bench_case *shape,
                        char error[BENCH_TEXT])
{
    *open = (struct bench_gpu_case){.gpu = gpu};
    int code = bench_gpu_lists(gpu, shape, error);
    if (code != EXIT_RIGHT)
        return code;
    smla_status status = open_plan(open, shape);
    if (status == SMLA_OK)
        status = open_step(open);
    if (status != SMLA_OK)
        return fail_status(gpu, error, status);
    if (!place_tensors(open, shape))
        return fail(error, EXIT_FAILED, "tensors", device_error(gpu->device));
    /* once outside of any graph: whatever the library loads late is loaded now, and faults show */
    status = bench_gpu_case_run(open, 0);
    if (status != SMLA_OK)
        return fail_status(gpu, error, status);
    if (!device_stream_wait(gpu->device, gpu->stream))
        return fail(error, EXIT_FAILED, "the first run", device_error(gpu->device));
    return EXIT_RIGHT;
}

void bench_gpu_case_close(struct bench_gpu_case *open)
{
    struct device *device = open->gpu->device;
    smla_step_destroy(open->step);
    smla_plan_destroy(open->plan);
    device_free(device, open->q);
    device_free(device, open->out);
    device_free(device, open->lse);
    device_free(device, open->workspace);
}

smla_status bench_gpu_case_run(struct bench_gpu_case *open, int set)
{
    const struct bench_lists *lists = &open->gpu->lists;
    open->tensors.topk = lists->entries + (size_t)set * (size_t)lists->tokens * (size_t)lists->topk;
    return smla_run(open->plan, open->step, &open->tensors, open->workspace, open->workspace_bytes,
                    open->gpu->stream);
}

/* ---- Its time ---- */

static bool enqueue(void *cookie, int launch)
{
    return bench_gpu_case_run(cookie, launch) == SMLA_OK;
}

static void measure_floor(struct bench_gpu *gpu)
{
    const struct bench_lists *lists = &gpu->lists;
    if (!isnan(gpu->floor_us))
        return;
    gpu->floor_us = bench_floor_us(&gpu->floor, gpu->pool, lists->slots, lists->tokens * lists->topk,
                                   lists->sets, gpu->stream);
}

static void fill_result(struct bench_result *result, const struct bench_gpu_case *open,
                        const struct graph_time *time)
{
    double rows = open->gpu->lists.valid;
    snprintf(result->kernel, sizeof result->kernel, "%s", open->info.kernel);
    result->us = time->median;
    result->us_best = time->best;
    result->runs = BENCH_REPLAYS * open->gpu->lists.sets;
    result->gbps = 1e-3 * rows * ROW_BYTES / time->median;
    result->tflops = 1e-6 * rows * result->shape.heads * ROW_FLOPS / time->median;
    result->floor_us = open->gpu->floor_us;
    result->ratio = time->median / open->gpu->floor_us;
}

int bench_gpu_measure(struct bench_gpu *gpu, const struct bench_case *shape, struct bench_result *result)
{
    struct bench_gpu_case open;
    struct graph_time time;
    *result = (struct bench_result){
        .shape = *shape, .backend = SMLA_BACKEND_CUDA, .floor_us = NAN, .ratio = NAN, .peer_us = NAN};
    int code = bench_gpu_case_open(&open, gpu, shape, result->error);
    if (code == EXIT_RIGHT && gpu->options.check)
        code = bench_gpu_check(&open, result->error);
    if (code == EXIT_RIGHT) {
        measure_floor(gpu);
        if (graph_time(&time, gpu->device, gpu->stream, gpu->lists.sets, enqueue, &open)) {
            fill_result(result, &open, &time);
        } else {
            const char *detail = smla_context_error(gpu->context);
            code =
                fail(result->error, EXIT_FAILED, "the graph", *detail ? detail : device_error(gpu->device));
        }
    }
    bench_gpu_case_close(&open);
    return code;
}
