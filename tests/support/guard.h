/* Memory that shows misuse: buffers that end at an unmapped page, and huge ones that cost only what is
 * touched. */
#ifndef TEST_GUARD_H
#define TEST_GUARD_H

#include <stdbool.h>
#include <stddef.h>

struct guard {
    unsigned char *data; /* `bytes` long; its end is the end of mapped memory */
    size_t bytes;
    void *map;
    size_t map_bytes;
};

/* The buffer is filled with `fill`; one byte past its end is a fault. NULL data if memory is short. */
struct guard guard_open(size_t bytes, int fill);
/* Zero memory of any size, of which only touched pages exist; NULL data if the system refuses. */
struct guard guard_sparse(size_t bytes);
void guard_close(struct guard *guard);
/* Forbids writing to the buffer (whole pages, so also to its slack). */
void guard_protect(const struct guard *guard);

/* Are all `bytes` at `data` equal to `fill`? */
bool guard_filled(const void *data, size_t bytes, int fill);

#endif
