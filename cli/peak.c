#include "peak.h"

#include <stdbool.h>

#include "report.h"

/*
 * Each loop keeps twelve sums going, more than the latency of any of these instructions times their number a
 * clock, and returns the FLOP of its turns. The factors come from memory so that nothing can be folded.
 */
#define TWELVE(step)                                                                                         \
    step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10) step(11)

enum { SUMS = 12 };

static volatile float factor = 0.999f, addend = 1e-3f, sink;

typedef float vec4 __attribute__((vector_size(16)));

static double turns_plain(int64_t turns)
{
    const float f = factor, a = addend;
    const vec4 vf = {f, f, f, f}, va = {a, a, a, a};
    vec4 sum[SUMS] = {{0}};
    for (int64_t i = 0; i < turns; i++) {
#define STEP(j) sum[j] = sum[j] * vf + va;
        TWELVE(STEP)
#undef STEP
    }
    for (int j = 0; j < SUMS; j++)
        sink = sum[j][0];
    return (double)turns * SUMS * 4 * 2;
}

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((target("avx2,fma"))) static double turns_avx2(int64_t turns)
{
    const __m256 vf = _mm256_set1_ps(factor), va = _mm256_set1_ps(addend);
    __m256 sum[SUMS];
    for (int j = 0; j < SUMS; j++)
        sum[j] = _mm256_setzero_ps();
    for (int64_t i = 0; i < turns; i++) {
#define STEP(j) sum[j] = _mm256_fmadd_ps(sum[j], vf, va);
        TWELVE(STEP)
#undef STEP
    }
    for (int j = 0; j < SUMS; j++)
        sink = _mm256_cvtss_f32(sum[j]);
    return (double)turns * SUMS * 8 * 2;
}

__attribute__((target("avx512f"))) static double turns_avx512(int64_t turns)
{
    const __m512 vf = _mm512_set1_ps(factor), va = _mm512_set1_ps(addend);
    __m512 sum[SUMS];
    for (int j = 0; j < SUMS; j++)
        sum[j] = _mm512_setzero_ps();
    for (int64_t i = 0; i < turns; i++) {
#define STEP(j) sum[j] = _mm512_fmadd_ps(sum[j], vf, va);
        TWELVE(STEP)
#undef STEP
    }
    for (int j = 0; j < SUMS; j++)
        sink = _mm512_cvtss_f32(sum[j]);
    return (double)turns * SUMS * 16 * 2;
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) static double turns_bf16(int64_t turns)
{
    const __m512bh vf = _mm512_cvtne2ps_pbh(_mm512_set1_ps(factor), _mm512_set1_ps(factor));
    const __m512bh va = _mm512_cvtne2ps_pbh(_mm512_set1_ps(addend), _mm512_set1_ps(addend));
    __m512 sum[SUMS];
    for (int j = 0; j < SUMS; j++)
        sum[j] = _mm512_setzero_ps();
    for (int64_t i = 0; i < turns; i++) {
#define STEP(j) sum[j] = _mm512_dpbf16_ps(sum[j], vf, va);
        TWELVE(STEP)
#undef STEP
    }
    for (int j = 0; j < SUMS; j++)
        sink = _mm512_cvtss_f32(sum[j]);
    return (double)turns * SUMS * 32 * 2;
}

enum { TILE_ROWS = 16, TILE_BYTES = 64, XFEATURE_TILEDATA = 18, ARCH_REQ_XCOMP_PERM = 0x1023 };

/* Tile palette 1: eight tiles of 16 rows x 64 bytes. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Four products of 16 x 32 by 32 x 16 a turn, each into its own sum. */
__attribute__((target("amx-tile,amx-bf16"))) static double turns_amx(int64_t turns)
{
    struct tile_config config = {.palette = 1};
    static uint16_t ones[TILE_ROWS * TILE_BYTES / 2];
    for (int i = 0; i < TILE_ROWS * TILE_BYTES / 2; i++)
        ones[i] = 0x3f80;
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = TILE_BYTES;
        config.rows[i] = TILE_ROWS;
    }
    if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILEDATA))
        return 0;
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, ones, TILE_BYTES);
    _tile_loadd(5, ones, TILE_BYTES);
    _tile_loadd(6, ones, TILE_BYTES);
    _tile_loadd(7, ones, TILE_BYTES);
    for (int64_t i = 0; i < turns; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return (double)turns * 4 * TILE_ROWS * 16 * 32 * 2;
}
#endif

typedef double turns_function(int64_t turns);

static turns_function *const loops[SMLA_ISA_COUNT] = {
    [SMLA_ISA_SCALAR] = turns_plain,
#if defined(__x86_64__)
    [SMLA_ISA_AVX2] = turns_avx2,        [SMLA_ISA_AVX512] = turns_avx512,
    [SMLA_ISA_AVX512_BF16] = turns_bf16, [SMLA_ISA_AMX_BF16] = turns_amx,
#endif
};

static double peak_of(turns_function *loop)
{
    double best = 0, begin = report_clock();
    while (report_clock() - begin < 0.05) {
        double before = report_clock();
        double flops = loop(50000);
        double rate = 1e-9 * flops / (report_clock() - before);
        best = rate > best ? rate : best;
    }
    return best;
}

double peak_measure(smla_isa isa, uint32_t isa_mask, double peaks[SMLA_ISA_COUNT])
{
    double best = 0;
    for (int i = 0; i < SMLA_ISA_COUNT; i++) {
        bool there = i <= (int)isa && (isa_mask >> i & 1) && loops[i];
        peaks[i] = there ? peak_of(loops[i]) : 0;
        best = peaks[i] > best ? peaks[i] : best;
    }
    return best;
}
