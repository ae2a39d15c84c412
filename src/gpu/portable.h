/* The decode lane for every GPU since sm_80: a row's list is cut over several CTAs, whose partial results lie in the
 * workspace until a second launch merges them. */
#ifndef SMLA_GPU_PORTABLE_H
#define SMLA_GPU_PORTABLE_H

#include "args.h"
#include "gpu.h"

struct smla__portable {
    struct CUfunc_st *decode, *merge;
};

/* Loads the kernels; the plan's context must be current. */
smla_status smla__portable_open(const smla_plan *plan, struct smla__portable *portable);

/* Bytes for any run of the plan, at any alignment. */
size_t smla__portable_workspace_bytes(const smla_plan *plan);

/* Enqueues a run; of the arguments only what concerns parts and heads is left to fill. */
smla_status smla__portable_run(const smla_plan *plan, const struct smla__portable *portable,
                               struct smla_decode_args *args, void *workspace, struct CUstream_st *stream);

#endif
