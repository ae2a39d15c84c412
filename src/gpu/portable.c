#include "portable.h"

/* Bytes of a part's result: 512 sums, a maximum and a weight in fp32. */
enum { PART_BYTES = (SMLA__LATENT + 2) * sizeof(float), ALIGN = 16, WARPS = 8, WARP = 32 };

/* Two CTAs fit on a processor. A plan that forces the split gets more of them, up to this many. */
enum { CTAS_WANTED = 2, CTAS_FORCED = 16 };

enum { SPLITS_WANTED = 16 };

static int64_t head_groups(const smla_plan *plan)
{
    return (smla__run_heads(&plan->problem) + SMLA_PORTABLE_HEADS - 1) / SMLA_PORTABLE_HEADS;
}

/* More parts than pieces of a list leave some without work; and adding up many takes longer than they save. */
static int64_t splits_max(const smla_plan *plan)
{
    int64_t pieces = ((int64_t)plan->problem.topk + SMLA_PORTABLE_KEYS - 1) / SMLA_PORTABLE_KEYS;
    int64_t most = plan->options.splits ? plan->options.splits : SPLITS_WANTED;
    return pieces < most ? pieces : most;
}

/* Parts of all rows together, above which no row is cut. A row's bits depend on how its list is cut: where they must
 * not depend on the batch no row is cut at all, as the workspace for many rows has no end otherwise. */
static int64_t parts_max(const smla_plan *plan)
{
    if (plan->problem.batch_invariant)
        return 1;
    int64_t ctas = plan->options.splits ? CTAS_FORCED : CTAS_WANTED;
    return ctas * smla__gpu_of(plan->context)->processors / head_groups(plan);
}

static int splits_of(const smla_plan *plan, int64_t rows)
{
    int64_t splits = parts_max(plan) / rows, most = splits_max(plan);
    return (int)(splits < 1 ? 1 : splits > most ? most : splits);
}

smla_status smla__portable_open(const smla_plan *plan, struct smla__portable *portable)
{
    struct smla__gpu *gpu = smla__gpu_of(plan->context);
    struct smla__detail *detail = &plan->context->detail;
    smla_status status = smla__gpu_function(gpu, SMLA__IMAGE_DECODE_PORTABLE, "smla_decode_portable",
                                            SMLA_PORTABLE_SHARED, false, &portable->decode, detail);
    if (status == SMLA_OK)
        status = smla__gpu_function(gpu, SMLA__IMAGE_DECODE_PORTABLE, "smla_decode_portable_merge", 0, false,
                                    &portable->merge, detail);
    return status;
}

/* rows * splits_of(rows) is at most parts_max wherever a row is cut at all. */
size_t smla__portable_workspace_bytes(const smla_plan *plan)
{
    int64_t most = splits_max(plan), parts = plan->info.max_rows * most, bound = parts_max(plan);
    if (most == 1 || parts == 0 || bound < 2)
        return 0;
    return (size_t)(parts < bound ? parts : bound) * (size_t)smla__run_heads(&plan->problem) * PART_BYTES +
           ALIGN;
}

static void place_parts(struct smla_decode_args *args, void *workspace)
{
    uintptr_t base = ((uintptr_t)workspace + ALIGN - 1) / ALIGN * ALIGN;
    size_t parts = (size_t)args->rows * (size_t)args->splits * (size_t)args->heads;
    args->part_out = (float *)base;
    args->part_ml = args->part_out + parts * SMLA__LATENT;
}

smla_status smla__portable_run(const smla_plan *plan, const struct smla__portable *portable,
                               struct smla_decode_args *args, void *workspace, struct CUstream_st *stream)
{
    const struct smla__gpu *gpu = smla__gpu_of(plan->context);
    struct smla__detail *detail = &plan->context->detail;
    args->head_groups = (int32_t)head_groups(plan);
    args->splits = splits_of(plan, args->rows);
    if (args->splits > 1)
        place_parts(args, workspace);
    int64_t merges = ((int64_t)args->rows * args->heads + WARPS - 1) / WARPS;
    const struct smla__grid decode = {.function = portable->decode,
                                      .blocks = (unsigned)args->rows * (unsigned)args->head_groups *
                                                (unsigned)args->splits,
                                      .threads = SMLA_PORTABLE_THREADS,
                                      .shared_bytes = SMLA_PORTABLE_SHARED,
                                      .cluster = 1,
                                      .programmatic = plan->options.cuda_pdl};
    const struct smla__grid merge = {.function = portable->merge,
                                     .blocks = (unsigned)merges,
                                     .threads = WARPS * WARP,
                                     .cluster = 1,
                                     .programmatic = plan->options.cuda_pdl};
    smla_status status = smla__gpu_launch(gpu, &decode, args, stream, detail);
    if (status == SMLA_OK && args->splits > 1)
        status = smla__gpu_launch(gpu, &merge, args, stream, detail);
    return status;
}
