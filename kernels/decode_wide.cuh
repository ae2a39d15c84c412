/*
 * The Hopper decode lane for more heads than mma.sync serves well: heads lie on the M = 64 side of wgmma. One cluster of
 * RANKS CTAs attends one row for up to 8 * TILES heads; each CTA takes every RANKS-th group of 16 list entries, and the
 * cluster combines its partial results over distributed shared memory. docs/kernels/decode.md holds design and
 * measurements.
 *
 * A CTA is four warpgroups around three slots of 48 keys and the query, laid out as wgmma reads them:
 *
 *     gather --full--> score --scored--> two sum warpgroups --empty--> gather
 *
 * The gather warpgroup compacts its part of the list and fills slots by cp.async. The score warpgroup forms S = Q K^T,
 * and P = 2^(scale * S - m), with a reference m as in decode.cuh: an integer that no score exceeds by more than 8. P
 * takes the place of the keys' rope columns in the slot, which nobody needs any more. Each sum warpgroup adds P V for
 * 256 of the 512 columns.
 *
 * With fewer than 64 heads the rows of M beyond them are read from whatever follows, and what comes of them is dropped.
 */
#ifndef SMLA_DECODE_WIDE_CUH
#define SMLA_DECODE_WIDE_CUH

#include "decode_row.cuh"
#include "ptx/wgmma.cuh"

enum {
    WIDE_KEYS = 48,
    WIDE_BLOCKS = WIDE_KEYS / 16, /* a slot is emptied and filled by blocks of 16 keys */
    WIDE_SLOTS = 3,
    WIDE_GROUP = 16, /* list entries that stay together when the list is dealt out to the ranks */
    WIDE_PLANES = 9, /* query and keys are planes of [rows][128 bytes], 16-byte units swizzled by row & 7 */
    WIDE_PLANE = WIDE_KEYS * 128, /* of a slot */
    WIDE_SLOT = WIDE_PLANES * WIDE_PLANE,
    WIDE_ROPE =
        8 * WIDE_PLANE, /* the rope columns' plane, later P: 3 blocks of 16 keys by 64 heads, in cores */
    WIDE_P_BLOCK = 16 * 64 * 2,
    WIDE_RING = 256, /* pending list entries */
    WIDE_SUM_GROUPS = 2,
    WIDE_SUM_COLUMNS = 512 / WIDE_SUM_GROUPS,
    WIDE_PIECES = WIDE_SUM_COLUMNS / 8, /* 8-column pieces of a sum warpgroup's accumulator */
    WIDE_COMBINERS = 12,                /* warps that add up the ranks at the end */
    WIDE_SUM_BARRIER = 1,               /* named barriers */
    WIDE_GATHER_BARRIER = 2,
    WIDE_SCORE_BARRIER = 3,
    WIDE_QUERY_BARRIER = 4,
    WIDE_THREADS = 512,
    WIDE_REGISTERS = 65536 / WIDE_THREADS
};

/* Shared memory, in bytes from its 1 KB aligned base; and registers, of which the four warpgroups have 4 * 128. */
template <int TILES, int RANKS> struct wide_layout {
    enum {
        HEADS = 8 * TILES,
        HELD = TILES > 4 ? 4 : 0, /* planes of the query that the score warpgroup holds in registers */
        SUM_REGISTERS = 160,
        SCORE_REGISTERS = HELD ? 136 : 112,
        GATHER_REGISTERS = 512 - 2 * SUM_REGISTERS - SCORE_REGISTERS,
        SUM_BUFFERS = RANKS == 1 ? 4 : 1, /* rows that may be complete before the first of them is stored */
        QUERY_PLANE = HEADS * 128,
        SLOTS_AT = (WIDE_PLANES - HELD) * QUERY_PLANE, /* behind the query's other planes */
        FILL = SLOTS_AT + WIDE_SLOTS * WIDE_SLOT,      /* [slot]: keys | last << 8 */
        COUNTS = FILL + 16,                            /* [2][4 warps] valid entries of a step */
        PENDING = COUNTS + 32,
        REFERENCES = PENDING + WIDE_RING * 4,          /* [slot][HEADS] float */
        FACTORS = REFERENCES + WIDE_SLOTS * HEADS * 4, /* [buffer][HEADS] float; or, with several ranks, */
        SUMS = FACTORS,                                /* [HEADS] struct sums */
        WEIGHTS = SUMS + HEADS * 16,                   /* [RANKS][HEADS] float */
        LANDING = WEIGHTS + RANKS * HEADS * 4,         /* [RANKS][HEADS] struct sums of all ranks */
        FULL = LANDING + (RANKS > 1 ? RANKS * HEADS * 16 : 0), /* [slot] */
        SCORED = FULL + 8 * WIDE_SLOTS,                        /* [slot] */
        EMPTY = SCORED + 8 * WIDE_SLOTS,                       /* [slot][block] */
        SUMMED = EMPTY + 8 * WIDE_SLOTS * WIDE_BLOCKS,         /* [SUM_BUFFERS] a row's (m, l) are complete */
        QUERY = SUMMED + 8 * SUM_BUFFERS,                      /* the query is there */
        QUERY_DONE = QUERY + 8,                                /* ... and no longer needed */
        LANDED_SUMS = QUERY_DONE + 8,                          /* all of LANDING is there */
        STAGE = (LANDED_SUMS + 8 + 15) / 16 * 16, /* [sum warp] 2 KB through which its outputs pass */
        BYTES = STAGE + (RANKS == 1 ? 4 * WIDE_SUM_GROUPS * 2048 : 0),
        PIECE_BYTES = 128 * 16, /* 8 columns of O */
        OFFER =
            SLOTS_AT /* at the end O lies in the slots, [2 * WIDE_PIECES][PIECE_BYTES], for all ranks to read */
    };
    static_assert(WIDE_SUM_GROUPS * WIDE_PIECES * PIECE_BYTES <= WIDE_SLOTS * WIDE_SLOT, "O fits the slots");
    static_assert(BYTES <= 232448, "shared memory");
};

/* This thread's part of O: two heads, lane / 4 (+ 8) of the warp's 16, by columns 8 j + 2 (lane % 4) (+ 1) of the
 * warpgroup's 256; and the heads' references. */
struct wide_accumulator {
    float o[WIDE_PIECES][4], m[2];
};

#include "decode_wide_combine.cuh"
#include "decode_wide_gather.cuh"
#include "decode_wide_score.cuh"
#include "decode_wide_sum.cuh"

template <class L, int RANKS> SMLA_DEVICE void init_wide(uint32_t base)
{
    for (int slot = 0; slot < WIDE_SLOTS; slot++) {
        ptx_mbarrier_init(base + L::FULL + 8 * slot, 128 + 1);
        ptx_mbarrier_init(base + L::SCORED + 8 * slot, 4);
        for (int block = 0; block < WIDE_BLOCKS; block++)
            ptx_mbarrier_init(base + L::EMPTY + 8 * (slot * WIDE_BLOCKS + block), 4 * WIDE_SUM_GROUPS);
    }
    for (int buffer = 0; buffer < L::SUM_BUFFERS; buffer++)
        ptx_mbarrier_init(base + L::SUMMED + 8 * buffer, 4);
    ptx_mbarrier_init(base + L::QUERY, 128);
    ptx_mbarrier_init(base + L::QUERY_DONE, 4);
    ptx_mbarrier_init(base + L::LANDED_SUMS, 1);
    if (RANKS > 1)
        ptx_mbarrier_arrive_expect_tx(base + L::LANDED_SUMS, RANKS * L::HEADS * 16);
    ptx_fence_mbarrier_init();
}

/* Grid: RANKS CTAs for each row and head group if RANKS > 1 (a cluster); else any number of CTAs that take rows in
 * turn. */
template <int TILES, int RANKS> SMLA_DEVICE void decode_wide(const struct smla_decode_args *args)
{
    using L = wide_layout<TILES, RANKS>;
    extern __shared__ __align__(1024) char shared[];
    uint32_t base = ptx_shared_address(shared);
    /* The same in all lanes, and the compiler is to know it. */
    int group = __shfl_sync(~0u, threadIdx.x / 128, 0), rank = RANKS == 1 ? 0 : (int)(blockIdx.x % RANKS);
    ptx_grid_wait();
    if (threadIdx.x == 128)
        init_wide<L, RANKS>(base);
    if (group == 0)
        gather_wide<L, RANKS>(args, shared, base, rank);
    else if (group == 1)
        score_wide<L, RANKS>(args, shared, base, rank);
    else
        sum_wide<L, RANKS>(args, shared, base, group - 2, rank);
}

#define SMLA_DECODE_WIDE_KERNEL(tiles, ranks)                                                                \
    extern "C" __global__ void __launch_bounds__(WIDE_THREADS, 1)                                            \
        smla_decode_h##tiles##_c##ranks(const __grid_constant__ struct smla_decode_args args)                \
    {                                                                                                        \
        decode_wide<tiles, ranks>(&args);                                                                    \
    }

#endif
