/* The end of a row in the decode lane; see decode.cuh. */

/* A head's sums over the chains of this CTA. */
template <class L> SMLA_DEVICE struct sums sum_chains(const char *shared, uint32_t buffer, int h)
{
    const struct sums *chains = (const struct sums *)(shared + L::SUMS) + buffer * CHAINS * L::HEADS + h;
    struct sums all = {-INFINITY, 0, 0, 0};
#pragma unroll
    for (int c = 0; c < CHAINS; c++)
        all.m = fmaxf(all.m, chains[c * L::HEADS].m);
#pragma unroll
    for (int c = 0; c < CHAINS; c++)
        add_sums(&all, chains[c * L::HEADS]);
    return all;
}

/* Stores 16 columns of 8 heads, given as a warp holds them in an mma accumulator. */
SMLA_DEVICE void store_block(const struct smla_decode_args *args, const struct item *item, int block,
                             int tile, const float v[4], int lane)
{
    char *out = (char *)args->out + item->row * args->out_row + item->first_head * args->out_head;
    if (args->out_f32) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int h = 8 * tile + 2 * (lane % 4) + (j & 1), column = 16 * block + lane / 4 + 8 * (j >> 1);
            if (h < item->heads)
                *(float *)(out + h * args->out_head + 4 * column) = v[j];
        }
        return;
    }
    int h = 8 * tile + lane / 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t pair = ptx_movmatrix_trans(ptx_pack_bf16x2(v[2 * half], v[2 * half + 1]));
        if (h < item->heads)
            *(uint32_t *)(out + h * args->out_head + 2 * (16 * block + 8 * half + 2 * (lane % 4))) = pair;
    }
}

/* Sum warps, one CTA a row: normalises and stores. */
template <int TILES, int RANKS>
SMLA_DEVICE void finish_row(const struct smla_decode_args *args, struct accumulator<TILES> *acc, char *shared,
                            struct item item, uint32_t buffer, int warp, int lane)
{
    using L = layout<TILES, RANKS>;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        float factor[2];
#pragma unroll
        for (int c = 0; c < 2; c++) {
            int h = 8 * t + 2 * (lane % 4) + c;
            struct sums all = sum_chains<L>(shared, buffer, h);
            factor[c] = normaliser(args, &item, h, all);
            if (warp == 0 && lane < 4)
                store_lse(args, &item, h, all.m, all.l);
        }
#pragma unroll
        for (int b = 0; b < L::OWN_BLOCKS; b++) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                acc->o[b][t][j] *= factor[j & 1];
            store_block(args, &item, L::OWN_BLOCKS * warp + b, t, acc->o[b][t], lane);
        }
    }
}

template <int TILES, int RANKS>
SMLA_DEVICE uint32_t landing_area(const struct smla_decode_args *args, int tile)
{
    return (tile * SLOTS + landing_slot(args, RANKS, tile)) * SLOT_BYTES;
}

/* Sum warps: every block goes to the rank that combines it, as it lies in registers. */
template <int TILES, int RANKS>
SMLA_DEVICE void send_outputs(const struct smla_decode_args *args, const struct accumulator<TILES> *acc,
                              uint32_t base, int warp, int rank, int lane)
{
    using L = layout<TILES, RANKS>;
    struct item item = open_item(args, blockIdx.x / RANKS);
    uint32_t area[TILES];
#pragma unroll
    for (int t = 0; t < TILES; t++)
        area[t] = base + landing_area<TILES, RANKS>(args, t) + (rank * L::OWNED * 32 + lane) * 16;
    ptx_mbarrier_wait(base + L::READY, 0);
#pragma unroll
    for (int b = 0; b < L::OWN_BLOCKS; b++) {
        int block = own_block<TILES>(warp, b, rank), owner = owner_of<RANKS>(block);
        uint32_t offset = (block - first_block(owner, RANKS)) * 512,
                 landed = ptx_mapa(base + L::LANDED, owner);
#pragma unroll
        for (int t = 0; t < TILES; t++)
            if (8 * t + 2 * (lane % 4) < item.heads)
                ptx_st_async_v4(ptx_mapa(area[t] + offset, owner), acc->o[b][t], landed);
    }
}

/* The sums of all ranks, of which each lane of 16 gives one. */
SMLA_DEVICE struct sums add_ranks(struct sums part)
{
    struct sums all = {part.m, 0, 0, 0};
#pragma unroll
    for (int step = 1; step < 16; step *= 2)
        all.m = fmaxf(all.m, __shfl_xor_sync(~0u, all.m, step));
    add_sums(&all, part);
#pragma unroll
    for (int step = 1; step < 16; step *= 2) {
        all.l += __shfl_xor_sync(~0u, all.l, step);
        all.rounded += __shfl_xor_sync(~0u, all.rounded, step);
    }
    return all;
}

/* Score warps: exchanges (m, l), and turns those of all ranks into the weight of each rank's output. */
template <int TILES, int RANKS>
SMLA_DEVICE void combine_sums(const struct smla_decode_args *args, char *shared, uint32_t base, int thread,
                              int rank)
{
    using L = layout<TILES, RANKS>;
    uint32_t landed = landing_area<TILES, RANKS>(args, TILES); /* [RANKS][HEADS] struct sums */
    int lane = thread % 32;
    struct item item = open_item(args, blockIdx.x / RANKS);
    ptx_mbarrier_wait(base + L::SUMMED, 0);
    ptx_mbarrier_wait(base + L::READY, 0);
    for (int p = thread; p < RANKS * L::HEADS; p += 32 * L::SCORE_WARPS) {
        int h = p % L::HEADS, to = p / L::HEADS;
        struct sums all = sum_chains<L>(shared, 0, h);
        const float record[4] = {all.m, all.l, all.rounded, 0};
        ptx_st_async_v4(ptx_mapa(base + landed + (rank * L::HEADS + h) * 16, to), record,
                        ptx_mapa(base + L::LANDED_SUMS, to));
    }
    ptx_mbarrier_wait(base + L::LANDED_SUMS, 0);
    float *weights = (float *)(shared + L::WEIGHTS);
    for (int h = thread / 16; h < L::HEADS; h += 2 * L::SCORE_WARPS) {
        int from = lane % 16;
        struct sums part = {-INFINITY, 0, 0, 0};
        if (from < RANKS)
            part = ((const struct sums *)(shared + landed))[from * L::HEADS + h];
        struct sums all = add_ranks(part);
        if (from < RANKS)
            weights[from * L::HEADS + h] =
                part.l == 0 ? 0 : ptx_ex2(part.m - reference(all.m)) * normaliser(args, &item, h, all);
        if (rank == 0 && from == 0)
            store_lse(args, &item, h, all.m, all.l);
    }
}

/* Score and sum warps: adds up all ranks' blocks of this rank's columns, in the order of ranks, and stores them. */
template <int TILES, int RANKS>
SMLA_DEVICE void combine_outputs(const struct smla_decode_args *args, char *shared, uint32_t base, int thread,
                                 int rank)
{
    using L = layout<TILES, RANKS>;
    int lane = thread % 32, first = first_block(rank, RANKS), blocks = first_block(rank + 1, RANKS) - first;
    struct item item = open_item(args, blockIdx.x / RANKS);
    ptx_barrier(1, L::COMBINERS); /* weights are there */
    ptx_mbarrier_wait(base + L::LANDED, 0);
    for (int p = thread / 32; p < blocks * TILES; p += L::COMBINERS / 32) {
        int t = p % TILES, b = p / TILES;
        const char *records = shared + landing_area<TILES, RANKS>(args, t) + (b * 32 + lane) * 16;
        const float *weights = (const float *)(shared + L::WEIGHTS) + 8 * t + 2 * (lane % 4);
        float v[4] = {0, 0, 0, 0};
#pragma unroll
        for (int from = 0; from < RANKS; from++) {
            float2 w = *(const float2 *)(weights + from * L::HEADS);
            float4 part = *(const float4 *)(records + from * L::OWNED * 512);
            v[0] += w.x * part.x;
            v[1] += w.y * part.y;
            v[2] += w.x * part.z;
            v[3] += w.y * part.w;
        }
        store_block(args, &item, first + b, t, v, lane);
    }
}
