/*
 * How the rows of a run are shared out. A unit is a group of neighbouring rows times a part of the heads;
 * a list may be cut in ranges. A piece is what a worker takes at a time: a unit, or (apart) one range of
 * it, whose result then waits in the workspace for the other ranges. After those, a unit's ranges are
 * merged, by several workers if there are more of them than units.
 */
#ifndef SMLA_CPU_SCHEDULE_H
#define SMLA_CPU_SCHEDULE_H

#include "attn.h"

struct smla__schedule {
    int32_t heads;       /* of a row */
    int32_t shared_rows; /* rows of a group */
    int64_t rows, groups;
    int32_t parts;      /* of the heads */
    int32_t ranges;     /* of a list */
    int64_t range_keys; /* keys of a range; 0: the list's length by ranges */
    bool apart;
    int64_t pieces; /* to be attended, */
    int32_t merges; /* then so many pieces of each unit to be merged; 0 if not apart */
};

/* Groups are of several rows if `shared`: lists of neighbours are known to be alike, or may be. The same
 * arguments always give the same schedule. */
void smla__schedule_make(struct smla__schedule *schedule, const smla_plan *plan, int64_t rows,
                         int32_t workers, bool shared);

/* Are so few rows that groups of several might leave workers without work? */
bool smla__schedule_few(const smla_plan *plan, int64_t rows, int32_t workers);

/* First head of a part; that of part `parts` is the number of heads. */
int32_t smla__schedule_head(const struct smla__schedule *schedule, int32_t part);

/* Keys begin .. end - 1 of a list of `count` valid keys form this range. */
void smla__schedule_range(const struct smla__schedule *schedule, int64_t count, int32_t range, int64_t *begin,
                          int64_t *end);

/* What any run of a plan needs at most. */
struct smla__bounds {
    int32_t shared_rows;
    int32_t heads;         /* worked on at a time */
    bool ranges;           /* lists may be cut within a piece */
    int32_t workers;       /* that get a piece */
    int64_t partial_heads; /* of results that wait for other ranges */
    int64_t units;         /* with ranges apart */
};

struct smla__bounds smla__schedule_bounds(const smla_plan *plan, int32_t workers);

#endif
