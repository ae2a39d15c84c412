/*
 * smla: sparse MLA attention.
 *
 * Models that cache one latent row per token (DeepSeek-V3.2, GLM-5) let every query attend only to
 * the top-k cache rows that an indexer chose. This library is that attention step. For query row t
 * and head h, over the valid entries i of the row's list:
 *
 *     s_i = scale * q[t,h,0:576] . kv[i,0:576]     p = softmax(s)
 *     out[t,h,0:512] = sum_i p_i * kv[i,0:512]     lse[t,h] = log(sum_i exp(s_i))
 *
 * T = query rows of the step, all requests flattened; H = query heads (1..128); K = width of a row's
 * list (any, may exceed N); N = blocks * block_size cache rows; 576 = 512 latent + 64 rope columns.
 *
 *  - An entry is valid iff it stands within the row's active length (clamped to [0, K]) and names a
 *    cache row. Others are skipped wherever they stand, and their memory is never read.
 *  - A repeated entry counts as often as it stands in the list.
 *  - A row without valid entries gives out = 0 exactly and lse = -inf (or +inf, on request).
 *  - NaN or Inf in cache rows that no list selects never reaches a result.
 *  - The result is shift-invariant: scores of any size work, no large finite number stands for a mask.
 *  - Sums are fp32. The same call twice gives the same bits.
 *
 * A complete use, for one step whose lists name cache slots directly:
 *
 *     // uint16_t q[64][16][576], kv[512][64][576], out[64][16][512] hold bf16; int32_t lists[64][2048];
 *     // float lse[64][16]
 *     smla_context *ctx;  smla_plan *plan;  smla_problem p;  smla_plan_options po;  smla_tensors t;
 *     if (smla_context_create(&ctx, NULL) != SMLA_OK)         // best backend of this machine
 *         return 1;
 *     smla_problem_init(&p);                                  // 128 heads, K 2048, bf16, block 64
 *     p.heads = 16;  p.scale = 0.0417f;  p.topk_kind = SMLA_TOPK_SLOTS;
 *     smla_plan_options_init(&po);
 *     po.max_rows = 64;
 *     if (smla_plan_create(&plan, ctx, &p, &po) != SMLA_OK)
 *         return fprintf(stderr, "%s\n", smla_context_error(ctx)), 1;
 *     void *work = malloc(smla_plan_workspace_bytes(plan));
 *     smla_tensors_init(&t, &p);                              // fills dense strides
 *     t.rows = 64;  t.q = q;  t.kv_cache = kv;  t.cache_blocks = 512;
 *     t.topk = lists;  t.out = out;  t.lse = lse;
 *     if (smla_run(plan, NULL, &t, work, smla_plan_workspace_bytes(plan), NULL) != SMLA_OK)
 *         return fprintf(stderr, "%s\n", smla_context_error(ctx)), 1;
 *     free(work);  smla_plan_destroy(plan);  smla_context_destroy(ctx);
 *
 * With request-local lists and paged caches, build a step first: see smla_step_update. A longer
 * program is examples/engine_loop.c.
 *
 * Conventions. Strides are in BYTES, 64-bit, and arguments: nothing is assumed dense. bf16 is its
 * 16 bits: the upper half of an fp32. Structs begin with struct_size, so that later versions can add fields:
 * those that you fill have an init function; for those that the library fills, set struct_size first. A
 * call that fails returns a status, leaves a detail text in the context (naming the argument, its value
 * and what is accepted) and has written nothing else, but for create functions, which set *out to NULL.
 * destroy(NULL) does nothing. The library does not print, exit, abort or read the environment (the OpenMP
 * runtime under smla_run reads its own variables, and ends the process if the system refuses it a thread;
 * slices do without it). Every function exists since 0.1.0 unless it says otherwise.
 *
 * Threads. A context, its plans and their steps belong to one thread at a time; different contexts are
 * independent. Functions that take none of the three may be called from any thread. Where a function
 * differs, its comment says so.
 */
#ifndef SMLA_SMLA_H
#define SMLA_SMLA_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SMLA_API __attribute__((visibility("default")))
#else
#define SMLA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A CUDA stream: CUstream and cudaStream_t are pointers to this. */
struct CUstream_st;

/* ---- Version ---------------------------------------------------------------------------------- */

#define SMLA_VERSION_MAJOR 0
#define SMLA_VERSION_MINOR 1
#define SMLA_VERSION_PATCH 0

/* Version of the library that runs: major * 10000 + minor * 100 + patch. */
SMLA_API int smla_version(void);

/* ---- Status ----------------------------------------------------------------------------------- */

/* name, pinned number, sentence. Tens: 1 argument, 2 step, 3 unsupported, 4 memory, 5 device. */
#define SMLA_STATUS_TABLE(X)                                                                                 \
    X(SMLA_OK, 0, "success")                                                                                 \
    X(SMLA_ERROR_NULL, 10, "a required pointer is NULL")                                                     \
    X(SMLA_ERROR_ARGUMENT, 11, "an argument is outside its accepted values")                                 \
    X(SMLA_ERROR_STRUCT_SIZE, 12, "a struct was not filled by its init function")                            \
    X(SMLA_ERROR_STRIDE, 13, "a stride cannot be honoured")                                                  \
    X(SMLA_ERROR_ALIGNMENT, 14, "a pointer or stride is not aligned as the backend needs")                   \
    X(SMLA_ERROR_LIMIT, 15, "the call exceeds the maxima of its plan")                                       \
    X(SMLA_ERROR_STEP, 16, "the step belongs to another plan or was never updated")                          \
    X(SMLA_ERROR_QUERY_START, 20, "query_start_loc does not start at 0 or decreases")                        \
    X(SMLA_ERROR_SEQ_LEN, 21, "a seq_len is negative or below its request's query rows")                     \
    X(SMLA_ERROR_BLOCK_TABLE, 22, "the block table is too short for a seq_len")                              \
    X(SMLA_ERROR_BLOCK_ID, 23, "a block id lies beyond the cache")                                           \
    X(SMLA_ERROR_ROW_TOTAL, 24, "query_start_loc and the row total disagree")                                \
    X(SMLA_ERROR_SLOT, 25, "a slot lies beyond the cache")                                                   \
    X(SMLA_UNSUPPORTED_DTYPE, 30, "the element type is not supported")                                       \
    X(SMLA_UNSUPPORTED_CACHE_FORMAT, 31, "the cache format is not supported")                                \
    X(SMLA_UNSUPPORTED_HEAD_DIM, 32, "the head dimensions are not supported")                                \
    X(SMLA_UNSUPPORTED_HEADS, 33, "the head count is not supported")                                         \
    X(SMLA_UNSUPPORTED_DCP, 34, "the decode context parallel setting is not supported")                      \
    X(SMLA_UNSUPPORTED_ISA, 35, "this CPU lacks the requested instruction set")                              \
    X(SMLA_UNSUPPORTED_BACKEND, 36, "the backend cannot do this")                                            \
    X(SMLA_ERROR_MEMORY, 40, "memory could not be allocated")                                                \
    X(SMLA_ERROR_WORKSPACE, 41, "the workspace is too small")                                                \
    X(SMLA_ERROR_NO_KERNELS, 50, "this library was built without GPU kernels")                               \
    X(SMLA_ERROR_NO_DRIVER, 51, "no GPU driver is installed")                                                \
    X(SMLA_ERROR_OLD_DRIVER, 52, "the GPU driver is too old")                                                \
    X(SMLA_ERROR_NO_DEVICE, 53, "there is no such GPU")                                                      \
    X(SMLA_ERROR_DEVICE_ARCH, 54, "there are no kernels for this GPU architecture")                          \
    X(SMLA_ERROR_DEVICE, 55, "the GPU driver reported an error")

#define SMLA__ENUM(name, number, text) name = number,
typedef enum smla_status { SMLA_STATUS_TABLE(SMLA__ENUM) } smla_status;
#undef SMLA__ENUM

/* Name ("SMLA_ERROR_NULL") and sentence of a status; "unknown status" for any other number. */
SMLA_API const char *smla_status_name(smla_status status);
SMLA_API const char *smla_status_text(smla_status status);

/* ---- Problem ---------------------------------------------------------------------------------- */

typedef enum smla_dtype { SMLA_BF16 = 1, SMLA_F32 = 2, SMLA_F16 = 3 } smla_dtype;

typedef enum smla_cache_format {
    SMLA_CACHE_BF16 = 1,      /* 576 bf16, latent first: 1152 bytes a row */
    SMLA_CACHE_F16 = 2,       /* 576 fp16 */
    SMLA_CACHE_FP8_E4M3 = 3,  /* 576 e4m3 with one scale */
    SMLA_CACHE_FP8_DS_MLA = 4 /* 512 e4m3, 4 fp32 scales, 64 bf16: 656 bytes a row */
} smla_cache_format;

typedef enum smla_topk_kind {
    SMLA_TOPK_POSITIONS = 1, /* request-local token positions, converted through the block table; under
                                DCP global positions, of which this rank attends its own */
    SMLA_TOPK_SLOTS = 2      /* cache slots: block * block_size + row within the block */
} smla_topk_kind;

typedef enum smla_lse_base { SMLA_LSE_NATURAL = 1, SMLA_LSE_BASE2 = 2 } smla_lse_base;
typedef enum smla_empty_lse { SMLA_EMPTY_NEG_INF = 1, SMLA_EMPTY_POS_INF = 2 } smla_empty_lse;

/* What is computed: everything that stays the same from step to step. */
typedef struct smla_problem {
    size_t struct_size;
    int32_t heads;            /* query heads of this rank; heads * dcp_world_size in 1..128 */
    int32_t kv_lora_rank;     /* latent columns: 512 */
    int32_t qk_rope_head_dim; /* rope columns: 64 */
    int32_t topk;             /* K >= 1: width of the lists */
    int32_t block_size;       /* >= 1: rows of a cache block */
    int32_t query_dtype;      /* smla_dtype: SMLA_BF16 */
    int32_t out_dtype;        /* smla_dtype: SMLA_BF16 or SMLA_F32 */
    int32_t cache_format;     /* smla_cache_format: SMLA_CACHE_BF16 */
    int32_t topk_kind;        /* smla_topk_kind */
    int32_t lse_base;         /* smla_lse_base */
    int32_t empty_lse;        /* smla_empty_lse: lse of a row without valid entries */
    float scale;              /* softmax scale, at most 1e38 in size; sizes below 2^-126 count as that */
    int32_t batch_invariant;  /* 1: a row's bits depend neither on its batch-mates nor on threads */
    int32_t dcp_world_size;   /* decode context parallel ranks; 1 = off */
    int32_t dcp_rank;         /* 0 .. dcp_world_size - 1 */
    int32_t dcp_interleave;   /* I: position p belongs to rank (p / I) % world, kept at local position
                                 p / (world * I) * I + p % I */
} smla_problem;

/* Fills: 128 heads, 512 + 64, K 2048, block 64, bf16 throughout, positions, natural log, -inf, scale
 * 576^-0.5, no DCP. `problem` must not be NULL. */
SMLA_API void smla_problem_init(smla_problem *problem);

/* ---- Support ---------------------------------------------------------------------------------- */

typedef enum smla_backend { SMLA_BACKEND_AUTO = 0, SMLA_BACKEND_CPU = 1, SMLA_BACKEND_CUDA = 2 } smla_backend;

typedef struct smla_tensors smla_tensors;

/* Can `backend` attend `problem`? SMLA_OK, or the status of the first failing fact; `reason` (if not
 * NULL, reason_size bytes) then gets one line that names the fact, its value and what is accepted, and
 * "" on SMLA_OK. `cuda_arch` asks for a GPU that need not be here (90 for sm_90); 0 asks for this
 * machine. `tensors`, if not NULL, is judged too: strides and pointer alignment, nothing is read.
 * SMLA_BACKEND_AUTO is yes if any backend is. Pure host code; any thread; works without a GPU.
 * errors: NULL, STRUCT_SIZE, ARGUMENT, STRIDE, ALIGNMENT, every UNSUPPORTED, NO_KERNELS .. DEVICE_ARCH. */
SMLA_API smla_status smla_support_query(const smla_problem *problem, smla_backend backend, int cuda_arch,
                                        const smla_tensors *tensors, char *reason, size_t reason_size);

/* The backends in the order SMLA_BACKEND_AUTO tries them: i = 0, 1, ... until it gives
 * SMLA_BACKEND_AUTO. Name: "cuda", "cpu", "auto"; NULL for any other number. Any thread. */
SMLA_API smla_backend smla_backend_at(int i);
SMLA_API const char *smla_backend_name(smla_backend backend);

/* ---- Context ---------------------------------------------------------------------------------- */

/* Instruction sets of the CPU backend; as a mask, bit (1 << value). */
typedef enum smla_isa {
    SMLA_ISA_SCALAR = 0,
    SMLA_ISA_AVX2 = 1,        /* AVX2 + FMA */
    SMLA_ISA_AVX512 = 2,      /* AVX-512 F, BW, DQ, VL */
    SMLA_ISA_AVX512_BF16 = 3, /* and its bf16 dot product */
    SMLA_ISA_AMX_BF16 = 4     /* tiles with bf16 products */
} smla_isa;
#define SMLA_ISA_COUNT 5

typedef struct smla_context smla_context;
typedef struct smla_plan smla_plan;
typedef struct smla_step smla_step;

typedef struct smla_context_options {
    size_t struct_size;
    int32_t backend;     /* smla_backend */
    int32_t cuda_device; /* GPU ordinal, or -1: the caller's current device, 0 if there is none */
    uint32_t isa_mask;   /* CPU: allowed instruction sets; of those that it has the fastest one is used */
    int32_t threads;     /* CPU: threads of smla_run, 1..1024; 0 = one for each CPU the process may use */
    char *detail;        /* if not NULL, receives the detail text when create itself fails */
    size_t detail_size;
    /* Called with one line of text; level 0 = warning, 1 = information. NULL is silence. */
    void (*log)(void *cookie, int level, const char *text);
    void *log_cookie;
} smla_context_options;

/* Fills: automatic backend, current device, every instruction set, all CPUs, silence. */
SMLA_API void smla_context_options_init(smla_context_options *options);

/* A context for one CPU or GPU; `options` NULL means the init values. On a GPU the work goes to the caller's
 * current CUDA context if it is on the wanted device (which must then outlive this one), else to that
 * device's primary context, which is held until destroy; with cuda_device = -1 and no current context the
 * device is 0. Every function leaves current what was current.
 * errors: NULL, STRUCT_SIZE, ARGUMENT, UNSUPPORTED_ISA, MEMORY, NO_KERNELS .. DEVICE. Any thread. */
SMLA_API smla_status smla_context_create(smla_context **out, const smla_context_options *options);
SMLA_API void smla_context_destroy(smla_context *context); /* after its plans */

/* Detail text of the last failed call on this context, its plans or steps; "" if none failed. */
SMLA_API const char *smla_context_error(const smla_context *context);

/* ---- Plan ------------------------------------------------------------------------------------- */

typedef struct smla_plan_options {
    size_t struct_size;
    int64_t max_rows;        /* largest T of a run, padded rows included; 0 .. 2^31 - 1 */
    int64_t max_requests;    /* largest request count of a step; 0 .. 2^31 - 1 */
    int64_t max_blocks;      /* widest block table of a step, in blocks; 0 .. 2^31 - 1 */
    int32_t decode_rows_max; /* requests with more query rows go to the prefill lane; 0 = by heads:
                                128 for 8, 16 and 32, 256 for 64, 1024 otherwise */
    int32_t splits;          /* parts that each row's list is cut into, 1..64; 0 = the planner chooses */
    int32_t checked;         /* 1: each run also validates its lists: see smla_plan_verify */
    int32_t cuda_pdl;        /* GPU, 1: programmatic dependent launch: a run may begin before the work in
                                front of it on the stream has ended, and waits itself for what it reads */
    int32_t cuda_portable;   /* GPU, 1: kernels for any GPU since sm_80 although there are better ones */
} smla_plan_options;

/* Fills: no rows, no requests, no blocks; defaults for the rest, 0 for the switches. */
SMLA_API void smla_plan_options_init(smla_plan_options *options);

/* Chooses kernels and sizes for a problem and its maxima, and loads the kernels. Nothing runs on a GPU, but
 * for the clearing of a checked plan's record, which waits for the default stream. The plan keeps copies and,
 * but for that record, is immutable. Whatever smla_support_query refuses is refused here with the same status
 * and text.
 * errors: as smla_support_query, LIMIT, MEMORY and DEVICE. */
SMLA_API smla_status smla_plan_create(smla_plan **out, smla_context *context, const smla_problem *problem,
                                      const smla_plan_options *options);
SMLA_API void smla_plan_destroy(smla_plan *plan); /* after its steps */

/* Exact bytes of workspace that a run of this plan needs, at any alignment. It grows with the maxima up
 * to a bound that does not depend on them; docs/numerics.md has the formula. 0 if `plan` is NULL. */
SMLA_API size_t smla_plan_workspace_bytes(const smla_plan *plan);

typedef struct smla_plan_info {
    size_t struct_size;
    int32_t backend;         /* smla_backend */
    int32_t isa;             /* smla_isa in use; SMLA_ISA_SCALAR on a GPU */
    int32_t threads;         /* CPU threads of smla_run, also the most slices; 0 on a GPU */
    int32_t decode_rows_max; /* after defaults */
    int64_t max_rows, max_requests, max_blocks;
    const char *kernel; /* name of the decode kernel (for max_rows), alive as long as the plan */
    int32_t arch; /* GPU: architecture that the kernels are written for, 90 (Hopper) or 80; 0 on a CPU */
} smla_plan_info;

/* Set info->struct_size = sizeof(smla_plan_info) first. errors: NULL, STRUCT_SIZE. */
SMLA_API smla_status smla_plan_get_info(const smla_plan *plan, smla_plan_info *info);

/* ---- Step metadata ---------------------------------------------------------------------------- */

/* One batch, in host memory: R requests, T query rows, rows of request r at
 * query_start_loc[r] .. query_start_loc[r+1] - 1. Requests without rows are allowed (padding). */
typedef struct smla_batch {
    size_t struct_size;
    int64_t requests;               /* R */
    int64_t rows;                   /* T = query_start_loc[R] */
    const int32_t *query_start_loc; /* [R + 1], starts at 0, never decreases; may be NULL if R = 0 */
    const int32_t *seq_lens;        /* [R], context + query rows (global under DCP) */
    const int32_t *block_table;     /* [R, block_table_width]: block of each logical block; negative = no
                                       block. May be NULL for SMLA_TOPK_SLOTS */
    int64_t block_table_width;      /* >= ceil(this rank's part of seq_len / block_size) of each request */
    int64_t block_table_stride;     /* bytes from one request's blocks to the next's */
    int64_t cache_blocks;           /* blocks in the cache: ids are below it */
} smla_batch;

/* Fills zeros. */
SMLA_API void smla_batch_init(smla_batch *batch);

/* What the step says of its batch. Arrays belong to the step and live until its next update. A lane is
 * a list of rows; tensors always stay in the caller's row order. */
typedef struct smla_step_info {
    size_t struct_size;
    int64_t requests, rows;
    int64_t decode_requests, decode_rows;   /* requests of 1 .. decode_rows_max query rows */
    int64_t prefill_requests, prefill_rows; /* longer ones */
    int32_t uniform_rows;       /* n if each request with rows has n, all in the decode lane; else 0 */
    int32_t order_kept;         /* 1 if the decode rows already stand before the prefill rows */
    const int32_t *row_request; /* [T] request of each row */
    const int32_t *lane_rows;   /* [T] rows of the decode lane in order, then those of the prefill lane */
} smla_step_info;

/* A step holds the metadata of one batch at addresses that never move: one per plan and stream, updated
 * every step. errors: NULL, MEMORY, DEVICE. */
SMLA_API smla_status smla_step_create(smla_step **out, const smla_plan *plan);
SMLA_API void smla_step_destroy(smla_step *step);

/* Checks a batch and takes it into the step; nothing of the batch is kept by reference. On a GPU the
 * copy is asynchronous on `stream` (NULL: the default stream), and a captured graph that runs with this
 * step sees the new values at its next replay. On error the step keeps its former batch.
 * errors: NULL, STRUCT_SIZE, ARGUMENT, LIMIT, STRIDE, ALIGNMENT, QUERY_START, SEQ_LEN, BLOCK_TABLE, BLOCK_ID,
 * ROW_TOTAL, DEVICE (the step then holds no batch). */
SMLA_API smla_status smla_step_update(smla_step *step, const smla_batch *batch, struct CUstream_st *stream);

/* Set info->struct_size = sizeof(smla_step_info) first. errors: NULL, STRUCT_SIZE, STEP. */
SMLA_API smla_status smla_step_get_info(const smla_step *step, smla_step_info *info);

/* ---- Run -------------------------------------------------------------------------------------- */

/* Tensors of a run, in the memory of the plan's device. Strides in bytes. The element stride of every
 * tensor must be its element size: it is an argument so that any other one is refused by name. */
struct smla_tensors {
    size_t struct_size;
    int64_t rows; /* T. May exceed the step's rows: such padded rows come out as empty rows */

    const void *q; /* [T, H, 576], latent first; or NULL, and the two parts apart: */
    int64_t q_row_stride, q_head_stride, q_elem_stride;
    const void *q_latent; /* [T, H, 512] */
    int64_t q_latent_row_stride, q_latent_head_stride, q_latent_elem_stride;
    const void *q_rope; /* [T, H, 64] */
    int64_t q_rope_row_stride, q_rope_head_stride, q_rope_elem_stride;

    const void *kv_cache; /* [cache_blocks, block_size, 576]; row bytes past the payload are never read */
    int64_t cache_blocks;
    int64_t cache_block_stride, cache_row_stride, cache_elem_stride;

    const int32_t *topk; /* [T, K], positions or slots by the problem's topk_kind */
    int64_t topk_row_stride, topk_elem_stride;
    const int32_t *topk_length; /* [T] dense: active length of each list, any value; NULL = K */
    const float *sinks;         /* [H] dense, or NULL. out is scaled by exp(lse) / (exp(lse) + exp(sink)); lse
                                   excludes it; -inf is no sink, +inf gives zeros; natural-log units */

    void *out; /* [T, H, 512] of out_dtype */
    int64_t out_row_stride, out_head_stride, out_elem_stride;
    float *lse; /* [T, H], or NULL if not wanted */
    int64_t lse_row_stride, lse_head_stride;
};

/* Fills the dense strides of `problem` (H is heads * dcp_world_size), NULL pointers and zero counts.
 * Both must not be NULL. */
SMLA_API void smla_tensors_init(smla_tensors *tensors, const smla_problem *problem);

/* Attends. `step` may be NULL for SMLA_TOPK_SLOTS, where each row stands for itself. T = 0 is a success
 * that touches nothing, whatever the pointers. The workspace need not be initialised and holds nothing
 * between calls; two runs at once need two. Allocates nothing, keeps no global state. On a GPU it only
 * enqueues on `stream`; on a CPU it returns when done and `stream` is ignored.
 * errors: NULL, STRUCT_SIZE, ARGUMENT, STRIDE, ALIGNMENT, LIMIT, STEP, WORKSPACE, DEVICE. */
SMLA_API smla_status smla_run(const smla_plan *plan, const smla_step *step, const smla_tensors *tensors,
                              void *workspace, size_t workspace_bytes, struct CUstream_st *stream);

/* Did the runs of a checked plan, since the last call of this function, hold nothing but valid list entries
 * and padding? Waits for `stream`; runs on other streams must have ended. Offences are: an entry that is
 * neither -1 nor names a cache row (slots: 0 .. N - 1; positions: below seq_len, with a block of the cache in
 * the table unless DCP gives the position to another rank), and a topk_length outside 0 .. K, which counts as
 * behind its row's entries. Entries past a list's length and padded rows are not looked at. SMLA_OK, or
 * SMLA_ERROR_SLOT with the first offence (smallest row, then entry) in the detail text; either way the record
 * is cleared. The run itself ignores such entries as ever.
 * errors: NULL, ARGUMENT (the plan is not checked; the stream is being captured), SLOT, DEVICE. */
SMLA_API smla_status smla_plan_verify(smla_plan *plan, struct CUstream_st *stream);

/* ---- CPU slices: the same run on the caller's own threads --------------------------------------- */

/* smla_slices_begin checks as smla_run does and prepares `workspace` for up to plan info's `threads`
 * slices. Then call smla_slice_run once for each slice 0 .. slices - 1, from any threads, at once or in
 * turn; the result stands when all have returned. Slices share the work by taking pieces from a counter, so a
 * late thread costs nothing. Tensors, step and workspace must live until then.
 * The workspace is needed for T = 0 too: slices read it.
 * errors: begin as smla_run, and UNSUPPORTED_BACKEND on a GPU; slice_run NULL, and
 * ARGUMENT for a slice that does not exist or was run before.
 * threads: slice_run from any threads; it leaves no detail text. */
SMLA_API smla_status smla_slices_begin(const smla_plan *plan, const smla_step *step,
                                       const smla_tensors *tensors, void *workspace, size_t workspace_bytes,
                                       int32_t slices);
SMLA_API smla_status smla_slice_run(const smla_plan *plan, void *workspace, int32_t slice);

/* ---- Cache write ------------------------------------------------------------------------------ */

/* Scatters n new tokens' rows into the paged cache. */
typedef struct smla_cache_rows {
    size_t struct_size;
    int64_t rows;       /* n */
    const void *latent; /* [n, 512] bf16, element stride 2 bytes */
    int64_t latent_row_stride;
    const void *rope; /* [n, 64] bf16, element stride 2 bytes */
    int64_t rope_row_stride;
    const int64_t *slots; /* [n] dense; negative = skip the row */
    void *kv_cache;       /* as in smla_tensors; row bytes past the payload keep their values */
    int64_t cache_blocks;
    int64_t cache_block_stride, cache_row_stride;
} smla_cache_rows;

/* Fills the dense strides of `problem`, NULL pointers and zero counts. */
SMLA_API void smla_cache_rows_init(smla_cache_rows *rows, const smla_problem *problem);

/* errors: what smla_support_query refuses, NULL, STRUCT_SIZE, ARGUMENT, STRIDE, ALIGNMENT, DEVICE; on a CPU,
 * SLOT for a slot beyond the cache, before anything is written (a GPU skips such slots). */
SMLA_API smla_status smla_cache_write(smla_context *context, const smla_problem *problem,
                                      const smla_cache_rows *rows, struct CUstream_st *stream);

/* ---- Merge ------------------------------------------------------------------------------------ */

/* Merges P partial results over disjoint parts of the lists (DCP ranks, split caches) by their lse:
 * w_i = exp(lse_i - lse), out = sum_i w_i * out_i. A partial whose lse is -inf, +inf or NaN is empty and
 * its out is not read; a single non-empty partial is passed on bit for bit. */
typedef struct smla_partials {
    size_t struct_size;
    int64_t parts, rows;  /* P >= 1, T */
    int32_t heads;        /* H >= 1 */
    int32_t dim;          /* columns, 512 */
    int32_t part_dtype;   /* SMLA_BF16 or SMLA_F32 */
    int32_t out_dtype;    /* SMLA_BF16 or SMLA_F32 */
    int32_t lse_base;     /* smla_lse_base of the partials and the result */
    int32_t empty_lse;    /* smla_empty_lse of the result */
    const void *part_out; /* [P, T, H, dim], dense in dim */
    int64_t part_out_part_stride, part_out_row_stride, part_out_head_stride;
    const float *part_lse; /* [P, T, H] */
    int64_t part_lse_part_stride, part_lse_row_stride, part_lse_head_stride;
    void *out; /* [T, H, dim], dense in dim; may be one of the partials if the dtypes are equal */
    int64_t out_row_stride, out_head_stride;
    float *lse; /* [T, H], or NULL */
    int64_t lse_row_stride, lse_head_stride;
} smla_partials;

/* Fills the dense strides for P parts of T rows, H heads, bf16, natural log, -inf. */
SMLA_API void smla_partials_init(smla_partials *partials, int64_t parts, int64_t rows, int32_t heads);

/* errors: NULL, STRUCT_SIZE, ARGUMENT, STRIDE, ALIGNMENT, UNSUPPORTED_DTYPE, UNSUPPORTED_HEAD_DIM, DEVICE. */
SMLA_API smla_status smla_merge(smla_context *context, const smla_partials *partials,
                                struct CUstream_st *stream);

/* ---- Machine ---------------------------------------------------------------------------------- */

/* What this machine and this build have. */
typedef struct smla_machine {
    size_t struct_size;
    uint32_t isa_mask;     /* instruction sets that this CPU and its operating system have */
    int32_t cpus;          /* CPUs this process may use */
    char cpu_name[64];     /* as the CPU gives it */
    int32_t cuda_kernels;  /* kernels built in; 0 = built without */
    int32_t cuda_status;   /* smla_status of opening the GPU driver */
    char cuda_detail[128]; /* reason in words, "" if it opened */
    int32_t cuda_driver;   /* driver's CUDA version, e.g. 13000; 0 if none */
    int32_t cuda_devices;  /* GPUs */
    int32_t cuda_arch;     /* of the current or first GPU, e.g. 90; 0 if none */
    char cuda_name[64];
} smla_machine;

/* Set machine->struct_size = sizeof(smla_machine) first. errors: NULL, STRUCT_SIZE. Any thread. */
SMLA_API smla_status smla_machine_query(smla_machine *machine);

/* "scalar", "avx2", "avx512", "avx512_bf16", "amx_bf16"; NULL for any other number. */
SMLA_API const char *smla_isa_name(smla_isa isa);

#ifdef __cplusplus
}
#endif

#endif
