/*
 * The attention algorithm, once. A file that includes this has brought in a vector vocabulary (vec_*.h)
 * and the products of a tile (hooks_*.h), and gets a table `smla__attn` named ATTN_TABLE. ATTN_QUERY_STEP
 * says at which heads a packed query may be entered.
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
    void *alone[SMLA__SHARED_ROWS]; /* of each row by itself */
    void *tile;
    float *s; /* [rows * heads][TILE]: scores, then P */
    void *p;  /* of the hooks */
    size_t bytes;
};

/* A row's packed query is a part of all rows' if its heads begin where the hooks can begin. */
static bool needs_alone(int rows, int heads)
{
    return rows > 1 && heads % ATTN_QUERY_STEP != 0;
}

static struct scratch lay_scratch(void *base, int rows, int heads)
{
    size_t sizes[] = {tile_bytes(), sizeof(float[SMLA__TILE]) * (size_t)(rows * heads),
                      p_scratch_bytes(rows * heads), query_bytes(rows * heads),
                      needs_alone(rows, heads) ? query_bytes(heads) : 0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        sizes[i] = (sizes[i] + SMLA__LINE - 1) / SMLA__LINE * SMLA__LINE;
    struct scratch s = {.bytes = sizes[0] + sizes[1] + sizes[2] + sizes[3] + sizes[4] * (size_t)rows};
    if (!base)
        return s;
    s.tile = base;
    s.s = (float *)(void *)((char *)s.tile + sizes[0]);
    s.p = (char *)s.s + sizes[1];
    s.together = (char *)s.p + sizes[2];
    for (int r = 0; r < rows; r++)
        s.alone[r] =
            (char *)s.together + (sizes[4] ? sizes[3] + sizes[4] * (size_t)r : query_bytes(r * heads));
    return s;
}

static size_t scratch_bytes(int rows, int heads)
{
    return lay_scratch(NULL, rows, heads).bytes;
}

static void load(void *base, int rows, int heads, const uint16_t *const *latent, const uint16_t *const *rope)
{
    struct scratch s = lay_scratch(base, rows, heads);
    query_pack(s.together, latent, rope, rows * heads);
    for (int r = 0; needs_alone(rows, heads) && r < rows; r++)
        query_pack(s.alone[r], latent + r * heads, rope + r * heads, heads);
}

/* 2^x for x <= 0, 0 below 2^-125, NaN for NaN. Adding 1.5 * 2^23 rounds x to an integer that then stands
 * in the low mantissa bits; the rest within half a step is a polynomial of least relative error, 2e-9. */
static inline vec vec_exp2(vec x)
{
    static const float c[] = {
        1.53458118e-4f, 1.33999312e-3f, 9.61848896e-3f, 5.55032878e-2f, 0.240226469f, 0.693147206f, 1.0f};
    const vec low = vec_splat(-125.0f), shift = vec_splat(12582912.0f);
    vec clamped = vec_max(low, x);
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

/* Largest of sign * s, at least `most`; n counts whole vectors. */
static inline float raise_max(const float *s, int n, float sign, float most)
{
    vec by = vec_splat(sign), top = vec_splat(most);
    for (int j = 0; j < n; j += VEC_LANES)
        top = vec_max(vec_mul(vec_load(s + j), by), top);
    return vec_top(top);
}

/* Turns scores to weights and gives back their sum. The maximum comes off first, which is exact where it
 * matters: near it. */
static inline float weigh(float *s, int n, struct smla__scale scale, float max)
{
    vec sign = vec_splat(scale.sign), by = vec_splat(scale.log2), less = vec_splat(-max);
    vec sum = vec_splat(0.0f);
    for (int j = 0; j < n; j += VEC_LANES) {
        vec p = vec_exp2(vec_mul(vec_fma(vec_load(s + j), sign, less), by));
        vec_store(s + j, p);
        sum = vec_add(sum, p);
    }
    return vec_sum(sum);
}

/* Turns the scores of a tile to weights relative to the largest score so far, which may grow here. */
static inline void soften(float *s, int n, struct smla__scale scale, float *max, float *sum, float *o)
{
    int whole = (n + VEC_LANES - 1) / VEC_LANES * VEC_LANES;
    for (int j = n; j < whole; j++) /* no keys: weights of exactly 0 */
        s[j] = -INFINITY * scale.sign;
    float before = *max, most = raise_max(s, whole, scale.sign, before);
    float base = most == -INFINITY ? 0.0f : most;
    if (most > before && before != -INFINITY) {
        float kept = exp2_of((before - base) * scale.log2);
        *sum *= kept;
        scale_out(o, kept);
    }
    *max = most;
    *sum += weigh(s, whole, scale, base);
}

/* One tile for some heads. */
static void attend_tile(const struct scratch *w, const void *query, int m, int n, struct smla__scale scale,
                        const struct smla__partial *to, int first)
{
    float *o = to->out + (size_t)first * SMLA__LATENT;
    tile_scores(w->s, query, w->tile, m, n);
    for (int h = 0; h < m; h++)
        soften(w->s + h * SMLA__TILE, n, scale, to->max + first + h, to->sum + first + h,
               o + (size_t)h * SMLA__LATENT);
    tile_values(o, w->s, w->p, w->tile, m, n);
}

/* Keys of a whole tile that begins at key `begin` of a range. Where tiles are large, the first ones are
 * small: the next one can then soon be called for. */
static int64_t tile_size(int64_t begin)
{
    enum { FIRST = 64 };
    return begin < FIRST ? FIRST : begin < SMLA__TILE ? begin : SMLA__TILE;
}

static int tile_keys(const struct smla__keys *keys, int64_t begin)
{
    int64_t left = keys->count - begin, size = tile_size(begin);
    return left <= 0 ? 0 : (int)(left < size ? left : size);
}

static bool tile_equal(const struct smla__keys *a, const struct smla__keys *b, int64_t begin)
{
    int n = tile_keys(a, begin);
    return n == tile_keys(b, begin) &&
           (n == 0 || memcmp(a->rows + begin, b->rows + begin, (size_t)n * sizeof *a->rows) == 0);
}

static void attend(void *base, int rows, int heads, struct smla__scale scale, const struct smla__keys *keys,
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

    for (int64_t begin = 0, next; begin < longest; begin = next) {
        next = begin + tile_size(begin);
        bool same[SMLA__SHARED_ROWS] = {false}, all = true; /* as the row before */
        for (int r = 1; r < rows; r++) {
            same[r] = tile_equal(&keys[r], &keys[r - 1], begin);
            all = all && same[r];
        }
        for (int r = 0; r < (all ? 1 : rows); r++) {
            int n = tile_keys(&keys[r], begin);
            if (n && !same[r])
                tile_pack(w.tile, keys[r].rows + begin, n);
            /* Next comes the same tile of the next row, or the next tile. */
            const struct smla__keys *coming = &keys[all || r + 1 == rows ? 0 : r + 1];
            int64_t at = all || r + 1 == rows ? next : begin;
            int ahead = tile_keys(coming, at);
            tile_ahead(w.tile, coming->rows + (ahead ? at : 0), ahead);
            if (n && all)
                attend_tile(&w, w.together, rows * heads, n, scale, to, 0);
            else if (n)
                attend_tile(&w, w.alone[r], heads, n, scale, to, r * heads);
        }
    }
}

static void fold_head(float *to, float to_weight, const float *from, float from_weight)
{
    vec a = vec_splat(to_weight), b = vec_splat(from_weight);
    for (int c = 0; c < SMLA__LATENT; c += VEC_LANES)
        vec_store(to + c, vec_fma(vec_load(from + c), b, vec_mul(vec_load(to + c), a)));
}

static void fold(const struct smla__partial *to, const struct smla__partial *from, int heads,
                 struct smla__scale scale)
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
            float base = max == -INFINITY ? 0.0f : max;
            float kept = exp2_of((to->max[h] - base) * scale.log2);
            float joined = exp2_of((from->max[h] - base) * scale.log2);
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
