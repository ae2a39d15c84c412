/* The end of a row: storing, and, if several CTAs have shared its list, adding up their parts. Every rank reads its columns
 * of O from all of them over distributed shared memory; pushing them (st.async) takes twice as long, since each 16 bytes
 * count on a barrier of the receiver. See decode_wide.cuh. */

/* Stores 16 columns of a head, of which a lane has 2 (lane % 4) (+ 1) of the first 8 and of the last 8. All lanes call. */
SMLA_DEVICE void store_columns(const struct smla_decode_args *args, const struct item *item, int h,
                               int column, const float first[2], const float last[2], int q)
{
    bool present = h < item->heads;
    char *out = (char *)args->out + item->row * args->out_row + (item->first_head + h) * args->out_head;
    if (args->out_f32) {
        if (present) {
            *(float2 *)(out + 4 * (column + 2 * q)) = make_float2(first[0], first[1]);
            *(float2 *)(out + 4 * (column + 8 + 2 * q)) = make_float2(last[0], last[1]);
        }
        return;
    }
    /* Even lanes take 4 columns of the first 8, odd ones of the last, so that all 32 bytes go at once. */
    uint32_t a = ptx_pack_bf16x2(first[0], first[1]), b = ptx_pack_bf16x2(last[0], last[1]);
    uint32_t got = __shfl_xor_sync(~0u, q & 1 ? a : b, 1);
    if (present)
        *(uint2 *)(out + 2 * (column + 8 * (q & 1) + 4 * (q >> 1))) =
            q & 1 ? make_uint2(got, b) : make_uint2(a, got);
}

/* Puts O where the ranks can read it, as it lies in registers: [piece][warp][lane] of 16 bytes. */
template <class L>
SMLA_DEVICE void offer_outputs(const struct wide_accumulator *acc, char *shared, struct item item, int group,
                               int warp, int lane)
{
    char *to = shared + L::OFFER + group * WIDE_PIECES * L::PIECE_BYTES + (32 * warp + lane) * 16;
    ptx_barrier(WIDE_SUM_BARRIER, 128 * WIDE_SUM_GROUPS); /* nobody reads the slots any more */
    if (16 * warp + lane / 4 < item.heads)
#pragma unroll
        for (int j = 0; j < WIDE_PIECES; j++)
            *(float4 *)(to + j * L::PIECE_BYTES) =
                make_float4(acc->o[j][0], acc->o[j][1], acc->o[j][2], acc->o[j][3]);
}

/* `count` blocks of this rank's columns for the 16 heads of `part`: the sum over all ranks, in an order of its own for each
 * rank, so that they do not all ask the same one at once. Up to COUNT blocks are under way together. */
template <class L, int RANKS, int COUNT>
SMLA_DEVICE void combine_blocks(const struct smla_decode_args *args, const char *shared, uint32_t base,
                                const struct item *item, int block, int count, int part, int rank, int lane)
{
    int h = 16 * part + lane / 4;
    uint32_t from = base + L::OFFER + 2 * block * L::PIECE_BYTES + (32 * part + lane) * 16;
    const float *weights = (const float *)(shared + L::WEIGHTS) + h;
    float4 o[RANKS][2 * COUNT];
    float v[2 * COUNT][4] = {};
#pragma unroll
    for (int i = 0; i < RANKS; i++)
#pragma unroll
        for (int piece = 0; piece < 2 * COUNT; piece++)
            if (piece / 2 < count)
                o[i][piece] = ptx_ld_cluster_v4(ptx_mapa(from + piece * L::PIECE_BYTES, (rank + i) % RANKS));
#pragma unroll
    for (int i = 0; i < RANKS; i++) {
        float w[2] = {weights[(rank + i) % RANKS * L::HEADS], weights[(rank + i) % RANKS * L::HEADS + 8]};
#pragma unroll
        for (int piece = 0; piece < 2 * COUNT; piece++) {
            v[piece][0] += w[0] * o[i][piece].x;
            v[piece][1] += w[0] * o[i][piece].y;
            v[piece][2] += w[1] * o[i][piece].z;
            v[piece][3] += w[1] * o[i][piece].w;
        }
    }
#pragma unroll
    for (int b = 0; b < COUNT; b++)
        if (b < count) {
            store_columns(args, item, h, 16 * (block + b), v[2 * b], v[2 * b + 1], lane % 4);
            store_columns(args, item, h + 8, 16 * (block + b), v[2 * b] + 2, v[2 * b + 1] + 2, lane % 4);
        }
}

/* Score and sum warps, 12 in all: this rank's columns. */
template <class L, int RANKS>
SMLA_DEVICE void combine_wide(const struct smla_decode_args *args, const char *shared, uint32_t base,
                              int warp, int rank, int lane)
{
    enum { TOGETHER = RANKS <= 3 ? 2 : 1 };
    struct item item = open_item(args, blockIdx.x / RANKS);
    int parts = (item.heads + 15) / 16, first = first_block(rank, RANKS), end = first_block(rank + 1, RANKS);
    for (int i = warp; first + i / parts * TOGETHER < end; i += WIDE_COMBINERS) {
        int block = first + i / parts * TOGETHER;
        combine_blocks<L, RANKS, TOGETHER>(args, shared, base, &item, block, min(TOGETHER, end - block),
                                           i % parts, rank, lane);
    }
}

/* All threads of the cluster meet twice: when every rank's O and weights are there, and when nobody reads this CTA's any
 * more. */
SMLA_DEVICE void meet_ranks(void)
{
    ptx_cluster_arrive();
    ptx_cluster_wait();
}

SMLA_DEVICE void leave_ranks(void)
{
    ptx_cluster_arrive_relaxed();
    ptx_cluster_wait();
}
