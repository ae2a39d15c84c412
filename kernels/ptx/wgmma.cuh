/* Matrix products of a warpgroup (128 threads) out of shared memory: wgmma of sm_90a. */
#ifndef SMLA_PTX_WGMMA_CUH
#define SMLA_PTX_WGMMA_CUH

#include "hopper.cuh"

/* Operands are tiles of 8 rows x 128 bytes (1 KB, 1 KB aligned), their 16-byte units swizzled by row & 7.
 * ptx_tile_by_rows: the 128 bytes run along k; the next 8 rows of m or n follow `stride` bytes later.
 * ptx_tile_by_columns: the 128 bytes run along n; the next 64 of n follow `stride` bytes later, the next 8 of k 1 KB. */
SMLA_DEVICE uint64_t ptx_tile_by_rows(uint32_t address, uint32_t stride)
{
    return (uint64_t)1 << 62 | (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 16 | (address & 0x3ffff) >> 4;
}

/* Without swizzle: cores of 8 rows x 16 bytes (128 bytes, in a row); the next 8 of k follow 128 bytes later, the next 8
 * rows 256 bytes. */
SMLA_DEVICE uint64_t ptx_cores(uint32_t address)
{
    return (uint64_t)(256 >> 4) << 32 | (uint64_t)(128 >> 4) << 16 | (address & 0x3ffff) >> 4;
}

SMLA_DEVICE uint64_t ptx_tile_by_columns(uint32_t address, uint32_t stride)
{
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)(stride >> 4) << 16 |
           (address & 0x3ffff) >> 4;
}

/* Before the first product that uses registers which other instructions have written. */
SMLA_DEVICE void ptx_wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

SMLA_DEVICE void ptx_wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until no more than PENDING committed groups of this warpgroup's products are under way. */
template <int PENDING> SMLA_DEVICE void ptx_wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* Orders shared memory that was written by ordinary instructions before what wgmma reads, and the reverse. */
SMLA_DEVICE void ptx_fence_async(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Changes what each thread of this warpgroup has from the kernel's 65536 / threads registers. */
template <int REGISTERS, int BEFORE> SMLA_DEVICE void ptx_set_registers(void)
{
    if (REGISTERS > BEFORE)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
    else
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* d = a * b, or d + a * b if `add`: d is [64][N] fp32, a thread's d[j] its rows lane / 4 (two, 8 apart) of the warp's 16 and
 * columns 8 j + 2 (lane % 4) (two); a is [64][16], b [N][16] bf16. Nothing of it may be touched before ptx_wgmma_wait. */

/* Both by rows. */
SMLA_DEVICE void ptx_wgmma_n48(float d[6][4], uint64_t a, uint64_t b, bool add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %26, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23"
                 "}, %24, %25, p, 1, 1, 0, 0;\n}"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
                   "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
                   "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3])
                 : "l"(a), "l"(b), "r"((uint32_t)add));
}

/* a in registers, as mma m16n8k16 takes it, a warp 16 rows; b by rows. */
SMLA_DEVICE void ptx_wgmma_n48_registers(float d[6][4], const uint32_t a[4], uint64_t b, bool add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %29, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23"
                 "}, {%24, %25, %26, %27}, %28, p, 1, 1, 0;\n}"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
                   "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
                   "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)add));
}

/* a in cores, b by columns. */
SMLA_DEVICE void ptx_wgmma_n128(float d[16][4], uint64_t a, uint64_t b, bool add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
                 "}, %64, %65, p, 1, 1, 0, 1;\n}"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
                   "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
                   "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                   "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
                   "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]),
                   "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]),
                   "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]),
                   "+f"(d[11][3]), "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]),
                   "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]), "+f"(d[13][3]), "+f"(d[14][0]),
                   "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]), "+f"(d[15][0]), "+f"(d[15][1]),
                   "+f"(d[15][2]), "+f"(d[15][3])
                 : "l"(a), "l"(b), "r"((uint32_t)add));
}

#endif
