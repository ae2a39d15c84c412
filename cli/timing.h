/* Times of a repeated call. */
#ifndef TIMING_H
#define TIMING_H

enum { TIMING_RUNS_MAX = 1024 };

struct timing {
    double median, best; /* seconds, without the first call if there were others */
    int runs;            /* that went into them */
};

/* Sorts the times of `runs` >= 1 runs and fills the struct. */
void timing_summarise(struct timing *timing, double *times, int runs);

/* Calls `work` once to warm up, then for `budget` seconds or until the most runs have been taken; not again if
 * the first call alone took ten times the budget. Stops at the first call that does not give 0 and passes its
 * value on. */
int timing_measure(struct timing *timing, int (*work)(void *cookie), void *cookie, double budget);

#endif
