/*
 * Attention of a few rows over parts of their lists, as every instruction set offers it to run_cpu.c.
 * One text (attn_tmpl.h) is compiled once for each; each compilation fills one of these tables.
 */
#ifndef SMLA_CPU_ATTN_H
#define SMLA_CPU_ATTN_H

#include "internal.h"

/* Keys that are gathered, scored and summed at a time; an instruction set may bring its own. */
#ifndef SMLA__TILE
#define SMLA__TILE 64
#endif

enum {
    SMLA__SHARED_ROWS = 4, /* most rows that are attended together */
    SMLA__LINE = 64        /* alignment of everything in scratch */
};

/* The softmax scale, apart from its sign so that the largest weight always belongs to a maximum. */
struct smla__scale {
    float sign; /* 1 or -1 */
    float log2; /* > 0, times log2(e): weights are 2^(log2 * (sign * score - max)) */
};

/* Softmax of some heads over a part of their keys. */
struct smla__partial {
    float *max; /* [heads] of sign * score; -inf: no key yet */
    float *sum; /* [heads] of the weights */
    float *out; /* [heads, 512] of weight * value; columns in the order of the instruction set */
};

/* Keys of one row: pointers to its valid cache rows, in list order. */
struct smla__keys {
    const uint16_t *const *rows;
    int64_t count;
};

struct smla__attn {
    const char *kernel;
    /* Scratch of the functions below for `rows` rows of `heads` heads, never more than 128 together. */
    size_t (*scratch_bytes)(int rows, int heads);
    void (*enter)(void); /* around all work of a thread */
    void (*leave)(void);
    /* Packs queries: pointers to the latent and rope columns of [rows, heads]. */
    void (*load)(void *scratch, int rows, int heads, const uint16_t *const *latent,
                 const uint16_t *const *rope);
    /* Attends the loaded rows, each over its own keys, of which tiles in common are gathered once. `to`
     * holds [rows, heads]. A head's bits depend on its own query and keys alone. */
    void (*attend)(void *scratch, int rows, int heads, struct smla__scale scale,
                   const struct smla__keys *keys, const struct smla__partial *to);
    /* to = to joined by `from`, which covers keys further down the list. */
    void (*fold)(const struct smla__partial *to, const struct smla__partial *from, int heads,
                 struct smla__scale scale);
    /* Writes out[h] * factor[h] for the heads of one row; destroys part_out. */
    void (*store)(float *part_out, int heads, const float *factor, void *out, int64_t head_stride,
                  int32_t dtype);
};

extern const struct smla__attn smla__attn_scalar;
extern const struct smla__attn smla__attn_avx2;
extern const struct smla__attn smla__attn_avx512;
extern const struct smla__attn smla__attn_avx512_bf16;
extern const struct smla__attn smla__attn_amx_bf16;

#endif
