#include "compare.h"

#include <math.h>

void compare_add(struct compare *compare, const float *got, const double *wanted, int64_t n, int64_t index)
{
    for (int64_t i = 0; i < n; i++) {
        double g = (double)got[i], w = wanted[i];
        if (!isfinite(g) || !isfinite(w)) {
            bool same = (isnan(g) && isnan(w)) || g == w;
            if (!same && compare->mismatches++ == 0)
                compare->first_mismatch = index + i;
            continue;
        }
        double error = fabs(g - w);
        if (error > compare->max_error) {
            compare->max_error = error;
            compare->worst = index + i;
        }
        compare->max_wanted = fmax(compare->max_wanted, fabs(w));
        compare->error_square += error * error;
        compare->wanted_square += w * w;
    }
    compare->count += n;
}

double compare_relative_norm(const struct compare *compare)
{
    double error = sqrt(compare->error_square), wanted = sqrt(compare->wanted_square);
    return wanted > 0 ? error / wanted : error;
}

bool compare_out_within(const struct compare *compare, double relative)
{
    return !compare->mismatches && compare_relative_norm(compare) <= relative &&
           compare->max_error <= 4 * relative * compare->max_wanted;
}

bool compare_lse_within(const struct compare *compare, double absolute)
{
    return !compare->mismatches && compare->max_error <= absolute;
}
