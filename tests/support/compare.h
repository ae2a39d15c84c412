/* Comparison of a result with the oracle, three ways: every element, the whole by its norm, and the places
 * of NaN and Inf. The bounds stand in compare.c with their derivation. */
#ifndef TEST_COMPARE_H
#define TEST_COMPARE_H

#include <smla/smla.h>
#include <stdbool.h>
#include <stdint.h>

struct bound {
    double element;  /* error allowed per element, in units of the largest |want| of its group */
    double relative; /* and in units of the element itself (rounding of the output type) */
    double absolute; /* and outright */
    double norm;     /* |got - want| / |want| over the whole array */
};

/* Bounds of out and lse. `score_size` is the case's |scale| |q| |key|: scores are sums in fp32, so their
 * absolute error, which is the relative error of a weight, grows with it. */
struct bound bound_out(smla_isa isa, smla_dtype out_dtype, double score_size);
struct bound bound_lse(double score_size);

struct comparison {
    double worst;     /* largest element error over its allowance: right if <= 1 */
    int64_t worst_at; /* its index */
    double norm;      /* relative error of the norm */
    int64_t strays;   /* elements that are NaN or Inf on one side only, or of other sign */
    int64_t stray_at; /* the first such index */
    bool right;
};

/* `group` consecutive elements share a scale: 512 columns of a head, or 1 for lse. */
struct comparison compare(const double *got, const double *want, int64_t count, int64_t group,
                          struct bound bound);
/* One line on stderr: what differs most, and where. */
void comparison_print(const char *what, const struct comparison *comparison, const double *got,
                      const double *want, struct bound bound);

#endif
