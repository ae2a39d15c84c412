#include "schedule.h"

enum {
    RANGE_STEP = 32,       /* ranges begin at multiples of it where the list is long enough */
    INVARIANT_RANGE = 256, /* keys of a range in batch-invariant mode */
    PART_HEADS = 32,       /* fewest heads of a part: each part gathers the keys again */
    PART_STEP = 16,        /* parts begin at multiples of it */
    PIECES = 4,            /* wanted for each worker, */
    EVEN_PIECES = 2,       /* or so many if each worker gets as many as the other */
    APART_RANGES = 16      /* most ranges in the workspace for each worker, if their number is fixed */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Ranges of a single group are of one length, so that one for each worker will do. */
static bool enough(const struct smla__schedule *s, int32_t workers)
{
    int64_t pieces = s->groups * s->parts * (s->ranges ? s->ranges : 1);
    int64_t even = (s->groups == 1 ? 1 : EVEN_PIECES) * (int64_t)workers;
    return pieces >= (int64_t)PIECES * workers || (pieces >= even && pieces % workers == 0);
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

/* Few rows: cut lists, then heads, until every worker has something to do. */
static void spread(struct smla__schedule *s, const smla_plan *plan, int32_t workers)
{
    bool fixed = s->ranges > 0;
    if (s->groups >= (int64_t)PIECES * workers)
        return;
    if (!fixed)
        for (s->ranges = 1; !enough(s, workers) && s->ranges < most_ranges(plan);)
            s->ranges++;
    s->apart = s->ranges > 1 &&
               (!fixed || s->groups == 1 || s->groups * s->ranges <= (int64_t)APART_RANGES * workers);
    struct smla__schedule units = *s;
    if (!s->apart)
        units.ranges = 1;
    while (!enough(&units, workers) && s->heads >= (units.parts + 1) * PART_HEADS)
        units.parts++;
    s->parts = units.parts;
    if (s->apart)
        s->merges = (int32_t)least(ceil_div(workers, s->groups * s->parts), s->heads / s->parts / 2 + 1);
}

void smla__schedule_make(struct smla__schedule *schedule, const smla_plan *plan, int64_t rows,
                         int32_t workers, bool shared)
{
    struct smla__schedule s = {.heads = smla__run_heads(&plan->problem), .rows = rows, .parts = 1};
    s.ranges = fixed_ranges(plan, &s.range_keys);
    if (rows > 0) {
        s.shared_rows = shared ? shared_rows(s.heads, rows) : 1;
        s.groups = ceil_div(rows, s.shared_rows);
        if (workers > 1)
            spread(&s, plan, workers);
    }
    if (s.ranges == 0)
        s.ranges = 1;
    s.pieces = s.groups * s.parts * (s.apart ? s.ranges : 1);
    *schedule = s;
}

bool smla__schedule_few(const smla_plan *plan, int64_t rows, int32_t workers)
{
    int32_t heads = smla__run_heads(&plan->problem);
    return rows > 1 && workers > 1 && ceil_div(rows, shared_rows(heads, rows)) < (int64_t)PIECES * workers;
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
    b.workers = (int32_t)least(workers, rows * parts * ranges);
    if (workers == 1 || ranges == 1)
        return b;
    /* Free: spread() stops below PIECES * workers pieces, plus the groups (or units), which are fewer than
     * the former. Fixed: as spread() says. Rows that do not share are more groups of as many heads. */
    int64_t most = (int64_t)(fixed ? APART_RANGES : 2 * PIECES) * workers;
    b.partial_heads = least(most < fixed ? fixed : most, groups * ranges) * b.heads;
    b.units = least((int64_t)2 * PIECES * workers, rows * parts);
    return b;
}
