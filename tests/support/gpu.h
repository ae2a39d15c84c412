/*
 * The kernel tests on a GPU: with SMLA_TEST_BACKEND=cuda in the environment every scene runs on the CUDA backend, its
 * tensors copied to device memory of the same layout, with a margin before and behind each that must stay as it is.
 */
#ifndef TEST_GPU_H
#define TEST_GPU_H

#include <device.h>

#include "runner.h"

/* Is this run to use the GPU? */
bool gpu_mode(void);

/* Why there is no GPU for it; NULL if there is one. */
const char *gpu_absent(void);

/* The GPU, opened once; ends the program if that fails. */
struct device *gpu_device(void);

/* In GPU mode a stride or gap rounded up as the CUDA backend wants it, else as it is. */
int64_t gpu_gap(int64_t bytes);

/* smla_run of tensors that lie in the stage's buffers: copies in, runs with a poisoned workspace of the plan's size, waits,
 * copies out and lse back.
 * *kept says whether inputs and margins stayed as they were. */
smla_status gpu_run(const smla_plan *plan, const smla_step *step, const struct stage *stage,
                    const smla_tensors *tensors, bool *kept);

#endif
