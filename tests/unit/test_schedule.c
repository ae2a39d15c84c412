/* How the CPU backend shares out a run: everything done once, nothing beyond what the workspace was sized for. */
#include "cpu/schedule.h"

#include "harness.h"

static smla_plan plan_of(int32_t heads, int32_t topk, int32_t splits, int32_t invariant, int64_t max_rows)
{
    smla_plan plan = {0};
    smla_problem_init(&plan.problem);
    plan.problem.heads = heads;
    plan.problem.topk = topk;
    plan.problem.batch_invariant = invariant;
    plan.options.splits = splits;
    plan.info.max_rows = max_rows;
    return plan;
}

/* The parts cover all heads, the ranges all keys of a list of any length, in order and without overlap. */
static void expect_cover(const struct smla__schedule *s, int64_t topk)
{
    assert_int_equal(smla__schedule_head(s, 0), 0);
    assert_int_equal(smla__schedule_head(s, s->parts), s->heads);
    for (int32_t part = 0; part < s->parts; part++)
        assert_true(smla__schedule_head(s, part) < smla__schedule_head(s, part + 1));
    assert_true(s->groups * s->shared_rows >= s->rows && (s->groups - 1) * s->shared_rows < s->rows);
    for (int64_t count = 0; count <= topk; count += 1 + count / 3) {
        int64_t at = 0, begin, end;
        for (int32_t range = 0; range < s->ranges; range++) {
            smla__schedule_range(s, count, range, &begin, &end);
            assert_true(begin == at && end >= begin);
            at = end;
        }
        assert_int_equal(at, count);
    }
}

static void expect_within(const struct smla__schedule *s, const struct smla__bounds *b, int32_t workers)
{
    assert_int_equal(s->pieces, s->groups * s->parts * (s->apart ? s->ranges : 1));
    assert_true(s->shared_rows <= b->shared_rows);
    assert_true(s->shared_rows * s->heads <= b->heads);
    assert_true(b->workers >= (s->pieces < workers ? s->pieces : workers));
    if (!s->apart) {
        assert_int_equal(s->merges, 0);
        assert_true(s->ranges == 1 || b->ranges);
        return;
    }
    assert_true(s->groups * s->ranges * s->shared_rows * s->heads <= b->partial_heads);
    assert_true(s->groups * s->parts <= b->units);
    for (int32_t part = 0; part < s->parts; part++)
        assert_in_range(s->merges, 1, smla__schedule_head(s, part + 1) - smla__schedule_head(s, part));
}

static void check_plan(int32_t heads, int32_t topk, int32_t splits, int32_t invariant)
{
    static const int64_t rows[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 300};
    static const int32_t threads[] = {1, 2, 3, 4, 7, 16, 64, 1024};
    for (size_t i = 0; i < ARRAY_LENGTH(threads); i++)
        for (size_t most = 0; most < ARRAY_LENGTH(rows); most++) {
            smla_plan plan = plan_of(heads, topk, splits, invariant, rows[most]);
            struct smla__bounds b = smla__schedule_bounds(&plan, threads[i]);
            for (int32_t workers = 1; workers <= threads[i]; workers += 1 + workers / 4)
                for (size_t r = 0; r <= most; r++)
                    for (int shared = 0; shared < 2; shared++) {
                        struct smla__schedule s;
                        smla__schedule_make(&s, &plan, rows[r], workers, shared);
                        expect_within(&s, &b, workers);
                        if (r == most)
                            expect_cover(&s, topk);
                    }
        }
}

static void schedule_stays_within_its_bounds(void **state)
{
    (void)state;
    static const int32_t heads[] = {1, 3, 8, 16, 31, 32, 33, 64, 96, 127, 128};
    static const int32_t topks[] = {1, 63, 64, 65, 2048, 100000};
    static const int32_t splits[] = {0, 1, 2, 5, 64};
    for (size_t h = 0; h < ARRAY_LENGTH(heads); h++)
        for (size_t k = 0; k < ARRAY_LENGTH(topks); k++)
            for (size_t s = 0; s < ARRAY_LENGTH(splits); s++)
                for (int32_t invariant = 0; invariant < 2; invariant++)
                    check_plan(heads[h], topks[k], splits[s], invariant);
}

/* Batch-invariant: the ranges of a list follow from K alone. */
static void schedule_of_invariant_rows(void **state)
{
    (void)state;
    for (int32_t topk = 1; topk < 5000; topk += 37) {
        smla_plan plan = plan_of(8, topk, 0, 1, 500);
        struct smla__schedule one, other;
        smla__schedule_make(&one, &plan, 1, 1, true);
        for (int64_t rows = 1; rows <= 500; rows = rows * 2 + 1)
            for (int32_t workers = 1; workers <= 64; workers *= 2) {
                smla__schedule_make(&other, &plan, rows, workers, rows & 2);
                for (int32_t range = 0; range < one.ranges; range++) {
                    int64_t begin[2], end[2];
                    smla__schedule_range(&one, topk, range, &begin[0], &end[0]);
                    smla__schedule_range(&other, topk, range, &begin[1], &end[1]);
                    assert_true(one.ranges == other.ranges && begin[0] == begin[1] && end[0] == end[1]);
                }
            }
    }
}

/* One row fills many workers. */
static void schedule_of_one_row(void **state)
{
    (void)state;
    for (int32_t workers = 1; workers <= 16; workers++) {
        smla_plan plan = plan_of(16, 2048, 0, 0, 1);
        struct smla__schedule s;
        smla__schedule_make(&s, &plan, 1, workers, true);
        assert_true(s.pieces >= workers);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(schedule_stays_within_its_bounds),
    cmocka_unit_test(schedule_of_invariant_rows),
    cmocka_unit_test(schedule_of_one_row),
};

HARNESS_MAIN(tests)
