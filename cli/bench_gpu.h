/* The benchmark on a GPU: shapes measured by graph replay over cold lists, beside the gather floor of those lists. */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include <smla/smla.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench_case.h"
#include "bench_floor.h"
#include "bench_lists.h"

struct bench_gpu_options {
    bool pdl, portable, positions, check;
    double invalid;    /* share of list entries that are -1 */
    int splits;        /* 0: the planner chooses */
    int64_t pool_rows; /* 0: 2M */
};

struct bench_gpu {
    struct bench_gpu_options options;
    struct device *device;
    struct CUstream_st *stream;
    struct bench_floor floor;
    smla_context *context;
    void *pool; /* [pool_rows, 576] bf16 */
    int64_t pool_rows;
    struct bench_lists lists; /* of the shape measured last */
    double floor_us;          /* of these lists */
};

/* A shape, ready to run. */
struct bench_gpu_case {
    struct bench_gpu *gpu;
    smla_plan *plan;
    smla_step *step;
    smla_tensors tensors;
    void *q, *out, *workspace;
    float *lse;
    size_t workspace_bytes, out_bytes;
    smla_plan_info info;
};

/* Opens GPU 0 and fills the pool; gives an exit code, and with any but EXIT_RIGHT a reason. Close in any case. */
int bench_gpu_open(struct bench_gpu *gpu, const struct bench_gpu_options *options, char error[BENCH_TEXT]);
void bench_gpu_close(struct bench_gpu *gpu);

/* Fills everything but peer_us; gives an exit code. With the option `check` some rows are compared with float64
 * first. */
int bench_gpu_measure(struct bench_gpu *gpu, const struct bench_case *shape, struct bench_result *result);

/* Host time of a call of smla_run and of smla_step_update, microseconds, medians of many; gives an exit code.
 * The option `positions` must be set, so that there is a step. */
struct bench_host_cost {
    double run_us, update_us;
};
int bench_gpu_host_cost(struct bench_gpu *gpu, const struct bench_case *shape, struct bench_host_cost *cost,
                        char error[BENCH_TEXT]);

/* Used among the bench_gpu files: lists for the shape, then plan and tensors. Give an exit code. */
int bench_gpu_lists(struct bench_gpu *gpu, const struct bench_case *shape, char error[BENCH_TEXT]);
int bench_gpu_case_open(struct bench_gpu_case *open, struct bench_gpu *gpu, const struct bench_case *shape,
                        char error[BENCH_TEXT]);
void bench_gpu_case_close(struct bench_gpu_case *open);
smla_status bench_gpu_case_run(struct bench_gpu_case *open, int set);

/* Compares rows of a run of set 0 with float64, and sees that every row was written. */
int bench_gpu_check(struct bench_gpu_case *open, char error[BENCH_TEXT]);

#endif
