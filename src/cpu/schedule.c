#include "schedule.h"

enum {
    RANGE_STEP = 32,       /* ranges begin at multiples of it where the list is long enough */
    INVARIANT_RANGE = 256, /* keys of a range in batch-invariant mode */
    PART_HEADS = 32,       /* fewest heads of a part: each part gathers the keys again */
    PART_STEP = 16,        /* parts begin at multiples of it */
    PIECES = 4,            /* wanted for each worker, */
    FEW_PIECES = 2,        /* or these if they come out even */
    APART_RANGES = 16      /* most ranges in the workspace for each worker */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static bool enough(int64_t pieces, int32_t workers)
{
    return pieces >= (int64_t)PIECES * workers ||
           (pieces >= (int64_t)FEW_PIECES * workers && pieces % workers == 0);
}

static int32_t shared_rows(int32_t heads, int64_t rows)
{
    return (int32_t)least(least(SMLA__SHARED_ROWS, SMLA__HEADS_MAX / heads), rows);
}

/* Ranges that do not depend on the run: forced, or by K alone. 0: free. */
static int32_t fixed_ranges(const smla_plan *plan, int64_t *range_keys)
{
    int64_t topk = plan->problem.topk;
    *range_keys = 0;
    if (plan->options.splits)
        return plan->options.splits;
    if (!plan->problem.batch_invariant)
        return 0;
    int64_t longest = ceil_div(ceil_div(topk, SMLA__SPLITS_MAX), RANGE_STEP) * RANGE_STEP;
    *range_keys = longest > INVARIANT_RANGE ? longest : INVARIANT_RANGE;
    return (int32_t)ceil_div(topk, *range_keys);
}

static int32_t most_ranges(const smla_plan *plan)
{
    return (int32_t)least(SMLA__SPLITS_MAX, ceil_div(plan->problem.topk, SMLA__TILE));
}

/* Few rows: cut heads, then lists, until every worker has something to do. */
static void spread(struct smla__schedule *s, const smla_plan *plan, int32_t workers)
{
    bool free_ranges = s->ranges == 0;
    while (!enough(s->groups * s->parts, workers) && s->heads >= (s->parts + 1) * PART_HEADS)
        s->parts++;
    if (enough(s->groups * s->parts, workers))
        return;
    if (free_ranges)
        s->ranges = 1;
    while (free_ranges && !enough(s->groups * s->parts * s->ranges, workers) && s->ranges < most_ranges(plan))
        s->ranges++;
    s->apart = s->ranges > 1 && (free_ranges || s->groups == 1 ||
                                 s->groups * s->parts * s->ranges <= (int64_t)APART_RANGES * workers);
}

void smla__schedule_make(struct smla__schedule *schedule, const smla_plan *plan, int64_t rows,
                         int32_t workers)
{
    struct smla__schedule s = {.heads = smla__run_heads(&plan->problem), .rows = rows, .parts = 1};
    s.ranges = fixed_ranges(plan, &s.range_keys);
    if (rows > 0) {
        s.shared_rows = shared_rows(s.heads, rows);
        s.groups = ceil_div(rows, s.shared_rows);
        if (workers > 1)
            spread(&s, plan, workers);
    }
    if (s.ranges == 0)
        s.ranges = 1;
    s.pieces = s.groups * s.parts * (s.apart ? s.ranges : 1);
    *schedule = s;
}

int32_t smla__schedule_head(const struct smla__schedule *schedule, int32_t part)
{
    if (part == schedule->parts)
        return schedule->heads;
    return schedule->heads * part / schedule->parts / PART_STEP * PART_STEP;
}

void smla__schedule_range(const struct smla__schedule *schedule, int64_t count, int32_t range, int64_t *begin,
                          int64_t *end)
{
    int64_t keys = schedule->range_keys;
    if (keys == 0) {
        keys = ceil_div(count, schedule->ranges);
        if (keys > RANGE_STEP)
            keys = ceil_div(keys, RANGE_STEP) * RANGE_STEP;
    }
    *begin = least(count, range * keys);
    *end = least(count, *begin + keys);
}

struct smla__bounds smla__schedule_bounds(const smla_plan *plan, int32_t workers)
{
    int32_t heads = smla__run_heads(&plan->problem);
    int64_t rows = plan->info.max_rows, unused;
    struct smla__bounds b = {0};
    if (rows == 0)
        return b;
    int32_t fixed = fixed_ranges(plan, &unused), ranges = fixed ? fixed : most_ranges(plan);
    b.shared_rows = shared_rows(heads, rows);
    b.heads = b.shared_rows * heads;
    b.ranges = fixed > 1;
    int64_t groups = ceil_div(rows, b.shared_rows), parts = heads < PART_HEADS ? 1 : heads / PART_HEADS;
    b.workers = (int32_t)least(workers, groups * parts * ranges);
    if (workers == 1 || ranges == 1)
        return b;
    /* Only all parts together leave lists to be cut. Free: spread() stops below PIECES * workers pieces, plus
     * the units, which are fewer than the former. Fixed: as spread() says. */
    int64_t most = ceil_div((int64_t)(fixed ? APART_RANGES : 2 * PIECES) * workers, parts);
    b.partial_heads = least(most < fixed ? fixed : most, groups * ranges) * b.heads;
    b.units = least((int64_t)PIECES * workers, groups * parts);
    return b;
}
