/* Score warps of the decode lane; see decode.cuh. */

enum { K_STEPS = 36 };

/* Query fragments of all 36 k-steps for the 8 heads of a tile: 2 registers each. */
SMLA_DEVICE void load_query(uint32_t q[K_STEPS][2], uint32_t slot, int tile, int lane)
{
#pragma unroll
    for (int k = 0; k < K_STEPS; k++) {
        int h = 8 * tile + (lane & 7), unit = 2 * (k & 3) + ((lane >> 3) & 1);
        ptx_ldmatrix_x2(q[k], slot + (k >> 2) * PLANE_BYTES + h * 128 + ((unit ^ (h & 7)) << 4));
    }
}

/* Scores of the slot's 16 keys: s holds keys lane / 4 (+ 8) and heads 2 (lane % 4) (+ 1), as mma gives it. */
template <int TILES>
SMLA_DEVICE void score_keys(float s[4], const uint32_t q[K_STEPS][2], uint32_t slot, int lane)
{
    enum { SUMS = TILES == 1 ? 4 : 2 }; /* independent chains of mma, as many as registers allow */
    float part[SUMS][4] = {};
    uint32_t row = slot + (lane & 15) * 128;
#pragma unroll
    for (int k = 0; k < K_STEPS; k++) {
        uint32_t keys[4];
        int unit = 2 * (k & 3) + (lane >> 4);
        ptx_ldmatrix_x4(keys, row + (k >> 2) * PLANE_BYTES + ((unit ^ (lane & 7)) << 4));
        ptx_mma_m16n8k16(part[k % SUMS], keys, q[k]);
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        s[j] = SUMS == 4 ? (part[0][j] + part[1][j]) + (part[SUMS - 2][j] + part[SUMS - 1][j])
                         : part[0][j] + part[1][j];
}

/* Largest over the lanes that hold the same heads. */
SMLA_DEVICE float max_over_keys(float x)
{
#pragma unroll
    for (int step = 4; step < 32; step *= 2)
        x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

SMLA_DEVICE float sum_over_keys(float x)
{
#pragma unroll
    for (int step = 4; step < 32; step *= 2)
        x += __shfl_xor_sync(~0u, x, step);
    return x;
}

/* This lane's part of its two heads' sums. */
struct lane_sums {
    float m[2], l[2], rounded[2];
};

/* Turns scores into P and writes it. A reference is raised only when a score exceeds it by more than 8: until then P
 * stays below 2^8, as good in bf16 as below 1. The product with the scale is not rounded before the reference is
 * subtracted. */
SMLA_DEVICE void soften(const float s[4], struct lane_sums *sums, char *p, float *references, float scale,
                        int keys, int lane)
{
    bool valid[2] = {lane / 4 < keys, lane / 4 + 8 < keys}, exceeds = false;
    float w[4], scaled[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        scaled[j] = valid[j >> 1] ? s[j] * scale : -INFINITY;
        exceeds |= scaled[j] > sums->m[j & 1] + 8;
    }
    if (__any_sync(~0u, exceeds)) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
            float old = sums->m[c];
            sums->m[c] = fmaxf(old, ceilf(max_over_keys(fmaxf(scaled[c], scaled[c + 2]))));
            float alpha = ptx_ex2(old - reference(sums->m[c]));
            sums->l[c] *= alpha;
            sums->rounded[c] *= alpha;
        }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        w[j] = valid[j >> 1] ? ptx_ex2(fmaf(s[j], scale, -reference(sums->m[j & 1]))) : 0;
        sums->l[j & 1] += w[j];
    }
    uint32_t *to = (uint32_t *)(p + lane / 4 * 16) + lane % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t pair = ptx_pack_bf16x2(w[2 * half], w[2 * half + 1]);
        to[32 * half] = pair;
        sums->rounded[0] += __uint_as_float(pair << 16);
        sums->rounded[1] += __uint_as_float(pair & 0xffff0000u);
    }
    if (lane < 4)
        *(float2 *)(references + 2 * lane) = make_float2(sums->m[0], sums->m[1]);
}

/* One row's slots of a chain, for the 8 heads of a tile. */
template <int TILES, int RANKS>
SMLA_DEVICE void score_row(const struct smla_decode_args *args, char *shared, uint32_t base, int chain,
                           int tile, struct cursor *at, uint32_t row, int lane)
{
    using L = layout<TILES, RANKS>;
    uint32_t q[K_STEPS][2];
    struct lane_sums sums = {{-INFINITY, -INFINITY}, {0, 0}, {0, 0}};
    ptx_mbarrier_wait(base + L::QUERY + 8 * (row & 1), row >> 1 & 1);
    uint32_t index = *(const uint32_t *)(shared + L::QUERY_AT + 4 * (row & 1));
    load_query(q, base + index * SLOT_BYTES, tile, lane);
    __syncwarp();
    if (lane == 0)
        ptx_mbarrier_arrive_count(base + L::EMPTY + 8 * index, CONSUMERS / L::SCORE_WARPS);
    if (chain == 0)
        advance(at, SLOTS);
    for (bool last = false; !last; advance(at, SLOTS)) {
        index = chain * SLOTS + at->slot;
        ptx_mbarrier_wait(base + L::FULL + 8 * index, at->turn);
        uint32_t fill = *(const uint32_t *)(shared + L::FILL + 4 * index);
        int keys = fill & 0xff;
        last = fill >> 8;
        if (keys) {
            float s[4];
            score_keys<TILES>(s, q, base + index * SLOT_BYTES, lane);
            soften(s, &sums, shared + L::P + (index * TILES + tile) * KEYS * 16,
                   (float *)(shared + L::REFERENCES) + index * L::HEADS + 8 * tile, args->scale_log2, keys,
                   lane);
        }
        __syncwarp();
        if (lane == 0)
            ptx_mbarrier_arrive(base + L::SCORED + 8 * index);
    }
    struct sums *all =
        (struct sums *)(shared + L::SUMS) + (row % L::SUM_BUFFERS * CHAINS + chain) * L::HEADS + 8 * tile;
#pragma unroll
    for (int c = 0; c < 2; c++) {
        struct sums total = {sums.m[c], sum_over_keys(sums.l[c]), sum_over_keys(sums.rounded[c]), 0};
        if (lane < 4)
            all[2 * lane + c] = total;
    }
    __syncwarp();
    if (lane == 0)
        ptx_mbarrier_arrive(base + L::SUMMED + 8 * (row % 3));
}

template <int TILES, int RANKS>
SMLA_DEVICE void combine_sums(const struct smla_decode_args *args, char *shared, uint32_t base, int thread,
                              int rank);
template <int TILES, int RANKS>
SMLA_DEVICE void combine_outputs(const struct smla_decode_args *args, char *shared, uint32_t base, int thread,
                                 int rank);

template <int TILES, int RANKS>
SMLA_DEVICE void score(const struct smla_decode_args *args, char *shared, uint32_t base, int warp, int rank)
{
    int lane = threadIdx.x % 32, thread = threadIdx.x - 32 * CHAINS;
    struct cursor at = {0, 0};
    uint32_t items = (uint32_t)args->rows * (uint32_t)args->head_groups, row = 0;
    __syncthreads();
    if (RANKS > 1)
        ptx_cluster_arrive_relaxed();
    for (uint32_t index = blockIdx.x / RANKS; index < items; index += gridDim.x / RANKS, row++)
        score_row<TILES, RANKS>(args, shared, base, warp % CHAINS, warp / CHAINS, &at, row, lane);
    if (RANKS > 1) {
        ptx_cluster_wait();
        combine_sums<TILES, RANKS>(args, shared, base, thread, rank);
        combine_outputs<TILES, RANKS>(args, shared, base, thread, rank);
    }
}
