/*
 * The gather floor: how long one launch needs just to bring the cache rows of some lists from memory into shared
 * memory, with nothing computed. A decode kernel cannot be faster, so `smla bench` quotes its time as a multiple of
 * this one's, measured in the same run over the same lists.
 *
 * The rows arrive as decode kernels want them: 16 bytes a cp.async, in chunks of 128 bytes that lie by column block,
 * with the 16-byte units of a chunk exchanged by the row's number so that matrix loads meet no bank twice. Entries
 * below zero are zero-filled and not read. Each group of 8 threads carries whole chunks; the indices of a tile are
 * loaded a tile before its rows are asked for. The best of the shapes below is the floor.
 *
 * The file also has the kernel that fills pool and queries with random numbers.
 */
#include <stdint.h>

enum { ROW_BYTES = 1152, CHUNK_BYTES = 128, CHUNKS = ROW_BYTES / CHUNK_BYTES, UNITS = CHUNK_BYTES / 16 };

static __device__ __forceinline__ void copy_unit(uint32_t to, const char *from, uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void close_group(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int PENDING> static __device__ __forceinline__ void wait_groups(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* Slots of this thread's rows in a tile, -1 past the end. */
template <int GROUPS, int ROWS>
static __device__ __forceinline__ void load_slots(int32_t slots[ROWS], const int32_t *list, int first, int count)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int entry = first + (int)threadIdx.x / UNITS + r * GROUPS;
        slots[r] = entry < count ? __ldg(list + entry) : -1;
    }
}

template <int TILE, int GROUPS, int ROWS>
static __device__ __forceinline__ void copy_tile(uint32_t stage, const char *pool, const int32_t slots[ROWS])
{
    int unit = (int)threadIdx.x % UNITS;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int row = (int)threadIdx.x / UNITS + r * GROUPS;
        uint32_t bytes = slots[r] < 0 ? 0 : 16;
        const char *from = pool + (size_t)(slots[r] < 0 ? 0 : slots[r]) * ROW_BYTES + unit * 16;
        uint32_t to = stage + row * CHUNK_BYTES + ((unit ^ (row & 7)) << 4);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            copy_unit(to + c * TILE * CHUNK_BYTES, from + c * CHUNK_BYTES, bytes);
    }
}

/* Every block takes the same number of entries, a multiple of TILE. `sink` is never written; the compiler does not
 * know that, and so keeps the reads. */
template <int STAGES, int TILE, int THREADS>
static __device__ __forceinline__ void gather(const char *pool, const int32_t *lists, int total, uint32_t *sink)
{
    constexpr int GROUPS = THREADS / UNITS, ROWS = TILE / GROUPS, STAGE_BYTES = TILE * ROW_BYTES;
    extern __shared__ __align__(1024) char shared[];
    uint32_t base = (uint32_t)__cvta_generic_to_shared(shared);
    int share = ((total + (int)gridDim.x - 1) / (int)gridDim.x + TILE - 1) / TILE * TILE;
    int64_t first = (int64_t)blockIdx.x * share;
    int count = first >= total ? 0 : min(share, total - (int)first);
    int tiles = (count + TILE - 1) / TILE;
    const int32_t *list = lists + first;
    int32_t slots[STAGES][ROWS];
    uint32_t seen = 0;
#pragma unroll
    for (int s = 0; s < STAGES; s++)
        load_slots<GROUPS, ROWS>(slots[s], list, s * TILE, count);
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < tiles)
            copy_tile<TILE, GROUPS, ROWS>(base + s * STAGE_BYTES, pool, slots[s]);
        close_group();
    }
    int32_t next[ROWS], after[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        next[r] = slots[STAGES - 1][r];
    for (int t = 0; t < tiles; t++) {
        load_slots<GROUPS, ROWS>(after, list, (t + STAGES) * TILE, count);
        wait_groups<STAGES - 2>();
        __syncthreads();
        seen ^= *(const uint32_t *)(shared + t % STAGES * STAGE_BYTES + (threadIdx.x & 127) * 16);
        __syncthreads();
        if (t + STAGES - 1 < tiles)
            copy_tile<TILE, GROUPS, ROWS>(base + (t + STAGES - 1) % STAGES * STAGE_BYTES, pool, next);
        close_group();
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            next[r] = after[r];
    }
    if (seen == 0x12345679)
        *sink = seen;
}

/* Name and launch: stages x tile, threads; dynamic shared memory stages * tile * 1152 bytes. */
#define GATHER_FLOOR(STAGES, TILE, THREADS)                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) gather_floor_##STAGES##x##TILE##_##THREADS(      \
        const char *pool, const int32_t *lists, int total, uint32_t *sink)                                    \
    {                                                                                                         \
        gather<STAGES, TILE, THREADS>(pool, lists, total, sink);                                              \
    }

GATHER_FLOOR(3, 64, 256)
GATHER_FLOOR(3, 64, 512)
GATHER_FLOOR(8, 16, 128)
GATHER_FLOOR(6, 32, 256)

static __device__ __forceinline__ uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Nearly normal with deviation 1: the sum of four uniform 16-bit numbers, rounded to bf16. */
static __device__ __forceinline__ uint32_t random_bf16(uint64_t seed, uint64_t index)
{
    uint64_t r = mix(seed + index * 0x9e3779b97f4a7c15u);
    int32_t sum = (int32_t)((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48));
    uint32_t bits = __float_as_uint((float)(2 * sum - 4 * 65535) * (1.0f / 75674.0f));
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

/* Fills `pairs` pairs of bf16; any grid. */
extern "C" __global__ void __launch_bounds__(256) fill_random(uint32_t *to, uint64_t pairs, uint64_t seed)
{
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += step)
        to[i] = random_bf16(seed, 2 * i) | random_bf16(seed, 2 * i + 1) << 16;
}
