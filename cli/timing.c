#include "timing.h"

#include <stdbool.h>
#include <stdlib.h>

#include "report.h"

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

void timing_summarise(struct timing *timing, double *times, int runs)
{
    qsort(times, (size_t)runs, sizeof *times, by_value);
    *timing = (struct timing){.median = times[runs / 2], .best = times[0], .runs = runs};
}

static double timed(double *time, int *result, int (*work)(void *cookie), void *cookie)
{
    double before = report_clock();
    *result = work(cookie);
    double now = report_clock();
    *time = now - before;
    return now;
}

int timing_measure(struct timing *timing, int (*work)(void *cookie), void *cookie, double budget)
{
    double times[TIMING_RUNS_MAX];
    int runs = 0, result = 0;
    double begin = timed(&times[0], &result, work, cookie), now = begin;
    bool again = times[0] < 10 * budget;
    while (!result && again && runs < TIMING_RUNS_MAX && now - begin < budget)
        now = timed(&times[runs++], &result, work, cookie);
    timing_summarise(timing, times, runs ? runs : 1);
    return result;
}
