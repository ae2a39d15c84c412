#include "parallel.h"

void smla__parallel(int32_t count, void (*body)(void *cookie, int32_t i), void *cookie)
{
    if (count == 1) {
        body(cookie, 0);
        return;
    }
#pragma omp parallel for schedule(static, 1) num_threads(count)
    for (int32_t i = 0; i < count; i++)
        body(cookie, i);
}
