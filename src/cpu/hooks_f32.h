/*
 * Products of a tile in fp32, over the vector vocabulary of a vec_*.h.
 *
 *     scores   dot products: lanes run along the columns and are added up once at the end
 *     values   o of some heads and columns stays in registers while the keys pass by
 *
 * Both keep VEC_SUMS sums in registers, as heads x keys or heads x vectors of columns, and go through all
 * heads with a few keys, or a copied panel of columns, in the L1. Keys are converted as they are read; the
 * scores read cache rows in place. Heads that do not fill VEC_HEADS go in smaller powers of two. However
 * heads and keys are grouped, a head's sums are formed in the same order.
 *
 * Columns are in the order in which vec_low and vec_high take them apart, in the query and in o alike.
 */
#ifndef SMLA_HOOKS_F32_H
#define SMLA_HOOKS_F32_H

#include <stddef.h>
#include <string.h>

#define HOOK_INLINE static inline __attribute__((always_inline))

enum {
    PAIR = 2 * VEC_LANES,                           /* columns that vec_low and vec_high share */
    HELD = 8,                                       /* vectors that are held at a time, at most */
    NEAR_KEYS = 12,                                 /* keys that stay in the L1 while all heads pass by */
    POINTERS = 6,                                   /* keys that are read at a time, at most */
    CALL_LINES = 6,                                 /* lines called for at a time, */
    CALLS = SMLA__ROW * 2 / SMLA__LINE / CALL_LINES /* so often for a row */
};

static inline void enter(void)
{
}

static inline void leave(void)
{
}

/* Heads of the next group, of `left`; how many groups there are. */
static inline int head_group(int left)
{
    int heads = VEC_HEADS;
    while (heads > left)
        heads /= 2;
    return heads;
}

static inline int head_groups(int m)
{
    return m / VEC_HEADS + __builtin_popcount((unsigned)(m % VEC_HEADS));
}

static inline size_t query_bytes(int m)
{
    return (size_t)m * SMLA__ROW * sizeof(float);
}

/* [groups of heads][vectors of columns][heads of the group][VEC_LANES] */
static inline void query_pack(void *packed, const uint16_t *const *latent, const uint16_t *const *rope, int m)
{
    float *to = packed;
    for (int first = 0, heads; first < m; first += heads) {
        heads = head_group(m - first);
        for (int c = 0; c < SMLA__ROW; c += PAIR, to += (size_t)heads * PAIR) {
            for (int h = 0; h < heads; h++) {
                const uint16_t *from =
                    c < SMLA__LATENT ? latent[first + h] + c : rope[first + h] + c - SMLA__LATENT;
                vec_store(to + h * VEC_LANES, vec_low(from));
                vec_store(to + (heads + h) * VEC_LANES, vec_high(from));
            }
        }
    }
}

/* ---- The tile, and calling ahead for the next one ---- */

struct tile {
    const uint16_t *rows[SMLA__TILE];
    const uint16_t *const *ahead; /* rows of the next tile, */
    int ahead_count;              /* so many */
    /* Columns of all keys, copied for the values: rows lie on as many pages as there are keys. */
    _Alignas(SMLA__LINE) uint16_t panel[SMLA__TILE][VEC_PANEL * PAIR];
};

static inline size_t tile_bytes(void)
{
    return sizeof(struct tile);
}

static inline void tile_pack(void *tile, const uint16_t *const *rows, int n)
{
    memcpy(((struct tile *)tile)->rows, rows, (size_t)n * sizeof *rows);
}

/* The first and last lines of all rows at once, so that the pages are found side by side; the others
 * step by step, a few at a time, for a core keeps about a dozen lines under way and then stands still. */
static inline void tile_ahead(void *tile, const uint16_t *const *rows, int n)
{
    struct tile *t = tile;
    t->ahead = rows;
    t->ahead_count = n;
    for (int j = 0; j < n; j++) {
        __builtin_prefetch(rows[j], 0, 2);
        __builtin_prefetch(rows[j] + SMLA__ROW - 1, 0, 2);
    }
}

struct caller {
    const uint16_t *const *rows;
    int next, end;        /* calls */
    int steps, due, each; /* `each` calls in `steps` steps; `due` of them, times steps, now */
};

/* Half of the calls while the scores are formed, half with the values. */
static inline struct caller caller_begin(const struct tile *t, int half, int steps)
{
    int begin = half ? t->ahead_count * CALLS / 2 : 0;
    int end = half ? t->ahead_count * CALLS : t->ahead_count * CALLS / 2;
    return (struct caller){t->ahead, begin, end, steps, 0, end - begin};
}

static inline void caller_step(struct caller *c)
{
    for (c->due += c->each; c->due >= c->steps && c->next < c->end; c->due -= c->steps, c->next++) {
        const uint16_t *from = c->rows[c->next / CALLS] + c->next % CALLS * (CALL_LINES * SMLA__LINE / 2);
        for (int i = 0; i < CALL_LINES; i++)
            __builtin_prefetch(from + i * (SMLA__LINE / 2), 0, 2);
    }
}

/* ---- Scores ---- */

HOOK_INLINE vec key_vector(const uint16_t *key, int pair, const int high)
{
    return high ? vec_high(key + pair * PAIR) : vec_low(key + pair * PAIR);
}

/* One vector of columns: sum[heads][keys] += q[heads] * key[keys]. The fewer stay in registers meanwhile. */
HOOK_INLINE void scores_step(vec *sum, const float *q, const uint16_t *const *key, int pair, const int high,
                             const int heads, const int keys)
{
    vec held[HELD];
    if (heads < keys) {
        for (int h = 0; h < heads; h++)
            held[h] = vec_hold(q + h * VEC_LANES);
        for (int j = 0; j < keys; j++) {
            vec k = key_vector(key[j], pair, high);
            for (int h = 0; h < heads; h++)
                sum[h * keys + j] = vec_fma(held[h], k, sum[h * keys + j]);
        }
    } else {
        for (int j = 0; j < keys; j++)
            held[j] = key_vector(key[j], pair, high);
        for (int h = 0; h < heads; h++) {
            vec x = vec_hold(q + h * VEC_LANES);
            for (int j = 0; j < keys; j++)
                sum[h * keys + j] = vec_fma(x, held[j], sum[h * keys + j]);
        }
    }
}

HOOK_INLINE void scores_block(float *s, const float *q, const uint16_t *const *from, const int heads,
                              const int keys)
{
    vec sum[VEC_SUMS];
    const uint16_t *key[POINTERS];
    for (int j = 0; j < keys; j++)
        key[j] = from[j];
    for (int i = 0; i < heads * keys; i++)
        sum[i] = vec_splat(0.0f);
    for (int pair = 0; pair < SMLA__ROW / PAIR; pair++, q += heads * PAIR) {
        scores_step(sum, q, key, pair, 0, heads, keys);
        scores_step(sum, q + heads * VEC_LANES, key, pair, 1, heads, keys);
    }
    vec_sums(s, SMLA__TILE, sum, heads, keys);
}

/* As many keys at a time as fill the sums; the last ones by two, for the sake of latency, and one. */
HOOK_INLINE void scores_keys(float *s, const float *q, const uint16_t *const *key, int n,
                             struct caller *caller, const int heads)
{
    const int most = VEC_SUMS / heads < POINTERS ? VEC_SUMS / heads : POINTERS;
    while (n > 0) {
        int keys = n >= most && n != most + 1 ? most : n >= 2 ? 2 : 1;
        if (keys == most)
            scores_block(s, q, key, heads, most);
        else if (keys == 2)
            scores_block(s, q, key, heads, 2);
        else
            scores_block(s, q, key, heads, 1);
        caller_step(caller);
        s += keys;
        key += keys;
        n -= keys;
    }
}

HOOK_INLINE void scores_heads(float *s, const float *q, const uint16_t *const *key, int n,
                              struct caller *caller, int heads)
{
    if (heads == VEC_HEADS)
        scores_keys(s, q, key, n, caller, VEC_HEADS);
    else if (heads == 4)
        scores_keys(s, q, key, n, caller, 4);
    else if (heads == 2)
        scores_keys(s, q, key, n, caller, 2);
    else
        scores_keys(s, q, key, n, caller, 1);
}

static inline void tile_scores(float *s, const void *packed, const void *tile, int m, int n)
{
    const struct tile *t = tile;
    struct caller caller = caller_begin(t, 0, (n * VEC_HEADS / VEC_SUMS + 1) * head_groups(m));
    for (int j = 0, keys; j < n; j += keys) {
        keys = n - j < NEAR_KEYS ? n - j : NEAR_KEYS;
        for (int h = 0, heads; h < m; h += heads) {
            heads = head_group(m - h);
            scores_heads(s + h * SMLA__TILE + j, (const float *)packed + h * SMLA__ROW, t->rows + j, keys,
                         &caller, heads);
        }
    }
}

/* ---- Values ---- */

static inline size_t p_scratch_bytes(int m)
{
    (void)m;
    return 0;
}

/* One key: sum[heads][vectors] += p[heads] * value[vectors]. */
HOOK_INLINE void values_step(vec *sum, const float *p, const uint16_t *value, const int high, const int heads,
                             const int vectors)
{
    vec held[HELD];
    if (heads < vectors) {
        for (int h = 0; h < heads; h++)
            held[h] = vec_splat(p[h * SMLA__TILE]);
        for (int v = 0; v < vectors; v++) {
            vec x = key_vector(value, v, high);
            for (int h = 0; h < heads; h++)
                sum[h * vectors + v] = vec_fma(held[h], x, sum[h * vectors + v]);
        }
    } else {
        for (int v = 0; v < vectors; v++)
            held[v] = key_vector(value, v, high);
        for (int h = 0; h < heads; h++) {
            vec weight = vec_splat(p[h * SMLA__TILE]);
            for (int v = 0; v < vectors; v++)
                sum[h * vectors + v] = vec_fma(weight, held[v], sum[h * vectors + v]);
        }
    }
}

/* o[heads][512] += P V for `vectors` vectors of columns, each the low or high one of its pair. */
HOOK_INLINE void values_block(float *o, const float *p, const uint16_t *panel, int n, const int high,
                              const int heads, const int vectors)
{
    vec sum[VEC_SUMS];
    for (int h = 0; h < heads; h++)
        for (int v = 0; v < vectors; v++)
            sum[h * vectors + v] = vec_load(o + h * SMLA__LATENT + v * PAIR);
    for (int j = 0; j < n; j++)
        values_step(sum, p + j, panel + j * VEC_PANEL * PAIR, high, heads, vectors);
    for (int h = 0; h < heads; h++)
        for (int v = 0; v < vectors; v++)
            vec_store(o + h * SMLA__LATENT + v * PAIR, sum[h * vectors + v]);
}

/* The same for both vectors of each pair. */
HOOK_INLINE void values_pairs(float *o, const float *p, const uint16_t *panel, int n, struct caller *caller,
                              const int heads, const int pairs)
{
    values_block(o, p, panel, n, 0, heads, pairs);
    caller_step(caller);
    values_block(o + VEC_LANES, p, panel, n, 1, heads, pairs);
    caller_step(caller);
}

/* A panel: as many pairs at a time as fill the sums, or a smaller number that divides it. */
HOOK_INLINE void values_panel(float *o, const float *p, const uint16_t *panel, int n, int pairs,
                              struct caller *caller, const int heads)
{
    const int most = VEC_SUMS / heads;
    const int few = VEC_FEW / heads < VEC_PANEL ? VEC_FEW / heads : VEC_PANEL;
    for (int pair = 0, taken; pair < pairs; pair += taken) {
        taken = (pairs - pair) % most == 0 ? most : few;
        if (taken == most)
            values_pairs(o + pair * PAIR, p, panel + pair * PAIR, n, caller, heads, most);
        else
            values_pairs(o + pair * PAIR, p, panel + pair * PAIR, n, caller, heads, few);
    }
}

HOOK_INLINE void values_heads(float *o, const float *p, const uint16_t *panel, int n, int pairs,
                              struct caller *caller, int heads)
{
    if (heads == VEC_HEADS)
        values_panel(o, p, panel, n, pairs, caller, VEC_HEADS);
    else if (heads == 4)
        values_panel(o, p, panel, n, pairs, caller, 4);
    else if (heads == 2)
        values_panel(o, p, panel, n, pairs, caller, 2);
    else
        values_panel(o, p, panel, n, pairs, caller, 1);
}

static inline void copy_panel(struct tile *t, int n, int column, int columns)
{
    for (int j = 0; j < n; j++)
        for (int c = 0; c < columns; c += PAIR)
            vec_copy(t->panel[j] + c, t->rows[j] + column + c);
}

static inline void tile_values(float *o, const float *p, void *p_scratch, void *tile, int m, int n)
{
    struct tile *t = tile;
    const int blocks = SMLA__LATENT / VEC_LANES * VEC_HEADS / VEC_SUMS + 1;
    struct caller caller = caller_begin(t, 1, blocks * head_groups(m));
    (void)p_scratch;
    for (int c = 0, columns; c < SMLA__LATENT; c += columns) {
        columns = SMLA__LATENT - c < VEC_PANEL * PAIR ? SMLA__LATENT - c : VEC_PANEL * PAIR;
        copy_panel(t, n, c, columns);
        for (int h = 0, heads; h < m; h += heads) {
            heads = head_group(m - h);
            values_heads(o + h * SMLA__LATENT + c, p + h * SMLA__TILE, t->panel[0], n, columns / PAIR,
                         &caller, heads);
        }
    }
}

static inline void out_order(float *o, int m)
{
    for (float *end = o + (size_t)m * SMLA__LATENT; o < end; o += PAIR) {
        vec low = vec_load(o), high = vec_load(o + VEC_LANES);
        vec_natural(&low, &high);
        vec_store(o, low);
        vec_store(o + VEC_LANES, high);
    }
}

#endif
