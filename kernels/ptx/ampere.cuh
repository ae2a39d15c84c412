/*
 * One function for each PTX instruction of sm_80 that the kernels use; names are the instruction's. Shared memory
 * is addressed by its 32-bit shared-window address. Source of all: NVIDIA's PTX ISA manual.
 */
#ifndef SMLA_PTX_AMPERE_CUH
#define SMLA_PTX_AMPERE_CUH

#include <stdint.h>

#define SMLA_DEVICE static __device__ __forceinline__

SMLA_DEVICE uint32_t ptx_shared_address(const void *pointer)
{
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* 16 bytes from global to shared memory, past L1; bytes beyond `bytes` (0 or 16) are zeroed and not read. */
SMLA_DEVICE void ptx_cp_async16(uint32_t to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}

SMLA_DEVICE void ptx_cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until no more than PENDING committed groups are under way. */
template <int PENDING> SMLA_DEVICE void ptx_cp_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* 8x8 matrices of 16-bit elements; lane l of the k-th group of 8 gives the address of row l of matrix k. */
SMLA_DEVICE void ptx_ldmatrix_x2(uint32_t r[2], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(from)
                 : "memory");
}

SMLA_DEVICE void ptx_ldmatrix_x2_trans(uint32_t r[2], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(from)
                 : "memory");
}

SMLA_DEVICE void ptx_ldmatrix_x4(uint32_t r[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

SMLA_DEVICE void ptx_ldmatrix_x4_trans(uint32_t r[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

/* d += a * b over bf16: a 16x16 by rows, b 16x8 by columns, d 16x8 fp32. */
SMLA_DEVICE void ptx_mma_m16n8k16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Transposes an 8x8 matrix of 16-bit elements held by a warp as mma fragments hold it. */
SMLA_DEVICE uint32_t ptx_movmatrix_trans(uint32_t a)
{
    uint32_t d;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

/* 2^x to 2 ulp; subnormal results are 0. */
SMLA_DEVICE float ptx_ex2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

SMLA_DEVICE float ptx_lg2(float x)
{
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / x to 1 ulp; subnormal results are 0. */
SMLA_DEVICE float ptx_rcp(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two fp32 as bf16, rounded to nearest even; `low` in the lower half. */
SMLA_DEVICE uint32_t ptx_pack_bf16x2(float low, float high)
{
    uint32_t d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}

/* Orders this thread's reads and writes with those of `threads` threads that use barrier `id` (1..15). */
SMLA_DEVICE void ptx_barrier(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* As ptx_barrier for threads that need not wait. */
SMLA_DEVICE void ptx_barrier_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* Waits until the launches that this one programmatically depends on have completed, and lets those that depend on
 * this one start. Nothing before sm_90, where launches do not overlap. */
SMLA_DEVICE void ptx_grid_wait(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif
