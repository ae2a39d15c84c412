#include "run_cpu.h"

#include <float.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "keys.h"
#include "schedule.h"

/* At the head of the workspace. */
struct run {
    const struct smla__attn *attn;
    smla_problem problem;
    smla_tensors tensors;
    struct smla__lists lists;
    struct smla__schedule schedule;
    struct smla__bounds bounds;
    struct smla__scale scale;
    int32_t workers;
    char *worker_space;
    size_t worker_bytes;
    struct smla__partial partial; /* [groups, ranges, shared rows * heads] in the order of partial_at() */
    atomic_uint *arrived;         /* [units] ranges done */
    _Alignas(SMLA__LINE) atomic_int_fast64_t next; /* piece */
    atomic_int entered;                            /* workers so far, */
    atomic_int claimed;                            /* and spaces that they took */
};

/* A thread at work. */
struct worker {
    struct run *run;
    const uint16_t **keys[SMLA__SHARED_ROWS]; /* valid keys of the rows of `group` */
    int64_t counts[SMLA__SHARED_ROWS];
    int64_t group;             /* -1: none yet */
    struct smla__partial here; /* [shared rows * heads] of the range at work, */
    struct smla__partial sum;  /* of the ranges before it */
    void *scratch;             /* NULL: no space claimed yet */
};

/* Some rows of a group, times the heads of a part. */
struct block {
    int64_t row; /* first, of the run */
    int first;   /* the same, of the group */
    int rows;
    int32_t head, heads;
};

/* ---- Workspace ---- */

/* Memory being laid out; without a base only its size counts. */
struct space {
    char *base;
    size_t used;
};

/* Whole lines, so that everything is aligned. */
static void *take(struct space *space, size_t bytes)
{
    void *taken = space->base ? space->base + space->used : NULL;
    space->used += (bytes + SMLA__LINE - 1) / SMLA__LINE * SMLA__LINE;
    return taken;
}

static struct smla__partial take_partial(struct space *space, int64_t heads)
{
    struct smla__partial p;
    p.max = take(space, (size_t)heads * sizeof(float));
    p.sum = take(space, (size_t)heads * sizeof(float));
    p.out = take(space, (size_t)heads * SMLA__LATENT * sizeof(float));
    return p;
}

static void take_worker(struct worker *w, struct space *space, const struct smla__attn *attn, int32_t topk,
                        const struct smla__bounds *b)
{
    for (int r = 0; r < b->shared_rows; r++)
        w->keys[r] = take(space, (size_t)topk * sizeof *w->keys[r]);
    w->sum = take_partial(space, b->heads);
    w->here = b->ranges ? take_partial(space, b->heads) : w->sum;
    if (b->shared_rows)
        w->scratch = take(space, attn->scratch_bytes(b->shared_rows, b->heads / b->shared_rows));
}

static void take_run(struct run *run, struct space *space)
{
    take(space, sizeof *run);
    run->arrived = take(space, (size_t)run->bounds.units * sizeof *run->arrived);
    run->partial = take_partial(space, run->bounds.partial_heads);
}

static size_t worker_bytes(const struct smla__attn *attn, int32_t topk, const struct smla__bounds *b)
{
    struct worker w;
    struct space space = {0};
    take_worker(&w, &space, attn, topk, b);
    return space.used;
}

size_t smla__cpu_workspace_bytes(const smla_plan *plan, const struct smla__attn *attn, int32_t workers)
{
    struct run run = {.bounds = smla__schedule_bounds(plan, workers)};
    struct space space = {0};
    take_run(&run, &space);
    return SMLA__LINE - 1 + space.used +
           (size_t)run.bounds.workers * worker_bytes(attn, plan->problem.topk, &run.bounds);
}

static struct run *run_of(void *workspace)
{
    size_t past = (uintptr_t)workspace % SMLA__LINE;
    return (struct run *)((char *)workspace + (past ? SMLA__LINE - past : 0));
}

/* Scale 0 makes all scores equal; so does the smallest number, which leaves -inf what it is. */
static struct smla__scale scale_of(float scale)
{
    float log2 = (float)(fabs(scale) * 1.4426950408889634);
    return (struct smla__scale){scale < 0.0f ? -1.0f : 1.0f, fmaxf(log2, FLT_MIN)};
}

/* Does a good part of the rows begin its list as the row before does? Where rows are few, only then is it
 * worth while to keep them together. */
static bool lists_alike(const struct smla__lists *lists)
{
    int64_t rows = lists->tensors->rows, alike = 0;
    for (int64_t row = 1; row < rows; row++)
        alike += smla__lists_begin_alike(lists, row - 1, row);
    return alike * 4 >= rows - 1;
}

void smla__cpu_begin(const smla_plan *plan, const struct smla__attn *attn, const smla_step *step,
                     const smla_tensors *tensors, void *workspace, int32_t workers)
{
    struct run *run = run_of(workspace);
    *run = (struct run){
        .attn = attn,
        .problem = plan->problem,
        .tensors = *tensors,
        .bounds = smla__schedule_bounds(plan, plan->info.threads),
        .scale = scale_of(plan->problem.scale),
        .workers = workers,
    };
    struct space space = {(char *)run, 0};
    take_run(run, &space);
    run->worker_bytes = worker_bytes(attn, plan->problem.topk, &run->bounds);
    run->worker_space = (char *)run + space.used;
    smla__lists_init(&run->lists, plan, step ? &step->lanes : NULL, &run->tensors);
    bool shared = !smla__schedule_few(plan, tensors->rows, workers) || lists_alike(&run->lists);
    smla__schedule_make(&run->schedule, plan, tensors->rows, workers, shared);
    int64_t units = run->schedule.apart ? run->schedule.groups * run->schedule.parts : 0;
    for (int64_t i = 0; i < units; i++)
        atomic_init(&run->arrived[i], 0);
    atomic_init(&run->next, 0);
    atomic_init(&run->entered, 0);
    atomic_init(&run->claimed, 0);
}

int32_t smla__cpu_workers(void *workspace)
{
    return run_of(workspace)->workers;
}

int32_t smla__cpu_useful_workers(void *workspace)
{
    const struct run *run = run_of(workspace);
    return run->schedule.pieces < run->workers ? (int32_t)run->schedule.pieces : run->workers;
}

/* ---- A block of rows ---- */

static struct smla__partial partial_from(struct smla__partial p, int64_t head)
{
    return (struct smla__partial){p.max + head, p.sum + head, p.out + head * SMLA__LATENT};
}

/* The partial result of a block over a range: part by part, then row by row within [group, range]. */
static struct smla__partial partial_at(const struct run *run, const struct block *b, int32_t range)
{
    const struct smla__schedule *s = &run->schedule;
    int64_t group = (b->row - b->first) / s->shared_rows;
    int64_t heads = (int64_t)s->heads * s->shared_rows;
    return partial_from(run->partial, (group * s->ranges + range) * heads +
                                          (int64_t)b->head * s->shared_rows + b->first * b->heads);
}

static void load_queries(struct worker *w, const struct block *b)
{
    const smla_tensors *t = &w->run->tensors;
    const uint16_t *latent[SMLA__HEADS_MAX], *rope[SMLA__HEADS_MAX];
    int i = 0;
    for (int64_t row = b->row; row < b->row + b->rows; row++) {
        for (int64_t head = b->head; head < b->head + b->heads; head++, i++) {
            if (t->q) {
                const char *q = (const char *)t->q + row * t->q_row_stride + head * t->q_head_stride;
                latent[i] = (const uint16_t *)q;
                rope[i] = latent[i] + SMLA__LATENT;
            } else {
                latent[i] = (const uint16_t *)((const char *)t->q_latent + row * t->q_latent_row_stride +
                                               head * t->q_latent_head_stride);
                rope[i] = (const uint16_t *)((const char *)t->q_rope + row * t->q_rope_row_stride +
                                             head * t->q_rope_head_stride);
            }
        }
    }
    w->run->attn->load(w->scratch, b->rows, b->heads, latent, rope);
}

static struct smla__keys range_keys(const struct worker *w, int row, int32_t range)
{
    int64_t begin, end;
    smla__schedule_range(&w->run->schedule, w->counts[row], range, &begin, &end);
    return (struct smla__keys){w->keys[row] + begin, end - begin};
}

/* Calls for the first tile of a range: later ones are called for while the one before is at work. First the
 * pages, so that they are found side by side. */
static void call_range(const struct worker *w, const struct block *b, int32_t range)
{
    struct smla__keys keys = range_keys(w, b->first, range);
    int64_t count = keys.count < SMLA__TILE ? keys.count : SMLA__TILE;
    for (int64_t i = 0; i < count; i++) {
        __builtin_prefetch(keys.rows[i], 0, 2);
        __builtin_prefetch(keys.rows[i] + SMLA__ROW - 1, 0, 2);
    }
    for (int64_t i = 0; i < count; i++)
        for (int c = SMLA__LINE / 2; c < SMLA__ROW - 1; c += SMLA__LINE / 2)
            __builtin_prefetch(keys.rows[i] + c, 0, 2);
}

static void attend_range(struct worker *w, const struct block *b, int32_t range,
                         const struct smla__partial *to)
{
    struct smla__keys keys[SMLA__SHARED_ROWS];
    for (int r = 0; r < b->rows; r++)
        keys[r] = range_keys(w, b->first + r, range);
    w->run->attn->attend(w->scratch, b->rows, b->heads, w->run->scale, keys, to);
}

/* lse of a head in the caller's units, and by what its sums are to be multiplied. */
static float close_head(const struct run *run, float max, float sum, int64_t head, float *factor)
{
    *factor = 0.0f;
    if (sum == 0.0f)
        return run->problem.empty_lse == SMLA_EMPTY_POS_INF ? INFINITY : -INFINITY;
    double lse = max * fabs(run->problem.scale) + log(sum), kept = 1.0;
    if (run->tensors.sinks)
        kept = 1.0 / (1.0 + exp((double)run->tensors.sinks[head] - lse));
    *factor = (float)(kept / sum);
    return (float)(run->problem.lse_base == SMLA_LSE_BASE2 ? lse * 1.4426950408889634 : lse);
}

/* Writes the results of one row. */
static void finish_row(const struct run *run, int64_t row, int32_t head, int32_t heads,
                       struct smla__partial p)
{
    const smla_tensors *t = &run->tensors;
    float factor[SMLA__HEADS_MAX];
    for (int32_t h = 0; h < heads; h++) {
        float lse = close_head(run, p.max[h], p.sum[h], head + h, &factor[h]);
        if (t->lse)
            *(float *)((char *)t->lse + row * t->lse_row_stride + (head + h) * t->lse_head_stride) = lse;
    }
    char *out = (char *)t->out + row * t->out_row_stride + head * t->out_head_stride;
    run->attn->store(p.out, heads, factor, out, t->out_head_stride, run->problem.out_dtype);
}

/* All ranges one after another. */
static void attend_whole(struct worker *w, const struct block *b)
{
    const struct run *run = w->run;
    attend_range(w, b, 0, &w->sum);
    for (int32_t range = 1; range < run->schedule.ranges; range++) {
        call_range(w, b, range);
        attend_range(w, b, range, &w->here);
        run->attn->fold(&w->sum, &w->here, b->rows * b->heads, run->scale);
    }
    for (int r = 0; r < b->rows; r++)
        finish_row(run, b->row + r, b->head, b->heads, partial_from(w->sum, (int64_t)r * b->heads));
}

/* Some heads of the ranges of one row that several workers attended, folded in the same order. */
static void merge_row(const struct run *run, const struct block *b, int32_t first, int32_t heads)
{
    struct smla__partial sum = partial_from(partial_at(run, b, 0), first);
    for (int32_t range = 1; range < run->schedule.ranges; range++) {
        struct smla__partial next = partial_from(partial_at(run, b, range), first);
        run->attn->fold(&sum, &next, heads, run->scale);
    }
    finish_row(run, b->row, b->head + first, heads, sum);
}

/* ---- Pieces ---- */

/* Converts the lists of a group, unless the worker's last piece was of the same one. */
static void list_group(struct worker *w, int64_t group, int64_t row, int rows)
{
    if (w->group == group)
        return;
    for (int r = 0; r < rows; r++)
        w->counts[r] = smla__lists_row(&w->run->lists, row + r, w->keys[r]);
    w->group = group;
}

/* How many rows from `first` on begin with the same keys, so that attending them together pays. */
static int rows_alike(const struct worker *w, int first, int rows)
{
    int64_t count = w->counts[first] < SMLA__TILE ? w->counts[first] : SMLA__TILE;
    int end = first + 1;
    while (end < rows && w->counts[end] >= count &&
           memcmp(w->keys[first], w->keys[end], (size_t)count * sizeof *w->keys[first]) == 0)
        end++;
    return end - first;
}

/* All rows of a unit. */
static struct block unit_block(const struct smla__schedule *s, int64_t unit)
{
    int64_t row = unit / s->parts * s->shared_rows, left = s->rows - row;
    int32_t part = (int32_t)(unit % s->parts), head = smla__schedule_head(s, part);
    return (struct block){
        .row = row,
        .rows = left < s->shared_rows ? (int)left : s->shared_rows,
        .head = head,
        .heads = smla__schedule_head(s, part + 1) - head,
    };
}

static void attend_piece(struct worker *w, int64_t piece)
{
    const struct smla__schedule *s = &w->run->schedule;
    int32_t ranges = s->apart ? s->ranges : 1, range = (int32_t)(piece % ranges);
    int64_t unit = piece / ranges;
    struct block all = unit_block(s, unit), b = all;

    list_group(w, unit / s->parts, all.row, all.rows);
    for (; b.first < all.rows; b.first += b.rows) {
        b.row = all.row + b.first;
        b.rows = rows_alike(w, b.first, all.rows);
        call_range(w, &b, range);
        load_queries(w, &b);
        if (s->apart) {
            struct smla__partial to = partial_at(w->run, &b, range);
            attend_range(w, &b, range, &to);
        } else {
            attend_whole(w, &b);
        }
    }
    if (s->apart)
        atomic_fetch_add_explicit(&w->run->arrived[unit], 1, memory_order_release);
}

/* Some heads of a unit. By now all ranges have been taken, but some may still be at work elsewhere. */
static void merge_piece(struct run *run, int64_t piece)
{
    const struct smla__schedule *s = &run->schedule;
    int64_t unit = piece / s->merges, part = piece % s->merges;
    struct block b = unit_block(s, unit);
    int32_t first = (int32_t)(b.heads * part / s->merges), end = (int32_t)(b.heads * (part + 1) / s->merges);

    while (atomic_load_explicit(&run->arrived[unit], memory_order_acquire) < (unsigned)s->ranges)
        sched_yield();
    for (int left = b.rows; left > 0; left--, b.row++, b.first++)
        merge_row(run, &b, first, end - first);
}

/* Spaces are claimed with the first piece, so there need be no more of them than pieces. */
static void claim_space(struct worker *w)
{
    struct run *run = w->run;
    size_t index = (size_t)atomic_fetch_add_explicit(&run->claimed, 1, memory_order_relaxed);
    struct space space = {run->worker_space + index * run->worker_bytes, 0};
    take_worker(w, &space, run->attn, run->problem.topk, &run->bounds);
    run->attn->enter();
}

bool smla__cpu_work(void *workspace)
{
    struct run *run = run_of(workspace);
    if (atomic_fetch_add_explicit(&run->entered, 1, memory_order_relaxed) >= run->workers)
        return false;
    struct worker w = {.run = run, .group = -1};
    int64_t attended = run->schedule.pieces;
    int64_t end = attended + run->schedule.groups * run->schedule.parts * run->schedule.merges;
    int64_t piece;
    while ((piece = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed)) < end) {
        if (piece < attended && !w.scratch)
            claim_space(&w);
        if (piece < attended)
            attend_piece(&w, piece);
        else
            merge_piece(run, piece - attended);
    }
    if (w.scratch)
        run->attn->leave();
    return true;
}
