/*
 * Runs a scene through the library in one of the many ways there are, and judges the result. Every buffer
 * ends at an unmapped page; outputs and workspace arrive poisoned; what lies between output rows is checked
 * to be untouched.
 */
#ifndef TEST_RUNNER_H
#define TEST_RUNNER_H

#include <smla/smla.h>
#include <stdbool.h>
#include <stdint.h>

#include "compare.h"
#include "guard.h"
#include "scene.h"

enum entry { ENTRY_RUN, ENTRY_SLICES, ENTRY_SLICES_BACKWARDS, ENTRY_SLICES_AT_ONCE };

struct stage;

/* One way to run. Zeros: scalar, one for each CPU, planned splits, smla_run, positions, packed q. */
struct setting {
    smla_isa isa;
    int32_t threads, splits;
    smla_dtype out_dtype; /* 0 = f32 */
    bool no_lse;
    bool split_query; /* latent and rope apart */
    bool slots;       /* lists converted to slots beforehand */
    bool with_step;   /* slots only: give a step although none is needed */
    bool dense;       /* otherwise every stride has a gap */
    bool batch_invariant;
    enum entry entry;
    int32_t slices;          /* entry other than ENTRY_RUN */
    int32_t padded_rows;     /* rows past those of the step */
    int32_t spare_rows;      /* max_rows beyond need; and some requests and blocks */
    int32_t workspace_shift; /* bytes between the workspace's end and the page's */
    int64_t q_row_gap, kv_row_gap, kv_block_gap, topk_row_gap; /* further bytes of stride */
    int64_t huge_row_stride; /* row stride of q, topk, out and lse, in memory of which only rows exist */
    void (*place_cache)(struct stage *stage, const struct scene *scene); /* instead of the usual cache */
    void (*edit)(smla_tensors *tensors, const struct scene *scene);      /* last, before the run */
};

struct result {
    smla_status status;
    char error[256];
    int64_t rows, heads;
    double *out, *lse; /* [rows, H, 512], [rows, H]; lse NULL if not wanted */
    void *out_bits;    /* the bytes of out, dense */
    float *lse_bits;
    size_t out_bytes, lse_bytes;
    bool gaps_kept; /* nothing but out and lse was written */
};

/* A scene's tensors as a setting lays them out. */
struct stage {
    struct guard q, q_rope, kv, topk, length, sinks, out, lse;
    smla_problem problem;
    smla_tensors tensors;
    bool sparse; /* gaps were never filled */
};

void stage_open(struct stage *stage, const struct scene *scene, const struct setting *setting);
void stage_close(struct stage *stage);

/* The problem that a scene and setting pose, and the batch of the scene. */
smla_problem scene_problem(const struct scene *scene, const struct setting *setting);
smla_batch scene_batch(const struct scene *scene);
smla_status open_context(smla_context **context, const struct setting *setting);

/* Plan options as a program would start with, for the kernels that this run of the tests is about. */
void maxima_init(smla_plan_options *options);
smla_plan_options scene_maxima(const struct scene *scene, const struct setting *setting);

void scene_run(const struct scene *scene, const struct setting *setting, struct result *result);
/* Takes out and lse from a stage after a run; rows, heads and status are the caller's. */
void result_collect(struct result *result, const struct stage *stage);
void result_close(struct result *result);

/* Does it agree with the oracle? Says what does not. */
bool result_right(const struct scene *scene, const struct setting *setting, const struct result *result);
/* Are row a of one and row b of the other the same bits? */
bool rows_same(const struct result *one, int64_t a, const struct result *other, int64_t b);
bool results_same(const struct result *one, const struct result *other);
void setting_print(const struct scene *scene, const struct setting *setting);

#endif
