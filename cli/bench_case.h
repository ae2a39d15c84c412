/* One line of the benchmark: a shape, measured through the public API over lists drawn from a large pool. */
#ifndef BENCH_CASE_H
#define BENCH_CASE_H

#include <smla/smla.h>
#include <stdbool.h>
#include <stdint.h>

/* Cache rows to draw from. */
struct bench_pool {
    uint16_t *rows; /* [count, 576] bf16 */
    int64_t count;  /* a multiple of BENCH_BLOCK_SIZE */
};

enum { BENCH_BLOCK_SIZE = 64, BENCH_ROW = 576, BENCH_TEXT = 640 };

struct bench_case {
    int isa;     /* smla_isa, or -1: the best one */
    int threads; /* 0 on a GPU */
    int heads, topk;
    int64_t tokens;
};

/* NaN = unknown. */
struct bench_result {
    struct bench_case shape;
    smla_backend backend;
    int isa; /* in use */
    char kernel[64];
    double us, us_best; /* median and least of `runs` */
    int runs;
    double gbps, tflops; /* at the median */
    double floor_us;     /* FMA-peak time of the threads; on a GPU the gather floor */
    double ratio;        /* us / floor_us */
    double peer_us;
    char error[BENCH_TEXT]; /* why it could not be measured */
};

/* Bytes of the last level of cache, a guess where the system does not tell. */
int64_t bench_cache_bytes(void);

/* Makes a pool of `count` rows; 0: four times the last cache, if that is at most a quarter of the free memory.
 * False if memory is short. */
bool bench_pool_make(struct bench_pool *pool, int64_t count);
void bench_pool_free(struct bench_pool *pool);

/* The problem of a case: slots, bf16 out. */
void bench_problem(smla_problem *problem, const struct bench_case *shape);

/* The instruction set that the library uses when `isa` (or, with -1, any) is allowed; gives an exit code, and a
 * reason if it is not EXIT_RIGHT. */
int bench_probe(int isa, smla_isa *used, char reason[BENCH_TEXT]);

/* Fills everything but floor_us, ratio and peer_us; gives an exit code. Rotates over enough lists that none
 * finds its rows in the cache, for about `seconds`. */
int bench_measure(struct bench_result *result, const struct bench_case *shape, const struct bench_pool *pool,
                  double seconds);

#endif
