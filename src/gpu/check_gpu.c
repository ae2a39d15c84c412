#include "check_gpu.h"

enum { WORDS = sizeof(struct smla_offence) / sizeof(uint32_t) };

static const unsigned long long none = ~0ull;

static int clear(const struct smla__driver *driver, uint64_t record, struct CUstream_st *stream)
{
    return driver->cuMemsetD32Async(record, UINT32_MAX, WORDS, stream);
}

smla_status smla__gpu_check_open(struct smla__gpu *gpu, struct smla__gpu_check *check,
                                 struct smla__detail *detail)
{
    const struct smla__driver *driver = gpu->driver;
    smla_status status =
        smla__gpu_function(gpu, SMLA__IMAGE_CHECK_LISTS, "smla_check_lists", 0, false, &check->find, detail);
    if (status == SMLA_OK)
        status = smla__gpu_function(gpu, SMLA__IMAGE_CHECK_LISTS, "smla_check_note", 0, false, &check->note,
                                    detail);
    if (status != SMLA_OK)
        return status;
    int result = driver->cuMemAlloc(&check->record, sizeof(struct smla_offence));
    if (!result)
        result = clear(driver, check->record, NULL);
    /* Streams that do not wait for the default one must see it too. */
    if (!result)
        result = driver->cuStreamSynchronize(NULL);
    if (!result)
        return SMLA_OK;
    smla__gpu_check_close(gpu, check);
    return smla__driver_fail(driver, result, "cuMemAlloc of a plan's record", detail);
}

void smla__gpu_check_close(const struct smla__gpu *gpu, struct smla__gpu_check *check)
{
    if (check->record)
        gpu->driver->cuMemFree(check->record);
    check->record = 0;
}

smla_status smla__gpu_check_run(const struct smla__gpu *gpu, const struct smla__gpu_check *check,
                                const struct smla_lists *lists, int64_t rows, struct CUstream_st *stream,
                                struct smla__detail *detail)
{
    struct smla_check_args args = {
        .lists = *lists, .rows = (int32_t)rows, .offence = (struct smla_offence *)(uintptr_t)check->record};
    const struct smla__grid find = smla__gpu_warps(check->find, rows);
    const struct smla__grid note = {.function = check->note, .blocks = 1, .threads = 1, .cluster = 1};
    smla_status status = smla__gpu_launch(gpu, &find, &args, stream, detail);
    return status == SMLA_OK ? smla__gpu_launch(gpu, &note, &args, stream, detail) : status;
}

static struct smla__offence offence_of(const struct smla_offence *record)
{
    return (struct smla__offence){.found = record->place != none,
                                  .row = (int64_t)(record->place >> 32),
                                  .entry = (int64_t)(record->place & UINT32_MAX),
                                  .known = record->noted == record->place,
                                  .value = record->value,
                                  .limit = record->limit};
}

smla_status smla__gpu_check_verify(const struct smla__gpu *gpu, const struct smla__gpu_check *check,
                                   struct CUstream_st *stream, struct smla__offence *offence,
                                   struct smla__detail *detail)
{
    const struct smla__driver *driver = gpu->driver;
    struct smla_offence record = {.place = none};
    bool pushed;
    smla_status status = smla__gpu_enter(gpu, &pushed, detail);
    if (status == SMLA_OK)
        status = smla__gpu_check_capture(gpu, stream, "call it outside", detail);
    if (status != SMLA_OK) {
        smla__gpu_leave(gpu, pushed);
        return status;
    }
    int result = driver->cuMemcpyDtoHAsync(&record, check->record, sizeof record, stream);
    if (!result)
        result = clear(driver, check->record, stream);
    /* In any case: the copy writes to this function's memory. */
    int waited = driver->cuStreamSynchronize(stream);
    smla__gpu_leave(gpu, pushed);
    if (result || waited)
        return smla__driver_fail(driver, result ? result : waited, "waiting for the stream", detail);
    *offence = offence_of(&record);
    return SMLA_OK;
}
