/* The float64 result of a capture, by rows. */
#ifndef ORACLE_H
#define ORACLE_H

#include <capture.h>
#include <stdbool.h>
#include <stdint.h>

/* Request of each row, [T]; query_start_loc must be sound. NULL if memory is short; free() it. */
int32_t *oracle_row_requests(const struct capture *capture);

/* Fills out [count, H, 512] and lse [count, H] for rows first .. first + count - 1. False if memory is short. */
bool oracle_attend(const struct capture *capture, const int32_t *row_request, int64_t first, int64_t count,
                   double *out, double *lse);

/* Valid list entries of all rows together: the cache rows that a run gathers. */
int64_t oracle_valid_entries(const struct capture *capture, const int32_t *row_request);

/* How large the scores of row t may be: |scale| times the largest norms of its queries and of the cache rows it
 * lists. Rounding errors of a score grow with this, not with the score, which may be small by cancellation. */
double oracle_score_size(const struct capture *capture, const int32_t *row_request, int64_t t);

#endif
