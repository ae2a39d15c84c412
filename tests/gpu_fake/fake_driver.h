/*
 * A GPU driver without a GPU: libcuda.so.1 with the functions that the library uses, over host memory. It checks what
 * the real one would (is a context current, do handles exist), writes down what it was asked, and fails on demand.
 * Kernels are not run: their launches are kept.
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_DEVICES = 2, FAKE_LAUNCHES = 64, FAKE_CONTEXTS = 8, FAKE_ARGUMENTS = 1024 };

struct fake_launch {
    char entry[48];
    unsigned grid, threads, shared_bytes, cluster;
    bool programmatic;
    void *stream;
    int device;                                  /* of the context that was current */
    _Alignas(16) char arguments[FAKE_ARGUMENTS]; /* the kernel's parameter */
};

struct fake {
    /* What a test sets. */
    int version, devices, arch[FAKE_DEVICES], init_result;
    const char *missing;         /* a function that this driver does not have */
    const char *failing;         /* a function that fails, */
    int fail_result, fail_after; /* once: how, and after how many calls that do not */
    bool capturing;

    /* What it finds. */
    int retained[FAKE_DEVICES], depth; /* primary contexts held; contexts on the stack */
    int pushes, pops, libraries, calls;
    long memory, pinned, events; /* living ones */
    int allocations, waits, copies;
    int launch_count;
    struct fake_launch launches[FAKE_LAUNCHES];
    const char *complaint; /* a use that the real driver would not accept */
};

/* Names of the functions that are found with dlsym beside the driver's own: */
typedef struct fake *fake_state(void);
typedef void fake_set_current(int device); /* a context of the caller's own; -1: none at all */
typedef void *fake_current(void);

#endif
