/* Checked plans: their record of the first offence, in device memory, and the two launches that keep it. */
#ifndef SMLA_CHECK_GPU_H
#define SMLA_CHECK_GPU_H

#include "args.h"
#include "gpu.h"

struct smla__gpu_check {
    struct CUfunc_st *find, *note;
    uint64_t record; /* a struct smla_offence; 0: the plan is not checked */
};

/* All but verify want the plan's context to be current. */
smla_status smla__gpu_check_open(struct smla__gpu *gpu, struct smla__gpu_check *check,
                                 struct smla__detail *detail);
void smla__gpu_check_close(const struct smla__gpu *gpu, struct smla__gpu_check *check);

/* Enqueues the check of a run's lists. */
smla_status smla__gpu_check_run(const struct smla__gpu *gpu, const struct smla__gpu_check *check,
                                const struct smla_lists *lists, int64_t rows, struct CUstream_st *stream,
                                struct smla__detail *detail);

/* Waits for the stream and takes the record out. */
smla_status smla__gpu_check_verify(const struct smla__gpu *gpu, const struct smla__gpu_check *check,
                                   struct CUstream_st *stream, struct smla__offence *offence,
                                   struct smla__detail *detail);

#endif
