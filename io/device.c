#include "device.h"

#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUgraph_st;

#define DRIVER(symbol, parameters) int(*symbol) parameters;
struct driver {
    void *library;
#include "device_symbols.def"
};
#undef DRIVER

/* Numbers of the driver's interface. */
enum {
    NOT_READY = 600,
    STREAM_NON_BLOCKING = 1,
    FUNCTION_SHARED_BYTES = 8,
    STATIC_SHARED_BYTES = 48 << 10 /* what every kernel may have without asking */
};

enum attribute {
    ATTRIBUTE_PROCESSORS = 16,
    ATTRIBUTE_L2_BYTES = 38,
    ATTRIBUTE_ARCH_MAJOR = 75,
    ATTRIBUTE_ARCH_MINOR = 76,
    ATTRIBUTE_SHARED_BYTES = 97
};

struct device {
    struct driver driver;
    int handle;
    struct CUctx_st *primary;
    struct device_facts facts;
    struct io_error error;
};

static void driver_text(const struct driver *driver, int result, char *text, size_t size)
{
    const char *name = NULL, *words = NULL;
    if (driver->cuGetErrorName(result, &name) || !name)
        name = "unknown error";
    if (driver->cuGetErrorString(result, &words) || !words)
        words = "no description";
    snprintf(text, size, "%s (%d), %s", name, result, words);
}

/* True if the driver call succeeded; else notes which call it was, in words like "cuMemAlloc_v2(4096)". */
static bool succeeded(struct device *device, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool succeeded(struct device *device, int result, const char *format, ...)
{
    char call[128], text[320];
    va_list arguments;
    if (!result)
        return true;
    va_start(arguments, format);
    vsnprintf(call, sizeof call, format, arguments);
    va_end(arguments);
    driver_text(&device->driver, result, text, sizeof text);
    return io_fail(&device->error, "%s: %s", call, text);
}

static uint64_t address(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

/* ---- The device ---- */

static bool load_driver(struct driver *driver, struct io_error *error)
{
    driver->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver->library)
        return io_fail(error, "no GPU driver: %s", dlerror());
        /* C has no cast from object to function pointers: the bytes are copied, as POSIX says */
#define DRIVER(symbol, parameters)                                                                           \
    {                                                                                                        \
        void *found = dlsym(driver->library, #symbol);                                                       \
        if (!found)                                                                                          \
            return io_fail(error, "the GPU driver has no %s: a driver for CUDA 12.0 or later is needed",     \
                           #symbol);                                                                         \
        memcpy(&driver->symbol, &found, sizeof found);                                                       \
    }
#include "device_symbols.def"
#undef DRIVER
    return true;
}

static bool read_facts(struct device *device)
{
    const struct driver *driver = &device->driver;
    struct device_facts *facts = &device->facts;
    int major = 0, minor = 0, l2 = 0;
    const struct {
        enum attribute attribute;
        int *value;
    } wanted[] = {{ATTRIBUTE_PROCESSORS, &facts->processors},
                  {ATTRIBUTE_L2_BYTES, &l2},
                  {ATTRIBUTE_ARCH_MAJOR, &major},
                  {ATTRIBUTE_ARCH_MINOR, &minor},
                  {ATTRIBUTE_SHARED_BYTES, &facts->shared_bytes}};
    if (!succeeded(device, driver->cuDriverGetVersion(&facts->driver), "cuDriverGetVersion") ||
        !succeeded(device, driver->cuDeviceGetName(facts->name, sizeof facts->name, device->handle),
                   "cuDeviceGetName"))
        return false;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!succeeded(
                device,
                driver->cuDeviceGetAttribute(wanted[i].value, (int)wanted[i].attribute, device->handle),
                "cuDeviceGetAttribute(%d)", (int)wanted[i].attribute))
            return false;
    facts->arch = 10 * major + minor;
    facts->l2_bytes = l2;
    return true;
}

static bool open_context(struct device *device, int ordinal)
{
    const struct driver *driver = &device->driver;
    int count = 0;
    if (!succeeded(device, driver->cuInit(0), "cuInit") ||
        !succeeded(device, driver->cuDeviceGetCount(&count), "cuDeviceGetCount"))
        return false;
    if (ordinal < 0 || ordinal >= count)
        return io_fail(&device->error, "GPU %d: there are %d", ordinal, count);
    struct CUctx_st *primary = NULL;
    if (!succeeded(device, driver->cuDeviceGet(&device->handle, ordinal), "cuDeviceGet(%d)", ordinal) ||
        !read_facts(device) ||
        !succeeded(device, driver->cuDevicePrimaryCtxRetain(&primary, device->handle),
                   "cuDevicePrimaryCtxRetain"))
        return false;
    device->primary = primary;
    return succeeded(device, driver->cuCtxSetCurrent(device->primary), "cuCtxSetCurrent");
}

struct device *device_open(int ordinal, struct io_error *error)
{
    struct device *device = calloc(1, sizeof *device);
    if (!device) {
        io_fail(error, "out of memory");
        return NULL;
    }
    if (!load_driver(&device->driver, &device->error) || !open_context(device, ordinal)) {
        *error = device->error;
        device_close(device);
        return NULL;
    }
    return device;
}

void device_close(struct device *device)
{
    if (!device)
        return;
    if (device->primary) {
        if (device_context_current(device) == device->primary)
            device_context_use(device, NULL);
        device->driver.cuDevicePrimaryCtxRelease_v2(device->handle);
    }
    /* the library stays open, as the driver has threads of its own */
    free(device);
}

const char *device_error(const struct device *device)
{
    return device->error.text;
}

const struct device_facts *device_facts(const struct device *device)
{
    return &device->facts;
}

/* Freeing keeps no reason: after a fault everything fails, and the fault itself is what device_error should tell. */

/* ---- Memory ---- */

void *device_alloc(struct device *device, size_t bytes)
{
    uint64_t memory = 0;
    if (!succeeded(device, device->driver.cuMemAlloc_v2(&memory, bytes ? bytes : 1), "cuMemAlloc_v2(%zu)",
                   bytes))
        return NULL;
    return (void *)(uintptr_t)memory;
}

void device_free(struct device *device, void *memory)
{
    if (memory)
        device->driver.cuMemFree_v2(address(memory));
}

void *device_host_alloc(struct device *device, size_t bytes)
{
    void *memory = NULL;
    if (!succeeded(device, device->driver.cuMemHostAlloc(&memory, bytes ? bytes : 1, 0),
                   "cuMemHostAlloc(%zu)", bytes))
        return NULL;
    return memory;
}

void device_host_free(struct device *device, void *memory)
{
    if (memory)
        device->driver.cuMemFreeHost(memory);
}

bool device_memory(struct device *device, size_t *free_bytes, size_t *total_bytes)
{
    return succeeded(device, device->driver.cuMemGetInfo_v2(free_bytes, total_bytes), "cuMemGetInfo_v2");
}

bool device_upload(struct device *device, void *to, const void *from, size_t bytes)
{
    return device_wait(device) && device_upload_async(device, to, from, bytes, NULL) &&
           device_stream_wait(device, NULL);
}

bool device_download(struct device *device, void *to, const void *from, size_t bytes,
                     struct CUstream_st *stream)
{
    return device_download_async(device, to, from, bytes, stream) && device_stream_wait(device, stream);
}

bool device_upload_async(struct device *device, void *to, const void *from, size_t bytes,
                         struct CUstream_st *stream)
{
    return !bytes || succeeded(device, device->driver.cuMemcpyHtoDAsync_v2(address(to), from, bytes, stream),
                               "cuMemcpyHtoDAsync_v2(%zu)", bytes);
}

bool device_download_async(struct device *device, void *to, const void *from, size_t bytes,
                           struct CUstream_st *stream)
{
    return !bytes || succeeded(device, device->driver.cuMemcpyDtoHAsync_v2(to, address(from), bytes, stream),
                               "cuMemcpyDtoHAsync_v2(%zu)", bytes);
}

bool device_copy(struct device *device, void *to, const void *from, size_t bytes, struct CUstream_st *stream)
{
    return !bytes ||
           succeeded(device, device->driver.cuMemcpyDtoDAsync_v2(address(to), address(from), bytes, stream),
                     "cuMemcpyDtoDAsync_v2(%zu)", bytes);
}

bool device_fill(struct device *device, void *to, unsigned char byte, size_t bytes,
                 struct CUstream_st *stream)
{
    return !bytes || succeeded(device, device->driver.cuMemsetD8Async(address(to), byte, bytes, stream),
                               "cuMemsetD8Async(%zu)", bytes);
}

/* ---- Streams and events ---- */

struct CUstream_st *device_stream_new(struct device *device)
{
    struct CUstream_st *stream = NULL;
    succeeded(device, device->driver.cuStreamCreate(&stream, STREAM_NON_BLOCKING), "cuStreamCreate");
    return stream;
}

void device_stream_free(struct device *device, struct CUstream_st *stream)
{
    if (stream)
        device->driver.cuStreamDestroy_v2(stream);
}

bool device_stream_wait(struct device *device, struct CUstream_st *stream)
{
    return succeeded(device, device->driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

bool device_stream_idle(struct device *device, struct CUstream_st *stream)
{
    int result = device->driver.cuStreamQuery(stream);
    if (result == NOT_READY)
        return false;
    succeeded(device, result, "cuStreamQuery");
    return true;
}

bool device_wait(struct device *device)
{
    return succeeded(device, device->driver.cuCtxSynchronize(), "cuCtxSynchronize");
}

struct CUevent_st *device_event_new(struct device *device)
{
    struct CUevent_st *event = NULL;
    succeeded(device, device->driver.cuEventCreate(&event, 0), "cuEventCreate");
    return event;
}

void device_event_free(struct device *device, struct CUevent_st *event)
{
    if (event)
        device->driver.cuEventDestroy_v2(event);
}

bool device_event_record(struct device *device, struct CUevent_st *event, struct CUstream_st *stream)
{
    return succeeded(device, device->driver.cuEventRecord(event, stream), "cuEventRecord");
}

bool device_event_wait(struct device *device, struct CUevent_st *event)
{
    return succeeded(device, device->driver.cuEventSynchronize(event), "cuEventSynchronize");
}

bool device_stream_after(struct device *device, struct CUstream_st *stream, struct CUevent_st *event)
{
    return succeeded(device, device->driver.cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
}

double device_elapsed_us(struct device *device, struct CUevent_st *begin, struct CUevent_st *end)
{
    float milliseconds = 0;
    if (!device_event_wait(device, end) ||
        !succeeded(device, device->driver.cuEventElapsedTime(&milliseconds, begin, end),
                   "cuEventElapsedTime"))
        return NAN;
    return 1e3 * (double)milliseconds;
}

/* ---- Graphs ---- */

bool device_capture_begin(struct device *device, struct CUstream_st *stream, enum device_capture mode)
{
    return succeeded(device, device->driver.cuStreamBeginCapture_v2(stream, (int)mode),
                     "cuStreamBeginCapture_v2(%d)", (int)mode);
}

struct CUgraphExec_st *device_capture_end(struct device *device, struct CUstream_st *stream)
{
    struct CUgraph_st *graph = NULL;
    struct CUgraphExec_st *exec = NULL;
    if (!succeeded(device, device->driver.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture") || !graph)
        return NULL;
    if (!succeeded(device, device->driver.cuGraphInstantiateWithFlags(&exec, graph, 0),
                   "cuGraphInstantiateWithFlags"))
        exec = NULL;
    device->driver.cuGraphDestroy(graph);
    return exec;
}

bool device_graph_launch(struct device *device, struct CUgraphExec_st *graph, struct CUstream_st *stream)
{
    return succeeded(device, device->driver.cuGraphLaunch(graph, stream), "cuGraphLaunch");
}

void device_graph_free(struct device *device, struct CUgraphExec_st *graph)
{
    if (graph)
        device->driver.cuGraphExecDestroy(graph);
}

/* ---- Kernels ---- */

struct CUmod_st *device_image_load(struct device *device, const void *image)
{
    struct CUmod_st *loaded = NULL;
    if (!succeeded(device, device->driver.cuModuleLoadData(&loaded, image), "cuModuleLoadData"))
        return NULL;
    return loaded;
}

void device_image_free(struct device *device, struct CUmod_st *image)
{
    if (image)
        device->driver.cuModuleUnload(image);
}

struct CUfunc_st *device_kernel(struct device *device, struct CUmod_st *image, const char *name,
                                int shared_bytes)
{
    struct CUfunc_st *kernel = NULL;
    if (!succeeded(device, device->driver.cuModuleGetFunction(&kernel, image, name),
                   "cuModuleGetFunction(%s)", name))
        return NULL;
    if (shared_bytes > STATIC_SHARED_BYTES &&
        !succeeded(device, device->driver.cuFuncSetAttribute(kernel, FUNCTION_SHARED_BYTES, shared_bytes),
                   "cuFuncSetAttribute(%s, shared memory %d)", name, shared_bytes))
        return NULL;
    return kernel;
}

bool device_launch(struct device *device, struct CUfunc_st *kernel, unsigned grid, unsigned block,
                   unsigned shared_bytes, struct CUstream_st *stream, void **arguments)
{
    return succeeded(
        device,
        device->driver.cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, shared_bytes, stream, arguments, NULL),
        "cuLaunchKernel(grid %u, block %u, shared memory %u)", grid, block, shared_bytes);
}

/* ---- Contexts ---- */

struct CUctx_st *device_context_new(struct device *device)
{
    struct CUctx_st *context = NULL;
    if (!succeeded(device, device->driver.cuCtxCreate_v2(&context, 0, device->handle), "cuCtxCreate_v2"))
        return NULL;
    return context;
}

void device_context_free(struct device *device, struct CUctx_st *context)
{
    if (context)
        device->driver.cuCtxDestroy_v2(context);
}

struct CUctx_st *device_context_current(struct device *device)
{
    struct CUctx_st *context = NULL;
    succeeded(device, device->driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    return context;
}

bool device_context_use(struct device *device, struct CUctx_st *context)
{
    return succeeded(device, device->driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

struct CUctx_st *device_context_primary(const struct device *device)
{
    return device->primary;
}
