#include "gpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { OLDEST_ARCH = 80, HOPPER = 90, AFTER_HOPPER = 100 };

static bool is_hopper(int arch)
{
    return arch >= HOPPER && arch < AFTER_HOPPER;
}

smla_status smla__gpu_check_arch(int arch, struct smla__detail *detail)
{
    if (smla__image_count() == 0)
        return smla__fail(detail, SMLA_ERROR_NO_KERNELS,
                          "this build carries no GPU kernels: use the cpu backend");
    if (is_hopper(arch))
        return SMLA_OK;
    if (!smla__image_data(SMLA__IMAGE_DECODE_PORTABLE))
        return smla__fail(detail, SMLA_ERROR_DEVICE_ARCH, "sm_%d: sm_90 is accepted by this build", arch);
    if (arch < OLDEST_ARCH)
        return smla__fail(detail, SMLA_ERROR_DEVICE_ARCH, "sm_%d: sm_80 and later are accepted", arch);
    return SMLA_OK;
}

bool smla__gpu_portable(const smla_plan *plan)
{
    return plan->options.cuda_portable || !is_hopper(plan->context->arch);
}

static smla_status read_arch(const struct smla__driver *driver, int device, int *arch,
                             struct smla__detail *detail)
{
    int major = 0, minor = 0;
    int result = driver->cuDeviceGetAttribute(&major, SMLA__CUDA_ARCH_MAJOR, device);
    if (!result)
        result = driver->cuDeviceGetAttribute(&minor, SMLA__CUDA_ARCH_MINOR, device);
    *arch = 10 * major + minor;
    return result ? smla__driver_fail(driver, result, "cuDeviceGetAttribute", detail) : SMLA_OK;
}

/* The device of the caller's current context; *context NULL if there is none. */
static smla_status read_current(const struct smla__driver *driver, struct CUctx_st **context, int *device,
                                struct smla__detail *detail)
{
    int result = driver->cuCtxGetCurrent(context);
    if (!result && *context)
        result = driver->cuCtxGetDevice(device);
    return result ? smla__driver_fail(driver, result, "cuCtxGetCurrent", detail) : SMLA_OK;
}

smla_status smla__gpu_current_arch(int *arch, struct smla__detail *detail)
{
    const struct smla__driver *driver;
    struct CUctx_st *current = NULL;
    int device = 0;
    smla_status status = smla__driver_open(&driver, detail);
    if (status == SMLA_OK)
        status = read_current(driver, &current, &device, detail);
    if (status != SMLA_OK)
        return status;
    int result = current ? 0 : driver->cuDeviceGet(&device, 0);
    return result ? smla__driver_fail(driver, result, "cuDeviceGet", detail)
                  : read_arch(driver, device, arch, detail);
}

/* The caller's current context if it is on the wanted device (-1: any), else that device's primary context. */
static smla_status choose_context(struct smla__gpu *gpu, int ordinal, struct smla__detail *detail)
{
    const struct smla__driver *driver = gpu->driver;
    struct CUctx_st *current = NULL;
    int device = -1;
    smla_status status = read_current(driver, &current, &device, detail);
    if (status != SMLA_OK)
        return status;
    if (ordinal >= driver->devices)
        return smla__fail(detail, SMLA_ERROR_NO_DEVICE, "cuda_device = %d: -1 or 0 .. %d is accepted",
                          ordinal, driver->devices - 1);
    int result = 0, wanted = device;
    if (ordinal >= 0 || !current)
        result = driver->cuDeviceGet(&wanted, ordinal < 0 ? 0 : ordinal);
    if (result)
        return smla__driver_fail(driver, result, "cuDeviceGet", detail);
    gpu->device = wanted;
    gpu->context = current;
    if (current && wanted == device)
        return SMLA_OK;
    result = driver->cuDevicePrimaryCtxRetain(&gpu->context, wanted);
    gpu->retained = result == 0;
    return result ? smla__driver_fail(driver, result, "cuDevicePrimaryCtxRetain", detail) : SMLA_OK;
}

static smla_status open_gpu(struct smla__gpu *gpu, int ordinal, struct smla__detail *detail)
{
    smla_status status = smla__driver_open(&gpu->driver, detail);
    if (status == SMLA_OK)
        status = choose_context(gpu, ordinal, detail);
    if (status == SMLA_OK)
        status = read_arch(gpu->driver, gpu->device, &gpu->arch, detail);
    if (status != SMLA_OK)
        return status;
    status = smla__gpu_check_arch(gpu->arch, detail);
    if (status != SMLA_OK)
        return status;
    int result = gpu->driver->cuDeviceGetAttribute(&gpu->processors, SMLA__CUDA_PROCESSORS, gpu->device);
    return result ? smla__driver_fail(gpu->driver, result, "cuDeviceGetAttribute", detail) : SMLA_OK;
}

smla_status smla__gpu_open(smla_context *context, const smla_context_options *options)
{
    struct smla__detail *detail = &context->detail;
    if (smla__image_count() == 0)
        return smla__fail(detail, SMLA_ERROR_NO_KERNELS,
                          "this build carries no GPU kernels: use the cpu backend");
    struct smla__gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return smla__fail(detail, SMLA_ERROR_MEMORY, "no memory for %zu bytes", sizeof *gpu);
    context->state = gpu;
    smla_status status = open_gpu(gpu, options->cuda_device, detail);
    if (status == SMLA_OK)
        context->arch = gpu->arch;
    else
        smla__gpu_close(context);
    return status;
}

void smla__gpu_close(smla_context *context)
{
    struct smla__gpu *gpu = smla__gpu_of(context);
    bool pushed = false;
    if (gpu->context && smla__gpu_enter(gpu, &pushed, NULL) == SMLA_OK) {
        for (int i = 0; i < SMLA__IMAGES; i++)
            if (gpu->libraries[i])
                gpu->driver->cuLibraryUnload(gpu->libraries[i]);
        smla__gpu_leave(gpu, pushed);
    }
    if (gpu->retained)
        gpu->driver->cuDevicePrimaryCtxRelease(gpu->device);
    free(gpu);
    context->state = NULL;
}

smla_status smla__gpu_enter(const struct smla__gpu *gpu, bool *pushed, struct smla__detail *detail)
{
    struct CUctx_st *current = NULL;
    *pushed = false;
    int result = gpu->driver->cuCtxGetCurrent(&current);
    if (!result && current == gpu->context)
        return SMLA_OK;
    if (!result)
        result = gpu->driver->cuCtxPushCurrent(gpu->context);
    *pushed = result == 0;
    return result ? smla__driver_fail(gpu->driver, result, "cuCtxPushCurrent", detail) : SMLA_OK;
}

void smla__gpu_leave(const struct smla__gpu *gpu, bool pushed)
{
    struct CUctx_st *ours;
    if (pushed)
        gpu->driver->cuCtxPopCurrent(&ours);
}

smla_status smla__gpu_check_capture(const struct smla__gpu *gpu, struct CUstream_st *stream,
                                    const char *advice, struct smla__detail *detail)
{
    int capturing = 0;
    int result = gpu->driver->cuStreamIsCapturing(stream, &capturing);
    if (result)
        return smla__driver_fail(gpu->driver, result, "cuStreamIsCapturing", detail);
    if (capturing)
        return smla__fail(detail, SMLA_ERROR_ARGUMENT,
                          "stream: is being captured; one that is not is accepted (%s)", advice);
    return SMLA_OK;
}

/* An image without code for the GPU comes to light here, or when its first kernel is asked for. */
static smla_status fail_load(const struct smla__gpu *gpu, int result, const char *call,
                             struct smla__detail *detail)
{
    if (result == SMLA__CUDA_NO_BINARY_FOR_GPU)
        return smla__fail(detail, SMLA_ERROR_DEVICE_ARCH, "%s: there are no kernels for sm_%d", call,
                          gpu->arch);
    if (result == SMLA__CUDA_UNSUPPORTED_PTX)
        return smla__fail(detail, SMLA_ERROR_OLD_DRIVER,
                          "%s: the GPU driver (for CUDA %d.%d) is too old to compile these kernels for sm_%d",
                          call, gpu->driver->version / 1000, gpu->driver->version % 1000 / 10, gpu->arch);
    return smla__driver_fail(gpu->driver, result, call, detail);
}

static smla_status load_image(struct smla__gpu *gpu, enum smla__image image, struct smla__detail *detail)
{
    const void *data = smla__image_data(image);
    if (gpu->libraries[image])
        return SMLA_OK;
    if (!data)
        return smla__fail(detail, SMLA_UNSUPPORTED_BACKEND, "this build lacks kernels: %s",
                          smla__image_name(image));
    int result = gpu->driver->cuLibraryLoadData(&gpu->libraries[image], data, NULL, NULL, 0, NULL, NULL, 0);
    return result ? fail_load(gpu, result, "cuLibraryLoadData", detail) : SMLA_OK;
}

smla_status smla__gpu_function(struct smla__gpu *gpu, enum smla__image image, const char *entry,
                               int shared_bytes, bool large_clusters, struct CUfunc_st **function,
                               struct smla__detail *detail)
{
    const struct smla__driver *driver = gpu->driver;
    struct CUkern_st *kernel = NULL;
    smla_status status = load_image(gpu, image, detail);
    if (status != SMLA_OK)
        return status;
    int result = driver->cuLibraryGetKernel(&kernel, gpu->libraries[image], entry);
    if (!result)
        result = driver->cuKernelGetFunction(function, kernel);
    if (!result && shared_bytes)
        result = driver->cuFuncSetAttribute(*function, SMLA__CUDA_MAX_SHARED, shared_bytes);
    if (!result && large_clusters)
        result = driver->cuFuncSetAttribute(*function, SMLA__CUDA_LARGE_CLUSTERS, 1);
    return result ? fail_load(gpu, result, entry, detail) : SMLA_OK;
}

struct smla__grid smla__gpu_warps(struct CUfunc_st *function, int64_t items)
{
    enum { WARPS = 8, WARP = 32, BLOCKS_MAX = 1 << 20 };
    int64_t blocks = (items + WARPS - 1) / WARPS;
    return (struct smla__grid){.function = function,
                               .blocks = (unsigned)(blocks > BLOCKS_MAX ? BLOCKS_MAX : blocks),
                               .threads = WARPS * WARP,
                               .cluster = 1};
}

smla_status smla__gpu_check_aligned(const struct smla__aligned *items, size_t count,
                                    struct smla__detail *detail)
{
    enum { ALIGN = 16 };
    for (size_t i = 0; i < count; i++)
        if (items[i].value % ALIGN)
            return smla__fail(detail, SMLA_ERROR_ALIGNMENT,
                              "%s = %" PRIu64 ": a multiple of %d is accepted by the cuda backend",
                              items[i].name, items[i].value, ALIGN);
    return SMLA_OK;
}

void smla__gpu_describe(const struct smla__grid *grid, struct smla__launch *launch,
                        struct smla__launch_attribute attributes[2])
{
    *launch = (struct smla__launch){.grid_x = grid->blocks,
                                    .grid_y = 1,
                                    .grid_z = 1,
                                    .block_x = grid->threads,
                                    .block_y = 1,
                                    .block_z = 1,
                                    .shared_bytes = grid->shared_bytes,
                                    .attributes = attributes};
    if (grid->cluster > 1)
        attributes[launch->attribute_count++] =
            (struct smla__launch_attribute){.id = SMLA__CUDA_CLUSTER, .value.cluster = {grid->cluster, 1, 1}};
    if (grid->programmatic)
        attributes[launch->attribute_count++] =
            (struct smla__launch_attribute){.id = SMLA__CUDA_PROGRAMMATIC, .value.programmatic = 1};
}

smla_status smla__gpu_launch(const struct smla__gpu *gpu, const struct smla__grid *grid, void *arguments,
                             struct CUstream_st *stream, struct smla__detail *detail)
{
    struct smla__launch_attribute attributes[2];
    struct smla__launch launch;
    smla__gpu_describe(grid, &launch, attributes);
    launch.stream = stream;
    int result = gpu->driver->cuLaunchKernelEx(&launch, grid->function, &arguments, NULL);
    return result ? smla__driver_fail(gpu->driver, result, "cuLaunchKernelEx", detail) : SMLA_OK;
}
