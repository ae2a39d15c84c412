/* Sum warps of the decode lane; see decode.cuh. */

/* This warp's part of O^T: o[b][t] is 16 columns by 8 heads, lane's rows lane / 4 (+ 8), heads 2 (lane % 4) (+ 1). */
template <int TILES> struct accumulator {
    enum { OWN_BLOCKS = layout<TILES, 1>::OWN_BLOCKS };
    float o[OWN_BLOCKS][TILES][4];
    float m[TILES][2]; /* references of the accumulator's heads */
    float mb[TILES];   /* and of head lane / 4, which this lane holds in P fragments */
};

/* The output block behind o[b]. Ranks take a warp's blocks in different orders, so that at the end they do not all
 * send to the same rank at once. */
template <int TILES> SMLA_DEVICE int own_block(int warp, int b, int rank)
{
    enum { OWN_BLOCKS = accumulator<TILES>::OWN_BLOCKS };
    return OWN_BLOCKS * warp + (b ^ (rank % OWN_BLOCKS));
}

#include "decode_combine.cuh"

template <int TILES> SMLA_DEVICE void clear(struct accumulator<TILES> *acc)
{
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        acc->m[t][0] = acc->m[t][1] = acc->mb[t] = -INFINITY;
#pragma unroll
        for (int b = 0; b < accumulator<TILES>::OWN_BLOCKS; b++)
            acc->o[b][t][0] = acc->o[b][t][1] = acc->o[b][t][2] = acc->o[b][t][3] = 0;
    }
}

/* A slot of every chain that has one: what the sum warps take up at once. */
template <int TILES> struct wave {
    uint32_t slot[CHAINS]; /* index of the chain's slot, of those with keys in `filled` */
    uint32_t filled;
    uint32_t weights[CHAINS][TILES][2]; /* P, fragments for mma */
};

/* Raises the accumulator to the references of all slots of the wave, and brings each slot's P to them: the factors are
 * powers of two, so that the products are exact. */
template <int TILES, int RANKS>
SMLA_DEVICE void load_weights(struct accumulator<TILES> *acc, struct wave<TILES> *wave, const char *shared,
                              uint32_t base, int lane)
{
    using L = layout<TILES, RANKS>;
    float of_p[CHAINS][TILES];
    bool grown = false;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        float m[2] = {acc->m[t][0], acc->m[t][1]}, mb = acc->mb[t];
#pragma unroll
        for (int c = 0; c < CHAINS; c++) {
            const float *references =
                (const float *)(shared + L::REFERENCES) + wave->slot[c] * L::HEADS + 8 * t;
            bool filled = wave->filled >> c & 1;
            float2 of_sum = *(const float2 *)(references + 2 * (lane % 4));
            of_p[c][t] = references[lane / 4];
            ptx_ldmatrix_x2_trans(wave->weights[c][t],
                                  base + L::P + (wave->slot[c] * TILES + t) * KEYS * 16 + (lane & 15) * 16);
            m[0] = filled ? fmaxf(m[0], of_sum.x) : m[0];
            m[1] = filled ? fmaxf(m[1], of_sum.y) : m[1];
            mb = filled ? fmaxf(mb, of_p[c][t]) : mb;
        }
        acc->mb[t] = mb;
        float alpha[2];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            grown |= m[j] > acc->m[t][j];
            alpha[j] = ptx_ex2(acc->m[t][j] - reference(m[j]));
            acc->m[t][j] = m[j];
        }
        if (__any_sync(~0u, grown))
#pragma unroll
            for (int b = 0; b < accumulator<TILES>::OWN_BLOCKS; b++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    acc->o[b][t][j] *= alpha[j & 1];
#pragma unroll
        for (int c = 0; c < CHAINS; c++) {
            float f = ptx_ex2(of_p[c][t] - reference(mb));
            uint32_t factor = ptx_pack_bf16x2(f, f);
            wave->weights[c][t][0] = ptx_mul_bf16x2(wave->weights[c][t][0], factor);
            wave->weights[c][t][1] = ptx_mul_bf16x2(wave->weights[c][t][1], factor);
        }
    }
}

/* V fragments of one plane of a slot: 4 blocks of 16 columns by the 16 keys, the blocks of the plane in the order
 * that `turn` gives (own_block). */
SMLA_DEVICE void load_values(uint32_t values[PART_BLOCKS][4], uint32_t plane, int turn, int lane)
{
    uint32_t row = plane + ((lane & 7) + ((lane >> 4) << 3)) * 128;
    int unit = ((lane >> 3) & 1) ^ (lane & 7) ^ (2 * (turn % PART_BLOCKS));
#pragma unroll
    for (int b = 0; b < PART_BLOCKS; b++)
        ptx_ldmatrix_x4_trans(values[b], row + ((2 * b ^ unit) << 4));
}

template <int TILES>
SMLA_DEVICE void add_values(struct accumulator<TILES> *acc, int part, const uint32_t values[PART_BLOCKS][4],
                            const uint32_t weights[TILES][2])
{
#pragma unroll
    for (int b = 0; b < PART_BLOCKS; b++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            ptx_mma_m16n8k16(acc->o[PART_BLOCKS * part + b][t], values[b], weights[t]);
}

/* A whole wave: the next fragments are on their way while these are used. */
template <int TILES>
SMLA_DEVICE void add_wave(struct accumulator<TILES> *acc, const struct wave<TILES> *wave, uint32_t base,
                          int warp, int rank, int lane)
{
    enum { PARTS = accumulator<TILES>::OWN_BLOCKS / PART_BLOCKS, STEPS = CHAINS * PARTS };
    uint32_t values[2][PART_BLOCKS][4], planes = base + warp * PARTS * PLANE_BYTES;
    int flip = rank / PART_BLOCKS % PARTS;
    load_values(values[0], planes + wave->slot[0] * SLOT_BYTES + flip * PLANE_BYTES, rank, lane);
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        if (i + 1 < STEPS)
            load_values(values[(i + 1) % 2],
                        planes + wave->slot[(i + 1) / PARTS] * SLOT_BYTES +
                            ((i + 1) % PARTS ^ flip) * PLANE_BYTES,
                        rank, lane);
        add_values<TILES>(acc, i % PARTS, values[i % 2], wave->weights[i / PARTS]);
    }
}

/* A wave that lacks some chains. */
template <int TILES>
SMLA_DEVICE void add_partial_wave(struct accumulator<TILES> *acc, const struct wave<TILES> *wave,
                                  uint32_t base, int warp, int rank, int lane)
{
    enum { PARTS = accumulator<TILES>::OWN_BLOCKS / PART_BLOCKS };
    uint32_t values[PART_BLOCKS][4], planes = base + warp * PARTS * PLANE_BYTES;
    int flip = rank / PART_BLOCKS % PARTS;
#pragma unroll
    for (int c = 0; c < CHAINS; c++)
        if (wave->filled >> c & 1)
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                load_values(values, planes + wave->slot[c] * SLOT_BYTES + (part ^ flip) * PLANE_BYTES, rank,
                            lane);
                add_values<TILES>(acc, part, values, wave->weights[c]);
            }
}

/* All slots of a row, one of each chain at a time: the order, and so the result, does not depend on timing. */
template <int TILES, int RANKS>
SMLA_DEVICE void sum_row(struct accumulator<TILES> *acc, char *shared, uint32_t base,
                         struct cursor at[CHAINS], int warp, int rank, int lane)
{
    using L = layout<TILES, RANKS>;
    advance(&at[0], SLOTS); /* past the query */
    uint32_t open = (1 << CHAINS) - 1;
    while (open) {
        struct wave<TILES> wave;
        wave.filled = 0;
#pragma unroll
        for (int c = 0; c < CHAINS; c++)
            if (open >> c & 1)
                ptx_mbarrier_wait(base + L::SCORED + 8 * (c * SLOTS + at[c].slot), at[c].turn);
        uint32_t still_open = open;
#pragma unroll
        for (int c = 0; c < CHAINS; c++) {
            wave.slot[c] = c * SLOTS + at[c].slot;
            uint32_t fill = open >> c & 1 ? *(const uint32_t *)(shared + L::FILL + 4 * wave.slot[c]) : 0;
            wave.filled |= (uint32_t)((fill & 0xff) != 0) << c;
            still_open &= ~((fill >> 8) << c);
        }
        load_weights<TILES, RANKS>(acc, &wave, shared, base, lane);
        if (wave.filled == (1 << CHAINS) - 1)
            add_wave<TILES>(acc, &wave, base, warp, rank, lane);
        else
            add_partial_wave<TILES>(acc, &wave, base, warp, rank, lane);
        __syncwarp();
#pragma unroll
        for (int c = 0; c < CHAINS; c++)
            if (open >> c & 1) {
                if (lane == 0)
                    ptx_mbarrier_arrive_count(base + L::EMPTY + 8 * wave.slot[c], CONSUMERS / L::SUM_WARPS);
                advance(&at[c], SLOTS);
            }
        open = still_open;
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
        ptx_cluster_arrive_relaxed();
    for (uint32_t index = blockIdx.x / RANKS; index < items; index += gridDim.x / RANKS) {
        clear<TILES>(&acc);
        sum_row<TILES, RANKS>(&acc, shared, base, at, warp, rank, lane);
        if (RANKS == 1) {
            ptx_mbarrier_wait(base + L::SUMMED + 8 * row.slot, row.turn);
            finish_row<TILES, RANKS>(args, &acc, shared, open_item(args, index), row.slot, warp, lane);
            advance(&row, SLOTS);
        }
    }
    if (RANKS > 1) {
        ptx_cluster_wait();
        send_outputs<TILES, RANKS>(args, &acc, base, warp, rank, lane);
        combine_outputs<TILES, RANKS>(args, shared, base, threadIdx.x - 32 * CHAINS, rank);
    }
}
