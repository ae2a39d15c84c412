/* The state behind a CUDA context of the library, and what every file of src/gpu needs of it. */
#ifndef SMLA_GPU_H
#define SMLA_GPU_H

#include "driver.h"
#include "images.h"
#include "internal.h"

struct smla__gpu {
    const struct smla__driver *driver;
    struct CUctx_st *context; /* the caller's, or the device's primary one */
    int device;
    bool retained; /* the primary context is held by us */
    int arch;      /* 90 for sm_90 */
    int processors;
    struct CUlib_st *libraries[SMLA__IMAGES]; /* loaded when first asked for */
    struct CUfunc_st *cache_write, *merge;    /* found when first asked for */
};

static inline struct smla__gpu *smla__gpu_of(const smla_context *context)
{
    return context->state;
}

/* Are there kernels for this architecture in this build? */
smla_status smla__gpu_check_arch(int arch, struct smla__detail *detail);

/* Facts of the GPU that a context without an ordinal would take: its architecture. Needs no context. */
smla_status smla__gpu_current_arch(int *arch, struct smla__detail *detail);

smla_status smla__gpu_open(smla_context *context, const smla_context_options *options);
void smla__gpu_close(smla_context *context);

/* Makes our context current; *pushed says whether leave has to undo that. Every use of the driver stands between
 * the two, so that the caller finds current what was current. */
smla_status smla__gpu_enter(const struct smla__gpu *gpu, bool *pushed, struct smla__detail *detail);
void smla__gpu_leave(const struct smla__gpu *gpu, bool pushed);

/* ERROR_ARGUMENT if the stream is being captured; `advice` says what to do. Our context must be current. */
smla_status smla__gpu_check_capture(const struct smla__gpu *gpu, struct CUstream_st *stream,
                                    const char *advice, struct smla__detail *detail);

/* Does the plan take the kernels for any GPU, by its own wish or for lack of better ones? */
bool smla__gpu_portable(const smla_plan *plan);

/* Loads the kernels of cache write and merge: a stream that is being captured later would not allow that. */
smla_status smla__gpu_small_open(struct smla__gpu *gpu, struct smla__detail *detail);

/* A function of an image, allowed `shared_bytes` of dynamic shared memory and clusters of any size. */
smla_status smla__gpu_function(struct smla__gpu *gpu, enum smla__image image, const char *entry,
                               int shared_bytes, bool large_clusters, struct CUfunc_st **function,
                               struct smla__detail *detail);

/* One launch along x: blocks of threads, clusters of `cluster` blocks (1 = none), `arguments` by value. */
struct smla__grid {
    struct CUfunc_st *function;
    unsigned blocks, threads, shared_bytes, cluster;
    bool programmatic;
};
smla_status smla__gpu_launch(const struct smla__gpu *gpu, const struct smla__grid *grid, void *arguments,
                             struct CUstream_st *stream, struct smla__detail *detail);

/* A grid with a warp for each item; kernels take items in turn where they are more than that. */
struct smla__grid smla__gpu_warps(struct CUfunc_st *function, int64_t items);

/* An address or a stride, under the name that the caller knows. */
struct smla__aligned {
    const char *name;
    uint64_t value;
};
/* ERROR_ALIGNMENT for the first that is no multiple of 16 bytes: kernels move rows in such pieces. */
smla_status smla__gpu_check_aligned(const struct smla__aligned *items, size_t count,
                                    struct smla__detail *detail);

/* Fills the parts of a launch that its occupancy depends on. */
void smla__gpu_describe(const struct smla__grid *grid, struct smla__launch *launch,
                        struct smla__launch_attribute attributes[2]);

#endif
