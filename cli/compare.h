/*
 * Comparison with a float64 result, three ways: the largest element error, the relative norm of the error, and
 * the places where one side is NaN or infinite and the other is not the same. Values come in any portions.
 */
#ifndef COMPARE_H
#define COMPARE_H

#include <stdbool.h>
#include <stdint.h>

struct compare {
    int64_t count;
    double max_error;  /* over the elements that are finite on both sides */
    int64_t worst;     /* index of it */
    double max_wanted; /* largest finite magnitude wanted */
    double error_square, wanted_square;
    int64_t mismatches; /* elements that are not finite and differ */
    int64_t first_mismatch;
};

/* Adds n elements, of which the first has this index. */
void compare_add(struct compare *compare, const float *got, const double *wanted, int64_t n, int64_t index);

/* Norm of the error over the norm of what was wanted; the norm of the error itself if that is 0. */
double compare_relative_norm(const struct compare *compare);

/* No mismatch, and errors of out within `relative`: of the norm, and at each element 4 x `relative` of the
 * largest element. */
bool compare_out_within(const struct compare *compare, double relative);

/* No mismatch, and each error of lse at most `absolute`. */
bool compare_lse_within(const struct compare *compare, double absolute);

#endif
