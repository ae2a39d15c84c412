/* What the memory of this machine gives when rows of a cache are read at random. */
#ifndef GATHER_H
#define GATHER_H

#include <stdint.h>

enum { GATHER_ROW_BYTES = 1152 };

/* GB/s of `threads` threads that read random rows of a pool of `rows` rows, the best of twenty measurements of 10 ms.
 * 0 if a thread cannot be started. */
double gather_gbps(const void *pool, int64_t rows, int threads);

#endif
