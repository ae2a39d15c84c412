/* Facts of the CPU that this process runs on. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cpu_ops.h"

#ifdef SMLA__X86

#include <cpuid.h>
#include <sys/syscall.h>

struct regs {
    uint32_t a, b, c, d;
};

static struct regs cpuid(uint32_t leaf, uint32_t subleaf)
{
    struct regs r = {0};
    if (!__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d))
        return (struct regs){0};
    return r;
}

/* The register state that the operating system saves; call it only where cpuid says OSXSAVE. */
static uint64_t saved_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux hands out the tile registers on request only, once for the process and all its threads. */
static bool tiles_granted(void)
{
    enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}

static bool bit(uint32_t word, int index)
{
    return word >> index & 1;
}

uint32_t smla__cpu_isa_mask(void)
{
    enum { YMM = 0x6, ZMM = 0xe6, TILES = 0x60000 };
    uint32_t mask = 1u << SMLA_ISA_SCALAR;
    struct regs one = cpuid(1, 0), seven = cpuid(7, 0), more = cpuid(7, 1);
    uint64_t saved = bit(one.c, 27) ? saved_state() : 0;

    bool avx2 = (saved & YMM) == YMM && bit(one.c, 28) && bit(one.c, 12) && bit(seven.b, 5);
    if (!avx2)
        return mask;
    mask |= 1u << SMLA_ISA_AVX2;
    bool avx512 =
        (saved & ZMM) == ZMM && bit(seven.b, 16) && bit(seven.b, 17) && bit(seven.b, 30) && bit(seven.b, 31);
    if (!avx512)
        return mask;
    mask |= 1u << SMLA_ISA_AVX512;
    if (seven.a < 1 || !bit(more.a, 5))
        return mask;
    mask |= 1u << SMLA_ISA_AVX512_BF16;
    bool tiles = (saved & TILES) == TILES && bit(seven.d, 22) && bit(seven.d, 24);
    if (tiles && tiles_granted())
        mask |= 1u << SMLA_ISA_AMX_BF16;
    return mask;
}

/* Intel runs it on one unit every other cycle, where two units multiply fp32 every cycle. */
bool smla__cpu_slow_pairs(void)
{
    struct regs vendor = cpuid(0, 0);
    return vendor.b == signature_INTEL_ebx && vendor.d == signature_INTEL_edx &&
           vendor.c == signature_INTEL_ecx;
}

void smla__cpu_name(char *name, size_t size)
{
    char text[49] = "";
    for (uint32_t i = 0; i < 3; i++) {
        struct regs r = cpuid(0x80000002u + i, 0);
        memcpy(text + i * sizeof r, &r, sizeof r);
    }
    size_t blanks = strspn(text, " ");
    snprintf(name, size, "%s", text[blanks] ? text + blanks : "x86-64");
}

#else

uint32_t smla__cpu_isa_mask(void)
{
    return 1u << SMLA_ISA_SCALAR;
}

bool smla__cpu_slow_pairs(void)
{
    return false;
}

void smla__cpu_name(char *name, size_t size)
{
    snprintf(name, size, "unknown CPU");
}

#endif

int32_t smla__cpu_count(void)
{
    cpu_set_t set;
    long count =
        sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > SMLA__THREADS_MAX ? SMLA__THREADS_MAX : (int32_t)count;
}
