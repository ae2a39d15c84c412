/*
 * The attention algorithm, once. A file that includes this has brought in a vector vocabulary (vec_*.h)
 * and the products of a tile (hooks_*.h), and gets a table `smla__attn` named ATTN_TABLE.
 *
 * For each tile of up to 64 keys: gather, scores, online softmax, o += P V. Rows that were loaded
 * together go through a tile together if all of them have the same keys there; else each by itself, the
 * gathered tile being kept while it fits the next row. No head's arithmetic depends on which it was.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "attn.h"
#include "half.h"

/* Scratch of a thread. */
struct scratch {
    void *together;                 /* packed query of all loaded rows */
    void *alone[SMLA__SHARED_ROWS]; /* of each row by itself; the same if there is only one */
    void *tile;
    float *s; /* [rows * heads][TILE]: scores, then P */
    void *p;  /* of the hooks */
    size_t bytes;
};

static struct scratch lay_scratch(void *base, int rows, int heads)
{
    size_t together = query_bytes(rows * heads), alone = rows > 1 ? query_bytes(heads) : 0;
    size_t sizes[] = {together, alone, tile_bytes(), sizeof(float[SMLA__TILE]) * (size_t)(rows * heads),
                      p_scratch_bytes(rows * heads)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        sizes[i] = (sizes[i] + SMLA__LINE - 1) / SMLA__LINE * SMLA__LINE;
    struct scratch s = {.bytes = sizes[0] + sizes[1] * (size_t)rows + sizes[2] + sizes[3] + sizes[4]};
    if (!base)
        return s;
    char *at = base;
    s.tile = at;
    s.s = (float *)(void *)(at += sizes[2]);
    s.p = at += sizes[3];
    s.together = at += sizes[4];
    for (int r = 0; r < rows; r++)
        s.alone[r] = at + (rows > 1 ? sizes[0] + sizes[1] * (size_t)r : 0);
    return s;
}

static size_t scratch_bytes(int rows, int heads)
{
    size_t most = 0;
    for (int r = 1; r <= rows; r++) {
        size_t bytes = lay_scratch(NULL, r, heads).bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void load(void *base, int rows, int heads, const uint16_t *const *latent, const uint16_t *const *rope)
{
    struct scratch s = lay_scratch(base, rows, heads);
    query_pack(s.together, latent, rope, rows * heads);
    for (int r = 0; rows > 1 && r < rows; r++)
        query_pack(s.alone[r], latent + r * heads, rope + r * heads, heads);
}

/* 2^x for x <= 1, 0 below 2^-125, NaN for NaN. Adding 1.5 * 2^23 rounds x to an integer that then stands
 * in the low mantissa bits; the rest within half a step is a polynomial of least relative error, 2e-9. */
static inline vec vec_exp2(vec x)
{
    static const float c[] = {
        1.53458118e-4f, 1.33999312e-3f, 9.61848896e-3f, 5.55032878e-2f, 0.240226469f, 0.693147206f, 1.0f};
    const vec low = vec_splat(-125.0f), shift = vec_splat(12582912.0f);
    vec clamped = vec_max(low, vec_min(vec_splat(1.0f), x));
    vec steps = vec_add(clamped, shift);
    vec rest = vec_sub(clamped, vec_sub(steps, shift));
    vec y = vec_splat(c[0]);
    for (size_t i = 1; i < sizeof c / sizeof *c; i++)
        y = vec_fma(y, rest, vec_splat(c[i]));
    return vec_unless_below(vec_raise(y, steps), x, low);
}

static inline float exp2_of(float x)
{
    return vec_first(vec_exp2(vec_splat(x)));
}

static inline void scale_out(float *o, float by)
{
    vec factor = vec_splat(by);
    for (int c = 0; c < SMLA__LATENT; c += VEC_LANES)
        vec_store(o + c, vec_mul(vec_load(o + c), factor));
}

/* Largest of scale * s, at least `most`. */
static inline float raise_max(const float *s, float scale, float most)
{
    vec by = vec_splat(scale), top = vec_splat(most);
    for (int j = 0; j < SMLA__TILE; j += VEC_LANES)
        top = vec_max(vec_mul(vec_load(s + j), by), top);
    return vec_top(top);
}

/* s = 2^(scale * s - bias); gives back the sum. */
static inline float weigh(float *s, float scale, float bias)
{
    vec by = vec_splat(scale), less = vec_splat(-bias), sum = vec_splat(0.0f);
    for (int j = 0; j < SMLA__TILE; j += VEC_LANES) {
        vec p = vec_exp2(vec_fma(vec_load(s + j), by, less));
        vec_store(s + j, p);
        sum = vec_add(sum, p);
    }
    return vec_sum(sum);
}

/* Turns the scores of a tile to weights relative to the largest score so far, which may grow here. */
static inline void soften(float *s, int n, float scale, float *max, float *sum, float *o)
{
    /* Rows of s past the tile's keys: a score that gives exactly 0, whatever the scale's sign. */
    for (int j = n; j < SMLA__TILE; j++)
        s[j] = scale < 0.0f ? INFINITY : -INFINITY;
    float before = *max, most = raise_max(s, scale, before);
    float bias = most == -INFINITY ? 0.0f : most;
    if (most > before && before != -INFINITY) {
        float kept = exp2_of(before - bias);
        *sum *= kept;
        scale_out(o, kept);
    }
    *max = most;
    *sum += weigh(s, scale, bias);
}

/* One tile for some heads. */
static void attend_tile(const struct scratch *w, const void *query, int m, int n, float scale,
                        const struct smla__partial *to, int first)
{
    float *o = to->out + (size_t)first * SMLA__LATENT;
    tile_scores(w->s, query, w->tile, m, n);
    for (int h = 0; h < m; h++)
        soften(w->s + h * SMLA__TILE, n, scale, to->max + first + h, to->sum + first + h,
               o + (size_t)h * SMLA__LATENT);
    tile_values(o, w->s, w->p, w->tile, m, n);
}

/* Keys of the tile that begins at key `begin`. */
static int tile_keys(const struct smla__keys *keys, int64_t begin)
{
    int64_t left = keys->count - begin;
    return left <= 0 ? 0 : left < SMLA__TILE ? (int)left : SMLA__TILE;
}

static bool tile_equal(const struct smla__keys *a, const struct smla__keys *b, int64_t begin)
{
    int n = tile_keys(a, begin);
    return n == tile_keys(b, begin) &&
           (n == 0 || memcmp(a->rows + begin, b->rows + begin, (size_t)n * sizeof *a->rows) == 0);
}

static void attend(void *base, int rows, int heads, float scale_log2, const struct smla__keys *keys,
                   const struct smla__partial *to)
{
    struct scratch w = lay_scratch(base, rows, heads);
    int64_t longest = 0;
    for (int i = 0; i < rows * heads; i++)
        to->max[i] = -INFINITY;
    memset(to->sum, 0, sizeof(float) * (size_t)(rows * heads));
    memset(to->out, 0, sizeof(float[SMLA__LATENT]) * (size_t)(rows * heads));
    for (int r = 0; r < rows; r++)
        longest = keys[r].count > longest ? keys[r].count : longest;

    for (int64_t begin = 0; begin < longest; begin += SMLA__TILE) {
        bool same[SMLA__SHARED_ROWS] = {false}, all = true; /* as the row before */
        for (int r = 1; r < rows; r++) {
            same[r] = tile_equal(&keys[r], &keys[r - 1], begin);
            all = all && same[r];
        }
        for (int r = 0; r < (all ? 1 : rows); r++) {
            int n = tile_keys(&keys[r], begin);
            if (n && !same[r])
                tile_pack(w.tile, keys[r].rows + begin, n);
            tile_ahead(w.tile, keys[r].rows + begin + n, tile_keys(&keys[r], begin + n));
            if (n && all)
                attend_tile(&w, w.together, rows * heads, n, scale_log2, to, 0);
            else if (n)
                attend_tile(&w, w.alone[r], heads, n, scale_log2, to, r * heads);
        }
    }
}

static void fold_head(float *to, float to_weight, const float *from, float from_weight)
{
    vec a = vec_splat(to_weight), b = vec_splat(from_weight);
    for (int c = 0; c < SMLA__LATENT; c += VEC_LANES)
        vec_store(to + c, vec_fma(vec_load(from + c), b, vec_mul(vec_load(to + c), a)));
}

static void fold(const struct smla__partial *to, const struct smla__partial *from, int heads)
{
    for (int h = 0; h < heads; h++) {
        float *o = to->out + (size_t)h * SMLA__LATENT;
        const float *more = from->out + (size_t)h * SMLA__LATENT;
        float max = from->max[h] > to->max[h] ? from->max[h] : to->max[h];
        if (from->max[h] == -INFINITY && from->sum[h] == 0.0f)
            continue;
        if (to->max[h] == -INFINITY && to->sum[h] == 0.0f) {
            memcpy(o, more, sizeof(float[SMLA__LATENT]));
            to->sum[h] = from->sum[h];
        } else {
            float bias = max == -INFINITY ? 0.0f : max;
            float kept = exp2_of(to->max[h] - bias), joined = exp2_of(from->max[h] - bias);
            fold_head(o, kept, more, joined);
            to->sum[h] = to->sum[h] * kept + from->sum[h] * joined;
        }
        to->max[h] = max;
    }
}

static inline void store_f32(float *to, const float *o, float factor)
{
    for (int c = 0; c < SMLA__LATENT; c++)
        to[c] = o[c] * factor;
}

static inline void store_bf16(uint16_t *to, const float *o, float factor)
{
    for (int c = 0; c < SMLA__LATENT; c++)
        to[c] = smla__f32_to_bf16(o[c] * factor);
}

static void store(float *part_out, int heads, const float *factor, void *out, int64_t head_stride,
                  int32_t dtype)
{
    out_order(part_out, heads);
    for (int h = 0; h < heads; h++) {
        const float *o = part_out + (size_t)h * SMLA__LATENT;
        void *to = (char *)out + h * head_stride;
        if (dtype == SMLA_F32)
            store_f32(to, o, factor[h]);
        else
            store_bf16(to, o, factor[h]);
    }
}

const struct smla__attn ATTN_TABLE = {ATTN_KERNEL, scratch_bytes, enter, leave, load, attend, fold, store};
