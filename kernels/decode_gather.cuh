/* Gather warps of the decode lane; see decode.cuh. */

/* The list entries of one chain of one rank: groups of 16, dealt out to the chains of all ranks in turn, so that
 * every rank has the same share of any tail of the list. A warp reads two groups at a time. */
template <int RANKS> SMLA_DEVICE uint32_t entry_place(uint32_t pair, int chain, int rank, int lane)
{
    uint32_t round = 2 * pair + (lane >> 4);
    return ((round * CHAINS + chain) * RANKS + rank) * KEYS + (lane & 15);
}

/* All lanes: what this warp wrote so far is in the slot once FULL completes. */
template <int TILES, int RANKS>
SMLA_DEVICE void seal_slot(char *shared, uint32_t base, int index, uint32_t fill, int lane)
{
    using L = layout<TILES, RANKS>;
    ptx_cp_async_mbarrier_arrive(base + L::FULL + 8 * index);
    if (lane == 0) {
        *(uint32_t *)(shared + L::FILL + 4 * index) = fill;
        ptx_mbarrier_arrive(base + L::FULL + 8 * index);
    }
}

/* The query's rows of this head group as a slot of chain 0. */
template <int TILES, int RANKS>
SMLA_DEVICE void send_query(const struct smla_decode_args *args, char *shared, uint32_t base,
                            struct item item, struct cursor at, uint32_t buffer, int lane)
{
    using L = layout<TILES, RANKS>;
    int unit = lane & 7;
    uint32_t slot = base + at.slot * SLOT_BYTES;
#pragma unroll
    for (int pass = 0; pass < 2 * TILES; pass++) {
        int h = 4 * pass + (lane >> 3), bytes = h < item.heads ? 16 : 0;
        int64_t head = item.first_head + (bytes ? h : 0);
        const char *latent =
            (const char *)args->q_latent + item.row * args->q_latent_row + head * args->q_latent_head;
        const char *rope =
            (const char *)args->q_rope + item.row * args->q_rope_row + head * args->q_rope_head;
        uint32_t to = slot + h * 128 + ((unit ^ (h & 7)) << 4);
#pragma unroll
        for (int plane = 0; plane < PLANES - 1; plane++)
            ptx_cp_async16(to + plane * PLANE_BYTES, latent + plane * 128 + unit * 16, bytes);
        ptx_cp_async16(to + (PLANES - 1) * PLANE_BYTES, rope + unit * 16, bytes);
    }
    ptx_cp_async_mbarrier_arrive(base + L::QUERY + 8 * buffer);
    if (lane == 0) {
        *(uint32_t *)(shared + L::QUERY_AT + 4 * buffer) = at.slot;
        ptx_mbarrier_arrive(base + L::QUERY + 8 * buffer);
        /* Nobody waits for this slot as for one of keys; it counts in their barriers all the same. */
        ptx_mbarrier_arrive_count(base + L::FULL + 8 * at.slot, 33);
        ptx_mbarrier_arrive_count(base + L::SCORED + 8 * at.slot, TILES);
    }
}

/* Fills the slot at `at` with the first `keys` pending entries. */
template <int TILES, int RANKS>
SMLA_DEVICE void send_keys(const struct smla_decode_args *args, char *shared, uint32_t base, int chain,
                           struct cursor at, const uint32_t *pending, uint32_t head, uint32_t keys, bool last,
                           int lane)
{
    int index = chain * SLOTS + at.slot, unit = lane & 7;
    uint32_t slot = base + index * SLOT_BYTES;
    if (keys > 0) {
#pragma unroll
        for (int pass = 0; pass < 4; pass++) {
            uint32_t r = 4 * pass + (lane >> 3);
            bool valid = r < keys;
            const char *from = (const char *)args->lists.cache;
            if (valid)
                from = cache_row_of(&args->lists, pending[(head + r) % RING]) + unit * 16;
            uint32_t to = slot + r * 128 + ((unit ^ (r & 7)) << 4);
#pragma unroll
            for (int plane = 0; plane < PLANES; plane++)
                ptx_cp_async16(to + plane * PLANE_BYTES, from + plane * 128, valid ? 16 : 0);
        }
    }
    seal_slot<TILES, RANKS>(shared, base, index, keys | (uint32_t)last << 8, lane);
}

/* Waits until the slot at `at` may be filled. */
template <int TILES, int RANKS> SMLA_DEVICE void await_empty(uint32_t base, int chain, struct cursor at)
{
    /* The phase before the first counts as complete for parity 1. */
    ptx_mbarrier_wait(base + layout<TILES, RANKS>::EMPTY + 8 * (chain * SLOTS + at.slot), at.turn ^ 1);
}

/* Tells every rank that the landing slot of this chain is free: its last use has been consumed. */
template <int TILES, int RANKS>
SMLA_DEVICE void offer_landing(const struct smla_decode_args *args, uint32_t base, int chain,
                               struct cursor next, int lane)
{
    using L = layout<TILES, RANKS>;
    struct cursor at = {landing_slot(args, RANKS, chain), next.turn};
    if (at.slot < next.slot)
        at.turn ^= 1; /* used in this turn already: wait for that use; else for that of the turn before */
    ptx_mbarrier_wait(base + L::EMPTY + 8 * (chain * SLOTS + at.slot), at.turn ^ 1);
    if (lane < RANKS)
        ptx_mbarrier_arrive_cluster(ptx_mapa(base + L::READY, lane));
}

/* Sends a row's entries; returns the cursor behind them. */
template <int TILES, int RANKS>
SMLA_DEVICE struct cursor send_list(const struct smla_decode_args *args, char *shared, uint32_t base,
                                    const struct smla_row *row, int32_t entry, int chain, int rank,
                                    struct cursor at, int lane)
{
    uint32_t *pending = (uint32_t *)(shared + layout<TILES, RANKS>::PENDING) + chain * RING;
    uint32_t head = 0, count = 0, place = entry_place<RANKS>(0, chain, rank, lane);
    bool last = false;
    for (uint32_t pair = 0; !last; pair++) {
        uint32_t slot = place < row->length ? slot_of(&args->lists, row, entry) : SMLA_NO_SLOT;
        uint32_t valid = __ballot_sync(~0u, slot != SMLA_NO_SLOT);
        if (slot != SMLA_NO_SLOT)
            pending[(head + count + __popc(valid & ((1u << lane) - 1))) % RING] = slot;
        count += __popc(valid);
        __syncwarp();
        place = entry_place<RANKS>(pair + 1, chain, rank, lane);
        entry = read_entry(&args->lists, row->topk, place);
        bool more = entry_place<RANKS>(pair + 1, chain, rank, 0) < row->length;
        while (!last && (count >= KEYS || !more)) {
            uint32_t keys = min(count, (uint32_t)KEYS);
            last = !more && count == keys;
            await_empty<TILES, RANKS>(base, chain, at);
            send_keys<TILES, RANKS>(args, shared, base, chain, at, pending, head, keys, last, lane);
            head += keys;
            count -= keys;
            advance(&at, SLOTS);
        }
        __syncwarp(); /* before the pending entries are overwritten */
    }
    return at;
}

template <int TILES, int RANKS>
SMLA_DEVICE void gather(const struct smla_decode_args *args, char *shared, uint32_t base, int chain, int rank)
{
    int lane = threadIdx.x % 32;
    struct cursor at = {0, 0};
    uint32_t index = blockIdx.x / RANKS, items = (uint32_t)args->rows * (uint32_t)args->head_groups,
             buffer = 0;
    uint32_t place = entry_place<RANKS>(0, chain, rank, lane);
    struct item item = open_item(args, index);
    int32_t entry = read_entry(&args->lists, list_of(&args->lists, item.row), place);
    __syncthreads(); /* barriers are there */
    if (RANKS > 1)
        ptx_cluster_arrive_relaxed();
    while (index < items) {
        if (chain == 0) {
            await_empty<TILES, RANKS>(base, chain, at);
            send_query<TILES, RANKS>(args, shared, base, item, at, buffer, lane);
            advance(&at, SLOTS);
            buffer ^= 1;
        }
        struct smla_row row = open_row(&args->lists, item.row);
        at = send_list<TILES, RANKS>(args, shared, base, &row, entry, chain, rank, at, lane);
        index += gridDim.x / RANKS;
        if (index < items) {
            item = open_item(args, index);
            entry = read_entry(&args->lists, list_of(&args->lists, item.row), place);
        }
    }
    if (RANKS > 1) {
        ptx_cluster_wait();
        if (chain <= TILES)
            offer_landing<TILES, RANKS>(args, base, chain, at, lane);
    }
}
