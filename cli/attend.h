/* One captured step through the library: backend, context, plan, step, result, time. */
#ifndef ATTEND_H
#define ATTEND_H

#include <capture.h>
#include <smla/smla.h>
#include <stdbool.h>

#include "attend_gpu.h"

enum { ATTEND_TEXT = 320, ATTEND_BACKENDS = 8 };

struct attend_options {
    int backend;        /* smla_backend */
    int isa;            /* smla_isa, or -1: the best one */
    int threads;        /* 0: one for each CPU, fewer for small steps */
    bool portable, pdl; /* GPU: kernels for any GPU; programmatic dependent launch */
};

/* A backend and why it was not used; "" for the one that is. */
struct attend_verdict {
    smla_backend backend;
    char reason[ATTEND_TEXT];
};

struct attend {
    struct attend_verdict verdicts[ATTEND_BACKENDS];
    int verdict_count;
    smla_backend chosen;
    smla_problem problem;
    smla_tensors tensors;
    smla_context *context;
    smla_plan *plan;
    smla_step *step;
    smla_plan_info plan_info;
    smla_step_info step_info;
    struct attend_gpu gpu; /* open if the GPU is chosen; tensors and workspace are in its memory then */
    void *workspace;
    float *out;          /* [T, H, 512] */
    float *lse;          /* [T, H] */
    double first_result; /* when the first result was here, by report_clock */
    double median, best; /* seconds of a run */
    int runs;
    char error[ATTEND_TEXT]; /* why a call below failed */
};

/* Chooses the backend, attends the step once for the answer, then again for `budget` seconds for its time.
 * Gives an exit code; attend_close in any case. The capture must outlive `attend`. */
int attend_run(struct attend *attend, const struct capture *capture, const struct attend_options *options,
               double budget);

void attend_close(struct attend *attend);

#endif
