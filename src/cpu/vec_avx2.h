/* The vector vocabulary of attn_tmpl.h and hooks_f32.h: AVX2 and FMA, 8 floats. */
#ifndef SMLA_VEC_AVX2_H
#define SMLA_VEC_AVX2_H

#if !defined(__AVX2__) || !defined(__FMA__)
#error "compile with -mavx2 -mfma"
#endif

#include <immintrin.h>
#include <stdint.h>

/* Sixteen registers: 4 x 3 sums, 3 operands of one side, 1 of the other. */
enum {
    VEC_LANES = 8,
    VEC_HEADS = 4,
    VEC_SUMS = 12,
    VEC_FEW = 8,
    VEC_PANEL = 12,
    VEC_NEAR = 12,
    VEC_STAGED_HEADS = 0
};

typedef __m256 vec;

static inline vec vec_splat(float x)
{
    return _mm256_set1_ps(x);
}

static inline vec vec_load(const float *from)
{
    return _mm256_load_ps(from);
}

/* The same, for several uses at once. */
static inline vec vec_hold(const float *from)
{
    return vec_load(from);
}

static inline void vec_store(float *to, vec x)
{
    _mm256_store_ps(to, x);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* Largest and smallest; b where either is NaN. */
static inline vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

static inline vec vec_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}

/* Of 2 * VEC_LANES bf16 the ones that land in the first and in the second vector, as fp32. A bf16 is the
 * upper half of its fp32: interleaving with zeros converts. As an instruction that makes its own zeros,
 * because a register that holds them would be the seventeenth; clearing costs no execution unit. */
static inline vec vec_low(const uint16_t *from)
{
    vec x;
    __asm__("vpxor %x0, %x0, %x0\n\tvpunpcklwd %1, %t0, %t0" : "=&x"(x) : "m"(*(const __m256i_u *)from));
    return x;
}

static inline vec vec_high(const uint16_t *from)
{
    vec x;
    __asm__("vpxor %x0, %x0, %x0\n\tvpunpckhwd %1, %t0, %t0" : "=&x"(x) : "m"(*(const __m256i_u *)from));
    return x;
}

/* Copies 2 * VEC_LANES bf16. */
static inline void vec_copy(uint16_t *to, const uint16_t *from)
{
    _mm256_store_si256((__m256i *)to, _mm256_loadu_si256((const __m256i *)from));
}

/* Brings the two to the order that they were read in. */
static inline void vec_natural(vec *low, vec *high)
{
    vec a = *low, b = *high;
    *low = _mm256_permute2f128_ps(a, b, 0x20);
    *high = _mm256_permute2f128_ps(a, b, 0x31);
}

static inline float vec_first(vec x)
{
    return _mm256_cvtss_f32(x);
}

/* Sums of lanes of four vectors. */
static inline __m128 vec_sum4(vec a, vec b, vec c, vec d)
{
    vec all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

/* to[r * stride + i] = sum of the lanes of x[r * n + i], always added in the same order. */
static inline __attribute__((always_inline)) void vec_sums(float *to, int stride, const vec *x, int rows,
                                                           int n)
{
    for (int r = 0; r < rows; r++, to += stride, x += n) {
        int i = 0;
        for (; i + 4 <= n; i += 4)
            _mm_storeu_ps(to + i, vec_sum4(x[i], x[i + 1], x[i + 2], x[i + 3]));
        if (i == n)
            continue;
        __m128 sums = vec_sum4(x[i], x[i + 1 < n ? i + 1 : i], x[n - 1], x[n - 1]);
        if (n - i >= 2)
            _mm_storel_pi((__m64 *)(to + i), sums);
        if (n - i == 3)
            _mm_store_ss(to + i + 2, _mm_movehl_ps(sums, sums));
        else if (n - i == 1)
            _mm_store_ss(to + i, sums);
    }
}

static inline float vec_sum(vec x)
{
    return _mm_cvtss_f32(vec_sum4(x, x, x, x));
}

static inline float vec_top(vec x)
{
    __m128 top = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    top = _mm_max_ps(top, _mm_movehl_ps(top, top));
    top = _mm_max_ss(top, _mm_movehdup_ps(top));
    return _mm_cvtss_f32(top);
}

/* x * 2^i; i in the low mantissa bits of `steps`. */
static inline vec vec_raise(vec x, vec steps)
{
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_castps_si256(steps), 23)));
}

/* x, but 0 where `by` is below `limit` (not where it is NaN). */
static inline vec vec_unless_below(vec x, vec by, vec limit)
{
    return _mm256_and_ps(x, _mm256_cmp_ps(by, limit, _CMP_NLT_UQ));
}

#endif
