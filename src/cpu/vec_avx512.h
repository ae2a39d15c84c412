/* The vector vocabulary of attn_tmpl.h and hooks_f32.h: AVX-512, 16 floats. vec_avx2.h says what is what. */
#ifndef SMLA_VEC_AVX512_H
#define SMLA_VEC_AVX512_H

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || !defined(__AVX512VL__)
#error "compile with -mavx512f -mavx512bw -mavx512dq -mavx512vl"
#endif

#include <immintrin.h>
#include <stdint.h>

enum { VEC_LANES = 16, VEC_HEADS = 8, VEC_SUMS = 24, VEC_FEW = 16, VEC_PANEL = 4, VEC_NEAR = 6 };

typedef __m512 vec;

static inline vec vec_splat(float x)
{
    return _mm512_set1_ps(x);
}

static inline vec vec_load(const float *from)
{
    return _mm512_load_ps(from);
}

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

/* Keys are converted on the way to the near copy: of the two units that multiply 512 bits, one also
 * interleaves. */
typedef float vec_key;

static inline vec vec_key_low(const vec_key *from)
{
    return _mm512_load_ps(from);
}

static inline vec vec_key_high(const vec_key *from)
{
    return _mm512_load_ps(from + VEC_LANES);
}

static inline void vec_stage(vec_key *to, const uint16_t *from)
{
    _mm512_store_ps(to, vec_low(from));
    _mm512_store_ps(to + VEC_LANES, vec_high(from));
}

static inline const vec_key *vec_key_from(vec_key *copy, const uint16_t *row)
{
    for (int c = 0; c < SMLA__ROW; c += 2 * VEC_LANES)
        vec_stage(copy + c, row + c);
    return copy;
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

static inline __m256 vec_halves(vec x)
{
    return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
}

static inline __m128 vec_sum4(vec a, vec b, vec c, vec d)
{
    __m256 all = _mm256_hadd_ps(_mm256_hadd_ps(vec_halves(a), vec_halves(b)),
                                _mm256_hadd_ps(vec_halves(c), vec_halves(d)));
    return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

static inline __attribute__((always_inline)) void vec_sums(float *to, const vec *x, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4)
        _mm_storeu_ps(to + i, vec_sum4(x[i], x[i + 1], x[i + 2], x[i + 3]));
    if (n > i) {
        int last = n - 1;
        __m128 sums = vec_sum4(x[i], x[i + 1 < n ? i + 1 : last], x[i + 2 < n ? i + 2 : last], x[last]);
        _mm_mask_storeu_ps(to + i, (__mmask8)((1 << (n - i)) - 1), sums);
    }
}

static inline float vec_sum(vec x)
{
    return _mm_cvtss_f32(vec_sum4(x, x, x, x));
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
