/*
 * What the kernels and the host code of src/gpu share: the arguments of every kernel.
 * Plain C that nvcc and gcc read alike; kernels take their struct by value. Strides are bytes unless a
 * comment says otherwise; offsets are 64-bit.
 */
#ifndef SMLA_KERNELS_ARGS_H
#define SMLA_KERNELS_ARGS_H

#include <stdint.h>

/* n / d for n < 2^31 and 1 <= d < 2^31: (n * multiplier) >> (31 + shift), with shift = ceil(log2 d) and
 * multiplier = floor(2^(31 + shift) / d) + 1. */
struct smla_divisor {
    uint32_t divisor, multiplier, shift;
};

/* The part of a step's metadata that changes with every batch, in device memory at an address that never moves. */
struct smla_step_head {
    int32_t rows; /* rows of the batch: later rows of a run are padded ones and come out empty */
    int32_t requests;
    int32_t table_width; /* columns of the block table in use */
    int32_t reserved;
};

/* Where row t's keys are named. With `step` NULL every row stands and the lists hold slots. */
struct smla_lists {
    const int32_t *topk; /* [rows, topk_width] */
    int64_t topk_row;
    const int32_t *topk_length; /* [rows] or NULL */
    const struct smla_step_head *step;
    const int32_t *row_request; /* [step->rows] */
    const int32_t *seq_lens;    /* [step->requests] */
    const int32_t *block_table; /* [step->requests, table_stride] */
    int64_t table_stride;       /* entries */
    const void *cache;
    int64_t cache_block, cache_row;
    uint32_t cache_blocks;
    uint32_t topk_width;
    struct smla_divisor block;         /* block_size */
    struct smla_divisor turn;          /* dcp_interleave * dcp_world_size */
    int32_t dcp_first, dcp_interleave; /* first position of this rank in a turn, and how many it has */
    int32_t positions;                 /* 1: entries are request-local positions, 0: slots */
    int32_t dense;                     /* 1: cache_block == block_size * cache_row */
};

struct smla_decode_args {
    struct smla_lists lists;
    const void *q_latent, *q_rope; /* a packed query has q_rope = q_latent + 1024 */
    int64_t q_latent_row, q_latent_head, q_rope_row, q_rope_head;
    const float *sinks; /* [heads] or NULL */
    void *out;
    int64_t out_row, out_head;
    float *lse; /* or NULL */
    int64_t lse_row, lse_head;
    float scale_log2; /* softmax scale * log2(e) */
    float lse_factor; /* ln 2 for natural lse, 1 for base 2 */
    float lse_rest;   /* what lse_factor lacks to ln 2, or to 1 */
    float empty_lse;  /* lse of a row without valid entries */
    int32_t heads, rows;
    int32_t head_groups; /* CTAs of a row and rank, each with heads_per_cta heads */
    int32_t out_f32;     /* 1: out is fp32, 0: bf16 */
    /* Only for kernels that combine in a second launch: fp32 [rows, splits, heads, 512], each part normalised by
     * itself, and (max, sum) pairs [rows, splits, heads]: the largest sign(scale) * score, unscaled, and the sum of
     * weights relative to it, 0 for a part without keys. */
    float *part_out;
    float *part_ml;
    int32_t splits;
};

/* decode_portable.cu: smla_decode_portable has a CTA for each row, head group and part, the part running fastest; then
 * smla_decode_portable_merge, if there are several parts, has a warp (8 a block) for each row and head. */
enum {
    SMLA_PORTABLE_HEADS = 16,    /* of a CTA */
    SMLA_PORTABLE_THREADS = 128, /* of a CTA */
    SMLA_PORTABLE_KEYS = 32,     /* list entries that stay together */
    /* Bytes of dynamic shared memory: all that sm_86 has, less what is reserved. */
    SMLA_PORTABLE_SHARED = 98304
};

/* Scatters rows: latent [rows, 512] and rope [rows, 64] bf16 to slots [rows]; negative and too large ones are skipped. */
struct smla_cache_write_args {
    const void *latent, *rope;
    int64_t latent_row, rope_row;
    const int64_t *slots;
    void *cache;
    int64_t cache_block, cache_row;
    int64_t cache_blocks;
    int64_t block_size;
    int64_t rows;
};

struct smla_merge_args {
    const void *part_out;
    int64_t part_out_part, part_out_row, part_out_head;
    const float *part_lse;
    int64_t part_lse_part, part_lse_row, part_lse_head;
    void *out;
    int64_t out_row, out_head;
    float *lse;
    int64_t lse_row, lse_head;
    int64_t parts, rows;
    int32_t heads;
    int32_t part_f32, out_f32;
    float base_factor; /* log2(e) for natural lse, 1 for base 2: lse * base_factor is base 2 */
    float empty_lse;
};

/* First offence of a checked plan; `row` of the smallest (row, entry) wins. Set to all ones by the host. */
struct smla_offence {
    unsigned long long place; /* row << 32 | entry; ~0 = none; entry = topk_width stands for topk_length */
    unsigned long long noted; /* the place that the two below tell of */
    int32_t value;
    uint32_t limit; /* entries are below it: seq_len, or rows of the cache */
};

struct smla_check_args {
    struct smla_lists lists;
    int32_t rows;
    struct smla_offence *offence;
};

#endif
