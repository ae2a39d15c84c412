/* Time of GPU work, by replaying a graph of it: no launch cost of the host is in the time. */
#ifndef BENCH_GRAPH_H
#define BENCH_GRAPH_H

#include <device.h>
#include <stdbool.h>

enum { BENCH_REPLAYS = 11 };

struct graph_time {
    double median, best; /* microseconds of one launch */
};

/* Records `launches` calls of `enqueue`, which must only enqueue on `stream`, replays them three times to warm up and
 * eleven times for the time. False if a call or the driver fails; device_error says so unless the call did. */
bool graph_time(struct graph_time *time, struct device *device, struct CUstream_st *stream, int launches,
                bool (*enqueue)(void *cookie, int launch), void *cookie);

#endif
