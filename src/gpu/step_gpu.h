/* A step's metadata in device memory, at addresses that never move. */
#ifndef SMLA_STEP_GPU_H
#define SMLA_STEP_GPU_H

#include "args.h"
#include "gpu.h"

smla_status smla__gpu_step_open(smla_step *step);
void smla__gpu_step_close(smla_step *step);
/* Before anything changes: refuses a stream that is being captured. */
smla_status smla__gpu_step_begin(smla_step *step, struct CUstream_st *stream);
smla_status smla__gpu_step_upload(smla_step *step, struct CUstream_st *stream);

/* Device addresses of the metadata, for a kernel's arguments. */
void smla__gpu_step_lists(const smla_step *step, struct smla_lists *lists);

#endif
