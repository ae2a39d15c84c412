/* Score warps of the decode lane; see decode.cuh. */

enum { K_STEPS = 36 };

/* Query fragments of all 36 k-steps: 2 registers for each of them and 8 heads. */
template <int TILES> SMLA_DEVICE void load_query(uint32_t q[K_STEPS][TILES][2], uint32_t slot, int lane)
{
#pragma unroll
    for (int k = 0; k < K_STEPS; k++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            int h = 8 * t + (lane & 7), unit = 2 * (k & 3) + ((lane >> 3) & 1);
            ptx_ldmatrix_x2(q[k][t], slot + (k >> 2) * PLANE_BYTES + h * 128 + ((unit ^ (h & 7)) << 4));
        }
}

/* Scores of the slot's 16 keys: s[t] holds keys lane / 4 (+ 8) and heads 8 t + 2 (lane % 4) (+ 1), as mma gives it. */
template <int TILES>
SMLA_DEVICE void score_keys(float s[TILES][4], const uint32_t q[K_STEPS][TILES][2], uint32_t slot, int lane)
{
    enum { SUMS = TILES == 1 ? 4 : 2 }; /* independent chains of mma */
    float part[SUMS][TILES][4];
#pragma unroll
    for (int a = 0; a < SUMS; a++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            part[a][t][0] = part[a][t][1] = part[a][t][2] = part[a][t][3] = 0;
    uint32_t row = slot + (lane & 15) * 128;
#pragma unroll
    for (int k = 0; k < K_STEPS; k++) {
        uint32_t keys[4];
        int unit = 2 * (k & 3) + (lane >> 4);
        ptx_ldmatrix_x4(keys, row + (k >> 2) * PLANE_BYTES + ((unit ^ (lane & 7)) << 4));
#pragma unroll
        for (int t = 0; t < TILES; t++)
            ptx_mma_m16n8k16(part[k % SUMS][t], keys, q[k][t]);
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            s[t][j] = SUMS == 4 ? (part[0][t][j] + part[1][t][j]) + (part[SUMS - 2][t][j] + part[SUMS - 1][t][j])
                                : part[0][t][j] + part[1][t][j];
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

/* What to subtract from scores under the maximum m: 0 as long as there is no finite score. */
SMLA_DEVICE float reference(float m)
{
    return m == -INFINITY ? 0.0f : m;
}

/* Turns one tile's scores into P and writes it; keeps the chain's maxima m and this lane's sums l. */
SMLA_DEVICE void soften(float s[4], float m[2], float l[2], char *p, float *maxima, float scale, int keys, int lane)
{
    bool valid[2] = {lane / 4 < keys, lane / 4 + 8 < keys};
    float w[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        s[j] = valid[j >> 1] ? s[j] * scale : -INFINITY;
#pragma unroll
    for (int c = 0; c < 2; c++) {
        float old = m[c];
        m[c] = fmaxf(old, ceilf(max_over_keys(fmaxf(s[c], s[c + 2]))));
        float sub = reference(m[c]);
        w[c] = ptx_ex2(s[c] - sub);
        w[c + 2] = ptx_ex2(s[c + 2] - sub);
        l[c] = l[c] * ptx_ex2(old - sub) + (w[c] + w[c + 2]);
    }
    uint32_t *to = (uint32_t *)(p + lane / 4 * 16) + lane % 4;
    to[0] = ptx_pack_bf16x2(w[0], w[1]);
    to[32] = ptx_pack_bf16x2(w[2], w[3]);
    if (lane < 4)
        *(float2 *)(maxima + 2 * lane) = make_float2(m[0], m[1]);
}

/* One row's slots of a chain. */
template <int TILES, int RANKS>
SMLA_DEVICE void score_row(const struct smla_decode_args *args, char *shared, uint32_t base, int chain,
                           struct cursor *at, uint32_t buffer, int lane)
{
    using L = layout<TILES, RANKS>;
    uint32_t q[K_STEPS][TILES][2];
    float m[TILES][2], l[TILES][2];
    int index = chain * SLOTS + at->slot;
    ptx_mbarrier_wait(base + L::FULL + 8 * index, at->turn);
    load_query<TILES>(q, base + index * SLOT_BYTES, lane);
    __syncwarp();
    if (lane == 0) { /* nobody sums the query; its slot counts in both barriers all the same */
        ptx_mbarrier_arrive(base + L::SCORED + 8 * index);
        ptx_mbarrier_arrive_count(base + L::EMPTY + 8 * index, 4);
    }
    advance(at);
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        m[t][0] = m[t][1] = -INFINITY;
        l[t][0] = l[t][1] = 0;
    }
    for (bool last = false; !last; advance(at)) {
        index = chain * SLOTS + at->slot;
        ptx_mbarrier_wait(base + L::FULL + 8 * index, at->turn);
        uint32_t fill = *(const uint32_t *)(shared + L::FILL + 4 * index);
        int keys = fill & 0xff;
        last = fill >> 8;
        if (keys) {
            float s[TILES][4];
            score_keys<TILES>(s, q, base + index * SLOT_BYTES, lane);
#pragma unroll
            for (int t = 0; t < TILES; t++)
                soften(s[t], m[t], l[t], shared + L::P + (index * TILES + t) * KEYS * 16,
                       (float *)(shared + L::MAXIMA) + index * L::HEADS + 8 * t, args->scale_log2, keys, lane);
        }
        __syncwarp();
        if (lane == 0)
            ptx_mbarrier_arrive(base + L::SCORED + 8 * index);
    }
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        float a = sum_over_keys(l[t][0]), b = sum_over_keys(l[t][1]);
        if (lane < 4)
            *(float4 *)(shared + L::SUMS + ((buffer * CHAINS + chain) * L::HEADS + 8 * t + 2 * lane) * 8) =
                make_float4(m[t][0], a, m[t][1], b);
    }
    __syncwarp();
    if (lane == 0)
        ptx_mbarrier_arrive(base + L::SUMMED + 8 * buffer);
}

template <int TILES, int RANKS> SMLA_DEVICE void combine_sums(const struct smla_decode_args *args, char *shared,
                                                              uint32_t base, int warp, int rank);
template <int TILES, int RANKS> SMLA_DEVICE void combine_outputs(const struct smla_decode_args *args, char *shared,
                                                                 uint32_t base, int thread, int rank);

template <int TILES, int RANKS>
SMLA_DEVICE void score(const struct smla_decode_args *args, char *shared, uint32_t base, int chain, int rank)
{
    int lane = threadIdx.x % 32;
    struct cursor at = {0, 0};
    uint32_t items = (uint32_t)args->rows * (uint32_t)args->head_groups;
    struct cursor row = {0, 0};
    __syncthreads();
    if (RANKS > 1)
        ptx_cluster_arrive();
    for (uint32_t index = blockIdx.x / RANKS; index < items; index += gridDim.x / RANKS, advance(&row))
        score_row<TILES, RANKS>(args, shared, base, chain, &at, row.slot, lane);
    if (RANKS > 1) {
        ptx_cluster_wait();
        combine_sums<TILES, RANKS>(args, shared, base, chain, rank);
        combine_outputs<TILES, RANKS>(args, shared, base, threadIdx.x - 128, rank);
    }
}
