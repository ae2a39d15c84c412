#include "attend_gpu.h"

#include "bench_graph.h"
#include "report.h"

/* Reading past what was written would be seen as NaN. */
enum { POISON = 0xff };

bool attend_gpu_open(struct attend_gpu *gpu, struct io_error *error)
{
    *gpu = (struct attend_gpu){.device = device_open(0, error)};
    if (!gpu->device)
        return false;
    gpu->stream = device_stream_new(gpu->device);
    if (gpu->stream)
        return true;
    io_fail(error, "%s", device_error(gpu->device));
    attend_gpu_close(gpu);
    return false;
}

void attend_gpu_close(struct attend_gpu *gpu)
{
    if (!gpu->device)
        return;
    for (int i = 0; i < gpu->block_count; i++)
        device_free(gpu->device, gpu->blocks[i]);
    device_stream_free(gpu->device, gpu->stream);
    device_close(gpu->device);
    *gpu = (struct attend_gpu){0};
}

static void *make(struct attend_gpu *gpu, size_t bytes)
{
    void *block = device_alloc(gpu->device, bytes);
    if (block)
        gpu->blocks[gpu->block_count++] = block;
    return block && device_fill(gpu->device, block, POISON, bytes, gpu->stream) ? block : NULL;
}

/* A copy on the GPU. NULL on failure. */
static void *send(struct attend_gpu *gpu, const void *from, size_t bytes)
{
    void *block = device_alloc(gpu->device, bytes);
    if (block)
        gpu->blocks[gpu->block_count++] = block;
    return block && device_upload_async(gpu->device, block, from, bytes, gpu->stream) ? block : NULL;
}

bool attend_gpu_place(struct attend_gpu *gpu, const struct capture *capture, smla_tensors *tensors,
                      size_t workspace_bytes, void **workspace)
{
    size_t rows = (size_t)capture->rows, heads = (size_t)capture->heads, queries = rows * heads;
    size_t cache = (size_t)capture->cache_blocks * (size_t)capture->block_size;
    tensors->q = send(gpu, capture->q, queries * CAPTURE_ROW * sizeof(uint16_t));
    tensors->kv_cache = send(gpu, capture->kv_cache, cache * CAPTURE_ROW * sizeof(uint16_t));
    tensors->topk = send(gpu, capture->topk_indices, rows * (size_t)capture->topk * sizeof(int32_t));
    if (capture->topk_length)
        tensors->topk_length = send(gpu, capture->topk_length, rows * sizeof(int32_t));
    if (capture->sinks)
        tensors->sinks = send(gpu, capture->sinks, heads * sizeof(float));
    tensors->out = make(gpu, queries * CAPTURE_LATENT * sizeof(float));
    tensors->lse = make(gpu, queries * sizeof(float));
    *workspace = make(gpu, workspace_bytes);
    return tensors->q && tensors->kv_cache && tensors->topk && tensors->out && tensors->lse && *workspace &&
           (tensors->topk_length || !capture->topk_length) && (tensors->sinks || !capture->sinks);
}

bool attend_gpu_fetch(struct attend_gpu *gpu, const struct capture *capture, const smla_tensors *tensors,
                      float *out, float *lse)
{
    size_t queries = (size_t)capture->rows * (size_t)capture->heads;
    return device_download_async(gpu->device, out, tensors->out, queries * CAPTURE_LATENT * sizeof(float),
                                 gpu->stream) &&
           device_download(gpu->device, lse, tensors->lse, queries * sizeof(float), gpu->stream);
}

struct timed_run {
    int (*work)(void *cookie);
    void *cookie;
    int status; /* of the last call */
};

static bool enqueue(void *cookie, int launch)
{
    struct timed_run *run = cookie;
    (void)launch;
    run->status = run->work(run->cookie);
    return !run->status;
}

/* As many launches in one graph as make the gap before it small, but one of long runs. */
static int launches_for(struct attend_gpu *gpu, struct timed_run *run)
{
    enum { SHORT_RUNS = 16 };
    double begin = report_clock();
    if (!enqueue(run, 0) || !device_stream_wait(gpu->device, gpu->stream))
        return 0;
    return report_clock() - begin < 1e-3 ? SHORT_RUNS : 1;
}

int attend_gpu_time(struct attend_gpu *gpu, struct timing *timing, int (*work)(void *cookie), void *cookie)
{
    struct timed_run run = {work, cookie, 0};
    struct graph_time time;
    int launches = launches_for(gpu, &run);
    if (!launches || !graph_time(&time, gpu->device, gpu->stream, launches, enqueue, &run))
        return run.status ? run.status : -1;
    *timing = (struct timing){
        .median = 1e-6 * time.median, .best = 1e-6 * time.best, .runs = launches * BENCH_REPLAYS};
    return 0;
}
