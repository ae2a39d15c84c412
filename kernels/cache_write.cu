/* Scatters rows of new tokens into the paged cache. A warp a row, rows in turn; any grid of full warps. */
#include "args.h"
#include "ptx/ampere.cuh"

/* 72 units of 16 bytes a row: 64 of the latent part, 8 of the rope part. */
enum { LATENT_UNITS = 64, UNITS = 72 };

SMLA_DEVICE const uint4 *unit_of(const struct smla_cache_write_args *args, int64_t row, int unit)
{
    const char *latent = (const char *)args->latent + row * args->latent_row;
    const char *rope = (const char *)args->rope + row * args->rope_row;
    return (const uint4 *)(unit < LATENT_UNITS ? latent + 16 * unit : rope + 16 * (unit - LATENT_UNITS));
}

extern "C" __global__ void __launch_bounds__(256)
    smla_cache_write(const __grid_constant__ struct smla_cache_write_args args)
{
    ptx_grid_wait();
    int64_t warps = (int64_t)gridDim.x * (blockDim.x / 32);
    int lane = threadIdx.x % 32;
    for (int64_t row = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; row < args.rows;
         row += warps) {
        int64_t slot = args.slots[row];
        if (slot < 0 || slot / args.block_size >= args.cache_blocks)
            continue;
        uint4 data[3];
#pragma unroll
        for (int i = 0; i < 3; i++)
            if (lane + 32 * i < UNITS)
                data[i] = *unit_of(&args, row, lane + 32 * i);
        int64_t block = slot / args.block_size;
        uint4 *to = (uint4 *)((char *)args.cache + block * args.cache_block +
                              (slot - block * args.block_size) * args.cache_row);
#pragma unroll
        for (int i = 0; i < 3; i++)
            if (lane + 32 * i < UNITS)
                to[lane + 32 * i] = data[i];
    }
}
