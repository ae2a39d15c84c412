/* From a row's list to the cache rows that it names. */
#ifndef SMLA_CPU_KEYS_H
#define SMLA_CPU_KEYS_H

#include "internal.h"

/* Division by a number that is usually a power of two. */
struct smla__divisor {
    int64_t value;
    int shift; /* -1: not a power of two */
};

/* What the conversion of a list needs and all rows of a run have in common. */
struct smla__lists {
    const smla_problem *problem;
    const smla_tensors *tensors;
    const struct smla__lanes *lanes; /* NULL: slots, and each row for itself */
    int64_t table_stride;            /* of the block table in lanes */
    struct smla__divisor block;      /* rows of a cache block */
    struct smla__divisor turn;       /* positions after which it is the first rank's turn again */
};

void smla__lists_init(struct smla__lists *lists, const smla_plan *plan, const struct smla__lanes *lanes,
                      const smla_tensors *tensors);

/* Writes pointers to the cache rows of the valid entries of list `row`, in list order, and gives back
 * their number. `keys` has room for all K, which serve as scratch. Reads no cache row. */
int64_t smla__lists_row(const struct smla__lists *lists, int64_t row, const uint16_t **keys);

/* The first offence in list `row`, as smla_plan_verify judges; false if there is none. Reads no cache row. */
bool smla__lists_offence(const struct smla__lists *lists, int64_t row, struct smla__offence *offence);

/* Do two rows begin with the same keys, as far as a glance shows? Invalid entries change nothing in that. */
bool smla__lists_begin_alike(const struct smla__lists *lists, int64_t a, int64_t b);

#endif
