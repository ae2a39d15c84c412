/* The vector vocabulary of attn_tmpl.h and hooks_f32.h: AVX-512, 16 floats. vec_avx2.h says what is what. */
#ifndef SMLA_VEC_AVX512_H
#define SMLA_VEC_AVX512_H

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || !defined(__AVX512VL__)
#error "compile with -mavx512f -mavx512bw -mavx512dq -mavx512vl"
#endif

#include <immintrin.h>
#include <stdint.h>

enum {
    VEC_LANES = 16,
    VEC_HEADS = 8,
    VEC_SUMS = 24,
    VEC_FEW = 16,
    VEC_PANEL = 4,
    VEC_NEAR = 12,
    VEC_STAGED_HEADS = 32
};

typedef __m512 vec;

static inline vec vec_splat(float x)
{
    return _mm512_set1_ps(x);
}

static inline vec vec_load(const float *from)
{
    return _mm512_load_ps(from);
}

/* In a register for sure: gcc loads anew for each use otherwise. */
static inline vec vec_hold(const float *from)
{
    vec x = _mm512_load_ps(from);
    __asm__("" : "+v"(x));
    return x;
}

static inline void vec_store(float *to, vec x)
{
    _mm512_store_ps(to, x);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

static inline vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

static inline vec vec_low(const uint16_t *from)
{
    return _mm512_castsi512_ps(_mm512_unpacklo_epi16(_mm512_setzero_si512(), _mm512_loadu_si512(from)));
}

static inline vec vec_high(const uint16_t *from)
{
    return _mm512_castsi512_ps(_mm512_unpackhi_epi16(_mm512_setzero_si512(), _mm512_loadu_si512(from)));
}

static inline void vec_copy(uint16_t *to, const uint16_t *from)
{
    _mm512_store_si512(to, _mm512_loadu_si512(from));
}

static inline void vec_natural(vec *low, vec *high)
{
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    vec a = *low, b = *high;
    *low = _mm512_permutex2var_ps(a, first, b);
    *high = _mm512_permutex2var_ps(a, second, b);
}

static inline float vec_first(vec x)
{
    return _mm512_cvtss_f32(x);
}

/* Sums of lanes of four vectors, still apart by 128-bit lanes; each has the four sums in order. */
static inline vec vec_sum4(vec a, vec b, vec c, vec d)
{
    vec ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    vec cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    __m512d high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    return _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
}

/* Adds neighbouring 128-bit lanes: those of a, then those of b. */
static inline vec vec_lanes(vec a, vec b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

static inline __attribute__((always_inline)) void vec_sums(float *to, int stride, const vec *x, int rows,
                                                           int n)
{
    _Alignas(64) float sums[(VEC_SUMS + 15) / 16 * 16];
    int count = rows * n, last = count - 1;
    for (int i = 0; i < count; i += 16) {
        vec four[4];
        for (int k = 0; k < 4; k++) {
            int a = i + 4 * k < count ? i + 4 * k : i;
            four[k] = vec_sum4(x[a], x[a + 1 < count ? a + 1 : last], x[a + 2 < count ? a + 2 : last],
                               x[a + 3 < count ? a + 3 : last]);
        }
        vec_store(sums + i, vec_lanes(vec_lanes(four[0], four[1]), vec_lanes(four[2], four[3])));
    }
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < n; i++)
            to[r * stride + i] = sums[r * n + i];
}

static inline float vec_sum(vec x)
{
    vec all = vec_sum4(x, x, x, x), halves = vec_lanes(all, all);
    return vec_first(vec_lanes(halves, halves));
}

static inline float vec_top(vec x)
{
    __m256 half = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 top = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    top = _mm_max_ps(top, _mm_movehl_ps(top, top));
    top = _mm_max_ss(top, _mm_movehdup_ps(top));
    return _mm_cvtss_f32(top);
}

static inline vec vec_raise(vec x, vec steps)
{
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(_mm512_castps_si512(steps), 23)));
}

static inline vec vec_unless_below(vec x, vec by, vec limit)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(by, limit, _CMP_NLT_UQ), x);
}

#endif
