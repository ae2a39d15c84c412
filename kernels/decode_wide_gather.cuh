/* The gather warpgroup of the wide decode kernel; see decode_wide.cuh. */

enum { WIDE_AHEAD = 3 };

/* Place in the row's list of this rank's i-th entry: groups are dealt out to the ranks in turn, so that every rank has
 * the same share of any tail of the list. */
template <int RANKS> SMLA_DEVICE uint32_t wide_place(uint32_t i, int rank)
{
    return (i / WIDE_GROUP * RANKS + rank) * WIDE_GROUP + i % WIDE_GROUP;
}

/* The planes of the query that lie in shared memory. */
template <class L>
SMLA_DEVICE void send_wide_query(const struct smla_decode_args *args, uint32_t base, struct item item,
                                 int warp, int lane)
{
    int unit = lane & 7;
#pragma unroll
    for (int pass = 0; pass < L::HEADS / 16; pass++) {
        int h = 16 * pass + 4 * warp + (lane >> 3), bytes = h < item.heads ? 16 : 0;
        int64_t head = item.first_head + (bytes ? h : 0);
        const char *latent =
            (const char *)args->q_latent + item.row * args->q_latent_row + head * args->q_latent_head;
        const char *rope =
            (const char *)args->q_rope + item.row * args->q_rope_row + head * args->q_rope_head;
        uint32_t to = base + h * 128 + ((unit ^ (h & 7)) << 4);
#pragma unroll
        for (int plane = L::HELD; plane < WIDE_PLANES - 1; plane++)
            ptx_cp_async16(to + (plane - L::HELD) * L::QUERY_PLANE, latent + plane * 128 + unit * 16, bytes);
        ptx_cp_async16(to + (WIDE_PLANES - 1 - L::HELD) * L::QUERY_PLANE, rope + unit * 16, bytes);
    }
    ptx_cp_async_mbarrier_arrive(base + L::QUERY);
}

/* Fills the slot at `at`, 16 rows after the other, with the first `keys` pending entries, this warp 4 of each 16; rows
 * beyond are zeroed. */
template <class L>
SMLA_DEVICE void send_wide_keys(const struct smla_decode_args *args, char *shared, uint32_t base,
                                struct cursor at, uint32_t head, uint32_t keys, bool last, int warp, int lane)
{
    const uint32_t *pending = (const uint32_t *)(shared + L::PENDING);
    int unit = lane & 7;
    uint32_t slot = base + L::SLOTS_AT + at.slot * WIDE_SLOT;
#pragma unroll
    for (int pass = 0; pass < WIDE_BLOCKS; pass++) {
        uint32_t r = 16 * pass + 4 * warp + (lane >> 3);
        bool valid = r < keys;
        /* The phase before the first counts as complete for parity 1. */
        ptx_mbarrier_wait(base + L::EMPTY + 8 * (at.slot * WIDE_BLOCKS + pass), at.turn ^ 1);
        const char *from = (const char *)args->lists.cache;
        if (valid)
            from = cache_row_of(&args->lists, pending[(head + r) % WIDE_RING]) + unit * 16;
        uint32_t to = slot + r * 128 + ((unit ^ (r & 7)) << 4);
#pragma unroll
        for (int plane = 0; plane < WIDE_PLANES; plane++)
            ptx_cp_async16(to + plane * WIDE_PLANE, from + plane * 128, valid ? 16 : 0);
    }
    ptx_cp_async_mbarrier_arrive(base + L::FULL + 8 * at.slot);
    if (threadIdx.x == 0) {
        *(uint32_t *)(shared + L::FILL + 4 * at.slot) = keys | (uint32_t)last << 8;
        ptx_mbarrier_arrive(base + L::FULL + 8 * at.slot);
    }
}

/* Adds this step's valid entries, one a thread at most, behind the `count` pending ones; how many they are. */
template <class L>
SMLA_DEVICE uint32_t add_pending(char *shared, uint32_t slot, uint32_t step, uint32_t tail, int warp,
                                 int lane)
{
    uint32_t *pending = (uint32_t *)(shared + L::PENDING);
    uint32_t *counts = (uint32_t *)(shared + L::COUNTS) + (step & 1) * 4;
    uint32_t valid = __ballot_sync(~0u, slot != SMLA_NO_SLOT), before = 0, all = 0;
    if (lane == 0)
        counts[warp] = __popc(valid);
    ptx_barrier(WIDE_GATHER_BARRIER, 128);
#pragma unroll
    for (int w = 0; w < 4; w++) {
        before += w < warp ? counts[w] : 0;
        all += counts[w];
    }
    if (slot != SMLA_NO_SLOT)
        pending[(tail + before + __popc(valid & ((1u << lane) - 1))) % WIDE_RING] = slot;
    ptx_barrier(WIDE_GATHER_BARRIER, 128);
    return all;
}

/* A thread's entries of the first steps of a row. They are read long before they are needed: loads that follow the rows
 * of the cache wait as long as these. */
struct wide_ahead {
    int32_t entry[WIDE_AHEAD];
};

template <int RANKS>
SMLA_DEVICE struct wide_ahead read_ahead(const struct smla_decode_args *args, uint32_t index, int rank)
{
    struct wide_ahead ahead;
    const int32_t *list = list_of(&args->lists, open_item(args, index).row);
#pragma unroll
    for (int i = 0; i < WIDE_AHEAD; i++)
        ahead.entry[i] = read_entry(&args->lists, list, wide_place<RANKS>(128 * i + threadIdx.x, rank));
    return ahead;
}

/* The entry of this thread in a step, looked up. */
template <int RANKS>
SMLA_DEVICE struct smla_lookup look_up_step(const struct smla_decode_args *args, const struct smla_row *row,
                                            uint32_t step, int rank, int32_t entry)
{
    const struct smla_lookup none = {SMLA_NO_SLOT, 0};
    return wide_place<RANKS>(128 * step + threadIdx.x, rank) < row->length ? look_up(&args->lists, row, entry)
                                                                           : none;
}

/* Sends a row's entries, and its query right behind the first of them. Blocks are looked up a step ahead. */
template <class L, int RANKS>
SMLA_DEVICE void send_wide_row(const struct smla_decode_args *args, char *shared, uint32_t base,
                               struct item item, struct wide_ahead ahead, int rank, struct cursor *at,
                               uint32_t turn)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t head = 0, count = 0;
    struct smla_row row = open_row(&args->lists, item.row);
    struct smla_lookup found = look_up_step<RANKS>(args, &row, 0, rank, ahead.entry[0]);
    bool first = true, last = false;
    for (uint32_t step = 0; !last; step++) {
        uint32_t slot = found_slot(&args->lists, found);
        count += add_pending<L>(shared, slot, step, head + count, warp, lane);
        bool more = wide_place<RANKS>(128 * (step + 1), rank) < row.length;
        while (!last && (count >= WIDE_KEYS || !more)) {
            uint32_t keys = min(count, (uint32_t)WIDE_KEYS);
            last = !more && count == keys;
            send_wide_keys<L>(args, shared, base, *at, head, keys, last, warp, lane);
            if (first) {
                ptx_mbarrier_wait(base + L::QUERY_DONE, turn ^ 1);
                send_wide_query<L>(args, base, item, warp, lane);
                if (L::HELD)
                    ptx_barrier_arrive(WIDE_QUERY_BARRIER, 256);
                first = false;
            }
            head += keys;
            count -= keys;
            advance(at, WIDE_SLOTS);
        }
        found = look_up_step<RANKS>(args, &row, step + 1, rank, ahead.entry[1]);
#pragma unroll
        for (int i = 1; i + 1 < WIDE_AHEAD; i++)
            ahead.entry[i] = ahead.entry[i + 1];
        ahead.entry[WIDE_AHEAD - 1] = read_entry(
            &args->lists, row.topk, wide_place<RANKS>(128 * (step + WIDE_AHEAD) + threadIdx.x, rank));
    }
}

template <class L, int RANKS>
SMLA_DEVICE void gather_wide(const struct smla_decode_args *args, char *shared, uint32_t base, int rank)
{
    struct cursor at = {0, 0};
    uint32_t index = blockIdx.x / RANKS, items = (uint32_t)args->rows * (uint32_t)args->head_groups, turn = 0;
    struct wide_ahead ahead = read_ahead<RANKS>(args, index, rank);
    __syncthreads(); /* barriers are there */
    if (RANKS > 1)
        ptx_cluster_arrive_relaxed();
    ptx_set_registers<L::GATHER_REGISTERS, WIDE_REGISTERS>();
    while (index < items) {
        struct item item = open_item(args, index);
        struct wide_ahead of_this = ahead;
        index += gridDim.x / RANKS;
        if (index < items)
            ahead = read_ahead<RANKS>(args, index, rank);
        send_wide_row<L, RANKS>(args, shared, base, item, of_this, rank, &at, turn);
        turn ^= 1;
    }
    if (RANKS > 1) {
        ptx_cluster_wait();
        meet_ranks();
        leave_ranks();
    }
}
