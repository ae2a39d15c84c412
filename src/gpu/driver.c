#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { OLDEST = 12000, VERSION_ASKED = 12000 };

static struct smla__driver table;
static smla_status opened;
static char reason[192];
static pthread_once_t once = PTHREAD_ONCE_INIT;

typedef int get_proc_address(const char *name, void **function, int version, uint64_t flags, int *status);

/* C has no cast from object to function pointers: the bytes are copied, as POSIX says. */
static void find_exported(void *library, const char *name, void *to)
{
    void *function = dlsym(library, name);
    memcpy(to, &function, sizeof function);
}

static bool find(get_proc_address *get, const char *name, void *to)
{
    void *function = NULL;
    if (get(name, &function, VERSION_ASKED, 0, NULL) || !function)
        return false;
    memcpy(to, &function, sizeof function);
    return true;
}

/* The first function that the driver lacks, NULL if none. */
static const char *find_all(get_proc_address *get)
{
#define DRIVER(name, parameters)                                                                             \
    if (!find(get, #name, &table.name))                                                                      \
        return #name;
#include "driver.def"
#undef DRIVER
    return NULL;
}

static smla_status initialise(struct smla__detail *detail)
{
    int result = table.cuInit(0);
    if (result)
        return smla__driver_fail(&table, result, "cuInit", detail);
    result = table.cuDeviceGetCount(&table.devices);
    if (result)
        return smla__driver_fail(&table, result, "cuDeviceGetCount", detail);
    return table.devices ? SMLA_OK : smla__fail(detail, SMLA_ERROR_NO_DEVICE, "the GPU driver finds no GPU");
}

/* Asked before anything else: an old driver has this function, but not all the others. */
static smla_status check_version(void *library, struct smla__detail *detail)
{
    int (*get_version)(int *version) = NULL;
    find_exported(library, "cuDriverGetVersion", &get_version);
    if (get_version && get_version(&table.version) == 0 && table.version < OLDEST)
        return smla__fail(detail, SMLA_ERROR_OLD_DRIVER,
                          "the GPU driver is for CUDA %d.%d: one for 12.0 or later is accepted",
                          table.version / 1000, table.version % 1000 / 10);
    return SMLA_OK;
}

static smla_status load(struct smla__detail *detail)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return smla__fail(detail, SMLA_ERROR_NO_DRIVER, "no GPU driver: %s", dlerror());
    smla_status status = check_version(library, detail);
    if (status != SMLA_OK)
        return status;
    get_proc_address *get = NULL;
    find_exported(library, "cuGetProcAddress_v2", &get);
    const char *missing = get ? find_all(get) : "cuGetProcAddress_v2";
    if (missing)
        return smla__fail(detail, SMLA_ERROR_OLD_DRIVER,
                          "the GPU driver (for CUDA %d.%d) has no %s: one for 12.0 or later is accepted",
                          table.version / 1000, table.version % 1000 / 10, missing);
    return initialise(detail);
}

static void load_once(void)
{
    struct smla__detail detail = {reason, sizeof reason};
    opened = load(&detail);
}

smla_status smla__driver_open(const struct smla__driver **driver, struct smla__detail *detail)
{
    pthread_once(&once, load_once);
    *driver = opened == SMLA_OK ? &table : NULL;
    return opened == SMLA_OK ? SMLA_OK : smla__fail(detail, opened, "%s", reason);
}

smla_status smla__driver_fail(const struct smla__driver *driver, int result, const char *call,
                              struct smla__detail *detail)
{
    const char *name = NULL, *text = NULL;
    if (driver->cuGetErrorName(result, &name) || !name)
        name = "unknown error";
    if (driver->cuGetErrorString(result, &text) || !text)
        text = "no description";
    smla_status status = result == SMLA__CUDA_OUT_OF_MEMORY            ? SMLA_ERROR_MEMORY
                         : result == SMLA__CUDA_NO_DEVICE              ? SMLA_ERROR_NO_DEVICE
                         : result == SMLA__CUDA_SYSTEM_DRIVER_MISMATCH ? SMLA_ERROR_OLD_DRIVER
                                                                       : SMLA_ERROR_DEVICE;
    return smla__fail(detail, status, "%s: %s (%d), %s", call, name, result, text);
}
