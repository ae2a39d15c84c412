/* The GPU's side of attend: its memory, the copies to and from it, and the time of a run there. */
#ifndef ATTEND_GPU_H
#define ATTEND_GPU_H

#include <capture.h>
#include <device.h>
#include <smla/smla.h>
#include <stdbool.h>

#include "timing.h"

enum { ATTEND_GPU_BLOCKS = 8 };

struct attend_gpu {
    struct device *device;
    struct CUstream_st *stream;
    void *blocks[ATTEND_GPU_BLOCKS]; /* device memory, freed by close */
    int block_count;
};

/* Opens GPU 0, whose context is then the thread's current one. */
bool attend_gpu_open(struct attend_gpu *gpu, struct io_error *error);
void attend_gpu_close(struct attend_gpu *gpu);

/* Uploads what the capture holds and lets the tensors point there; out and lse are made, as is the workspace. */
bool attend_gpu_place(struct attend_gpu *gpu, const struct capture *capture, smla_tensors *tensors,
                      size_t workspace_bytes, void **workspace);

/* Brings the result here: out [T, H, 512] and lse [T, H], fp32. Waits. */
bool attend_gpu_fetch(struct attend_gpu *gpu, const struct capture *capture, const smla_tensors *tensors,
                      float *out, float *lse);

/* Time of a run on the GPU, from replays of a graph: `work` enqueues a run and gives its status, 0 for success. Gives
 * the status of a run that failed, or -1 if the driver did. */
int attend_gpu_time(struct attend_gpu *gpu, struct timing *timing, int (*work)(void *cookie), void *cookie);

#endif
