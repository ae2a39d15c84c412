/* The GPU driver, found at run time: nothing of CUDA is linked, and no header of it is needed to build. */
#ifndef SMLA_GPU_DRIVER_H
#define SMLA_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detail.h"

struct CUctx_st;
struct CUlib_st;
struct CUkern_st;
struct CUfunc_st;
struct CUevent_st;

/* Numbers and structs of the driver's interface, as cuda.h (CUDA 12.0) fixes them. */
enum {
    SMLA__CUDA_OUT_OF_MEMORY = 2,
    SMLA__CUDA_NO_DEVICE = 100,
    SMLA__CUDA_NO_BINARY_FOR_GPU = 209,
    SMLA__CUDA_UNSUPPORTED_PTX = 222,
    SMLA__CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    SMLA__CUDA_PROCESSORS = 16, /* device attributes */
    SMLA__CUDA_ARCH_MAJOR = 75,
    SMLA__CUDA_ARCH_MINOR = 76,
    SMLA__CUDA_MAX_SHARED = 8, /* function attributes */
    SMLA__CUDA_LARGE_CLUSTERS = 14,
    SMLA__CUDA_CLUSTER = 4, /* launch attributes */
    SMLA__CUDA_PROGRAMMATIC = 6,
    SMLA__CUDA_EVENT_NO_TIMING = 2,
    SMLA__CUDA_MEMORY_HOST = 1,
    SMLA__CUDA_MEMORY_DEVICE = 2
};

struct smla__launch_attribute {
    int id;
    char pad[4];
    union {
        char all[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int programmatic;
    } value;
};

struct smla__launch {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    struct CUstream_st *stream;
    struct smla__launch_attribute *attributes;
    unsigned attribute_count;
};

struct smla__copy_2d {
    size_t from_x, from_y;
    int from_type;
    const void *from_host;
    uint64_t from_device;
    void *from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    int to_type;
    void *to_host;
    uint64_t to_device;
    void *to_array;
    size_t to_pitch;
    size_t width, height; /* bytes, rows */
};

struct smla__driver {
#define DRIVER(name, parameters) int(*name) parameters;
#include "driver.def"
#undef DRIVER
    int version; /* 12040 for CUDA 12.4 */
    int devices;
};

/* The driver, loaded and initialised once for the process, and never unloaded. SMLA_ERROR_NO_DRIVER, OLD_DRIVER,
 * NO_DEVICE or DEVICE otherwise, always the same. Any thread. */
smla_status smla__driver_open(const struct smla__driver **driver, struct smla__detail *detail);

/* The status of a failed driver call, with the call and the driver's own words in the detail text. */
smla_status smla__driver_fail(const struct smla__driver *driver, int result, const char *call,
                              struct smla__detail *detail);

#endif
