#include "rng.h"

uint64_t rng_next(struct rng *rng)
{
    uint64_t x = rng->state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

int64_t rng_below(struct rng *rng, int64_t limit)
{
    return (int64_t)(rng_next(rng) % (uint64_t)limit);
}

double rng_unit(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

/* The sum of twelve uniform numbers: close enough to normal, and no libm whose bits differ by machine. */
float rng_normal(struct rng *rng)
{
    int64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t bits = rng_next(rng);
        for (int part = 0; part < 4; part++)
            sum += (int64_t)(bits >> (16 * part) & 0xffff);
    }
    return (float)sum * 0x1p-16f - 6.0f;
}
