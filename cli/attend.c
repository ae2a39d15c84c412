#include "attend.h"

#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "report.h"
#include "timing.h"

static int fail(struct attend *attend, smla_status status, const char *detail)
{
    snprintf(attend->error, sizeof attend->error, "%s",
             detail && *detail ? detail : smla_status_text(status));
    return report_exit_of(status);
}

static void fill_problem(struct attend *attend, const struct capture *capture)
{
    smla_problem *problem = &attend->problem;
    smla_tensors *tensors = &attend->tensors;
    smla_problem_init(problem);
    problem->heads = (int32_t)capture->heads;
    problem->topk = (int32_t)capture->topk;
    problem->block_size = (int32_t)capture->block_size;
    problem->scale = (float)capture->scale;
    problem->out_dtype = SMLA_F32;
    smla_tensors_init(tensors, problem);
    tensors->rows = capture->rows;
    tensors->q = capture->q;
    tensors->kv_cache = capture->kv_cache;
    tensors->cache_blocks = capture->cache_blocks;
    tensors->topk = capture->topk_indices;
    tensors->topk_length = capture->topk_length;
    tensors->sinks = capture->sinks;
}

/* One for each CPU, but none that would have less than about a millisecond to do: a small step would cost more
 * in waking and waiting threads, and in their memory, than it gains. */
static int32_t default_threads(const struct attend *attend)
{
    smla_machine machine = {.struct_size = sizeof machine};
    double flops = 2.0 * (CAPTURE_ROW + CAPTURE_LATENT) * (double)attend->tensors.rows *
                   (double)attend->problem.heads * (double)attend->problem.topk;
    double useful = 1 + flops / 1e8;
    if (smla_machine_query(&machine) != SMLA_OK)
        return 0;
    return useful < machine.cpus ? (int32_t)useful : machine.cpus;
}

static smla_status open_context(struct attend *attend, const struct attend_options *options,
                                struct attend_verdict *verdict)
{
    smla_context_options context_options;
    smla_context_options_init(&context_options);
    context_options.backend = (int32_t)verdict->backend;
    context_options.threads = options->threads ? options->threads : default_threads(attend);
    context_options.detail = verdict->reason;
    context_options.detail_size = sizeof verdict->reason;
    if (options->isa >= 0)
        context_options.isa_mask = 1u << options->isa;
    return smla_context_create(&attend->context, &context_options);
}

/* Opens the backend if it can be used, else says why not. The GPU's tensors are judged when they are in its
 * memory: here they still lie in the file. */
static smla_status try_backend(struct attend *attend, const struct attend_options *options,
                               struct attend_verdict *verdict)
{
    bool gpu = verdict->backend == SMLA_BACKEND_CUDA;
    struct io_error error;
    if (options->backend != SMLA_BACKEND_AUTO && options->backend != (int)verdict->backend) {
        snprintf(verdict->reason, sizeof verdict->reason, "not asked for");
        return SMLA_UNSUPPORTED_BACKEND;
    }
    smla_status status =
        smla_support_query(&attend->problem, verdict->backend, 0, gpu ? NULL : &attend->tensors,
                           verdict->reason, sizeof verdict->reason);
    if (status != SMLA_OK)
        return SMLA_UNSUPPORTED_BACKEND;
    if (gpu && !attend_gpu_open(&attend->gpu, &error)) {
        snprintf(verdict->reason, sizeof verdict->reason, "%.*s", ATTEND_TEXT - 1, error.text);
        return SMLA_ERROR_DEVICE;
    }
    status = open_context(attend, options, verdict);
    if (status != SMLA_OK && gpu)
        attend_gpu_close(&attend->gpu);
    return status;
}

static int choose_backend(struct attend *attend, const struct attend_options *options)
{
    smla_backend id;
    int wanted = options->backend, code = EXIT_UNSUPPORTED;
    smla_status status;
    size_t used = 0;
    for (int i = 0; i < ATTEND_BACKENDS && (id = smla_backend_at(i)) != SMLA_BACKEND_AUTO; i++) {
        struct attend_verdict *verdict = &attend->verdicts[attend->verdict_count++];
        verdict->backend = id;
        if (attend->chosen != SMLA_BACKEND_AUTO)
            snprintf(verdict->reason, sizeof verdict->reason, "not needed");
        else if ((status = try_backend(attend, options, verdict)) == SMLA_OK)
            attend->chosen = id;
        else if (wanted == SMLA_BACKEND_AUTO || wanted == (int)id)
            code = report_exit_of(status);
    }
    if (attend->chosen != SMLA_BACKEND_AUTO)
        return EXIT_RIGHT;
    for (int i = 0; i < attend->verdict_count && used < sizeof attend->error; i++) {
        const struct attend_verdict *verdict = &attend->verdicts[i];
        if (wanted == SMLA_BACKEND_AUTO || wanted == (int)verdict->backend)
            used += (size_t)snprintf(attend->error + used, sizeof attend->error - used, "%sbackend %s: %s",
                                     used ? "; " : "", smla_backend_name(verdict->backend), verdict->reason);
    }
    return code;
}

static int open_plan(struct attend *attend, const struct capture *capture, const struct attend_options *asked)
{
    smla_plan_options options;
    smla_plan_options_init(&options);
    options.max_rows = capture->rows;
    options.max_requests = capture->requests;
    options.max_blocks = capture->block_table_width;
    options.cuda_pdl = asked->pdl;
    options.cuda_portable = asked->portable;
    smla_status status = smla_plan_create(&attend->plan, attend->context, &attend->problem, &options);
    attend->plan_info.struct_size = sizeof attend->plan_info;
    if (status == SMLA_OK)
        status = smla_plan_get_info(attend->plan, &attend->plan_info);
    if (status == SMLA_OK)
        status = smla_step_create(&attend->step, attend->plan);
    return status == SMLA_OK ? EXIT_RIGHT : fail(attend, status, smla_context_error(attend->context));
}

static int update_step(struct attend *attend, const struct capture *capture)
{
    smla_batch batch;
    smla_batch_init(&batch);
    batch.requests = capture->requests;
    batch.rows = capture->rows;
    batch.query_start_loc = capture->query_start_loc;
    batch.seq_lens = capture->seq_lens;
    batch.block_table = capture->block_table;
    batch.block_table_width = capture->block_table_width;
    batch.block_table_stride = capture->block_table_width * (int64_t)sizeof(int32_t);
    batch.cache_blocks = capture->cache_blocks;
    smla_status status = smla_step_update(attend->step, &batch, attend->gpu.stream);
    attend->step_info.struct_size = sizeof attend->step_info;
    if (status == SMLA_OK)
        status = smla_step_get_info(attend->step, &attend->step_info);
    return status == SMLA_OK ? EXIT_RIGHT : fail(attend, status, smla_context_error(attend->context));
}

static int make_room(struct attend *attend, const struct capture *capture)
{
    size_t queries = (size_t)capture->rows * (size_t)capture->heads;
    size_t workspace = smla_plan_workspace_bytes(attend->plan);
    attend->out = calloc(queries * CAPTURE_LATENT, sizeof(float));
    attend->lse = calloc(queries, sizeof(float));
    if (!attend->gpu.device)
        attend->workspace = malloc(workspace ? workspace : 1);
    if (!attend->out || !attend->lse || (!attend->gpu.device && !attend->workspace))
        return fail(attend, SMLA_ERROR_MEMORY, "no memory for the result");
    attend->tensors.out = attend->out;
    attend->tensors.lse = attend->lse;
    if (attend->gpu.device &&
        !attend_gpu_place(&attend->gpu, capture, &attend->tensors, workspace, &attend->workspace))
        return fail(attend, SMLA_ERROR_DEVICE, device_error(attend->gpu.device));
    return EXIT_RIGHT;
}

static int run_once(void *cookie)
{
    struct attend *attend = cookie;
    return (int)smla_run(attend->plan, attend->step, &attend->tensors, attend->workspace,
                         smla_plan_workspace_bytes(attend->plan), attend->gpu.stream);
}

static int run_on_cpu(void *cookie)
{
    struct attend *attend = cookie;
    int status = run_once(attend);
    if (attend->first_result == 0)
        attend->first_result = report_clock();
    return status;
}

/* The answer, which is fetched before anything else. */
static int run_on_gpu(struct attend *attend, const struct capture *capture, struct timing *timing)
{
    struct attend_gpu *gpu = &attend->gpu;
    int status = run_once(attend);
    if (status)
        return status;
    if (!attend_gpu_fetch(gpu, capture, &attend->tensors, attend->out, attend->lse))
        return -1;
    attend->first_result = report_clock();
    return attend_gpu_time(gpu, timing, run_once, attend);
}

static int run_timed(struct attend *attend, const struct capture *capture, double budget)
{
    struct timing timing = {0};
    struct attend_gpu *gpu = &attend->gpu;
    int status = gpu->device ? run_on_gpu(attend, capture, &timing)
                             : timing_measure(&timing, run_on_cpu, attend, budget);
    if (status < 0)
        return fail(attend, SMLA_ERROR_DEVICE, device_error(gpu->device));
    attend->median = timing.median;
    attend->best = timing.best;
    attend->runs = timing.runs;
    return status ? fail(attend, (smla_status)status, smla_context_error(attend->context)) : EXIT_RIGHT;
}

int attend_run(struct attend *attend, const struct capture *capture, const struct attend_options *options,
               double budget)
{
    *attend = (struct attend){.chosen = SMLA_BACKEND_AUTO};
    fill_problem(attend, capture);
    int code = choose_backend(attend, options);
    if (code == EXIT_RIGHT)
        code = open_plan(attend, capture, options);
    if (code == EXIT_RIGHT)
        code = update_step(attend, capture);
    if (code == EXIT_RIGHT)
        code = make_room(attend, capture);
    if (code == EXIT_RIGHT)
        code = run_timed(attend, capture, budget);
    /* what follows looks at the result alone, and a small capture's run should stay small */
    if (!attend->gpu.device)
        free(attend->workspace);
    attend->workspace = NULL;
    return code;
}

void attend_close(struct attend *attend)
{
    free(attend->lse);
    free(attend->out);
    smla_step_destroy(attend->step);
    smla_plan_destroy(attend->plan);
    smla_context_destroy(attend->context);
    attend_gpu_close(&attend->gpu);
}
