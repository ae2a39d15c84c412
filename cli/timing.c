#include "timing.h"

#include <stdbool.h>
#include <stdlib.h>

#include "report.h"

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
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
    timing->runs = runs ? runs : 1;
    qsort(times, (size_t)timing->runs, sizeof *times, by_value);
    timing->median = times[timing->runs / 2];
    timing->best = times[0];
    return result;
}
