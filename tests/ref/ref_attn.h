/*
 * Sparse MLA attention in float64, written to be believed rather than to be fast. It shares nothing with
 * the library: what it computes is what the library is measured against.
 */
#ifndef REF_ATTN_H
#define REF_ATTN_H

#include <stdint.h>

enum { REF_LATENT = 512, REF_ROPE = 64, REF_ROW = REF_LATENT + REF_ROPE };

/* One attention step over dense arrays; bf16 values are their 16 bits. */
struct ref_problem {
    int64_t rows, heads, topk; /* T, H, K */
    int64_t cache_blocks, block_size;
    int64_t requests, block_table_width;
    double scale;
    int positions;                           /* 1 = the lists hold request-local positions, 0 = cache slots */
    int lse_base2;                           /* 1 = lse is a base-2 logarithm */
    int empty_pos_inf;                       /* 1 = lse of a row without valid entries is +inf, 0 = -inf */
    int dcp_world, dcp_rank, dcp_interleave; /* world 0 or 1 = off */
    const uint16_t *q;                       /* [T, H, 576] */
    const uint16_t *kv;                      /* [cache_blocks, block_size, 576] */
    const int32_t *topk_list;                /* [T, K] */
    const int32_t *topk_length;              /* [T], or NULL: every list is K long */
    const int32_t *row_request;              /* [T], or NULL: row t is request t */
    const int32_t *seq_lens;                 /* [R], positions only */
    const int32_t *block_table;              /* [R, block_table_width], positions only */
    const float *sinks;                      /* [H], or NULL */
};

/* Fills out [T, H, 512] and lse [T, H] (may be NULL). Gives 0, or -1 if memory is short. */
int ref_attend(const struct ref_problem *problem, double *out, double *lse);

/* The cache slot that list entry `entry` of row t names, or -1 if the entry is not valid. */
int64_t ref_slot(const struct ref_problem *problem, int64_t t, int64_t entry);

#endif
