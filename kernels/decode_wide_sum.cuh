/* The sum warpgroups of the wide decode kernel; see decode_wide.cuh. */

/* Brings O to the references of the slot's P. */
SMLA_DEVICE void follow_references(struct wide_accumulator *acc, const float *references)
{
    float m[2] = {references[0], references[8]};
    if (__any_sync(~0u, m[0] > acc->m[0] || m[1] > acc->m[1])) {
        float alpha[2] = {ptx_ex2(acc->m[0] - reference(m[0])), ptx_ex2(acc->m[1] - reference(m[1]))};
#pragma unroll
        for (int j = 0; j < WIDE_PIECES; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                acc->o[j][i] *= alpha[i >> 1];
        acc->m[0] = m[0];
        acc->m[1] = m[1];
    }
}

/* Gives a block of a slot back once no more than PENDING groups of products are under way. */
template <class L, int PENDING>
SMLA_DEVICE void release_block(uint32_t base, uint32_t slot, int block, int lane)
{
    ptx_wgmma_wait<PENDING>();
    __syncwarp();
    if (lane == 0)
        ptx_mbarrier_arrive(base + L::EMPTY + 8 * (slot * WIDE_BLOCKS + block));
}

template <class L>
SMLA_DEVICE void sum_wide_row(struct wide_accumulator *acc, char *shared, uint32_t base, struct cursor *at,
                              int group, int warp, int lane)
{
    uint32_t values = L::SLOTS_AT + group * (WIDE_SUM_COLUMNS / 64) * WIDE_PLANE;
    static_assert(WIDE_BLOCKS == 3, "releases below");
    for (bool last = false; !last; advance(at, WIDE_SLOTS)) {
        ptx_mbarrier_wait(base + L::SCORED + 8 * at->slot, at->turn);
        ptx_fence_async();
        last = *(const uint32_t *)(shared + L::FILL + 4 * at->slot) >> 8;
        if (16 * warp < L::HEADS)
            follow_references(acc, (const float *)(shared + L::REFERENCES) + at->slot * L::HEADS + 16 * warp +
                                       lane / 4);
        uint64_t p = ptx_cores(base + L::SLOTS_AT + at->slot * WIDE_SLOT + WIDE_ROPE),
                 v = ptx_tile_by_columns(base + values + at->slot * WIDE_SLOT, WIDE_PLANE);
        ptx_wgmma_fence();
#pragma unroll
        for (int k = 0; k < WIDE_BLOCKS; k++) {
#pragma unroll
            for (int half = 0; half < 2; half++)
                ptx_wgmma_n128(acc->o + half * (WIDE_PIECES / 2), p + (k * WIDE_P_BLOCK >> 4),
                               v + ((half * 2 * WIDE_PLANE + k * 2048) >> 4), true);
            ptx_wgmma_commit();
        }
        release_block<L, WIDE_BLOCKS - 1>(base, at->slot, 0, lane);
        release_block<L, WIDE_BLOCKS - 2>(base, at->slot, 1, lane);
        release_block<L, 0>(base, at->slot, WIDE_BLOCKS - 1, lane);
    }
}

/* Stores 64 columns of a warp's 16 heads as bf16, by way of shared memory, so that whole lines go out. */
SMLA_DEVICE void store_wide_chunk(const float o[8][4], const float factor[2], char *stage, char *out,
                                  int64_t out_head, int heads, int lane)
{
    int row = lane / 4;
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int c = 0; c < 2; c++)
            *(uint32_t *)(stage + (row + 8 * c) * 128 + ((j ^ row) << 4) + lane % 4 * 4) =
                ptx_pack_bf16x2(o[j][2 * c] * factor[c], o[j][2 * c + 1] * factor[c]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int h = 4 * i + lane / 8, unit = lane % 8;
        uint4 v = *(const uint4 *)(stage + h * 128 + ((unit ^ (h & 7)) << 4));
        if (h < heads)
            *(uint4 *)(out + h * out_head + 16 * unit) = v;
    }
    __syncwarp();
}

/* Normalises a warp's heads and stores them; one CTA a row. */
template <class L>
SMLA_DEVICE void finish_wide_row(const struct smla_decode_args *args, const struct wide_accumulator *acc,
                                 char *shared, struct item item, uint32_t buffer, int group, int warp,
                                 int lane)
{
    int first = 16 * warp, heads = item.heads - first;
    if (heads <= 0)
        return;
    const float *factors = (const float *)(shared + L::FACTORS) + buffer * L::HEADS + first + lane / 4;
    const float factor[2] = {factors[0], factors[8]};
    if (args->out_f32) {
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int j = 0; j < WIDE_PIECES; j += 2) {
                float low[2] = {acc->o[j][2 * c] * factor[c], acc->o[j][2 * c + 1] * factor[c]};
                float high[2] = {acc->o[j + 1][2 * c] * factor[c], acc->o[j + 1][2 * c + 1] * factor[c]};
                store_columns(args, &item, first + lane / 4 + 8 * c, WIDE_SUM_COLUMNS * group + 8 * j, low,
                              high, lane % 4);
            }
        return;
    }
    char *out = (char *)args->out + item.row * args->out_row + (item.first_head + first) * args->out_head +
                2 * WIDE_SUM_COLUMNS * group;
#pragma unroll
    for (int chunk = 0; chunk < WIDE_PIECES / 8; chunk++)
        store_wide_chunk(acc->o + 8 * chunk, factor, shared + L::STAGE + (4 * group + warp) * 2048,
                         out + 128 * chunk, args->out_head, heads, lane);
}

template <class L, int RANKS>
SMLA_DEVICE void sum_wide(const struct smla_decode_args *args, char *shared, uint32_t base, int group,
                          int rank)
{
    int warp = __shfl_sync(~0u, threadIdx.x / 32 % 4, 0), lane = threadIdx.x % 32;
    struct cursor at = {0, 0}, row = {0, 0};
    struct wide_accumulator acc;
    uint32_t items = (uint32_t)args->rows * (uint32_t)args->head_groups;
    __syncthreads();
    if (RANKS > 1)
        ptx_cluster_arrive_relaxed();
    ptx_set_registers<L::SUM_REGISTERS, WIDE_REGISTERS>();
    for (uint32_t index = blockIdx.x / RANKS; index < items; index += gridDim.x / RANKS) {
        acc.m[0] = acc.m[1] = -INFINITY;
#pragma unroll
        for (int j = 0; j < WIDE_PIECES; j++)
            acc.o[j][0] = acc.o[j][1] = acc.o[j][2] = acc.o[j][3] = 0;
        sum_wide_row<L>(&acc, shared, base, &at, group, warp, lane);
        if (RANKS == 1) {
            ptx_mbarrier_wait(base + L::SUMMED + 8 * row.slot, row.turn);
            finish_wide_row<L>(args, &acc, shared, open_item(args, index), row.slot, group, warp, lane);
            advance(&row, L::SUM_BUFFERS);
        }
    }
    if (RANKS > 1) {
        offer_outputs<L>(&acc, shared, open_item(args, blockIdx.x / RANKS), group, warp, lane);
        ptx_cluster_wait();
        meet_ranks();
        combine_wide<L, RANKS>(args, shared, base, 4 * (group + 1) + warp, rank, lane);
        leave_ranks();
    }
}
