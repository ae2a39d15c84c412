#include "fake_driver.h"

#include <args.h>
#include <gpu/driver.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { INVALID_VALUE = 1, INVALID_CONTEXT = 201, NOT_FOUND = 500, INVALID_DEVICE = 101 };

struct CUctx_st {
    int device;
};
struct CUlib_st {
    const void *image;
};
struct CUkern_st {
    char name[48];
};
struct CUfunc_st {
    struct CUkern_st kernel;
    int max_shared;
    bool large_clusters;
};
struct CUevent_st {
    bool recorded;
};

static struct fake fake = {.version = 12080, .devices = 1, .arch = {90, 80}};
static struct CUctx_st primary[FAKE_DEVICES] = {{0}, {1}}, own[FAKE_DEVICES] = {{0}, {1}};
static struct CUctx_st *stack[FAKE_CONTEXTS];

EXPORT fake_state fake_driver_state;
EXPORT fake_set_current fake_driver_set_current;
EXPORT fake_current fake_driver_current;
EXPORT int cuDriverGetVersion(int *version);
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);

struct fake *fake_driver_state(void)
{
    return &fake;
}

void fake_driver_set_current(int device)
{
    fake.depth = device >= 0;
    stack[0] = device >= 0 ? &own[device] : NULL;
}

void *fake_driver_current(void)
{
    return fake.depth ? stack[fake.depth - 1] : NULL;
}

/* Counts a call; gives the result that it is to fail with. */
static int called(const char *name, bool needs_context)
{
    fake.calls++;
    if (needs_context && !fake.depth) {
        fake.complaint = name;
        return INVALID_CONTEXT;
    }
    if (fake.failing && strcmp(fake.failing, name) == 0 && fake.fail_after-- == 0)
        return fake.fail_result;
    return 0;
}
#define CALLED(needs_context)                                                                                \
    do {                                                                                                     \
        int result_ = called(__func__, needs_context);                                                       \
        if (result_)                                                                                         \
            return result_;                                                                                  \
    } while (0)

int cuDriverGetVersion(int *version)
{
    *version = fake.version;
    return 0;
}

static int cuInit(unsigned flags)
{
    (void)flags;
    return fake.init_result;
}

static int cuGetErrorName(int result, const char **name)
{
    *name = result == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_SOMETHING";
    return 0;
}

static int cuGetErrorString(int result, const char **text)
{
    *text = result == 719 ? "unspecified launch failure" : "something went wrong";
    return 0;
}

/* ---- Devices and contexts ---- */

static int cuDeviceGetCount(int *count)
{
    CALLED(false);
    *count = fake.devices;
    return 0;
}

static int cuDeviceGet(int *device, int ordinal)
{
    CALLED(false);
    if (ordinal < 0 || ordinal >= fake.devices)
        return INVALID_DEVICE;
    *device = ordinal;
    return 0;
}

static int cuDeviceGetName(char *name, int size, int device)
{
    CALLED(false);
    strncpy(name, device ? "second fake" : "first fake", (size_t)size);
    return 0;
}

static int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    CALLED(false);
    *value = attribute == SMLA__CUDA_ARCH_MAJOR   ? fake.arch[device] / 10
             : attribute == SMLA__CUDA_ARCH_MINOR ? fake.arch[device] % 10
                                                  : 132;
    return 0;
}

static int cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
    CALLED(false);
    fake.retained[device]++;
    *context = &primary[device];
    return 0;
}

static int cuDevicePrimaryCtxRelease(int device)
{
    CALLED(false);
    fake.retained[device]--;
    return 0;
}

static int cuCtxGetCurrent(struct CUctx_st **context)
{
    CALLED(false);
    *context = fake_driver_current();
    return 0;
}

static int cuCtxGetDevice(int *device)
{
    CALLED(true);
    *device = stack[fake.depth - 1]->device;
    return 0;
}

static int cuCtxPushCurrent(struct CUctx_st *context)
{
    CALLED(false);
    if (fake.depth == FAKE_CONTEXTS)
        return INVALID_VALUE;
    stack[fake.depth++] = context;
    fake.pushes++;
    return 0;
}

static int cuCtxPopCurrent(struct CUctx_st **context)
{
    CALLED(true);
    *context = stack[--fake.depth];
    fake.pops++;
    return 0;
}

/* ---- Kernels ---- */

static int cuLibraryLoadData(struct CUlib_st **library, const void *image, const int *jit, void **jit_values,
                             unsigned jit_count, const int *options, void **option_values, unsigned count)
{
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)option_values, (void)count;
    CALLED(false);
    if (!image || memcmp(image, "\x50\xed\x55\xba", 4) != 0) /* a fatbin's first bytes */
        return INVALID_VALUE;
    *library = calloc(1, sizeof **library);
    (*library)->image = image;
    fake.libraries++;
    return 0;
}

enum { KERNELS = 64 };
static struct CUfunc_st functions[KERNELS];
static int function_count;

static int cuLibraryUnload(struct CUlib_st *library)
{
    CALLED(false);
    free(library);
    fake.libraries--;
    return 0;
}

static int cuLibraryGetKernel(struct CUkern_st **kernel, struct CUlib_st *library, const char *name)
{
    CALLED(false);
    int i = 0;
    while (i < function_count && strcmp(functions[i].kernel.name, name) != 0)
        i++;
    if (!library->image || i == KERNELS)
        return NOT_FOUND;
    function_count = i < function_count ? function_count : i + 1;
    strncpy(functions[i].kernel.name, name, sizeof functions[i].kernel.name - 1);
    *kernel = &functions[i].kernel;
    return 0;
}

static int cuKernelGetFunction(struct CUfunc_st **function, struct CUkern_st *kernel)
{
    CALLED(true);
    *function = (struct CUfunc_st *)kernel; /* its first member */
    return 0;
}

static int cuFuncSetAttribute(struct CUfunc_st *function, int attribute, int value)
{
    CALLED(true);
    if (attribute == SMLA__CUDA_MAX_SHARED)
        function->max_shared = value;
    if (attribute == SMLA__CUDA_LARGE_CLUSTERS)
        function->large_clusters = value;
    return 0;
}

static unsigned cluster_of(const struct smla__launch *launch)
{
    for (unsigned i = 0; i < launch->attribute_count; i++)
        if (launch->attributes[i].id == SMLA__CUDA_CLUSTER)
            return launch->attributes[i].value.cluster.x;
    return 1;
}

static bool programmatic(const struct smla__launch *launch)
{
    for (unsigned i = 0; i < launch->attribute_count; i++)
        if (launch->attributes[i].id == SMLA__CUDA_PROGRAMMATIC)
            return launch->attributes[i].value.programmatic;
    return false;
}

static int cuOccupancyMaxActiveClusters(int *clusters, struct CUfunc_st *function,
                                        const struct smla__launch *launch)
{
    (void)function;
    CALLED(true);
    *clusters = 132 / (int)cluster_of(launch);
    return 0;
}

static size_t argument_bytes(const char *entry)
{
    return strncmp(entry, "smla_decode", 11) == 0   ? sizeof(struct smla_decode_args)
           : strncmp(entry, "smla_check", 10) == 0  ? sizeof(struct smla_check_args)
           : strcmp(entry, "smla_cache_write") == 0 ? sizeof(struct smla_cache_write_args)
           : strcmp(entry, "smla_merge") == 0       ? sizeof(struct smla_merge_args)
                                                    : 0;
}

/* What the real driver refuses: empty and odd grids, more shared memory than was allowed. */
static bool launchable(const struct smla__launch *launch, const struct CUfunc_st *function)
{
    unsigned cluster = cluster_of(launch);
    return launch->grid_x > 0 && launch->grid_x <= INT32_MAX && launch->grid_y == 1 && launch->grid_z == 1 &&
           launch->block_x > 0 && launch->block_x <= 1024 && launch->block_y == 1 && launch->block_z == 1 &&
           launch->grid_x % cluster == 0 && (cluster <= 8 || function->large_clusters) &&
           (launch->shared_bytes <= 48 * 1024 || (int)launch->shared_bytes <= function->max_shared);
}

static int cuLaunchKernelEx(const struct smla__launch *launch, struct CUfunc_st *function, void **parameters,
                            void **extra)
{
    CALLED(true);
    size_t bytes = argument_bytes(function->kernel.name);
    if (extra || !bytes || !launchable(launch, function) || fake.launch_count == FAKE_LAUNCHES) {
        fake.complaint = function->kernel.name;
        return INVALID_VALUE;
    }
    struct fake_launch *kept = &fake.launches[fake.launch_count++];
    *kept = (struct fake_launch){.grid = launch->grid_x,
                                 .threads = launch->block_x,
                                 .shared_bytes = launch->shared_bytes,
                                 .cluster = cluster_of(launch),
                                 .programmatic = programmatic(launch),
                                 .stream = launch->stream,
                                 .device = stack[fake.depth - 1]->device};
    memcpy(kept->entry, function->kernel.name, sizeof kept->entry);
    memcpy(kept->arguments, parameters[0], bytes);
    return 0;
}

/* ---- Memory, events, streams: everything is done at once ---- */

static int cuMemAlloc(uint64_t *memory, size_t bytes)
{
    CALLED(true);
    if (bytes == 0)
        return INVALID_VALUE;
    void *host = malloc(bytes);
    memset(host, 0xa5, bytes);
    *memory = (uintptr_t)host;
    fake.memory++;
    fake.allocations++;
    return 0;
}

static int cuMemFree(uint64_t memory)
{
    CALLED(true);
    free((void *)(uintptr_t)memory);
    fake.memory--;
    return 0;
}

static int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    CALLED(true);
    *memory = malloc(bytes);
    fake.pinned++;
    fake.allocations++;
    return 0;
}

static int cuMemFreeHost(void *memory)
{
    CALLED(true);
    free(memory);
    fake.pinned--;
    return 0;
}

static int cuMemcpyHtoDAsync(uint64_t to, const void *from, size_t bytes, struct CUstream_st *stream)
{
    (void)stream;
    CALLED(true);
    fake.copies++;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

static int cuMemcpyDtoHAsync(void *to, uint64_t from, size_t bytes, struct CUstream_st *stream)
{
    (void)stream;
    CALLED(true);
    fake.copies++;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

static int cuMemcpy2DAsync(const struct smla__copy_2d *copy, struct CUstream_st *stream)
{
    (void)stream;
    CALLED(true);
    fake.copies++;
    bool known = copy->from_type == SMLA__CUDA_MEMORY_HOST && copy->to_type == SMLA__CUDA_MEMORY_DEVICE;
    if (!known || copy->from_x || copy->from_y || copy->to_x || copy->to_y ||
        copy->width > copy->from_pitch || copy->width > copy->to_pitch)
        return INVALID_VALUE;
    for (size_t y = 0; y < copy->height; y++)
        memcpy((char *)(uintptr_t)copy->to_device + y * copy->to_pitch,
               (const char *)copy->from_host + y * copy->from_pitch, copy->width);
    return 0;
}

static int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, struct CUstream_st *stream)
{
    (void)stream;
    CALLED(true);
    for (size_t i = 0; i < count; i++)
        ((unsigned *)(uintptr_t)to)[i] = value;
    return 0;
}

static int cuEventCreate(struct CUevent_st **event, unsigned flags)
{
    (void)flags;
    CALLED(true);
    *event = calloc(1, sizeof **event);
    fake.events++;
    return 0;
}

static int cuEventRecord(struct CUevent_st *event, struct CUstream_st *stream)
{
    (void)stream;
    CALLED(true);
    event->recorded = true;
    return 0;
}

static int cuEventSynchronize(struct CUevent_st *event)
{
    CALLED(true);
    fake.waits++;
    return event->recorded ? 0 : INVALID_VALUE;
}

static int cuEventDestroy(struct CUevent_st *event)
{
    CALLED(true);
    free(event);
    fake.events--;
    return 0;
}

static int cuStreamIsCapturing(struct CUstream_st *stream, int *status)
{
    (void)stream;
    CALLED(true);
    *status = fake.capturing;
    return 0;
}

static int cuStreamSynchronize(struct CUstream_st *stream)
{
    (void)stream;
    CALLED(true);
    fake.waits++;
    return 0;
}

/* ---- Names ---- */

static const struct {
    const char *name;
    void *function;
} names[] = {
#define DRIVER(name, parameters) {#name, __extension__(void *) name},
#include <gpu/driver.def>
#undef DRIVER
};

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    (void)flags, (void)status;
    *function = NULL;
    if (version > fake.version)
        return INVALID_VALUE;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0 && (!fake.missing || strcmp(fake.missing, name) != 0))
            *function = names[i].function;
    return *function ? 0 : NOT_FOUND;
}
