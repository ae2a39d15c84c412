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

/* Is it to use the kernels for any GPU there (SMLA_TEST_BACKEND=cuda-portable)? */
bool gpu_portable(void);

/* Why there is no GPU for it; NULL if there is one. */
const char *gpu_absent(void);

/* The GPU, opened once; ends the program if that fails. */
struct device *gpu_device(void);

/* In GPU mode a stride or gap rounded up as the CUDA backend wants it, else as it is. */
int64_t gpu_gap(int64_t bytes);

/* Ends the program with the device's last error if a call on it failed. */
void gpu_must(bool done);

/* Device memory that holds a copy of these bytes. */
void *gpu_copy_of(const void *from, size_t bytes);

/*
 * Device memory for the buffers of a stage, each with a margin before and behind. It stays where it is: another stage
 * of the same layout can be loaded into it, so that a captured graph finds new contents at the old addresses.
 */
struct gpu_site;
struct gpu_site *gpu_site_open(const struct stage *stage);
void gpu_site_close(struct gpu_site *site);

/* Copies everything in, outputs as they are in the stage, and waits. */
void gpu_site_load(struct gpu_site *site, const struct stage *stage);

/* Tensors that lie in the buffers of the stage that was loaded last, at their device addresses. */
smla_tensors gpu_site_tensors(const struct gpu_site *site, const smla_tensors *tensors);

/* Waits for all work, brings out and lse into the stage that was loaded last, and tells whether everything else is as
 * it was loaded. */
bool gpu_site_fetch(struct gpu_site *site);

/* smla_run of tensors that lie in the stage's buffers: copies in, runs with a poisoned workspace of the plan's size, waits,
 * copies out and lse back.
 * *kept says whether inputs and margins stayed as they were. */
smla_status gpu_run(const smla_plan *plan, const smla_step *step, const struct stage *stage,
                    const smla_tensors *tensors, bool *kept);

#endif
