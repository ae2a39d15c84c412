#include "decode_plan.h"

#include <math.h>
#include <stdio.h>

#include "args.h"

enum { SHARED_BYTES = 232448, GROUP = 16 /* list entries that stay together */, CHAINS = 4 /* of a CTA */ };

/* Cluster sizes that kernels are compiled for. */
static const int cluster_sizes[] = {1, 2, 3, 4, 6, 8, 16};
enum { CLUSTER_SIZES = sizeof cluster_sizes / sizeof *cluster_sizes };

/* A file of decode kernels, one for each cluster size. Microseconds of one row of 2048 keys on an H200, roughly: what a
 * launch costs beside its keys; one CTA's time for the keys; and its share of the time in which the memory delivers the
 * keys to all CTAs when each processor has a row. Fitted to docs/kernels/decode.md; only the order of kernels matters. */
struct family {
    int tiles;      /* of 8 heads */
    int threads;    /* of a CTA */
    int most_ranks; /* largest cluster size */
    enum smla__image image;
    double start, compute, memory;
};

static const struct family families[] = {{1, 384, 16, SMLA__IMAGE_DECODE_H1, 5.0, 34, 70},
                                         {2, 512, 16, SMLA__IMAGE_DECODE_H2, 6.5, 44, 71.5},
                                         {4, 512, 8, SMLA__IMAGE_DECODE_H4, 10, 55, 74},
                                         {8, 512, 8, SMLA__IMAGE_DECODE_H8, 11, 60, 79}};
enum { FAMILIES = sizeof families / sizeof *families };

/* The kernel of the portable lane, uncut: two of its CTAs share a processor and fill each other's pauses, which pays
 * off for few heads once there are rows enough. */
static const struct family pairs = {
    SMLA_PORTABLE_HEADS / 8, SMLA_PORTABLE_THREADS, 1, SMLA__IMAGE_DECODE_PORTABLE, 3.0, 77, 69};

static struct smla__grid grid_of(const struct smla__decode_kernel *kernel)
{
    return (struct smla__grid){.function = kernel->function,
                               .threads = (unsigned)kernel->threads,
                               .shared_bytes = (unsigned)kernel->shared_bytes,
                               .cluster = (unsigned)kernel->ranks,
                               .blocks = (unsigned)kernel->ranks};
}

/* How many clusters the GPU holds at once; 0 if it holds none of that size. */
static smla_status count_resident(const struct smla__gpu *gpu, struct smla__decode_kernel *kernel,
                                  struct smla__detail *detail)
{
    struct smla__launch_attribute attributes[2];
    struct smla__launch launch;
    struct smla__grid grid = grid_of(kernel);
    kernel->resident = kernel->takes_turns ? gpu->processors : 2 * gpu->processors;
    if (kernel->ranks == 1)
        return SMLA_OK;
    smla__gpu_describe(&grid, &launch, attributes);
    int result = gpu->driver->cuOccupancyMaxActiveClusters(&kernel->resident, kernel->function, &launch);
    return result ? smla__driver_fail(gpu->driver, result, "cuOccupancyMaxActiveClusters", detail) : SMLA_OK;
}

static smla_status open_kernel(struct smla__gpu *gpu, const struct family *family, int ranks,
                               struct smla__decode_kernel *kernel, struct smla__detail *detail)
{
    char entry[32];
    bool pair = family == &pairs;
    *kernel = (struct smla__decode_kernel){.heads = 8 * family->tiles,
                                           .ranks = ranks,
                                           .threads = family->threads,
                                           .shared_bytes = pair ? SMLA_PORTABLE_SHARED : SHARED_BYTES,
                                           .takes_turns = ranks == 1 && !pair,
                                           .start = family->start,
                                           .compute = family->compute,
                                           .memory = family->memory};
    snprintf(kernel->name, sizeof kernel->name, pair ? "hopper_h%d_pairs" : "hopper_h%d_c%d", kernel->heads,
             ranks);
    snprintf(entry, sizeof entry, pair ? "smla_decode_portable" : "smla_decode_h%d_c%d", family->tiles,
             ranks);
    smla_status status = smla__gpu_function(gpu, family->image, entry, kernel->shared_bytes, ranks > 8,
                                            &kernel->function, detail);
    return status == SMLA_OK ? count_resident(gpu, kernel, detail) : status;
}

/* Splitting a row further than its groups of entries fill the chains is of no use. */
static bool useful(const smla_plan *plan, int ranks)
{
    int64_t groups = ((int64_t)plan->problem.topk + GROUP - 1) / GROUP;
    return ranks == 1 || groups > (int64_t)CHAINS * (ranks / 2);
}

/* The split that the plan forces: the largest cluster size of at most that many ranks. 0 = free. */
static int forced_ranks(const smla_plan *plan)
{
    int forced = 0;
    for (int i = 0; i < CLUSTER_SIZES; i++)
        if (cluster_sizes[i] <= plan->options.splits)
            forced = cluster_sizes[i];
    return forced;
}

/* The kernel of a batch-invariant plan: a split that serves few rows and many, unless the plan forces another. */
static const struct smla__decode_kernel *invariant_kernel(const struct smla__decode_plan *decode)
{
    enum { RANKS = 4 };
    const struct smla__decode_kernel *best = decode->kernels;
    for (int i = 1; i < decode->count; i++)
        if (decode->kernels[i].ranks <= RANKS && decode->kernels[i].heads >= best->heads)
            best = decode->kernels + i;
    return best;
}

static smla_status add_kernel(smla_plan *plan, struct smla__decode_plan *decode, const struct family *family,
                              int ranks)
{
    struct smla__decode_kernel *kernel = &decode->kernels[decode->count];
    smla_status status =
        open_kernel(smla__gpu_of(plan->context), family, ranks, kernel, &plan->context->detail);
    decode->count += status == SMLA_OK && kernel->resident > 0;
    return status;
}

smla_status smla__decode_plan_open(smla_plan *plan, struct smla__decode_plan *decode)
{
    int heads = smla__run_heads(&plan->problem), forced = forced_ranks(plan);
    smla_status status = SMLA_OK;
    for (int f = 0; f < FAMILIES && status == SMLA_OK; f++)
        for (int i = 0; i < CLUSTER_SIZES && status == SMLA_OK; i++) {
            int ranks = cluster_sizes[i];
            bool too_wide = f > 0 && heads <= 8 * families[f - 1].tiles;
            if (!too_wide && ranks <= families[f].most_ranks &&
                (forced ? ranks == forced : useful(plan, ranks)))
                status = add_kernel(plan, decode, &families[f], ranks);
        }
    if (status == SMLA_OK && heads <= 8 * pairs.tiles && forced <= 1 &&
        plan->problem.topk_kind != SMLA_TOPK_POSITIONS)
        status = add_kernel(plan, decode, &pairs, 1);
    if (status != SMLA_OK)
        return status;
    if (!decode->count)
        return smla__fail(&plan->context->detail, SMLA_UNSUPPORTED_BACKEND,
                          "splits = %d: this GPU runs no cluster of %d", (int)plan->options.splits, forced);
    /* A row's bits depend on how its list is cut, so that this must not depend on the batch or the plan's maxima. */
    if (plan->problem.batch_invariant)
        decode->fixed = invariant_kernel(decode);
    plan->info.kernel = smla__decode_choose(plan, decode, plan->info.max_rows)->name;
    return SMLA_OK;
}

int smla__decode_head_groups(const smla_plan *plan, const struct smla__decode_kernel *kernel)
{
    return (smla__run_heads(&plan->problem) + kernel->heads - 1) / kernel->heads;
}

/* Microseconds of a run, roughly. The groups of a row's heads read the same keys: one from memory, the others from the
 * cache, which takes CACHE microseconds to deliver 2048 keys to every processor. */
enum { CACHE = 45 };

static double estimate(const smla_plan *plan, const struct smla__gpu *gpu,
                       const struct smla__decode_kernel *kernel, int64_t rows)
{
    double full_list = plan->problem.topk / 2048.0;
    double items = (double)rows * smla__decode_head_groups(plan, kernel);
    int64_t waves = ((int64_t)items + kernel->resident - 1) / kernel->resident;
    double at_once = items < kernel->resident ? items : kernel->resident;
    double load = full_list * at_once / gpu->processors;
    double compute = kernel->compute * full_list / kernel->ranks, cache = CACHE * load;
    double memory = kernel->memory * load / smla__decode_head_groups(plan, kernel);
    double wave = fmax(compute, fmax(memory, cache));
    /* Rows that take turns in one CTA hide each other's start and end. */
    return kernel->ranks == 1 ? kernel->start + (double)waves * wave : (double)waves * (kernel->start + wave);
}

static const struct smla__decode_kernel *choose(const smla_plan *plan, const struct smla__decode_plan *decode,
                                                int64_t rows)
{
    const struct smla__gpu *gpu = smla__gpu_of(plan->context);
    const struct smla__decode_kernel *best = decode->kernels;
    double least = estimate(plan, gpu, best, rows);
    for (int i = 1; i < decode->count; i++) {
        double time = estimate(plan, gpu, decode->kernels + i, rows);
        if (time < least) {
            least = time;
            best = decode->kernels + i;
        }
    }
    return best;
}

const struct smla__decode_kernel *smla__decode_choose(const smla_plan *plan, struct smla__decode_plan *decode,
                                                      int64_t rows)
{
    if (decode->fixed)
        return decode->fixed;
    if (!decode->last || decode->last_rows != rows) {
        decode->last = choose(plan, decode, rows);
        decode->last_rows = rows;
    }
    return decode->last;
}

struct smla__grid smla__decode_grid(const smla_plan *plan, const struct smla__decode_kernel *kernel,
                                    int64_t rows)
{
    struct smla__grid grid = grid_of(kernel);
    int64_t items = rows * smla__decode_head_groups(plan, kernel);
    if (kernel->takes_turns && items > kernel->resident)
        items = kernel->resident;
    grid.blocks = (unsigned)(items * kernel->ranks);
    grid.programmatic = plan->options.cuda_pdl;
    return grid;
}
