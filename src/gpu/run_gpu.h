/* Launches of the CUDA backend. */
#ifndef SMLA_RUN_GPU_H
#define SMLA_RUN_GPU_H

#include "internal.h"

smla_status smla__gpu_plan_open(smla_plan *plan);
void smla__gpu_plan_close(smla_plan *plan);
smla_status smla__gpu_run(const smla_plan *plan, const smla_step *step, const smla_tensors *tensors,
                          void *workspace, struct CUstream_st *stream);
smla_status smla__gpu_verify(smla_plan *plan, struct CUstream_st *stream, struct smla__offence *offence);
smla_status smla__gpu_cache_write(smla_context *context, const smla_problem *problem,
                                  const smla_cache_rows *rows, struct CUstream_st *stream);
smla_status smla__gpu_merge(smla_context *context, const smla_partials *partials, struct CUstream_st *stream);

#endif
