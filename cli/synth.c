#include "synth.h"

#include <stdlib.h>

#include "rng.h"

enum { BF16_NAN = 0x7fc0 };

static void *new_array(int64_t count, size_t size)
{
    return calloc(count > 0 ? (size_t)count : 1, size);
}

/* Rows spread evenly; the first request has the full length, the others a quarter of it or more. */
static bool make_requests(struct synth *synth, struct capture *capture, int64_t seq_len, struct rng *rng)
{
    synth->query_start_loc = new_array(capture->requests + 1, sizeof(int32_t));
    synth->seq_lens = new_array(capture->requests, sizeof(int32_t));
    if (!synth->query_start_loc || !synth->seq_lens)
        return false;
    int64_t share = capture->rows / capture->requests, longer = capture->rows % capture->requests;
    for (int64_t r = 0; r < capture->requests; r++) {
        int64_t rows = share + (r < longer), low = (seq_len + 3) / 4;
        low = low < rows ? rows : low;
        synth->query_start_loc[r + 1] = (int32_t)(synth->query_start_loc[r] + rows);
        synth->seq_lens[r] = (int32_t)(r ? low + rng_below(rng, seq_len - low + 1) : seq_len);
    }
    return true;
}

static void shuffle(int32_t *values, int64_t count, struct rng *rng)
{
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = rng_below(rng, i + 1);
        int32_t value = values[i];
        values[i] = values[j];
        values[j] = value;
    }
}

/* Deals blocks in random order; about one in eight stays without an owner. */
static bool make_block_table(struct synth *synth, struct capture *capture, struct rng *rng)
{
    int64_t owned = 0, width = capture->block_table_width, next = 0;
    for (int64_t r = 0; r < capture->requests; r++)
        owned += (synth->seq_lens[r] + capture->block_size - 1) / capture->block_size;
    capture->cache_blocks = owned + owned / 8 + 1;
    if (capture->cache_blocks > INT32_MAX)
        return false;
    synth->block_table = new_array(capture->requests * width, sizeof(int32_t));
    int32_t *order = new_array(capture->cache_blocks, sizeof(int32_t));
    for (int64_t i = 0; order && i < capture->cache_blocks; i++)
        order[i] = (int32_t)i;
    if (order && synth->block_table) {
        shuffle(order, capture->cache_blocks, rng);
        for (int64_t r = 0; r < capture->requests; r++)
            for (int64_t b = 0; b < width; b++)
                synth->block_table[r * width + b] =
                    b * capture->block_size < synth->seq_lens[r] ? order[next++] : -1;
    }
    free(order);
    return order && synth->block_table;
}

static bool make_values(struct synth *synth, const struct capture *capture, struct rng *rng)
{
    int64_t slots = capture->cache_blocks * capture->block_size, queries = capture->rows * capture->heads;
    synth->q = new_array(queries * CAPTURE_ROW, sizeof(uint16_t));
    synth->kv_cache = new_array(slots * CAPTURE_ROW, sizeof(uint16_t));
    if (!synth->q || !synth->kv_cache)
        return false;
    for (int64_t i = 0; i < queries * CAPTURE_ROW; i++)
        synth->q[i] = rng_bf16(rng);
    for (int64_t i = 0; i < slots * CAPTURE_ROW; i++)
        synth->kv_cache[i] = BF16_NAN;
    for (int64_t r = 0; r < capture->requests; r++)
        for (int64_t p = 0; p < synth->seq_lens[r]; p++) {
            int64_t block = synth->block_table[r * capture->block_table_width + p / capture->block_size];
            uint16_t *row =
                synth->kv_cache + (block * capture->block_size + p % capture->block_size) * CAPTURE_ROW;
            for (int c = 0; c < CAPTURE_ROW; c++)
                row[c] = rng_bf16(rng);
        }
    return true;
}

/* Draws a list of distinct positions below `limit` into random places, -1 elsewhere. `order` holds
 * 0 .. limit - 1 in any order. */
static void draw_list(int32_t *list, int64_t topk, int32_t *order, int64_t limit, struct rng *rng)
{
    int64_t count = topk < limit ? topk : limit;
    for (int64_t i = 0; i < count; i++) {
        int64_t j = i + rng_below(rng, limit - i);
        int32_t position = order[j];
        order[j] = order[i];
        order[i] = position;
        list[i] = position;
    }
    for (int64_t i = count; i < topk; i++)
        list[i] = -1;
    if (count < topk)
        shuffle(list, topk, rng);
}

static void spoil_list(int32_t *list, int64_t topk, int32_t *length, int64_t limit, double invalid,
                       struct rng *rng)
{
    for (int64_t i = 0; i < topk; i++)
        if (rng_unit(rng) < invalid)
            list[i] = -1;
    if (!length)
        return;
    *length = (int32_t)rng_below(rng, topk + 1);
    for (int64_t i = *length; i < topk; i++)
        list[i] = i % 3 == 0 ? INT32_MAX : (int32_t)rng_below(rng, limit);
}

static bool make_lists(struct synth *synth, const struct capture *capture,
                       const struct synth_options *options, struct rng *rng)
{
    synth->topk_indices = new_array(capture->rows * capture->topk, sizeof(int32_t));
    int32_t *order = new_array(options->seq_len, sizeof(int32_t));
    if (options->lengths)
        synth->topk_length = new_array(capture->rows, sizeof(int32_t));
    bool room = synth->topk_indices && order && (!options->lengths || synth->topk_length);
    for (int64_t r = 0; room && r < capture->requests; r++) {
        for (int64_t i = 0; i < synth->seq_lens[r]; i++)
            order[i] = (int32_t)i;
        int64_t first = synth->query_start_loc[r], end = synth->query_start_loc[r + 1];
        for (int64_t t = first; t < end; t++) {
            /* a row sees positions up to its own; the drawing keeps `order` a permutation of these */
            int64_t limit = synth->seq_lens[r] - (end - 1 - t);
            int32_t *list = synth->topk_indices + t * capture->topk;
            draw_list(list, capture->topk, order, limit, rng);
            spoil_list(list, capture->topk, synth->topk_length ? synth->topk_length + t : NULL, limit,
                       options->invalid, rng);
        }
    }
    free(order);
    return room;
}

static bool make_extras(struct synth *synth, const struct capture *capture,
                        const struct synth_options *options, struct rng *rng)
{
    int64_t queries = capture->rows * capture->heads;
    if (options->sinks) {
        synth->sinks = new_array(capture->heads, sizeof(float));
        if (!synth->sinks)
            return false;
        for (int64_t h = 0; h < capture->heads; h++)
            synth->sinks[h] = (float)(rng_below(rng, 8192) - 4096) / 1024;
    }
    if (!options->expected)
        return true;
    synth->expected_out = new_array(queries * CAPTURE_LATENT, sizeof(float));
    synth->expected_lse = new_array(queries, sizeof(float));
    return synth->expected_out && synth->expected_lse;
}

static void point_capture(struct capture *capture, const struct synth *synth)
{
    capture->q = synth->q;
    capture->kv_cache = synth->kv_cache;
    capture->topk_indices = synth->topk_indices;
    capture->block_table = synth->block_table;
    capture->seq_lens = synth->seq_lens;
    capture->query_start_loc = synth->query_start_loc;
    capture->topk_length = synth->topk_length;
    capture->sinks = synth->sinks;
    capture->expected_out = synth->expected_out;
    capture->expected_lse = synth->expected_lse;
}

double synth_bytes(const struct synth_options *options)
{
    double queries = (double)options->rows * (double)options->heads;
    double tokens = (double)options->seq_len * (1 + ((double)options->requests - 1) / 4);
    /* every request ends within a block, and an eighth of all blocks is nobody's */
    tokens = (tokens + (double)options->requests * (double)options->block_size) * 1.125 +
             (double)options->block_size;
    double query_bytes = 2 * CAPTURE_ROW + (options->expected ? 4 * CAPTURE_LATENT : 0);
    return queries * query_bytes + tokens * 2 * CAPTURE_ROW +
           4 * (double)options->rows * (double)options->topk;
}

bool synth_make(struct synth *synth, struct capture *capture, const struct synth_options *options)
{
    struct rng rng = {(uint64_t)options->seed};
    *synth = (struct synth){0};
    *capture = (struct capture){
        .model = "synthetic",
        .scale = options->scale,
        .rows = options->rows,
        .heads = options->heads,
        .topk = options->topk,
        .block_size = options->block_size,
        .requests = options->requests,
        .block_table_width = (options->seq_len + options->block_size - 1) / options->block_size,
    };
    bool made = make_requests(synth, capture, options->seq_len, &rng) &&
                make_block_table(synth, capture, &rng) && make_values(synth, capture, &rng) &&
                make_lists(synth, capture, options, &rng) && make_extras(synth, capture, options, &rng);
    point_capture(capture, synth);
    return made;
}

void synth_free(struct synth *synth)
{
    void *const arrays[] = {synth->q,           synth->kv_cache, synth->topk_indices,
                            synth->block_table, synth->seq_lens, synth->query_start_loc,
                            synth->topk_length, synth->sinks,    synth->expected_out,
                            synth->expected_lse};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
}
