#include "bench_floor.h"

#include <math.h>

#include "bench_graph.h"
#include "floor_image.h"

enum { ROW_BYTES = 1152, FILL_THREADS = 256, FILL_BLOCKS_PER_PROCESSOR = 8 };

/* The shapes of bench/gather_floor.cu. */
static const struct shape {
    const char *name;
    int stages, tile, threads;
} shapes[FLOOR_SHAPES] = {{"gather_floor_3x64_256", 3, 64, 256},
                          {"gather_floor_3x64_512", 3, 64, 512},
                          {"gather_floor_8x16_128", 8, 16, 128},
                          {"gather_floor_6x32_256", 6, 32, 256}};

static int shared_bytes(int shape)
{
    return shapes[shape].stages * shapes[shape].tile * ROW_BYTES;
}

bool bench_floor_open(struct bench_floor *floor, struct device *device, struct io_error *error)
{
    *floor = (struct bench_floor){.device = device};
    if (!floor_image())
        return io_fail(error,
                       "this tool was built without nvcc and lacks the kernels that its GPU benchmark needs");
    floor->image = device_image_load(device, floor_image());
    if (floor->image)
        floor->fill = device_kernel(device, floor->image, "fill_random", 0);
    if (floor->fill)
        floor->sink = device_alloc(device, sizeof *floor->sink);
    if (!floor->sink) {
        io_fail(error, "the benchmark's own kernels: %s", device_error(device));
        bench_floor_close(floor);
        return false;
    }
    for (int i = 0; i < FLOOR_SHAPES; i++)
        if (shared_bytes(i) <= device_facts(device)->shared_bytes)
            floor->gather[i] = device_kernel(device, floor->image, shapes[i].name, shared_bytes(i));
    return true;
}

void bench_floor_close(struct bench_floor *floor)
{
    if (!floor->device)
        return;
    device_free(floor->device, floor->sink);
    device_image_free(floor->device, floor->image);
    *floor = (struct bench_floor){0};
}

bool bench_floor_fill(const struct bench_floor *floor, void *to, size_t bytes, uint64_t seed,
                      struct CUstream_st *stream)
{
    uint64_t pairs = bytes / 4;
    void *arguments[] = {&to, &pairs, &seed};
    unsigned grid = (unsigned)device_facts(floor->device)->processors * FILL_BLOCKS_PER_PROCESSOR;
    return device_launch(floor->device, floor->fill, grid, FILL_THREADS, 0, stream, arguments);
}

struct floor_run {
    const struct bench_floor *floor;
    int shape;
    const void *pool;
    const int32_t *lists;
    int64_t total;
    struct CUstream_st *stream;
};

static bool enqueue(void *cookie, int launch)
{
    const struct floor_run *run = cookie;
    const void *pool = run->pool;
    const int32_t *list = run->lists + launch * run->total;
    int total = (int)run->total;
    uint32_t *sink = run->floor->sink;
    void *arguments[] = {&pool, &list, &total, &sink};
    return device_launch(run->floor->device, run->floor->gather[run->shape],
                         (unsigned)device_facts(run->floor->device)->processors,
                         (unsigned)shapes[run->shape].threads, (unsigned)shared_bytes(run->shape),
                         run->stream, arguments);
}

double bench_floor_us(const struct bench_floor *floor, const void *pool, const int32_t *lists, int64_t total,
                      int sets, struct CUstream_st *stream)
{
    double best = NAN;
    for (int i = 0; i < FLOOR_SHAPES; i++) {
        struct floor_run run = {floor, i, pool, lists, total, stream};
        struct graph_time time;
        if (!floor->gather[i] || !graph_time(&time, floor->device, stream, sets, enqueue, &run))
            continue;
        best = fmin(best, time.median);
    }
    return best;
}
