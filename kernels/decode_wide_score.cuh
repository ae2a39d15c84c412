/* The score warpgroup of the wide decode kernel; see decode_wide.cuh. */

enum { WIDE_SCORE_PIECES = WIDE_KEYS / 8 };

/* What a thread knows of its two heads, lane / 4 (+ 8) of the warp's 16: the reference, and the sums over the columns
 * that this lane has seen. */
struct wide_sums {
    float m[2], l[2], rounded[2];
};

/* The planes of the query that stay in registers, as wgmma takes them. Heads that are not there repeat the last one. */
template <class L>
SMLA_DEVICE void hold_query(uint32_t q[4 * L::HELD + 1][4], const struct smla_decode_args *args,
                            struct item item, int warp, int lane)
{
    const char *row = (const char *)args->q_latent + item.row * args->q_latent_row + lane % 4 * 4;
#pragma unroll
    for (int c = 0; c < 2; c++) {
        int h = item.first_head + min(16 * warp + lane / 4 + 8 * c, item.heads - 1);
        const char *head = row + h * args->q_latent_head;
#pragma unroll
        for (int k = 0; k < 4 * L::HELD; k++) {
            q[k][c] = __ldg((const uint32_t *)(head + 32 * k));
            q[k][c + 2] = __ldg((const uint32_t *)(head + 32 * k + 16));
        }
    }
}

/* S = Q K^T: s[j] holds two heads by keys 8 j + 2 (lane % 4) (+ 1). */
template <class L>
SMLA_DEVICE void score_wide_keys(float s[WIDE_SCORE_PIECES][4], const uint32_t q[4 * L::HELD + 1][4],
                                 uint32_t query, uint32_t slot)
{
    uint64_t a = ptx_tile_by_rows(query, 1024), b = ptx_tile_by_rows(slot, 1024);
    ptx_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4 * L::HELD; k++)
        ptx_wgmma_n48_registers(s, q[k], b + ((k / 4 * WIDE_PLANE + k % 4 * 32) >> 4), k > 0);
#pragma unroll
    for (int k = 4 * L::HELD; k < 4 * WIDE_PLANES; k++)
        ptx_wgmma_n48(s, a + (((k / 4 - L::HELD) * L::QUERY_PLANE + k % 4 * 32) >> 4),
                      b + ((k / 4 * WIDE_PLANE + k % 4 * 32) >> 4), k > 0);
    ptx_wgmma_commit();
    ptx_wgmma_wait<0>();
}

SMLA_DEVICE float max_over_quad(float x)
{
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

SMLA_DEVICE float sum_over_quad(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

/* Keys beyond the slot's get scores that weigh nothing. */
SMLA_DEVICE void mask_keys(float s[WIDE_SCORE_PIECES][4], float scale, int keys, int lane)
{
#pragma unroll
    for (int j = 0; j < WIDE_SCORE_PIECES; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (8 * j + 2 * (lane % 4) + (i & 1) >= keys)
                s[j][i] = copysignf(INFINITY, -scale);
}

/* Raises the references that a score exceeds by more than 8: until then P stays below 2^8, as good in bf16 as below 1. */
SMLA_DEVICE void raise_references(const float s[WIDE_SCORE_PIECES][4], struct wide_sums *sums, float scale)
{
    float most[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int j = 0; j < WIDE_SCORE_PIECES; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            most[i >> 1] = fmaxf(most[i >> 1], s[j][i] * scale);
    if (__any_sync(~0u, most[0] > sums->m[0] + 8 || most[1] > sums->m[1] + 8)) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
            float old = sums->m[c];
            sums->m[c] = fmaxf(old, ceilf(max_over_quad(most[c])));
            float alpha = ptx_ex2(old - reference(sums->m[c]));
            sums->l[c] *= alpha;
            sums->rounded[c] *= alpha;
        }
    }
}

/* Turns scores into P, packed. The product with the scale is not rounded before the reference is subtracted. */
SMLA_DEVICE void soften_wide(float s[WIDE_SCORE_PIECES][4], struct wide_sums *sums, float scale)
{
    float m[2] = {-reference(sums->m[0]), -reference(sums->m[1])};
#pragma unroll
    for (int j = 0; j < WIDE_SCORE_PIECES; j++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            float w0 = ptx_ex2(fmaf(s[j][2 * c], scale, m[c])),
                  w1 = ptx_ex2(fmaf(s[j][2 * c + 1], scale, m[c]));
            uint32_t pair = ptx_pack_bf16x2(w0, w1);
            sums->l[c] += w0 + w1;
            sums->rounded[c] += __uint_as_float(pair << 16) + __uint_as_float(pair & 0xffff0000u);
            s[j][c] = __uint_as_float(pair);
        }
}

/* Writes the packed P where wgmma reads it. */
SMLA_DEVICE void store_weights(const float s[WIDE_SCORE_PIECES][4], char *p, int warp, int lane)
{
    char *to = p + warp * 512 + lane * 4;
#pragma unroll
    for (int j = 0; j < WIDE_SCORE_PIECES; j++)
#pragma unroll
        for (int c = 0; c < 2; c++)
            *(float *)(to + j / 2 * WIDE_P_BLOCK + c * 256 + j % 2 * 128) = s[j][c];
}

/* Softmax of one slot. */
template <class L>
SMLA_DEVICE void weigh_wide(const struct smla_decode_args *args, char *shared, float s[WIDE_SCORE_PIECES][4],
                            struct wide_sums *sums, uint32_t slot, int keys, int warp, int lane)
{
    if (keys < WIDE_KEYS)
        mask_keys(s, args->scale_log2, keys, lane);
    raise_references(s, sums, args->scale_log2);
    float *references = (float *)(shared + L::REFERENCES) + slot * L::HEADS + 16 * warp + lane / 4;
    if (lane % 4 == 0) {
        references[0] = sums->m[0];
        references[8] = sums->m[1];
    }
    soften_wide(s, sums, args->scale_log2);
}

/* The end of a row for this warp's heads: with one CTA a row their lse, and the factor for the sum warpgroups; else their
 * sums, for the exchange. */
template <class L, int RANKS>
SMLA_DEVICE void close_wide_row(const struct smla_decode_args *args, char *shared, struct item item,
                                const struct wide_sums *sums, uint32_t buffer, int warp, int lane)
{
#pragma unroll
    for (int c = 0; c < 2; c++) {
        int h = 16 * warp + lane / 4 + 8 * c;
        struct sums all = {sums->m[c], sum_over_quad(sums->l[c]), sum_over_quad(sums->rounded[c]), 0};
        if (lane % 4 != 0 || h >= L::HEADS)
            continue;
        if (RANKS > 1) {
            ((struct sums *)(shared + L::SUMS))[h] = all;
        } else {
            store_lse(args, &item, h, all.m, all.l);
            ((float *)(shared + L::FACTORS))[buffer * L::HEADS + h] = normaliser(args, &item, h, all);
        }
    }
}

/* All slots of a row. The sum warpgroups may have a slot's weights at once if the next slot is not there yet; else when its
 * products are done, so that theirs run beside the softmax and not beside the products of this warpgroup. */
template <class L, int RANKS>
SMLA_DEVICE void score_wide_row(const struct smla_decode_args *args, char *shared, uint32_t base,
                                struct item item, struct cursor *at, uint32_t row, int warp, int lane)
{
    struct wide_sums sums = {{-INFINITY, -INFINITY}, {0, 0}, {0, 0}};
    uint32_t q[4 * L::HELD + 1][4], owed = 0;
    bool present = 16 * warp < item.heads; /* has this warp any heads? */
    if (L::HELD)
        ptx_barrier(WIDE_QUERY_BARRIER,
                    256); /* loads of ours must not stand before those of the first keys */
    hold_query<L>(q, args, item, warp, lane);
    ptx_mbarrier_wait(base + L::QUERY, row & 1);
    for (bool last = false; !last;) {
        float s[WIDE_SCORE_PIECES][4];
        uint32_t slot = at->slot, keys = base + L::SLOTS_AT + slot * WIDE_SLOT,
                 scored = base + L::SCORED + 8 * slot;
        ptx_mbarrier_wait(base + L::FULL + 8 * slot, at->turn);
        ptx_fence_async();
        score_wide_keys<L>(s, q, base, keys);
        if (owed && lane == 0)
            ptx_mbarrier_arrive(owed);
        uint32_t fill = *(const uint32_t *)(shared + L::FILL + 4 * slot);
        last = fill >> 8;
        if (last && lane == 0)
            ptx_mbarrier_arrive(base + L::QUERY_DONE);
        if (present)
            weigh_wide<L>(args, shared, s, &sums, slot, fill & 0xff, warp, lane);
        ptx_barrier(WIDE_SCORE_BARRIER, 128); /* all four warps have read the rope columns */
        if (present)
            store_weights(s, shared + L::SLOTS_AT + slot * WIDE_SLOT + WIDE_ROPE, warp, lane);
        ptx_fence_async();
        __syncwarp();
        advance(at, WIDE_SLOTS);
        owed = !last && ptx_mbarrier_test(base + L::FULL + 8 * at->slot, at->turn) ? scored : 0;
        if (!owed && lane == 0)
            ptx_mbarrier_arrive(scored);
    }
    close_wide_row<L, RANKS>(args, shared, item, &sums, row % L::SUM_BUFFERS, warp, lane);
    __syncwarp();
    if (lane == 0)
        ptx_mbarrier_arrive(base + L::SUMMED + 8 * (row % L::SUM_BUFFERS));
}

/* Sends this rank's sums to all ranks, and turns those of all ranks into the weight of each rank's O; a thread a head. */
template <class L, int RANKS>
SMLA_DEVICE void weigh_ranks(const struct smla_decode_args *args, char *shared, uint32_t base, int thread,
                             int rank)
{
    struct item item = open_item(args, blockIdx.x / RANKS);
    ptx_mbarrier_wait(base + L::SUMMED, 0);
    for (int p = thread; p < RANKS * L::HEADS; p += 128) {
        int h = p % L::HEADS, to = p / L::HEADS;
        float4 own = ((const float4 *)(shared + L::SUMS))[h];
        const float record[4] = {own.x, own.y, own.z, 0};
        ptx_st_async_v4(ptx_mapa(base + L::LANDING + (rank * L::HEADS + h) * 16, to), record,
                        ptx_mapa(base + L::LANDED_SUMS, to));
    }
    ptx_mbarrier_wait(base + L::LANDED_SUMS, 0);
    if (thread >= item.heads)
        return;
    const struct sums *parts = (const struct sums *)(shared + L::LANDING) + thread;
    float *weights = (float *)(shared + L::WEIGHTS) + thread;
    struct sums all = {-INFINITY, 0, 0, 0};
#pragma unroll
    for (int from = 0; from < RANKS; from++)
        all.m = fmaxf(all.m, parts[from * L::HEADS].m);
#pragma unroll
    for (int from = 0; from < RANKS; from++)
        add_sums(&all, parts[from * L::HEADS]);
    float factor = normaliser(args, &item, thread, all);
#pragma unroll
    for (int from = 0; from < RANKS; from++)
        weights[from * L::HEADS] =
            parts[from * L::HEADS].l == 0 ? 0 : ptx_ex2(parts[from * L::HEADS].m - reference(all.m)) * factor;
    if (rank == 0)
        store_lse(args, &item, thread, all.m, all.l);
}

template <class L, int RANKS>
SMLA_DEVICE void score_wide(const struct smla_decode_args *args, char *shared, uint32_t base, int rank)
{
    int thread = threadIdx.x - 128, warp = __shfl_sync(~0u, thread / 32, 0), lane = thread % 32;
    struct cursor at = {0, 0};
    uint32_t items = (uint32_t)args->rows * (uint32_t)args->head_groups, row = 0;
    __syncthreads();
    if (RANKS > 1)
        ptx_cluster_arrive_relaxed();
    ptx_set_registers<L::SCORE_REGISTERS, WIDE_REGISTERS>();
    for (uint32_t index = blockIdx.x / RANKS; index < items; index += gridDim.x / RANKS, row++)
        score_wide_row<L, RANKS>(args, shared, base, open_item(args, index), &at, row, warp, lane);
    if (RANKS > 1) {
        ptx_cluster_wait();
        weigh_ranks<L, RANKS>(args, shared, base, thread, rank);
        meet_ranks();
        combine_wide<L, RANKS>(args, shared, base, warp, rank, lane);
        leave_ranks();
    }
}
