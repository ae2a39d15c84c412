/*
 * The decode lane for every GPU since sm_80: mma.sync and cp.async, nothing newer. docs/kernels/portable.md holds the
 * design and its budget.
 *
 * A CTA of 4 warps attends one query row for 16 heads over one part of the row's list. Tiles of 32 keys lie in two
 * stages of shared memory, so that one tile is on its way while the other is worked on:
 *
 *     scores   each warp takes every 4th k-step of 16 columns, for all heads and keys
 *     weights  the warps' scores are added up through shared memory; each warp softens 4 heads
 *     values   each warp adds P V for its 128 columns of the output
 *
 * Every warp reads the list for itself and keeps the valid entries in a ring of its own, from which it gathers its 8
 * keys of each tile: no warp waits for another's indices, and invalid entries cost no work on tiles.
 */
#include "lists.cuh"

enum {
    HEADS = SMLA_PORTABLE_HEADS,
    KEYS = SMLA_PORTABLE_KEYS,
    WARPS = SMLA_PORTABLE_THREADS / 32,
    LATENT = 512,
    PLANES = 9, /* a row is 9 planes of 128 bytes; their 16-byte units are swizzled by row & 7 */
    LATENT_PLANES = 8,
    KEY_PLANE = KEYS * 128,
    QUERY_PLANE = HEADS * 128,
    STAGE = PLANES * KEY_PLANE,
    WARP_KEYS = KEYS / WARPS,
    WARP_HEADS = HEADS / WARPS,
    WARP_COLUMNS = LATENT / WARPS,
    BLOCKS = WARP_COLUMNS / 16, /* 16-column blocks of a warp's output */
    RING = 2 * KEYS,            /* valid entries that a warp holds */
    SCORE_ROW = KEYS + 8,       /* floats of a head's scores; the excess keeps banks apart */
    WEIGHT_ROW = 2 * KEYS + 16, /* bytes of a head's weights */
    MERGE_UNROLL = 4
};

/* Shared memory. What is exchanged between warps lies where the query was: that is in registers by then. */
enum {
    QUERY = 2 * STAGE,
    SCORES = QUERY,                                   /* [WARPS][HEADS][SCORE_ROW] float */
    WEIGHTS = SCORES + WARPS * HEADS * SCORE_ROW * 4, /* [HEADS][WEIGHT_ROW] */
    FACTORS = WEIGHTS + HEADS * WEIGHT_ROW, /* [HEADS] float: what outputs are to be multiplied by */
    EXCHANGE_END = FACTORS + HEADS * 4,
    RINGS = QUERY + PLANES * QUERY_PLANE, /* [WARPS][RING] */
    BYTES = RINGS + WARPS * RING * 4
};
static_assert(EXCHANGE_END <= RINGS && (int)BYTES <= (int)SMLA_PORTABLE_SHARED, "shared memory");
static_assert(WARPS == 4 && KEYS == 32 && HEADS == 16, "what the fragments below are laid out for");

/* What a CTA works on. */
struct item {
    int64_t row;
    uint32_t split;
    int first_head, heads;
};

SMLA_DEVICE struct item open_item(const struct smla_decode_args *args)
{
    uint32_t splits = (uint32_t)args->splits, groups = (uint32_t)args->head_groups;
    uint32_t group_of_row = blockIdx.x / splits, row = group_of_row / groups;
    int first = (int)(group_of_row - row * groups) * HEADS;
    struct item item = {row, blockIdx.x - group_of_row * splits, first, min(HEADS, args->heads - first)};
    return item;
}

/* ---- List ------------------------------------------------------------------------------------- */

/* A warp's view of its part of the list: every splits-th group of 32 entries, so that a tail of padding is shared by
 * all parts. One group is read ahead. */
struct reader {
    const struct smla_lists *lists;
    struct smla_row row;
    uint32_t *ring;
    uint32_t head, count; /* of the valid entries in the ring */
    uint32_t begin, step; /* place of the group read ahead, and the way to the next */
    int32_t entry;        /* of this lane in it */
};

SMLA_DEVICE void read_ahead(struct reader *r, int lane)
{
    uint32_t place = r->begin + lane;
    r->entry = place < r->row.length ? __ldg(r->row.topk + place) : -1;
}

/* Reads until there is a full tile's worth of valid entries, or the list ends. */
SMLA_DEVICE void refill(struct reader *r, int lane)
{
    while (r->count < KEYS && r->begin < r->row.length) {
        uint32_t slot = slot_of(r->lists, &r->row, r->entry);
        uint32_t valid = __ballot_sync(~0u, slot != SMLA_NO_SLOT);
        if (slot != SMLA_NO_SLOT)
            r->ring[(r->head + r->count + __popc(valid & ((1u << lane) - 1))) % RING] = slot;
        r->count += __popc(valid);
        r->begin += r->step;
        read_ahead(r, lane);
    }
    __syncwarp();
}

SMLA_DEVICE struct reader open_reader(const struct smla_decode_args *args, const struct item *item,
                                      char *shared, int warp, int lane)
{
    struct reader r = {&args->lists, open_row(&args->lists, item->row)};
    r.ring = (uint32_t *)(shared + RINGS) + warp * RING;
    r.begin = item->split * KEYS;
    r.step = (uint32_t)args->splits * KEYS;
    read_ahead(&r, lane);
    refill(&r, lane);
    return r;
}

/* ---- Gather ----------------------------------------------------------------------------------- */

/* This warp's keys of the next tile; gives the tile's count. The rest of the stage is zeroed, since weights of 0 do
 * not stop what lay there before. */
SMLA_DEVICE int send_keys(struct reader *r, uint32_t stage, int warp, int lane)
{
    uint32_t keys = min(r->count, (uint32_t)KEYS);
    int unit = lane & 7;
    if (keys == 0)
        return 0;
#pragma unroll
    for (int pass = 0; pass < WARP_KEYS / 4; pass++) {
        uint32_t k = WARP_KEYS * warp + 4 * pass + (lane >> 3);
        const char *from = (const char *)r->lists->cache;
        if (k < keys)
            from = cache_row_of(r->lists, r->ring[(r->head + k) % RING]) + unit * 16;
        uint32_t to = stage + k * 128 + ((unit ^ (k & 7)) << 4);
#pragma unroll
        for (int plane = 0; plane < PLANES; plane++)
            ptx_cp_async16(to + plane * KEY_PLANE, from + plane * 128, k < keys ? 16 : 0);
    }
    ptx_cp_async_commit();
    r->head = (r->head + keys) % RING;
    r->count -= keys;
    __syncwarp();
    return (int)keys;
}

/* The query's rows of 16 heads; those that do not exist are zeros. */
SMLA_DEVICE void send_query(const struct smla_decode_args *args, const struct item *item, uint32_t base,
                            int warp, int lane)
{
    int unit = lane & 7, h = WARP_HEADS * warp + (lane >> 3), bytes = h < item->heads ? 16 : 0;
    int64_t head = item->first_head + (bytes ? h : 0);
    const char *latent =
        (const char *)args->q_latent + item->row * args->q_latent_row + head * args->q_latent_head;
    const char *rope = (const char *)args->q_rope + item->row * args->q_rope_row + head * args->q_rope_head;
    uint32_t to = base + QUERY + h * 128 + ((unit ^ (h & 7)) << 4);
#pragma unroll
    for (int plane = 0; plane < LATENT_PLANES; plane++)
        ptx_cp_async16(to + plane * QUERY_PLANE, latent + plane * 128 + unit * 16, bytes);
    ptx_cp_async16(to + LATENT_PLANES * QUERY_PLANE, rope + unit * 16, bytes);
    ptx_cp_async_commit();
}

/* ---- Scores ----------------------------------------------------------------------------------- */

/* Query fragments of this warp's k-steps, one in each plane. */
SMLA_DEVICE void load_query(uint32_t q[PLANES][4], uint32_t base, int warp, int lane)
{
    int h = lane & 15, unit = 2 * warp + (lane >> 4);
    uint32_t from = base + QUERY + h * 128 + ((unit ^ (h & 7)) << 4);
#pragma unroll
    for (int plane = 0; plane < PLANES; plane++)
        ptx_ldmatrix_x4(q[plane], from + plane * QUERY_PLANE);
}

/* This warp's part of the scores of all heads and keys, to shared memory. */
SMLA_DEVICE void score_keys(const uint32_t q[PLANES][4], char *shared, uint32_t stage, int warp, int lane)
{
    enum { TILES = KEYS / 8 };
    float s[TILES][4] = {};
    int key = (lane & 7) + ((lane >> 4) << 3), unit = 2 * warp + ((lane >> 3) & 1);
    uint32_t from = stage + key * 128 + ((unit ^ (lane & 7)) << 4);
#pragma unroll
    for (int plane = 0; plane < PLANES; plane++) {
#pragma unroll
        for (int pair = 0; pair < TILES / 2; pair++) {
            uint32_t keys[4]; /* of two tiles of 8 */
            ptx_ldmatrix_x4(keys, from + plane * KEY_PLANE + pair * 16 * 128);
            ptx_mma_m16n8k16(s[2 * pair], q[plane], keys);
            ptx_mma_m16n8k16(s[2 * pair + 1], q[plane], keys + 2);
        }
    }
    float *to = (float *)(shared + SCORES) + (warp * HEADS + lane / 4) * SCORE_ROW + 2 * (lane % 4);
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        *(float2 *)(to + 8 * t) = make_float2(s[t][0], s[t][1]);
        *(float2 *)(to + 8 * SCORE_ROW + 8 * t) = make_float2(s[t][2], s[t][3]);
    }
}

/* ---- Weights ---------------------------------------------------------------------------------- */

/* What is known of a head: the largest score, unscaled but signed as the scale is; the sum of weights; and that of the
 * weights as rounded to bf16. Outputs are divided by the latter, so that the rounding of many like weights cancels. */
struct sums {
    float m, l, rounded;
};

/* What to subtract from scores of which m is the largest: 0 as long as none is finite. */
SMLA_DEVICE float reference(float m)
{
    return m == -INFINITY ? 0.0f : m;
}

/* Over the 8 lanes of a head. */
SMLA_DEVICE float max_of_head(float x)
{
#pragma unroll
    for (int step = 1; step < 8; step *= 2)
        x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

SMLA_DEVICE float sum_of_head(float x)
{
#pragma unroll
    for (int step = 1; step < 8; step *= 2)
        x += __shfl_xor_sync(~0u, x, step);
    return x;
}

/* The 4 scores of this lane, signed as the scale is. Keys that do not exist have a score of -inf. */
SMLA_DEVICE void add_up_scores(float s[4], const char *shared, float sign, int keys, int h, int lane)
{
    const float *from = (const float *)(shared + SCORES) + h * SCORE_ROW + 4 * (lane % 8);
    float4 all = *(const float4 *)from;
#pragma unroll
    for (int w = 1; w < WARPS; w++) {
        float4 part = *(const float4 *)(from + w * HEADS * SCORE_ROW);
        all.x += part.x;
        all.y += part.y;
        all.z += part.z;
        all.w += part.w;
    }
    const float values[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        s[i] = 4 * (lane % 8) + i < keys ? sign * values[i] : -INFINITY;
}

/* Turns scores of a tile to weights relative to the largest score so far, 8 lanes a head. The difference is taken
 * before it is scaled: it is exact where it matters. */
SMLA_DEVICE void soften(struct sums *sums, char *shared, float scale, int keys, int warp, int lane)
{
    int h = WARP_HEADS * warp + lane / 8;
    float s[4], size = fabsf(scale);
    add_up_scores(s, shared, copysignf(1.0f, scale), keys, h, lane);
    float before = sums->m;
    sums->m = fmaxf(before, max_of_head(fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3]))));
    float base = reference(sums->m), alpha = ptx_ex2((before - base) * size), w[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = ptx_ex2((s[i] - base) * size);
    uint32_t low = ptx_pack_bf16x2(w[0], w[1]), high = ptx_pack_bf16x2(w[2], w[3]);
    sums->l = sums->l * alpha + ((w[0] + w[1]) + (w[2] + w[3]));
    sums->rounded =
        sums->rounded * alpha + ((__uint_as_float(low << 16) + __uint_as_float(low & 0xffff0000u)) +
                                 (__uint_as_float(high << 16) + __uint_as_float(high & 0xffff0000u)));
    *(uint2 *)(shared + WEIGHTS + h * WEIGHT_ROW + 8 * (lane % 8)) = make_uint2(low, high);
    if (lane % 8 == 0)
        ((float *)(shared + FACTORS))[h] = alpha;
}

/* ---- Values ----------------------------------------------------------------------------------- */

/* A warp's columns of all heads: blocks of 16, each of two 16x8 tiles as mma holds them. */
struct output {
    float o[BLOCKS][2][4];
};

/* Multiplies every head's output by its factor, which lies in shared memory. */
SMLA_DEVICE void scale_output(struct output *out, const char *shared, int lane)
{
    const float *factors = (const float *)(shared + FACTORS) + lane / 4;
    float low = factors[0], high = factors[8];
    if (!__any_sync(~0u, low != 1 || high != 1))
        return;
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int t = 0; t < 2; t++) {
            out->o[b][t][0] *= low;
            out->o[b][t][1] *= low;
            out->o[b][t][2] *= high;
            out->o[b][t][3] *= high;
        }
}

SMLA_DEVICE void add_values(struct output *out, uint32_t base, uint32_t stage, int warp, int lane)
{
    uint32_t weights = base + WEIGHTS + (lane & 15) * WEIGHT_ROW + (lane >> 4) * 16;
    uint32_t values = stage + warp * (LATENT_PLANES / WARPS) * KEY_PLANE + (lane & 15) * 128;
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
        uint32_t p[4];
        ptx_ldmatrix_x4(p, weights + 32 * k);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            uint32_t v[4]; /* of two tiles of 8 columns */
            int unit = 2 * (b % 4) + (lane >> 4);
            ptx_ldmatrix_x4_trans(v, values + b / 4 * KEY_PLANE + k * 16 * 128 + ((unit ^ (lane & 7)) << 4));
            ptx_mma_m16n8k16(out->o[b][0], p, v);
            ptx_mma_m16n8k16(out->o[b][1], p, v + 2);
        }
    }
}

/* ---- Results ---------------------------------------------------------------------------------- */

/* lse of a head in base 2. */
SMLA_DEVICE float lse_of(const struct smla_decode_args *args, float m, float l)
{
    return fmaf(m, fabsf(args->scale_log2), ptx_lg2(l));
}

/* The share of the weight that is not the sink's. In double: sink and lse may be large and close. */
SMLA_DEVICE float kept(const struct smla_decode_args *args, int head, float m, float l)
{
    if (!args->sinks)
        return 1;
    double lse = (double)m * fabsf(args->scale_log2) + ptx_lg2(l);
    return 1 / (1 + ptx_ex2((float)(__ldg(args->sinks + head) * 1.4426950408889634 - lse)));
}

SMLA_DEVICE void store_lse(const struct smla_decode_args *args, int64_t row, int head, float m, float l)
{
    if (args->lse)
        *(float *)((char *)args->lse + row * args->lse_row + head * args->lse_head) =
            l == 0 ? args->empty_lse : lse_of(args, m, l) * args->lse_factor;
}

/* Closes the sums of this lane's head: stores them, and gives what its output is to be multiplied by. */
SMLA_DEVICE float close_head(const struct smla_decode_args *args, const struct item *item, struct sums sums,
                             int h, bool stores)
{
    if (h >= item->heads)
        return 0;
    int head = item->first_head + h;
    if (args->splits > 1) {
        if (stores)
            ((float2 *)args->part_ml)[(item->row * args->splits + item->split) * args->heads + head] =
                make_float2(sums.m, sums.l);
        return sums.l == 0 ? 0 : 1 / sums.rounded;
    }
    if (stores)
        store_lse(args, item->row, head, sums.m, sums.l);
    return sums.l == 0 ? 0 : kept(args, head, sums.m, sums.l) / sums.rounded;
}

/* Where a head's output begins, and the bytes of an element. */
SMLA_DEVICE char *out_of(const struct smla_decode_args *args, const struct item *item, int h)
{
    int64_t head = item->first_head + h;
    if (args->splits > 1)
        return (char *)(args->part_out +
                        ((item->row * args->splits + item->split) * args->heads + head) * LATENT);
    return (char *)args->out + item->row * args->out_row + head * args->out_head;
}

SMLA_DEVICE void store_output(const struct smla_decode_args *args, const struct item *item,
                              const struct output *out, int warp, int lane)
{
    bool f32 = args->splits > 1 || args->out_f32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int h = lane / 4 + 8 * half;
        if (h >= item->heads)
            return;
        char *to = out_of(args, item, h);
#pragma unroll
        for (int i = 0; i < 2 * BLOCKS; i++) {
            const float *v = out->o[i / 2][i % 2] + 2 * half;
            int column = WARP_COLUMNS * warp + 8 * i + 2 * (lane % 4);
            if (f32)
                *(float2 *)(to + 4 * column) = make_float2(v[0], v[1]);
            else
                *(uint32_t *)(to + 2 * column) = ptx_pack_bf16x2(v[0], v[1]);
        }
    }
}

SMLA_DEVICE void finish(const struct smla_decode_args *args, const struct item *item, struct output *out,
                        struct sums sums, char *shared, int warp, int lane)
{
    int h = WARP_HEADS * warp + lane / 8;
    sums.l = sum_of_head(sums.l);
    sums.rounded = sum_of_head(sums.rounded);
    __syncthreads(); /* the factors of the last tile have been read */
    float factor = close_head(args, item, sums, h, lane % 8 == 0);
    if (lane % 8 == 0)
        ((float *)(shared + FACTORS))[h] = factor;
    __syncthreads();
    scale_output(out, shared, lane);
    store_output(args, item, out, warp, lane);
}

/* A CTA for each row, head group and part of the list, the part running fastest. */
extern "C" __global__ void __launch_bounds__(SMLA_PORTABLE_THREADS, 2)
    smla_decode_portable(const __grid_constant__ struct smla_decode_args args)
{
    extern __shared__ __align__(1024) char shared[];
    uint32_t base = ptx_shared_address(shared), q[PLANES][4];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    ptx_grid_wait();
    struct item item = open_item(&args);
    struct output out = {};
    struct sums sums = {-INFINITY, 0, 0};
    send_query(&args, &item, base, warp, lane);
    struct reader reader = open_reader(&args, &item, shared, warp, lane);
    int keys = send_keys(&reader, base, warp, lane);
    refill(&reader, lane);
    ptx_cp_async_wait<0>();
    __syncthreads();
    load_query(q, base, warp, lane);
    for (int stage = 0; keys; stage ^= 1) {
        uint32_t here = base + stage * STAGE;
        ptx_cp_async_wait<0>();
        __syncthreads(); /* the tile is there, and the other stage free */
        int next = send_keys(&reader, base + (stage ^ 1) * STAGE, warp, lane);
        refill(&reader, lane);
        score_keys(q, shared, here, warp, lane);
        __syncthreads();
        soften(&sums, shared, args.scale_log2, keys, warp, lane);
        __syncthreads();
        scale_output(&out, shared, lane);
        add_values(&out, base, here, warp, lane);
        keys = next;
    }
    finish(&args, &item, &out, sums, shared, warp, lane);
}

/* ---- Merge ------------------------------------------------------------------------------------ */

SMLA_DEVICE float largest_of(const struct smla_decode_args *args, const float2 *sums, int lane)
{
    float m = -INFINITY;
    for (int s = lane; s < args->splits; s += 32)
        m = fmaxf(m, sums[(int64_t)s * args->heads].x);
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
        m = fmaxf(m, __shfl_xor_sync(~0u, m, step));
    return m;
}

/* Adds up the parts in order; gives the sum of their weights relative to `base`. Empty parts are not read. */
SMLA_DEVICE float add_parts(const struct smla_decode_args *args, const float2 *sums, const float4 *from,
                            float base, float4 v[4])
{
    float size = fabsf(args->scale_log2), total = 0;
#pragma unroll MERGE_UNROLL
    for (int s = 0; s < args->splits; s++) {
        float2 part = sums[(int64_t)s * args->heads];
        if (part.y == 0)
            continue;
        float weight = part.y * ptx_ex2((part.x - base) * size);
        total += weight;
#pragma unroll
        for (int u = 0; u < 4; u++) {
            float4 x = from[(int64_t)s * args->heads * (LATENT / 4) + 32 * u];
            v[u].x += weight * x.x;
            v[u].y += weight * x.y;
            v[u].z += weight * x.z;
            v[u].w += weight * x.w;
        }
    }
    return total;
}

SMLA_DEVICE void store_merged(const struct smla_decode_args *args, int64_t row, int head, const float4 v[4],
                              float factor, int lane)
{
    char *to = (char *)args->out + row * args->out_row + head * args->out_head;
#pragma unroll
    for (int u = 0; u < 4; u++) {
        float4 x = make_float4(v[u].x * factor, v[u].y * factor, v[u].z * factor, v[u].w * factor);
        if (args->out_f32)
            ((float4 *)to)[lane + 32 * u] = x;
        else
            ((uint2 *)to)[lane + 32 * u] = make_uint2(ptx_pack_bf16x2(x.x, x.y), ptx_pack_bf16x2(x.z, x.w));
    }
}

/* Merges the parts of a row: a warp for each row and head, 4 times 4 columns a lane; 8 warps a block. */
extern "C" __global__ void __launch_bounds__(256, 4)
    smla_decode_portable_merge(const __grid_constant__ struct smla_decode_args args)
{
    ptx_grid_wait();
    int lane = threadIdx.x % 32;
    int64_t index = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, row = index / args.heads;
    int head = (int)(index - row * args.heads);
    if (row >= args.rows)
        return;
    int64_t first = row * args.splits * args.heads + head;
    const float2 *sums = (const float2 *)args.part_ml + first;
    const float4 *from = (const float4 *)(args.part_out + first * LATENT) + lane;
    float4 v[4] = {};
    float m = largest_of(&args, sums, lane);
    float total = add_parts(&args, sums, from, reference(m), v);
    if (lane == 0)
        store_lse(&args, row, head, m, total);
    store_merged(&args, row, head, v, total == 0 ? 0 : kept(&args, head, m, total) / total, lane);
}
