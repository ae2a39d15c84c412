/*
 * Products of a tile with the bf16 dot product of AVX-512: an fp32 lane gains the products of a pair of
 * bf16. Scores are dot products along columns, reduced over lanes once at the end; values broadcast a
 * pair of P to a vector of output columns. Both keep 4 x 4 accumulators.
 */
#ifndef SMLA_HOOKS_AVX512_BF16_H
#define SMLA_HOOKS_AVX512_BF16_H

#include "hooks_bf16.h"

enum {
    BLOCK = 4,      /* heads, keys, vectors of columns that a block of products takes */
    KEY_GROUP = 16, /* keys that stay in L1 while the heads pass by */
    QUERY_BYTES = ROW_CHUNKS * LINE,
    SLAB_COLUMNS = BLOCK * 16, /* columns whose values stay in L1 */
    STEP_BYTES = BLOCK * VECTOR_BYTES
};

static inline void enter(void)
{
}

static inline void leave(void)
{
}

static inline size_t query_bytes(int m)
{
    return (size_t)m * QUERY_BYTES;
}

static inline void query_pack(void *packed, const uint16_t *const *latent, const uint16_t *const *rope, int m)
{
    for (int h = 0; h < m; h++) {
        char *row = (char *)packed + (size_t)h * QUERY_BYTES;
        memcpy(row, latent[h], LATENT_CHUNKS * LINE);
        memcpy(row + LATENT_CHUNKS * LINE, rope[h], QUERY_BYTES - LATENT_CHUNKS * LINE);
    }
}

/* Four sums of 16 lanes to one vector: its 128-bit lane i holds, in order, the sums of lanes 4i to 4i + 3. */
HOOK_INLINE __m512 reduce_in_lanes(const __m512 sum[BLOCK])
{
    __m512 a = _mm512_add_ps(_mm512_unpacklo_ps(sum[0], sum[1]), _mm512_unpackhi_ps(sum[0], sum[1]));
    __m512 b = _mm512_add_ps(_mm512_unpacklo_ps(sum[2], sum[3]), _mm512_unpackhi_ps(sum[2], sum[3]));
    __m512d even = _mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b));
    __m512d odd = _mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b));
    return _mm512_add_ps(_mm512_castpd_ps(even), _mm512_castpd_ps(odd));
}

/* Sums of even and odd 128-bit lanes of a and b: a01, a23, b01, b23. */
HOOK_INLINE __m512 add_lanes(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

HOOK_INLINE void scores_block(float *s, const char *query, const uint16_t *const *row, const int heads)
{
    __m512 sum[BLOCK][BLOCK];
    for (int h = 0; h < BLOCK; h++)
        for (int j = 0; j < BLOCK; j++)
            sum[h][j] = _mm512_setzero_ps();

    for (int c = 0; c < ROW_CHUNKS; c++) {
        __m512bh key[BLOCK];
        for (int j = 0; j < BLOCK; j++)
            key[j] = (__m512bh)_mm512_loadu_si512(row[j] + c * (LINE / 2));
        for (int h = 0; h < heads; h++) {
            __m512bh q = (__m512bh)_mm512_load_si512(query + h * QUERY_BYTES + c * LINE);
            for (int j = 0; j < BLOCK; j++)
                sum[h][j] = _mm512_dpbf16_ps(sum[h][j], q, key[j]);
        }
    }

    __m512 low = add_lanes(reduce_in_lanes(sum[0]), reduce_in_lanes(sum[1]));
    __m512 high = add_lanes(reduce_in_lanes(sum[2]), reduce_in_lanes(sum[3]));
    float result[BLOCK * BLOCK];
    _mm512_storeu_ps(result, add_lanes(low, high));
    for (int h = 0; h < heads; h++)
        memcpy(s + h * SMLA__TILE, result + h * BLOCK, BLOCK * sizeof *s);
}

static inline void scores_heads(float *s, const char *query, const uint16_t *const *row, int heads)
{
    switch (heads) {
    case 1:
        scores_block(s, query, row, 1);
        break;
    case 2:
        scores_block(s, query, row, 2);
        break;
    case 3:
        scores_block(s, query, row, 3);
        break;
    default:
        scores_block(s, query, row, BLOCK);
    }
}

static inline void tile_scores(float *s, const void *packed, const void *tile, int m, int n)
{
    const struct tile *keys = tile;

    for (int group = 0; group < n; group += KEY_GROUP) {
        call_ahead(keys, group / KEY_GROUP, 2 * SMLA__TILE / KEY_GROUP);
        int end = n < group + KEY_GROUP ? n : group + KEY_GROUP;
        for (int h = 0; h < m; h += BLOCK) {
            const char *query = (const char *)packed + (size_t)h * QUERY_BYTES;
            for (int j = group; j < end; j += BLOCK)
                scores_heads(s + (size_t)h * SMLA__TILE + j, query, keys->row + j, m - h);
        }
    }
}

static inline size_t p_scratch_bytes(int m)
{
    return (size_t)m * P_LINE + SMLA__TILE / STEP_KEYS * STEP_BYTES;
}

/* o += P V for some heads and a slab of columns; p: bf16 [heads][TILE]. */
HOOK_INLINE void values_block(float *o, const char *p, const char *slab, int pairs, const int heads)
{
    __m512 sum[BLOCK][BLOCK];
    for (int h = 0; h < heads; h++)
        for (int v = 0; v < BLOCK; v++)
            sum[h][v] = _mm512_load_ps(o + h * SMLA__LATENT + v * 16);

    for (int i = 0; i < pairs; i++, slab += LINE) {
        if (i > 0 && i % STEP_PAIRS == 0)
            slab += STEP_BYTES - VECTOR_BYTES;
        for (int h = 0; h < heads; h++) {
            int32_t pair;
            memcpy(&pair, p + h * P_LINE + i * 4, sizeof pair);
            __m512bh weight = (__m512bh)_mm512_set1_epi32(pair);
            for (int v = 0; v < BLOCK; v++) {
                __m512bh x = (__m512bh)_mm512_load_si512(slab + v * VECTOR_BYTES);
                sum[h][v] = _mm512_dpbf16_ps(sum[h][v], weight, x);
            }
        }
    }

    for (int h = 0; h < heads; h++)
        for (int v = 0; v < BLOCK; v++)
            _mm512_store_ps(o + h * SMLA__LATENT + v * 16, sum[h][v]);
}

static inline void values_heads(float *o, const char *p, const char *slab, int pairs, int heads)
{
    switch (heads) {
    case 1:
        values_block(o, p, slab, pairs, 1);
        break;
    case 2:
        values_block(o, p, slab, pairs, 2);
        break;
    case 3:
        values_block(o, p, slab, pairs, 3);
        break;
    default:
        values_block(o, p, slab, pairs, BLOCK);
    }
}

static inline void tile_values(float *o, const float *p, void *p_scratch, const void *tile, int m, int n)
{
    char *rounded = p_scratch, *slab = rounded + (size_t)m * P_LINE;
    const struct tile *keys = tile;
    const int pairs = (n + 1) / 2;

    p_round(rounded, p, m, n);
    for (int column = 0; column < SMLA__LATENT; column += SLAB_COLUMNS) {
        for (int j = 0; j < n; j += STEP_KEYS)
            values_pack(slab + j / STEP_KEYS * STEP_BYTES, keys->row + j, column, SLAB_COLUMNS / 32);
        for (int h = 0; h < m; h += BLOCK)
            values_heads(o + (size_t)h * SMLA__LATENT + column, rounded + (size_t)h * P_LINE, slab, pairs,
                         m - h);
        call_ahead(keys, SMLA__LATENT / SLAB_COLUMNS + column / SLAB_COLUMNS,
                   2 * SMLA__LATENT / SLAB_COLUMNS);
    }
}

#endif
