/* One function for each PTX instruction that needs sm_90. */
#ifndef SMLA_PTX_HOPPER_CUH
#define SMLA_PTX_HOPPER_CUH

#include "ampere.cuh"

SMLA_DEVICE void ptx_mbarrier_init(uint32_t barrier, uint32_t count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

SMLA_DEVICE void ptx_fence_mbarrier_init(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

SMLA_DEVICE void ptx_mbarrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

SMLA_DEVICE void ptx_mbarrier_arrive_count(uint32_t barrier, uint32_t count)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

SMLA_DEVICE void ptx_mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* On a barrier of any CTA of the cluster; releases this thread's writes to the cluster. */
SMLA_DEVICE void ptx_mbarrier_arrive_cluster(uint32_t cluster_barrier)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(cluster_barrier)
                 : "memory");
}

/* One arrival of this thread when all its earlier cp.async have landed; counted in the barrier's init count. */
SMLA_DEVICE void ptx_cp_async_mbarrier_arrive(uint32_t barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

SMLA_DEVICE void ptx_mbarrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n.reg .pred p;\n"
                 "again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n"
                 "@!p bra again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

SMLA_DEVICE bool ptx_mbarrier_test(uint32_t barrier, uint32_t parity)
{
    uint32_t complete;
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(complete)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return complete;
}

/* The address of another CTA's copy of `address`. */
SMLA_DEVICE uint32_t ptx_mapa(uint32_t address, uint32_t rank)
{
    uint32_t d;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(d) : "r"(address), "r"(rank));
    return d;
}

/* Stores 16 bytes into another CTA's shared memory; completion counts as bytes on a barrier of that CTA. */
SMLA_DEVICE void ptx_st_async_v4(uint32_t to, const float v[4], uint32_t barrier)
{
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
            to),
        "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier)
        : "memory");
}

/* Reads 16 bytes of any CTA of the cluster. */
SMLA_DEVICE float4 ptx_ld_cluster_v4(uint32_t cluster_address)
{
    float4 v;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(cluster_address)
                 : "memory");
    return v;
}

/* What threads of the cluster wrote before it, all threads may read behind ptx_cluster_wait. */
SMLA_DEVICE void ptx_cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/* Orders nothing: for barriers set up before, with ptx_fence_mbarrier_init. */
SMLA_DEVICE void ptx_cluster_arrive_relaxed(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

SMLA_DEVICE void ptx_cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Two bf16 products, rounded to nearest even. */
SMLA_DEVICE uint32_t ptx_mul_bf16x2(uint32_t a, uint32_t b)
{
    uint32_t d;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

#endif
