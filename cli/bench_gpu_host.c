/* What a call costs the host: the GPU's work is small and drained now and then, so that no queue fills up. */
#include <stdio.h>

#include "bench_gpu.h"
#include "command.h"
#include "report.h"
#include "timing.h"

/* Runs queue up, as an engine's do; an update would wait for the one before the last, so each finds the GPU idle. */
enum { CALLS = 2000, DRAIN_RUNS = 50, DRAIN_UPDATES = 1 };

static smla_status call_run(struct bench_gpu_case *open, const smla_batch *batch, int i)
{
    (void)batch;
    return bench_gpu_case_run(open, i % open->gpu->lists.sets);
}

static smla_status call_update(struct bench_gpu_case *open, const smla_batch *batch, int i)
{
    (void)i;
    return smla_step_update(open->step, batch, open->gpu->stream);
}

/* Median of many calls, microseconds. */
static smla_status time_calls(struct bench_gpu_case *open, const smla_batch *batch,
                              smla_status (*call)(struct bench_gpu_case *, const smla_batch *, int),
                              int drain, double *median)
{
    static double times[CALLS];
    struct timing summary;
    struct bench_gpu *gpu = open->gpu;
    for (int i = 0; i < CALLS; i++) {
        if (i % drain == 0 && !device_stream_wait(gpu->device, gpu->stream))
            return SMLA_ERROR_DEVICE;
        double before = report_clock();
        smla_status status = call(open, batch, i);
        times[i] = 1e6 * (report_clock() - before);
        if (status != SMLA_OK)
            return status;
    }
    timing_summarise(&summary, times, CALLS);
    *median = summary.median;
    return device_stream_wait(gpu->device, gpu->stream) ? SMLA_OK : SMLA_ERROR_DEVICE;
}

int bench_gpu_host_cost(struct bench_gpu *gpu, const struct bench_case *shape, struct bench_host_cost *cost,
                        char error[BENCH_TEXT])
{
    struct bench_gpu_case open;
    smla_batch batch;
    int code = bench_gpu_case_open(&open, gpu, shape, error);
    if (code == EXIT_RIGHT) {
        bench_lists_batch(&gpu->lists, gpu->pool_rows / BENCH_BLOCK_SIZE, &batch);
        smla_status status = time_calls(&open, &batch, call_run, DRAIN_RUNS, &cost->run_us);
        if (status == SMLA_OK)
            status = time_calls(&open, &batch, call_update, DRAIN_UPDATES, &cost->update_us);
        if (status != SMLA_OK) {
            const char *detail = smla_context_error(gpu->context);
            snprintf(error, BENCH_TEXT, "%s", *detail ? detail : device_error(gpu->device));
            code = report_exit_of(status);
        }
    }
    bench_gpu_case_close(&open);
    return code;
}
