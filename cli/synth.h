/* Synthetic captures: any shape, from a seed, with the hazards that real ones have. */
#ifndef SYNTH_H
#define SYNTH_H

#include <capture.h>
#include <stdbool.h>
#include <stdint.h>

struct synth_options {
    int64_t rows, requests, heads, topk, seq_len, block_size, seed;
    double invalid; /* share of the list entries that become -1 */
    double scale;
    bool lengths;  /* a length per row; what stands past it is garbage that looks valid */
    bool sinks;    /* a sink per head */
    bool expected; /* room for expected_out and expected_lse, filled by the caller */
};

/* The arrays behind a capture. */
struct synth {
    uint16_t *q, *kv_cache;
    int32_t *topk_indices, *block_table, *seq_lens, *query_start_loc, *topk_length;
    float *sinks, *expected_out, *expected_lse;
};

/* Bytes that it takes at least. */
double synth_bytes(const struct synth_options *options);

/* Makes it. Cache rows that no request owns hold NaN. False if memory is short or there would be more than
 * 2^31 - 1 blocks; synth_free in either case. */
bool synth_make(struct synth *synth, struct capture *capture, const struct synth_options *options);

void synth_free(struct synth *synth);

#endif
