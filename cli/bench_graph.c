#include "bench_graph.h"

#include <math.h>

#include "timing.h"

enum { WARM_UP = 3 };

static struct CUgraphExec_st *record(struct device *device, struct CUstream_st *stream, int launches,
                                     bool (*enqueue)(void *cookie, int launch), void *cookie)
{
    bool good = true;
    if (!device_capture_begin(device, stream, DEVICE_CAPTURE_THREAD))
        return NULL;
    for (int i = 0; good && i < launches; i++)
        good = enqueue(cookie, i);
    struct CUgraphExec_st *graph = device_capture_end(device, stream);
    if (!good) {
        device_graph_free(device, graph);
        return NULL;
    }
    return graph;
}

static double replay(struct device *device, struct CUstream_st *stream, struct CUgraphExec_st *graph,
                     struct CUevent_st *begin, struct CUevent_st *end)
{
    if (!device_event_record(device, begin, stream) || !device_graph_launch(device, graph, stream) ||
        !device_event_record(device, end, stream))
        return NAN;
    return device_elapsed_us(device, begin, end);
}

bool graph_time(struct graph_time *time, struct device *device, struct CUstream_st *stream, int launches,
                bool (*enqueue)(void *cookie, int launch), void *cookie)
{
    double times[BENCH_REPLAYS];
    struct timing summary;
    struct CUevent_st *begin = device_event_new(device), *end = device_event_new(device);
    struct CUgraphExec_st *graph = begin && end ? record(device, stream, launches, enqueue, cookie) : NULL;
    bool good = graph != NULL;
    for (int i = 0; good && i < WARM_UP + BENCH_REPLAYS; i++) {
        double us = replay(device, stream, graph, begin, end);
        good = !isnan(us);
        if (i >= WARM_UP)
            times[i - WARM_UP] = us / launches;
    }
    if (good) {
        timing_summarise(&summary, times, BENCH_REPLAYS);
        *time = (struct graph_time){summary.median, summary.best};
    }
    device_graph_free(device, graph);
    device_event_free(device, end);
    device_event_free(device, begin);
    return good;
}
