/* The vector vocabulary of attn_tmpl.h and hooks_f32.h in plain C: a vector is one float. vec_avx2.h says
 * what is what. */
#ifndef SMLA_VEC_SCALAR_H
#define SMLA_VEC_SCALAR_H

#include <stdint.h>
#include <string.h>

#include "half.h"

enum {
    VEC_LANES = 1,
    VEC_HEADS = 4,
    VEC_SUMS = 12,
    VEC_FEW = 8,
    VEC_PANEL = 8,
    VEC_NEAR = 12,
    VEC_STAGED_HEADS = 0
};

typedef float vec;

static inline vec vec_splat(float x)
{
    return x;
}

static inline vec vec_load(const float *from)
{
    return *from;
}

static inline vec vec_hold(const float *from)
{
    return *from;
}

static inline void vec_store(float *to, vec x)
{
    *to = x;
}

static inline vec vec_add(vec a, vec b)
{
    return a + b;
}

static inline vec vec_sub(vec a, vec b)
{
    return a - b;
}

static inline vec vec_mul(vec a, vec b)
{
    return a * b;
}

/* Rounded twice: fmaf() without the instruction is a slow library call. */
static inline vec vec_fma(vec a, vec b, vec c)
{
    return a * b + c;
}

static inline vec vec_max(vec a, vec b)
{
    return a > b ? a : b;
}

static inline vec vec_min(vec a, vec b)
{
    return a < b ? a : b;
}

static inline vec vec_low(const uint16_t *from)
{
    return smla__bf16_to_f32(from[0]);
}

static inline vec vec_high(const uint16_t *from)
{
    return smla__bf16_to_f32(from[1]);
}

static inline void vec_copy(uint16_t *to, const uint16_t *from)
{
    to[0] = from[0];
    to[1] = from[1];
}

static inline void vec_natural(vec *low, vec *high)
{
    (void)low;
    (void)high;
}

static inline float vec_first(vec x)
{
    return x;
}

static inline __attribute__((always_inline)) void vec_sums(float *to, int stride, const vec *x, int rows,
                                                           int n)
{
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < n; i++)
            to[r * stride + i] = x[r * n + i];
}

static inline float vec_sum(vec x)
{
    return x;
}

static inline float vec_top(vec x)
{
    return x;
}

static inline vec vec_raise(vec x, vec steps)
{
    uint32_t bits, by;
    memcpy(&bits, &x, sizeof bits);
    memcpy(&by, &steps, sizeof by);
    bits += by << 23;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

static inline vec vec_unless_below(vec x, vec by, vec limit)
{
    return by < limit ? 0.0f : x;
}

#endif
