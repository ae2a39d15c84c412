#include "bench_lists.h"

#include <stdlib.h>
#include <string.h>

#include "bench_case.h"
#include "rng.h"

enum {
    CONTEXT_BLOCKS = 2048, /* 131072 tokens, the least that a request has if the pool is that large */
    ENTRIES_MAX = 1 << 30
};

static int sets_for(int64_t tokens)
{
    return tokens >= 512 ? 6 : tokens >= 256 ? 12 : 24;
}

/* Requests share the pool out among them, but each has a long context, so that many of them overlap. */
static int64_t table_width(const struct bench_lists_shape *shape)
{
    int64_t width = shape->pool_blocks / (shape->tokens ? shape->tokens : 1);
    width = width > CONTEXT_BLOCKS ? width : CONTEXT_BLOCKS;
    return width < shape->pool_blocks ? width : shape->pool_blocks;
}

/* Deals the pool's blocks out in random order, again and again. */
static bool deal_blocks(struct bench_lists *lists, const struct bench_lists_shape *shape, struct rng *rng)
{
    int32_t *order = malloc((size_t)shape->pool_blocks * sizeof *order);
    if (!order)
        return false;
    for (int64_t i = 0; i < shape->pool_blocks; i++) {
        int64_t j = rng_below(rng, i + 1);
        order[i] = order[j];
        order[j] = (int32_t)i;
    }
    for (int64_t i = 0; i < shape->tokens * lists->width; i++)
        lists->table[i] = order[i % shape->pool_blocks];
    free(order);
    return true;
}

static bool make_requests(struct bench_lists *lists, const struct bench_lists_shape *shape, struct rng *rng)
{
    size_t tokens = (size_t)shape->tokens;
    lists->width = table_width(shape);
    lists->starts = malloc((tokens + 1) * sizeof(int32_t));
    lists->seq_lens = malloc((tokens + 1) * sizeof(int32_t));
    lists->table = malloc((tokens * (size_t)lists->width + 1) * sizeof(int32_t));
    if (!lists->starts || !lists->seq_lens || !lists->table)
        return false;
    for (int64_t t = 0; t <= shape->tokens; t++) {
        lists->starts[t] = (int32_t)t;
        lists->seq_lens[t] = (int32_t)(lists->width * BENCH_BLOCK_SIZE);
    }
    return deal_blocks(lists, shape, rng);
}

/* One set, as slots and as what the library gets. */
static void draw_set(const struct bench_lists *lists, const struct bench_lists_shape *shape, struct rng *rng,
                     int32_t *slots, int32_t *entries)
{
    int64_t tokens = shape->positions ? lists->width : shape->pool_blocks;
    tokens *= BENCH_BLOCK_SIZE;
    for (int64_t i = 0; i < shape->tokens * shape->topk; i++) {
        int32_t entry = (int32_t)rng_below(rng, tokens);
        if (shape->invalid > 0 && rng_unit(rng) < shape->invalid)
            entry = -1;
        entries[i] = slots[i] = entry;
        if (shape->positions && entry >= 0) {
            const int32_t *blocks = lists->table + i / shape->topk * lists->width;
            slots[i] = blocks[entry / BENCH_BLOCK_SIZE] * BENCH_BLOCK_SIZE + entry % BENCH_BLOCK_SIZE;
        }
    }
}

static bool fill_sets(struct bench_lists *lists, const struct bench_lists_shape *shape, struct rng *rng,
                      int32_t *entries)
{
    size_t count = (size_t)(shape->tokens * shape->topk), bytes = count * sizeof(int32_t);
    int32_t *slots = malloc(bytes + 1);
    bool good = slots != NULL;
    for (int set = 0; good && set < lists->sets; set++) {
        draw_set(lists, shape, rng, slots, entries);
        if (set == 0)
            memcpy(lists->first, slots, bytes);
        good = device_upload(lists->device, lists->slots + (size_t)set * count, slots, bytes) &&
               (!shape->positions ||
                device_upload(lists->device, lists->entries + (size_t)set * count, entries, bytes));
    }
    free(slots);
    return good;
}

bool bench_lists_make(struct bench_lists *lists, struct device *device, const struct bench_lists_shape *shape,
                      struct io_error *error)
{
    struct rng rng = {(uint64_t)shape->tokens * 1000003 + (uint64_t)shape->topk};
    int64_t count = shape->tokens * shape->topk;
    if (count > ENTRIES_MAX)
        return io_fail(error, "rows * topk = %lld: at most %d is accepted", (long long)count, ENTRIES_MAX);
    bench_lists_free(lists);
    lists->device = device;
    lists->tokens = shape->tokens;
    lists->topk = shape->topk;
    lists->sets = sets_for(shape->tokens);
    lists->positions = shape->positions;
    lists->valid = (double)count * (1 - shape->invalid);
    size_t bytes = (size_t)count * sizeof(int32_t), all = bytes * (size_t)lists->sets;
    lists->slots = device_alloc(device, all);
    lists->entries = shape->positions ? device_alloc(device, all) : lists->slots;
    if (!lists->slots || !lists->entries)
        return io_fail(error, "lists: %s", device_error(device));
    lists->first = malloc(bytes + 1);
    int32_t *entries = malloc(bytes + 1);
    bool room = lists->first && entries && make_requests(lists, shape, &rng);
    bool good = room && fill_sets(lists, shape, &rng, entries);
    free(entries);
    return good || io_fail(error, "lists: %s", room ? device_error(device) : "out of memory");
}

void bench_lists_free(struct bench_lists *lists)
{
    if (!lists->device)
        return;
    if (lists->entries != lists->slots)
        device_free(lists->device, lists->entries);
    device_free(lists->device, lists->slots);
    free(lists->first);
    free(lists->starts);
    free(lists->seq_lens);
    free(lists->table);
    *lists = (struct bench_lists){0};
}

void bench_lists_batch(const struct bench_lists *lists, int64_t cache_blocks, smla_batch *batch)
{
    smla_batch_init(batch);
    batch->requests = lists->tokens;
    batch->rows = lists->tokens;
    batch->query_start_loc = lists->starts;
    batch->seq_lens = lists->seq_lens;
    batch->block_table = lists->table;
    batch->block_table_width = lists->width;
    batch->block_table_stride = lists->width * (int64_t)sizeof(int32_t);
    batch->cache_blocks = cache_blocks;
}
