/*
 * Rigs: runs on the GPU as an engine does them, with a step, a workspace and a stream each, and tensors at addresses
 * that stay. A rig is given one scene after another; results are judged by the oracle and compared bit by bit.
 */
#ifndef TEST_RIG_H
#define TEST_RIG_H

#include "gpu.h"
#include "harness.h"

/* What the scenes of a rig have in common. */
struct rig_shape {
    int64_t rows;   /* T of each run: those past a scene's rows are padded ones */
    int64_t blocks; /* of the cache, and the widest block table */
    int32_t heads, topk, block_size;
    bool slots;        /* else positions */
    bool without_step; /* slots only; scenes then have all rows */
    bool lengths, sinks;
    bool split_query;
    smla_dtype out_dtype; /* 0 = f32 */
    int32_t splits;
    bool checked, pdl, portable, batch_invariant;
};

void rig_shape_print(const struct rig_shape *shape);

/* Which kernels a test goes through: Hopper's and, where the library has them, those for any GPU. */
#define RIG_LANES 2
bool rig_has_lane(smla_context *context, int lane); /* lane 1 = portable */

smla_context *rig_context(void);
/* NULL if the library refuses the portable kernels. */
smla_plan *rig_plan(smla_context *context, const struct rig_shape *shape);

struct rig {
    struct rig_shape shape;
    const smla_plan *plan;
    smla_step *step;
    struct CUstream_st *stream;
    bool guest; /* of somebody else's stream */
    void *workspace;
    size_t workspace_bytes;
    struct scene scene;
    struct setting setting;
    struct stage stage;
    struct gpu_site *site;
    smla_tensors tensors; /* device addresses, the same for every scene */
};

/* One request per entry of q_lens, over the cache of the shape, in blocks that change with the seed; also everything
 * that the oracle says. With contexts NULL they are random. */
struct rig_batch {
    int32_t requests;
    const int32_t *q_lens;
    const int32_t *contexts;
    double invalid;
    uint64_t seed;
};

void rig_scene(struct scene *scene, const struct rig_shape *shape, const struct rig_batch *batch);

/* With a stream of its own and the first scene, which it takes over. */
void rig_open(struct rig *rig, const smla_plan *plan, const struct rig_shape *shape, struct scene *scene);
void rig_close(struct rig *rig);

/* Gives up the rig's own stream for another. */
void rig_use_stream(struct rig *rig, struct CUstream_st *stream);

/* Another scene at the old addresses: the GPU idles meanwhile. The step is updated too. */
void rig_change(struct rig *rig, struct scene *scene);
/* The step takes the scene's batch, asynchronously. */
void rig_update(struct rig *rig);
/* Poisons out, lse and the workspace on the rig's stream. */
void rig_poison(struct rig *rig);
/* Enqueues a run with another stream, or its own. */
void rig_run_on(struct rig *rig, struct CUstream_st *stream);
void rig_run(struct rig *rig);

/* Waits for the GPU and takes the outputs. */
void rig_collect(struct rig *rig, struct result *result);
/* The test fails, in words, if the oracle disagrees. */
void rig_expect_right(struct rig *rig, const struct result *result, const char *when);
/* The test fails, in words, if a bit differs. */
void rig_expect_same(const struct rig *rig, const struct result *one, const struct result *other,
                     const char *when);

/* Work for a second of the GPU, or some part of it: a chain of copies between two halves of a buffer. */
struct rig_busy {
    struct CUstream_st *stream;
    unsigned char *memory;
    size_t bytes; /* of a half */
};
void rig_busy_open(struct rig_busy *busy, size_t bytes);
void rig_busy_close(struct rig_busy *busy);
void rig_busy_add(struct rig_busy *busy, int copies);

/* Ends the program, saying what was going on, if it is not called off in time. `describe` prints that; it runs on a
 * thread of its own. */
void watchdog_start(unsigned seconds, void (*describe)(void));
void watchdog_stop(void);

/* These programs are about GPUs whatever the environment says. */
int rig_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);
#define RIG_MAIN(tests)                                                                                      \
    int main(int argc, char **argv)                                                                          \
    {                                                                                                        \
        return rig_main(argc, argv, tests, ARRAY_LENGTH(tests));                                             \
    }

#endif
