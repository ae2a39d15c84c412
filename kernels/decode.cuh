/*
 * The Hopper decode lane. One cluster of RANKS CTAs attends one query row for up to 8 * TILES heads; each CTA takes
 * every RANKS-th group of 16 list entries, and the cluster combines its partial results over distributed shared
 * memory. docs/kernels/decode.md holds the design, its budget and what was measured.
 *
 * A CTA is 4 independent chains of 16-key slots in shared memory:
 *
 *     gather warp --full--> score warp --scored--> sum warps --empty--> gather warp
 *
 * Gather warp c reads its part of the list, drops invalid entries and fills the slots of chain c by cp.async. Score
 * warp c (one for each 8 heads) holds the query in registers and turns a slot into P = 2^(scale * q.k - m), where m
 * is the chain's running reference: an integer that no score exceeds by more than 8. The sum warps take a slot of
 * every chain at a time and add P V, each for its part of the 512 columns. Since references are integers, bringing
 * one chain's P to the common reference is an exact product with a power of two. The query travels as the first slot
 * of chain 0 in every row.
 *
 * Heads lie on the narrow side of mma m16n8k16: S^T = K Q^T, O^T = V^T P^T.
 */
#ifndef SMLA_DECODE_CUH
#define SMLA_DECODE_CUH

#include "decode_row.cuh"

enum {
    CHAINS = 4,
    SLOTS = 3,  /* of a chain */
    KEYS = 16,  /* of a slot */
    PLANES = 9, /* a slot is 9 planes of [16 keys][128 bytes], 16-byte units swizzled by key & 7 */
    PLANE_BYTES = KEYS * 128,
    SLOT_BYTES = PLANES * PLANE_BYTES,
    RING = 48,       /* pending list entries of a gather warp */
    PART_BLOCKS = 4, /* blocks in a plane: the unit of work of a sum warp */
    CONSUMERS = 8    /* arrivals that empty a slot */
};

/* Shared memory, in bytes from its 1 KB aligned base. TILES = n-tiles of 8 heads. */
template <int TILES, int RANKS> struct layout {
    enum {
        HEADS = 8 * TILES,
        SCORE_WARPS = CHAINS * TILES,
        SUM_WARPS = 4,
        THREADS = 32 * (CHAINS + SCORE_WARPS + SUM_WARPS),
        OWN_BLOCKS = BLOCKS / SUM_WARPS,
        COMBINERS = 32 * (SCORE_WARPS + SUM_WARPS), /* threads of score and sum warps */
        P_BYTES = TILES * KEYS * 16,
        P = CHAINS * SLOTS * SLOT_BYTES,                /* [chain][slot][tile][key][8 heads] bf16 */
        REFERENCES = P + CHAINS * SLOTS * P_BYTES,      /* [chain][slot][HEADS] float */
        FILL = REFERENCES + CHAINS * SLOTS * HEADS * 4, /* [chain][slot]: keys | last << 8 */
        PENDING = FILL + CHAINS * SLOTS * 4,
        SUMS = PENDING + CHAINS * RING * 4, /* [buffer][chain][HEADS] struct sums */
        SUM_BUFFERS = RANKS == 1 ? 3 : 1,
        WEIGHTS = SUMS + SUM_BUFFERS * CHAINS * HEADS * 16, /* [RANKS][HEADS] float */
        BARRIERS = WEIGHTS + (RANKS > 1 ? RANKS * HEADS * 4 : 0),
        FULL = BARRIERS,
        SCORED = FULL + CHAINS * SLOTS * 8,
        EMPTY = SCORED + CHAINS * SLOTS * 8,
        SUMMED = EMPTY + CHAINS * SLOTS * 8, /* [buffer] a row's (m, l) are complete */
        QUERY = SUMMED + 24,                 /* [row & 1] the query is in its slot */
        QUERY_AT = QUERY + 16,               /* [row & 1] index of that slot */
        READY = QUERY_AT + 8,                /* every rank's landing area is free */
        LANDED_SUMS = READY + 8,
        LANDED = LANDED_SUMS + 8,
        BYTES = LANDED + 8,
        OWNED = (BLOCKS + RANKS - 1) / RANKS, /* output blocks that a rank combines, at most */
        /* Landing area: tile t's records [RANKS][OWNED][32 lanes] of 16 bytes lie in a slot of chain t, (m, l) of all
         * ranks [RANKS][HEADS] in one of the next chain. */
        LANDING_BYTES = RANKS * OWNED * 512
    };
    static_assert(RANKS == 1 || LANDING_BYTES <= SLOT_BYTES, "the landing area fits its slot");
    static_assert(BYTES <= 232448, "shared memory");
};

/* Landing slot of a chain: the one whose last use in a full list is the oldest. The same on every rank. */
SMLA_DEVICE uint32_t landing_slot(const struct smla_decode_args *args, int ranks, int chain)
{
    uint32_t groups = (args->lists.topk_width + KEYS - 1) / KEYS, query = chain == 0;
    return (query + (groups + CHAINS * ranks - 1) / (CHAINS * ranks)) % SLOTS;
}

#include "decode_gather.cuh"
#include "decode_score.cuh"
#include "decode_sum.cuh"

/* One thread of every warp: each sets up a few of the barriers, one after the other. */
template <int TILES, int RANKS>
SMLA_DEVICE void init_barriers(const struct smla_decode_args *args, uint32_t base, int warp, int rank)
{
    using L = layout<TILES, RANKS>;
    static_assert(L::THREADS / 32 >= CHAINS * SLOTS, "a warp for each slot");
    if (warp < CHAINS * SLOTS) {
        ptx_mbarrier_init(base + L::FULL + 8 * warp, 33);
        ptx_mbarrier_init(base + L::SCORED + 8 * warp, TILES);
        ptx_mbarrier_init(base + L::EMPTY + 8 * warp, CONSUMERS);
    }
    if (warp < 3)
        ptx_mbarrier_init(base + L::SUMMED + 8 * warp, L::SCORE_WARPS);
    else if (warp < 5)
        ptx_mbarrier_init(base + L::QUERY + 8 * (warp - 3), 33);
    else if (RANKS > 1 && warp == 5) {
        struct item item = open_item(args, blockIdx.x / RANKS);
        int blocks = first_block(rank + 1, RANKS) - first_block(rank, RANKS), lanes = 0;
        for (int tile = 0; tile < TILES; tile++)
            lanes += 8 * ((max(0, min(8, item.heads - 8 * tile)) + 1) / 2);
        ptx_mbarrier_init(base + L::READY, (TILES + 1) * RANKS);
        ptx_mbarrier_init(base + L::LANDED_SUMS, 1);
        ptx_mbarrier_init(base + L::LANDED, 1);
        ptx_mbarrier_arrive_expect_tx(base + L::LANDED_SUMS, RANKS * L::HEADS * 16);
        ptx_mbarrier_arrive_expect_tx(base + L::LANDED, (uint32_t)(RANKS * blocks * lanes * 16));
    }
    ptx_fence_mbarrier_init();
}

/* Grid: RANKS CTAs for each row and head group if RANKS > 1 (a cluster); else any number of CTAs that take rows in
 * turn. */
template <int TILES, int RANKS> SMLA_DEVICE void decode(const struct smla_decode_args *args)
{
    using L = layout<TILES, RANKS>;
    extern __shared__ __align__(1024) char shared[];
    uint32_t base = ptx_shared_address(shared);
    int warp = threadIdx.x / 32, rank = RANKS == 1 ? 0 : (int)(blockIdx.x % RANKS);
    ptx_grid_wait();
    if (threadIdx.x % 32 == 0)
        init_barriers<TILES, RANKS>(args, base, warp, rank);
    __syncwarp();
    if (warp < CHAINS)
        gather<TILES, RANKS>(args, shared, base, warp, rank);
    else if (warp < CHAINS + L::SCORE_WARPS)
        score<TILES, RANKS>(args, shared, base, warp - CHAINS, rank);
    else
        sum<TILES, RANKS>(args, shared, base, warp - CHAINS - L::SCORE_WARPS, rank);
}

#define SMLA_DECODE_KERNEL(tiles, ranks)                                                                     \
    extern "C" __global__ void __launch_bounds__(layout<tiles, ranks>::THREADS, 1)                           \
        smla_decode_h##tiles##_c##ranks(const __grid_constant__ struct smla_decode_args args)                \
    {                                                                                                        \
        decode<tiles, ranks>(&args);                                                                         \
    }

#endif
