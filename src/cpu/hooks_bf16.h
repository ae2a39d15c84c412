/*
 * What the two bf16 hook sets share: the tile of keys, its values in pairs, P in bf16, the order of the
 * columns of o.
 *
 * Both sets multiply pairs of bf16 and add the two products, so whatever a product contracts over must
 * lie in neighbouring pairs: columns for the scores, as rows have them anyway, and keys for the values.
 * A tile is no more than its row pointers: a packed copy of 64 keys would live in L2, where writing a
 * line costs four times what it costs in L1, so each product packs what it needs in slabs small enough
 * for L1.
 */
#ifndef SMLA_HOOKS_BF16_H
#define SMLA_HOOKS_BF16_H

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512BF16__)
#error "compile with -mavx512f -mavx512bw -mavx512bf16"
#endif

#include "internal.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HOOK_INLINE static inline __attribute__((always_inline))

enum {
    LINE = 64,                               /* bytes of a zmm register and of a row of an AMX tile */
    LATENT_CHUNKS = SMLA__LATENT * 2 / LINE, /* chunks of 32 bf16 columns */
    ROW_CHUNKS = SMLA__ROW * 2 / LINE,       /* the same with rope */
    STEP_KEYS = 32,                          /* keys whose values are packed at a time */
    STEP_PAIRS = STEP_KEYS / 2,
    VECTOR_BYTES = STEP_PAIRS * LINE, /* 16 columns of a step */
    P_LINE = SMLA__TILE * 2           /* one head's P in bf16 */
};

_Static_assert(SMLA__TILE % 64 == 0, "the bf16 hooks take keys by 64");

struct tile {
    const uint16_t *row[SMLA__TILE];
    const uint16_t *const *ahead; /* rows of the next tile, */
    int ahead_count;              /* so many */
};

static inline size_t tile_bytes(void)
{
    return sizeof(struct tile);
}

/* Rows from n on are zeros up to the next multiple of 64, so that the products need no remainders. */
static inline void tile_pack(void *tile, const uint16_t *const *rows, int n)
{
    static const uint16_t zeros[ROW_CHUNKS * LINE / 2];
    struct tile *to = tile;

    for (int i = 0; i < (n + 63) / 64 * 64; i++)
        to->row[i] = i < n ? rows[i] : zeros;
}

static inline void tile_ahead(void *tile, const uint16_t *const *rows, int n)
{
    struct tile *to = tile;
    to->ahead = rows;
    to->ahead_count = n;
}

/* Calls for the rows of the next tile that fall to step `step` of `steps`. */
static inline void call_ahead(const struct tile *tile, int step, int steps)
{
    int end = tile->ahead_count * (step + 1) / steps;
    for (int j = tile->ahead_count * step / steps; j < end; j++)
        for (int c = 0; c < ROW_CHUNKS; c++)
            __builtin_prefetch(tile->ahead[j] + c * (LINE / 2), 0, 2);
}

/* Packs the values of 32 keys, 32 columns times `chunks`: [vector][pair][16 columns][2 keys]. Interleaving
 * works within 128-bit lanes, which permutes the columns: see out_order. */
HOOK_INLINE void values_pack(char *slab, const uint16_t *const *row, int column, const int chunks)
{
    for (int i = 0; i < STEP_PAIRS; i++) {
        const uint16_t *even = row[2 * i] + column, *odd = row[2 * i + 1] + column;
        char *to = slab + i * LINE;
        for (int c = 0; c < chunks; c++, to += 2 * VECTOR_BYTES) {
            __m512i a = _mm512_loadu_si512(even + c * (LINE / 2));
            __m512i b = _mm512_loadu_si512(odd + c * (LINE / 2));
            _mm512_store_si512(to, _mm512_unpacklo_epi16(a, b));
            _mm512_store_si512(to + VECTOR_BYTES, _mm512_unpackhi_epi16(a, b));
        }
    }
}

/* P as bf16 [m][TILE], zero from key n up to the next multiple of 32. */
static inline void p_round(char *rounded, const float *p, int m, int n)
{
    for (int h = 0; h < m; h++) {
        for (int j = 0; j < n; j += 32) {
            uint32_t valid = n - j >= 32 ? UINT32_MAX : (1u << (n - j)) - 1;
            const float *from = p + (size_t)h * SMLA__TILE + j;
            __m512 low = _mm512_maskz_loadu_ps((__mmask16)valid, from);
            __m512 high = _mm512_maskz_loadu_ps((__mmask16)(valid >> 16), from + 16);
            _mm512_store_si512(rounded + h * P_LINE + j * 2, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
    }
}

/* Of each 32 columns the first vector got 0-3, 8-11, 16-19, 24-27 and the second the rest. */
static inline void out_order(float *o, int m)
{
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);

    for (size_t i = 0; i < (size_t)m * SMLA__LATENT; i += 32) {
        __m512 a = _mm512_load_ps(o + i);
        __m512 b = _mm512_load_ps(o + i + 16);
        _mm512_store_ps(o + i, _mm512_permutex2var_ps(a, first, b));
        _mm512_store_ps(o + i + 16, _mm512_permutex2var_ps(a, second, b));
    }
}

#endif
