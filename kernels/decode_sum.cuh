/* Sum warps of the decode lane; see decode.cuh. */

/* This warp's part of O^T: o[b][t] is 16 columns by 8 heads, lane's rows lane / 4 (+ 8), heads 2 (lane % 4) (+ 1). */
template <int TILES> struct accumulator {
    float o[OWN_BLOCKS][TILES][4];
    float m[TILES][2]; /* maxima of the accumulator's heads */
    float mb[TILES];   /* and of head lane / 4, which this lane holds in P fragments */
};

#include "decode_combine.cuh"

template <int TILES> SMLA_DEVICE void clear(struct accumulator<TILES> *acc)
{
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        acc->m[t][0] = acc->m[t][1] = acc->mb[t] = -INFINITY;
#pragma unroll
        for (int b = 0; b < OWN_BLOCKS; b++)
            acc->o[b][t][0] = acc->o[b][t][1] = acc->o[b][t][2] = acc->o[b][t][3] = 0;
    }
}

/* Raises the accumulator to the slot's maxima; gives the power of two that brings the slot's P to the new ones. */
template <int TILES>
SMLA_DEVICE void rescale(struct accumulator<TILES> *acc, uint32_t factor[TILES], const float *maxima, int lane)
{
    float alpha[TILES][2];
    bool grown = false;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        float2 slot = *(const float2 *)(maxima + 8 * t + 2 * (lane % 4));
        float of_p = maxima[8 * t + lane / 4];
        float m0 = fmaxf(acc->m[t][0], slot.x), m1 = fmaxf(acc->m[t][1], slot.y);
        grown |= m0 > acc->m[t][0] || m1 > acc->m[t][1];
        alpha[t][0] = ptx_ex2(acc->m[t][0] - reference(m0));
        alpha[t][1] = ptx_ex2(acc->m[t][1] - reference(m1));
        acc->m[t][0] = m0;
        acc->m[t][1] = m1;
        acc->mb[t] = fmaxf(acc->mb[t], of_p);
        float f = ptx_ex2(of_p - reference(acc->mb[t]));
        factor[t] = ptx_pack_bf16x2(f, f);
    }
    if (!__any_sync(~0u, grown))
        return;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int b = 0; b < OWN_BLOCKS; b++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                acc->o[b][t][j] *= alpha[t][j & 1];
}

template <int TILES>
SMLA_DEVICE void add_slot(struct accumulator<TILES> *acc, uint32_t slot, uint32_t p, const float *maxima, int warp,
                          int lane)
{
    uint32_t weights[TILES][2], factor[TILES];
#pragma unroll
    for (int t = 0; t < TILES; t++)
        ptx_ldmatrix_x2_trans(weights[t], p + (t * KEYS + (lane & 15)) * 16);
    rescale<TILES>(acc, factor, maxima, lane);
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        weights[t][0] = ptx_mul_bf16x2(weights[t][0], factor[t]);
        weights[t][1] = ptx_mul_bf16x2(weights[t][1], factor[t]);
    }
    uint32_t row = slot + ((lane & 7) + ((lane >> 4) << 3)) * 128;
    int half = (lane >> 3) & 1;
#pragma unroll
    for (int b = 0; b < OWN_BLOCKS; b++) {
        uint32_t values[4];
        int unit = 2 * (b & 3) + half, plane = 2 * warp + (b >> 2);
        ptx_ldmatrix_x4_trans(values, row + plane * PLANE_BYTES + ((unit ^ (lane & 7)) << 4));
#pragma unroll
        for (int t = 0; t < TILES; t++)
            ptx_mma_m16n8k16(acc->o[b][t], values, weights[t]);
    }
}

/* All slots of a row, from the chains in turn: the order, and so the result, does not depend on timing. */
template <int TILES, int RANKS>
SMLA_DEVICE void sum_row(struct accumulator<TILES> *acc, char *shared, uint32_t base, struct cursor at[CHAINS],
                         int warp, int lane)
{
    using L = layout<TILES, RANKS>;
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++)
        advance(&at[chain]); /* past the query */
    uint32_t open = (1 << CHAINS) - 1;
    while (open) {
#pragma unroll
        for (int chain = 0; chain < CHAINS; chain++) {
            if (!(open >> chain & 1))
                continue;
            int index = chain * SLOTS + at[chain].slot;
            ptx_mbarrier_wait(base + L::SCORED + 8 * index, at[chain].turn);
            ptx_mbarrier_wait(base + L::FULL + 8 * index, at[chain].turn);
            uint32_t fill = *(const uint32_t *)(shared + L::FILL + 4 * index);
            if (fill & 0xff)
                add_slot<TILES>(acc, base + index * SLOT_BYTES, base + L::P + index * L::P_BYTES,
                                (const float *)(shared + L::MAXIMA) + index * L::HEADS, warp, lane);
            __syncwarp();
            if (lane == 0)
                ptx_mbarrier_arrive(base + L::EMPTY + 8 * index);
            open &= ~((fill >> 8) << chain);
            advance(&at[chain]);
        }
    }
}

template <int TILES, int RANKS>
SMLA_DEVICE void sum(const struct smla_decode_args *args, char *shared, uint32_t base, int warp, int rank)
{
    using L = layout<TILES, RANKS>;
    int lane = threadIdx.x % 32;
    struct cursor at[CHAINS] = {};
    struct accumulator<TILES> acc;
    uint32_t items = (uint32_t)args->rows * (uint32_t)args->head_groups;
    struct cursor row = {0, 0};
    __syncthreads();
    if (RANKS > 1)
        ptx_cluster_arrive();
    for (uint32_t index = blockIdx.x / RANKS; index < items; index += gridDim.x / RANKS) {
        clear<TILES>(&acc);
        sum_row<TILES, RANKS>(&acc, shared, base, at, warp, lane);
        if (RANKS == 1) {
            ptx_mbarrier_wait(base + L::SUMMED + 8 * row.slot, row.turn);
            finish_row<TILES, RANKS>(args, &acc, shared, open_item<TILES>(args, index), row.slot, warp, lane);
            advance(&row);
        }
    }
    if (RANKS > 1) {
        ptx_cluster_wait();
        send_outputs<TILES, RANKS>(args, &acc, base, warp, rank, lane);
        combine_outputs<TILES, RANKS>(args, shared, base, threadIdx.x - 128, rank);
    }
}
