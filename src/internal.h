/*
 * What the host library shares: the objects behind the public handles, and the table of functions
 * through which it reaches a backend. src/cpu and src/gpu each fill one table and know only this file.
 */
#ifndef SMLA_INTERNAL_H
#define SMLA_INTERNAL_H

#include <smla/smla.h>
#include <stdbool.h>

#include "detail.h"

enum {
    SMLA__LATENT = 512, /* kv_lora_rank, also the width of out */
    SMLA__ROPE = 64,
    SMLA__ROW = SMLA__LATENT + SMLA__ROPE,
    SMLA__HEADS_MAX = 128,
    SMLA__SPLITS_MAX = 64,
    SMLA__THREADS_MAX = 1024
};

/* Row metadata of a batch in host memory, all of it copied from the caller. */
struct smla__lanes {
    smla_step_info info;       /* its arrays point at the two below */
    int32_t *row_request;      /* [max_rows] */
    int32_t *lane_rows;        /* [max_rows] */
    int32_t *seq_lens;         /* [max_requests] */
    int32_t *block_table;      /* [max_requests, max_blocks], set as far as a seq_len reaches */
    int64_t block_table_width; /* columns in use of the current batch; 0 = no table was given */
    int64_t cache_blocks;      /* of the current batch */
};

/* The first offence in the lists of a checked plan. */
struct smla__offence {
    bool found;
    int64_t row, entry; /* entry = K: the row's topk_length */
    bool known;         /* the two below are set */
    int32_t value;
    int64_t limit; /* entries are below it: seq_len, or rows of the cache */
};

/* A backend. Every function may assume that the library has checked what is common to all backends. */
struct smla__backend {
    smla_backend id;
    const char *name;
    /* Facts of the backend alone; arch as in smla_support_query; tensors may be NULL. */
    smla_status (*support)(const smla_problem *problem, int arch, const smla_tensors *tensors,
                           struct smla__detail *detail);
    smla_status (*context_open)(smla_context *context, const smla_context_options *options);
    void (*context_close)(smla_context *context);
    /* Fills plan->info.isa, threads, kernel and arch, plan->workspace_bytes and plan->state. */
    smla_status (*plan_open)(smla_plan *plan);
    void (*plan_close)(smla_plan *plan);
    smla_status (*step_open)(smla_step *step);
    void (*step_close)(smla_step *step);
    /* Optional: refuses an update for the stream's sake, before anything changes. */
    smla_status (*step_begin)(smla_step *step, struct CUstream_st *stream);
    /* step->lanes holds a new checked batch: bring it to the device. */
    smla_status (*step_upload)(smla_step *step, struct CUstream_st *stream);
    smla_status (*run)(const smla_plan *plan, const smla_step *step, const smla_tensors *tensors,
                       void *workspace, struct CUstream_st *stream);
    /* Of a checked plan: waits for the stream, then takes the record out. */
    smla_status (*verify)(smla_plan *plan, struct CUstream_st *stream, struct smla__offence *offence);
    smla_status (*slices_begin)(const smla_plan *plan, const smla_step *step, const smla_tensors *tensors,
                                void *workspace, int32_t slices);
    smla_status (*slice_run)(const smla_plan *plan, void *workspace, int32_t slice);
    smla_status (*cache_write)(smla_context *context, const smla_problem *problem,
                               const smla_cache_rows *rows, struct CUstream_st *stream);
    smla_status (*merge)(smla_context *context, const smla_partials *partials, struct CUstream_st *stream);
};

extern const struct smla__backend smla__backend_cpu;
extern const struct smla__backend smla__backend_cuda;

/* The backend with this id; NULL for SMLA_BACKEND_AUTO and unknown ids. */
const struct smla__backend *smla__backend_find(smla_backend id);

struct smla_context {
    const struct smla__backend *backend;
    struct smla__detail detail; /* over text */
    char text[256];
    void (*log)(void *cookie, int level, const char *text);
    void *log_cookie;
    smla_isa isa;    /* CPU: instruction set in use */
    int32_t threads; /* CPU: threads of a run */
    int32_t arch;    /* GPU: its architecture, e.g. 90; 0 on a CPU */
    void *state;     /* the backend's own */
};

struct smla_plan {
    smla_context *context;
    smla_problem problem;
    smla_plan_options options;
    smla_plan_info info;
    size_t workspace_bytes;
    void *state; /* the backend's own */
};

struct smla_step {
    const smla_plan *plan;
    struct smla__lanes lanes;
    bool ready;  /* holds a batch */
    void *state; /* the backend's own */
};

/* Query heads that a run sees: under DCP the heads of all ranks. Unsigned, since the init functions ask this of
 * unchecked problems. */
static inline int32_t smla__run_heads(const smla_problem *problem)
{
    return (int32_t)((uint32_t)problem->heads * (uint32_t)problem->dcp_world_size);
}

/* CPU machine facts, for smla_machine_query: instruction sets of CPU and operating system, name. */
uint32_t smla__cpu_isa_mask(void);
void smla__cpu_name(char *name, size_t size);
int32_t smla__cpu_count(void);
/* GPU machine facts: fills the cuda_ members. */
void smla__cuda_machine(smla_machine *machine);

#endif
