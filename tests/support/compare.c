#include "compare.h"
#include "gpu.h"

#include <math.h>
#include <stdio.h>

/*
 * Where the numbers come from. u32 = 2^-24 and u16 = 2^-8 are half a unit in the last place of fp32 and bf16,
 * relative to the smallest number of a binade. Inputs are bf16, hence exact.
 *
 *   Scores: a sum of 576 products in fp32, whose partial sums reach |q| |key|. Roundings add up like a random
 *   walk; 2 u32 |scale| |q| |key| is about four times their standard deviation when summed one by one. This
 *   absolute error of a score is the relative error of its weight. It is 3e-6 for data of variance 1.
 *   By the norm of a whole array, half of it is ample.
 *   Weights: exp within 2 ulp, sums of up to some thousand positive terms.
 *   bf16 products (AVX-512-BF16, AMX): each weight is rounded to bf16, u16 at most, 0.43 u16 by root mean
 *   square.
 *   bf16 out: u16 of each element at most, 0.43 u16 by root mean square.
 *   Below the smallest normal number the unit is fixed: 2^-149 in fp32, 2^-133 in bf16. A sink's factor may
 *   lie there, and its error is then multiplied by values of up to 6.
 *   GPU: a sink whose weight exceeds that of the keys by 2^126 may leave nothing of the output, whose size is
 *   then 2^-110 at most.
 */
static const double u32 = 0x1p-24;
static const double u16 = 0x1p-8;

/* A GPU has no other kernels, whatever instruction set a test names. */
static bool bf16_weights(smla_isa isa)
{
    return gpu_mode() || isa == SMLA_ISA_AVX512_BF16 || isa == SMLA_ISA_AMX_BF16;
}

/* Error of a score, in u32 of its size. Tensor cores cut off what does not fit the sum so far, 36 times a score. */
static double score_units(void)
{
    return gpu_mode() ? 8 : 2;
}

struct bound bound_out(smla_isa isa, smla_dtype out_dtype, double score_size)
{
    double score = score_units() * u32 * score_size;
    struct bound bound = {.element = 4e-6 + score, .absolute = 0x1p-146, .norm = 5e-7 + score / 2};
    if (bf16_weights(isa)) {
        bound.element += u16;
        bound.norm += u16;
    }
    if (gpu_mode())
        bound.absolute = 0x1p-110;
    if (out_dtype == SMLA_BF16) {
        bound.relative += u16;
        bound.absolute += 0x1p-134;
        bound.norm += u16;
    }
    return bound;
}

/* The sum of the weights is fp32, and taken before they are rounded, on every instruction set. */
struct bound bound_lse(double score_size)
{
    return (struct bound){.absolute = 2e-6 + score_units() * u32 * score_size, .norm = INFINITY};
}

static bool strays(double got, double want)
{
    if (isnan(want) || isnan(got))
        return isnan(want) != isnan(got);
    if (isinf(want) || isinf(got))
        return got != want;
    return false;
}

static double group_top(const double *want, int64_t count)
{
    double top = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(want[i]))
            top = fmax(top, fabs(want[i]));
    return top;
}

static void compare_element(struct comparison *c, double got, double want, double top, int64_t at,
                            struct bound bound)
{
    if (strays(got, want)) {
        if (c->strays++ == 0)
            c->stray_at = at;
        return;
    }
    if (!isfinite(want))
        return;
    double allowed = bound.element * top + bound.relative * fabs(want) + bound.absolute;
    double error = fabs(got - want);
    double ratio = error == 0 ? 0 : error / allowed;
    if (ratio > c->worst) {
        c->worst = ratio;
        c->worst_at = at;
    }
}

struct comparison compare(const double *got, const double *want, int64_t count, int64_t group,
                          struct bound bound)
{
    struct comparison c = {0};
    double error = 0, size = 0;
    for (int64_t begin = 0; begin < count; begin += group) {
        int64_t length = group < count - begin ? group : count - begin;
        double top = group_top(want + begin, length);
        for (int64_t i = begin; i < begin + length; i++) {
            compare_element(&c, got[i], want[i], top, i, bound);
            if (isfinite(want[i]) && isfinite(got[i])) {
                error += (got[i] - want[i]) * (got[i] - want[i]);
                size += want[i] * want[i];
            }
        }
    }
    c.norm = error == 0 ? 0 : sqrt(error / size);
    c.right = c.strays == 0 && c.worst <= 1 && c.norm <= bound.norm;
    return c;
}

void comparison_print(const char *what, const struct comparison *c, const double *got, const double *want,
                      struct bound bound)
{
    fprintf(stderr, "%s: %s; worst element %lld: got %.9g want %.9g (%.3g of what is allowed); ", what,
            c->right ? "right" : "WRONG", (long long)c->worst_at, got[c->worst_at], want[c->worst_at],
            c->worst);
    fprintf(stderr, "norm error %.3g (allowed %.3g)", c->norm, bound.norm);
    if (c->strays)
        fprintf(stderr, "; %lld NaN or Inf out of place, first %lld: got %.9g want %.9g",
                (long long)c->strays, (long long)c->stray_at, got[c->stray_at], want[c->stray_at]);
    fputc('\n', stderr);
}
