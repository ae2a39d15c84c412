/* What smla run found, and the two ways to say it. */
#ifndef RUN_REPORT_H
#define RUN_REPORT_H

#include <capture.h>
#include <stdbool.h>
#include <stdint.h>

#include "attend.h"
#include "compare.h"

/* One comparison of the result. */
struct run_check {
    bool made;
    int64_t rows; /* of T */
    struct compare out, lse;
    double out_bound, lse_bound;
    bool right;
};

struct run_report {
    const char *path;
    int64_t valid_entries; /* cache rows that the lists name, of all rows together */
    double score_size;     /* of the rows that the oracle checked: how large scores may be */
    struct run_check oracle, expected;
    bool right; /* every comparison made is within its bounds */
};

void run_report_text(const struct run_report *report, const struct capture *capture,
                     const struct attend *attend);
void run_report_json(const struct run_report *report, const struct capture *capture,
                     const struct attend *attend);

#endif
