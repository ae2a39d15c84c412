/* Random numbers from a seed, the same on every machine: integers and exactly rounded operations only. */
#ifndef RNG_H
#define RNG_H

#include <stdint.h>
#include <string.h>

struct rng {
    uint64_t state;
};

/* A Weyl sequence through a 64-bit mixer (splitmix64). */
static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* 0 .. bound - 1, bound >= 1. */
static inline int64_t rng_below(struct rng *rng, int64_t bound)
{
    return (int64_t)(rng_next(rng) % (uint64_t)bound);
}

/* 0 <= x < 1. */
static inline double rng_unit(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

/* Nearly normal with deviation 1, as bf16 bits: the sum of four uniform numbers. */
static inline uint16_t rng_bf16(struct rng *rng)
{
    uint64_t r = rng_next(rng);
    int32_t sum = (int32_t)((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48));
    float value = (float)((2 * sum - 4 * 65535) / 75674.0);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

#endif
