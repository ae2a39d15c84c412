/* Random top-k lists in GPU memory, several sets of them to take in turn, and the requests that they belong to. */
#ifndef BENCH_LISTS_H
#define BENCH_LISTS_H

#include <device.h>
#include <smla/smla.h>
#include <stdbool.h>
#include <stdint.h>

struct bench_lists {
    struct device *device;
    int64_t tokens;
    int topk;
    int sets;
    bool positions;
    double valid;      /* entries of a set that are valid, on average */
    int32_t *slots;    /* device [sets, T, K] cache slots, -1 for none */
    int32_t *entries;  /* device [sets, T, K] what the library gets: positions, or the slots themselves */
    int32_t *first;    /* host [T, K] slots of set 0 */
    int32_t *starts;   /* host [T + 1] query_start_loc: each row is a request */
    int32_t *seq_lens; /* host [T] */
    int32_t *table;    /* host [T, width] */
    int64_t width;
};

struct bench_lists_shape {
    int64_t tokens;
    int topk;
    int64_t pool_blocks; /* of BENCH_BLOCK_SIZE rows */
    bool positions;      /* entries are positions in requests whose blocks are shuffled over the pool */
    double invalid;      /* share of the entries that are -1 */
};

/* 24 sets, 12 from 256 rows on and 6 from 512. False, and a reason, if memory is short. `lists` is zero before the
 * first time; a former content is freed. */
bool bench_lists_make(struct bench_lists *lists, struct device *device, const struct bench_lists_shape *shape,
                      struct io_error *error);
void bench_lists_free(struct bench_lists *lists);

/* The batch of the requests; `cache_blocks` of the cache. */
void bench_lists_batch(const struct bench_lists *lists, int64_t cache_blocks, smla_batch *batch);

#endif
