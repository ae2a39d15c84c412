/*
 * Products of a tile with AMX. A tile register holds 16 rows of 64 bytes, and one instruction adds to a
 * 16 x 16 fp32 tile the product of A (16 rows of 32 bf16) and B (16 rows of 16 pairs of bf16).
 *
 *     scores   S^T [16 keys, 16 heads]     += A = keys as they are, 32 columns    B = query, columns paired
 *     values   O   [16 heads, 16 columns]  += A = P as it is, 32 keys             B = values, keys paired
 *
 * so that only the query is transposed, once for a whole list. Products run on four accumulators, which
 * covers the latency of the instruction. Loads and stores of ordinary registers run beside the products:
 * one slab of keys or values is packed while the one before is multiplied. Heads are padded to 16 in the
 * packed query and in P; a last group of fewer rows of o is copied to scratch and back.
 */
#ifndef SMLA_HOOKS_AMX_BF16_H
#define SMLA_HOOKS_AMX_BF16_H

/* clang 14 spells these macros without the second underline */
#if !(defined(__AMX_TILE__) || defined(__AMXTILE__)) || !(defined(__AMX_BF16__) || defined(__AMXBF16__))
#error "compile with -mamx-tile -mamx-bf16"
#endif

#include "hooks_bf16.h"

enum {
    GROUP = 16, /* keys or heads of a tile register */
    TILE_BYTES = GROUP * LINE,
    GROUP_BYTES = ROW_CHUNKS * TILE_BYTES, /* packed query of 16 heads */
    ROW_PARTS = ROW_CHUNKS / 2,            /* parts of 64 columns */
    P_GROUP_BYTES = GROUP * P_LINE,
    O_LINE = SMLA__LATENT * 4
};

static inline void enter(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t line_bytes[16];
        uint8_t rows[16];
    } config = {
        .palette = 1,
        .line_bytes = {LINE, LINE, LINE, LINE, LINE, LINE, LINE, LINE},
        .rows = {GROUP, GROUP, GROUP, GROUP, GROUP, GROUP, GROUP, GROUP},
    };
    _tile_loadconfig(&config);
}

static inline void leave(void)
{
    _tile_release();
}

/* gcc does not know that a tile load reads memory: no store may move past one in either direction. */
static inline void tile_fence(void)
{
    __asm__ volatile("" ::: "memory");
}

static inline int head_groups(int m)
{
    return (m + GROUP - 1) / GROUP;
}

/* Row i of `out` = column i of the 16 x 16 words at `in`, for the first `rows` columns. */
static inline void transpose_words(void *out, size_t out_stride, int rows, const char *in)
{
    for (int b = 0; b < rows; b += 4) {
        __m512i x[4], y[4];
        for (int i = 0; i < 4; i++) { /* words b .. b + 3 of rows i, i + 4, i + 8, i + 12 */
            const char *from = in + i * LINE + b * 4;
            x[i] = _mm512_castsi128_si512(_mm_load_si128((const __m128i *)from));
            x[i] = _mm512_inserti32x4(x[i], _mm_load_si128((const __m128i *)(from + 4 * LINE)), 1);
            x[i] = _mm512_inserti32x4(x[i], _mm_load_si128((const __m128i *)(from + 8 * LINE)), 2);
            x[i] = _mm512_inserti32x4(x[i], _mm_load_si128((const __m128i *)(from + 12 * LINE)), 3);
        }
        __m512i low01 = _mm512_unpacklo_epi32(x[0], x[1]), high01 = _mm512_unpackhi_epi32(x[0], x[1]);
        __m512i low23 = _mm512_unpacklo_epi32(x[2], x[3]), high23 = _mm512_unpackhi_epi32(x[2], x[3]);
        y[0] = _mm512_unpacklo_epi64(low01, low23);
        y[1] = _mm512_unpackhi_epi64(low01, low23);
        y[2] = _mm512_unpacklo_epi64(high01, high23);
        y[3] = _mm512_unpackhi_epi64(high01, high23);
        for (int i = 0; i < 4 && b + i < rows; i++)
            _mm512_store_si512((char *)out + (size_t)(b + i) * out_stride, y[i]);
    }
}

static inline size_t query_bytes(int m)
{
    return (size_t)head_groups(m) * GROUP_BYTES;
}

/* Packed query: [m / 16][18][16][16][2]: heads, chunk of 32 columns, pair of columns, head, column. */
static inline void query_pack(void *packed, const uint16_t *const *latent, const uint16_t *const *rope, int m)
{
    _Alignas(LINE) char block[TILE_BYTES];

    for (int i = 0; i < head_groups(m) * ROW_CHUNKS; i++) {
        int first = i / ROW_CHUNKS * GROUP, c = i % ROW_CHUNKS;
        memset(block, 0, sizeof block);
        for (int h = first; h < m && h < first + GROUP; h++) {
            const uint16_t *from =
                c < LATENT_CHUNKS ? latent[h] + c * (LINE / 2) : rope[h] + (c - LATENT_CHUNKS) * (LINE / 2);
            memcpy(block + (h - first) * LINE, from, LINE);
        }
        transpose_words((char *)packed + (size_t)i * TILE_BYTES, LINE, GROUP, block);
    }
}

/* 2 x 2 accumulators += 2 tiles of A x 2 tiles of B, each `step` bytes after the first. */
static inline void products_2x2(const char *a, size_t a_step, size_t a_stride, const char *b, size_t b_step)
{
    _tile_loadd(4, a, a_stride);
    _tile_loadd(6, b, LINE);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + b_step, LINE);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + a_step, a_stride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* 4 x 1 */
static inline void products_4x1(const char *a, size_t a_step, const char *b)
{
    _tile_loadd(4, b, LINE);
    _tile_loadd(5, a, LINE);
    _tile_dpbf16ps(0, 5, 4);
    _tile_loadd(6, a + a_step, LINE);
    _tile_dpbf16ps(1, 6, 4);
    _tile_loadd(7, a + 2 * a_step, LINE);
    _tile_dpbf16ps(2, 7, 4);
    _tile_loadd(5, a + 3 * a_step, LINE);
    _tile_dpbf16ps(3, 5, 4);
}

/* 1 x 4 */
static inline void products_1x4(const char *a, size_t a_stride, const char *b, size_t b_step)
{
    _tile_loadd(4, a, a_stride);
    _tile_loadd(5, b, LINE);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, b + b_step, LINE);
    _tile_dpbf16ps(1, 4, 6);
    _tile_loadd(7, b + 2 * b_step, LINE);
    _tile_dpbf16ps(2, 4, 7);
    _tile_loadd(5, b + 3 * b_step, LINE);
    _tile_dpbf16ps(3, 4, 5);
}

static inline void sums_zero(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* Accumulators 0 and 1 stand side by side, `right` bytes apart, and 2 and 3 are `down` bytes after them. */
static inline void sums_load(const void *from, size_t right, size_t down, size_t stride)
{
    _tile_loadd(0, (const char *)from, stride);
    _tile_loadd(1, (const char *)from + right, stride);
    _tile_loadd(2, (const char *)from + down, stride);
    _tile_loadd(3, (const char *)from + down + right, stride);
}

static inline void sums_store(void *to, size_t right, size_t down, size_t stride)
{
    _tile_stored(0, (char *)to, stride);
    _tile_stored(1, (char *)to + right, stride);
    _tile_stored(2, (char *)to + down, stride);
    _tile_stored(3, (char *)to + down + right, stride);
}

/* ---- Scores ---- */

/* Brings 64 columns of some keys into L1: [2 chunks of 32 columns][keys]. */
static inline void keys_pack(char *slab, const uint16_t *const *row, int keys, int column)
{
    for (int j = 0; j < keys; j++) {
        const uint16_t *from = row[j] + column;
        _mm512_store_si512(slab + j * LINE, _mm512_loadu_si512(from));
        _mm512_store_si512(slab + (keys + j) * LINE, _mm512_loadu_si512(from + LINE / 2));
    }
}

/* S^T of a block of keys and heads, where `wide` head groups stand beside 4 / wide key groups. Each part
 * of the keys is brought into L1 while the one before is multiplied. */
HOOK_INLINE void scores_run(char *sums, const char *query, const uint16_t *const *row, const int wide)
{
    const int keys = 4 / wide * GROUP;
    _Alignas(LINE) char slab[2][8 * TILE_BYTES];

    sums_zero();
    keys_pack(slab[0], row, keys, 0);
    for (int i = 0; i < ROW_PARTS; i++, query += 2 * TILE_BYTES) {
        const char *key = slab[i % 2];
        if (i + 1 < ROW_PARTS)
            keys_pack(slab[(i + 1) % 2], row, keys, (i + 1) * 64);
        tile_fence();
        if (wide == 2) {
            products_2x2(key, TILE_BYTES, LINE, query, GROUP_BYTES);
            products_2x2(key + keys * LINE, TILE_BYTES, LINE, query + TILE_BYTES, GROUP_BYTES);
        } else {
            products_4x1(key, TILE_BYTES, query);
            products_4x1(key + keys * LINE, TILE_BYTES, query + TILE_BYTES);
        }
        tile_fence();
    }
    sums_store(sums, TILE_BYTES, 2 * TILE_BYTES, LINE);
}

/* Sums of a block on their way to s. */
struct scores_block {
    _Alignas(LINE) char sums[4 * TILE_BYTES];
    float *s;  /* of the block's first head and key */
    int heads; /* from the block's first head on */
    int wide;
};

struct scores_work {
    struct scores_block block[2];
    int count; /* of blocks so far */
};

static inline void scores_finish(struct scores_work *work)
{
    if (work->count == 0)
        return;
    const struct scores_block *block = &work->block[(work->count - 1) % 2];
    for (int i = 0; i < 4; i++) {
        int head = i % block->wide * GROUP, key = i / block->wide * GROUP;
        int rows = block->heads - head < GROUP ? block->heads - head : GROUP;
        transpose_words(block->s + head * SMLA__TILE + key, SMLA__TILE * sizeof(float), rows,
                        block->sums + i * TILE_BYTES);
    }
}

/* A block is transposed while the products of the next one run: at once, the transposition would wait
 * for its last product and hold up the next. */
HOOK_INLINE void scores_next(struct scores_work *work, float *s, int heads, const char *query,
                             const uint16_t *const *row, const int wide)
{
    struct scores_block *block = &work->block[work->count % 2];
    block->s = s;
    block->heads = heads;
    block->wide = wide;
    scores_run(block->sums, query, row, wide);
    scores_finish(work);
    work->count++;
}

static inline void tile_scores(float *s, const void *packed, const void *tile, int m, int n)
{
    const struct tile *keys = tile;
    const int pairs = head_groups(m) / 2;
    const int blocks = pairs * ((n + 31) / 32) + head_groups(m) % 2 * ((n + 63) / 64);
    struct scores_work work;

    work.count = 0;
    for (int h = 0, wide; h < m; h += wide * GROUP) {
        const char *query = (const char *)packed + (size_t)(h / GROUP) * GROUP_BYTES;
        wide = h < pairs * 2 * GROUP ? 2 : 1;
        for (int j = 0; j < n; j += 4 / wide * GROUP) {
            call_ahead(keys, work.count, 2 * blocks);
            if (wide == 2)
                scores_next(&work, s + h * SMLA__TILE + j, m - h, query, keys->row + j, 2);
            else
                scores_next(&work, s + h * SMLA__TILE + j, m - h, query, keys->row + j, 1);
        }
    }
    scores_finish(&work);
}

/* ---- Values ---- */

/* All keys by two vectors, or two steps by four. */
enum { VALUES_SLAB = (SMLA__TILE > 128 ? SMLA__TILE : 128) / STEP_KEYS * 2 * VECTOR_BYTES };

/* P of every head group, a slab of values, and 64 columns of o of a last group of fewer than 16 heads. */
static inline size_t p_scratch_bytes(int m)
{
    return (size_t)head_groups(m) * P_GROUP_BYTES + VALUES_SLAB + 4 * TILE_BYTES;
}

struct values {
    const char *p; /* bf16 */
    const struct tile *keys;
    int steps;  /* of 32 keys */
    char *slab; /* VALUES_SLAB */
    float *few; /* [16][64] */
};

/* o += P V of `wide` head groups beside 4 / wide vectors of columns, for rows of o `stride` bytes apart.
 * The slab holds `ring` steps of values; with `pack` they are brought there, each step while the one before
 * is multiplied. */
HOOK_INLINE void values_sum(const struct values *v, float *o, size_t stride, int head, int column, int ring,
                            int pack, const int wide)
{
    const int vectors = 4 / wide, step_bytes = vectors * VECTOR_BYTES;
    const size_t down = wide == 2 ? GROUP * stride : 2 * LINE;
    const uint16_t *const *row = v->keys->row;
    const char *p = v->p + head * P_LINE;

    if (pack)
        values_pack(v->slab, row, column, vectors / 2);
    tile_fence();
    sums_load(o, LINE, down, stride);
    for (int k = 0; k < v->steps; k++, p += LINE) {
        const char *value = v->slab + k % ring * step_bytes;
        if (pack && k + 1 < v->steps)
            values_pack(v->slab + (k + 1) % ring * step_bytes, row + (k + 1) * STEP_KEYS, column,
                        vectors / 2);
        tile_fence();
        if (wide == 2)
            products_2x2(p, P_GROUP_BYTES, P_LINE, value, VECTOR_BYTES);
        else
            products_1x4(p, P_LINE, value, VECTOR_BYTES);
        tile_fence();
    }
    sums_store(o, LINE, down, stride);
}

/* Two whole head groups at a time, over slabs of 32 columns. */
static inline void values_pairs(const struct values *v, float *o, int pairs)
{
    const int ring = pairs > 1 ? v->steps : 2;

    for (int column = 0; column < SMLA__LATENT; column += 32) {
        for (int i = 0; i < pairs; i++) {
            int head = i * 2 * GROUP;
            values_sum(v, o + head * SMLA__LATENT + column, O_LINE, head, column, ring, i == 0, 2);
        }
        call_ahead(v->keys, 16 + column / 32, 32);
    }
}

static inline void rows_copy(float *to, size_t to_row, const float *from, size_t from_row, int rows)
{
    for (int i = 0; i < rows; i++)
        for (int c = 0; c < 64; c += 16)
            _mm512_store_ps(to + i * to_row + c, _mm512_load_ps(from + i * from_row + c));
}

/* One head group from `head` on, over slabs of 64 columns. Of fewer than 16 heads, o has no more rows. */
static inline void values_group(const struct values *v, float *o, int head, int heads)
{
    for (int column = 0; column < SMLA__LATENT; column += 64) {
        float *at = o + head * SMLA__LATENT + column;
        if (heads < GROUP) {
            rows_copy(v->few, 64, at, SMLA__LATENT, heads);
            values_sum(v, v->few, 4 * LINE, head, column, 2, 1, 1);
            rows_copy(at, SMLA__LATENT, v->few, 64, heads);
        } else {
            values_sum(v, at, O_LINE, head, column, 2, 1, 1);
        }
        if (head == 0)
            call_ahead(v->keys, 8 + column / 64, 16);
    }
}

static inline void tile_values(float *o, const float *p, void *p_scratch, const void *tile, int m, int n)
{
    const int pairs = m / (2 * GROUP), padded = head_groups(m) * GROUP;
    char *rounded = p_scratch, *slab = rounded + padded * P_LINE;
    struct values v = {
        .p = rounded,
        .keys = tile,
        .steps = (n + STEP_KEYS - 1) / STEP_KEYS,
        .slab = slab,
        .few = (float *)(void *)(slab + VALUES_SLAB),
    };

    p_round(rounded, p, m, n);
    memset(rounded + m * P_LINE, 0, (size_t)(padded - m) * P_LINE);
    if (pairs > 0)
        values_pairs(&v, o, pairs);
    for (int head = pairs * 2 * GROUP; head < m; head += GROUP)
        values_group(&v, o, head, m - head < GROUP ? m - head : GROUP);
}

#endif
