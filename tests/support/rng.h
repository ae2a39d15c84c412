/* Seeded random numbers: the same on every machine, so that a failing case can be run again. */
#ifndef TEST_RNG_H
#define TEST_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

uint64_t rng_next(struct rng *rng);
int64_t rng_below(struct rng *rng, int64_t limit); /* 0 .. limit - 1; limit >= 1 */
double rng_unit(struct rng *rng);                  /* [0, 1) */
float rng_normal(struct rng *rng);                 /* mean 0, variance 1, within +-6 */

#endif
