/* A buffer in device memory and its host image, with a margin before and behind in which nothing may change. */
#ifndef TEST_MIRROR_H
#define TEST_MIRROR_H

#include <stdbool.h>
#include <stddef.h>

struct mirror {
    unsigned char *host, *device; /* the data themselves, 256-byte aligned on the device */
    size_t bytes;
};

void mirror_open(struct mirror *mirror, size_t bytes, int fill);
void mirror_close(struct mirror *mirror);
void mirror_load(struct mirror *mirror);
/* Waits for the GPU. Is the device's memory, margins too, like the host's? Says where it first differs. */
bool mirror_same(const struct mirror *mirror, const char *what);
/* Waits for the GPU and brings the data to the host; are the margins as they were? */
bool mirror_fetch(struct mirror *mirror, const char *what);

#endif
