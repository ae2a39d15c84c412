/* A run on the CPU: its state lies in the workspace, where slices find it. */
#ifndef SMLA_RUN_CPU_H
#define SMLA_RUN_CPU_H

#include "cpu_ops.h"

/* Bytes of workspace for any run of the plan on up to `workers` threads, at any alignment. */
size_t smla__cpu_workspace_bytes(const smla_plan *plan, const struct smla__attn *attn, int32_t workers);

/* Prepares the workspace for `workers` workers. */
void smla__cpu_begin(const smla_plan *plan, const struct smla__attn *attn, const smla_step *step,
                     const smla_tensors *tensors, void *workspace, int32_t workers);

/* Workers that the prepared run was given, and how many of them it can keep busy. */
int32_t smla__cpu_workers(void *workspace);
int32_t smla__cpu_useful_workers(void *workspace);

/* One worker: takes and does pieces until none is left. False, and nothing done, past the number of workers. */
bool smla__cpu_work(void *workspace);

#endif
