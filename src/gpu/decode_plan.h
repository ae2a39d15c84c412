/* Which decode kernel a step of so many rows gets, and how its launch looks. */
#ifndef SMLA_DECODE_PLAN_H
#define SMLA_DECODE_PLAN_H

#include "gpu.h"

/* A kernel that this GPU can run. */
struct smla__decode_kernel {
    struct CUfunc_st *function;
    char name[24];
    int heads; /* heads of a CTA, at most */
    int ranks; /* CTAs that share a row: a cluster */
    int threads, shared_bytes;
    bool takes_turns;              /* CTAs take rows in turn; else there is one for each row */
    double start, compute, memory; /* microseconds, see decode_plan.c */
    int resident;                  /* clusters that the GPU holds at once */
};

enum { SMLA__DECODE_KERNELS = 27 };

struct smla__decode_plan {
    struct smla__decode_kernel kernels[SMLA__DECODE_KERNELS];
    int count;
    const struct smla__decode_kernel *fixed; /* for every row count, if the plan demands that */
    const struct smla__decode_kernel *last;  /* the latest choice, and for how many rows */
    int64_t last_rows;
};

/* Loads the kernels that may serve the plan. The plan's context must be current. */
smla_status smla__decode_plan_open(smla_plan *plan, struct smla__decode_plan *decode);

/* The kernel for a run of `rows` rows. */
const struct smla__decode_kernel *smla__decode_choose(const smla_plan *plan, struct smla__decode_plan *decode,
                                                      int64_t rows);

/* CTAs of a row and rank: each has at most kernel->heads of the run's heads. */
int smla__decode_head_groups(const smla_plan *plan, const struct smla__decode_kernel *kernel);

/* The launch of a run. */
struct smla__grid smla__decode_grid(const smla_plan *plan, const struct smla__decode_kernel *kernel,
                                    int64_t rows);

#endif
