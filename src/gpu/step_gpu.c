#include "step_gpu.h"

#include <stdlib.h>
#include <string.h>

#include "shape.h"

/* Two staging buffers in pinned memory take turns, so that an update waits only for the update before the last. */
enum { BUFFERS = 2 };

struct staging {
    char *memory;
    struct CUevent_st *copied;
    bool in_flight;
};

struct gpu_step {
    /* head, row_request[max_rows], seq_lens[max_requests], block_table[max_requests, max_blocks] */
    uint64_t memory;
    size_t requests_at, lengths_at, table_at, bytes;
    struct staging staging[BUFFERS];
    int next;
};

static void lay_out(struct gpu_step *state, const smla_plan_info *maxima)
{
    state->requests_at = sizeof(struct smla_step_head);
    state->lengths_at = state->requests_at + (size_t)maxima->max_rows * sizeof(int32_t);
    state->table_at = state->lengths_at + (size_t)maxima->max_requests * sizeof(int32_t);
    state->bytes =
        state->table_at + (size_t)maxima->max_requests * (size_t)maxima->max_blocks * sizeof(int32_t);
}

static int open_memory(const struct smla__driver *driver, struct gpu_step *state)
{
    int result = driver->cuMemAlloc(&state->memory, state->bytes);
    for (int i = 0; i < BUFFERS && !result; i++) {
        void *memory = NULL;
        result = driver->cuMemHostAlloc(&memory, state->bytes, 0);
        state->staging[i].memory = memory;
        if (!result)
            result = driver->cuEventCreate(&state->staging[i].copied, SMLA__CUDA_EVENT_NO_TIMING);
    }
    return result;
}

static void close_memory(const struct smla__driver *driver, struct gpu_step *state)
{
    for (int i = 0; i < BUFFERS; i++) {
        struct staging *staging = &state->staging[i];
        if (staging->in_flight)
            driver->cuEventSynchronize(staging->copied);
        if (staging->copied)
            driver->cuEventDestroy(staging->copied);
        if (staging->memory)
            driver->cuMemFreeHost(staging->memory);
    }
    if (state->memory)
        driver->cuMemFree(state->memory);
}

smla_status smla__gpu_step_open(smla_step *step)
{
    const struct smla__gpu *gpu = smla__gpu_of(step->plan->context);
    struct smla__detail *detail = &step->plan->context->detail;
    struct gpu_step *state = calloc(1, sizeof *state);
    if (!state)
        return smla__fail(detail, SMLA_ERROR_MEMORY, "no memory for %zu bytes", sizeof *state);
    lay_out(state, &step->plan->info);
    bool pushed;
    smla_status status = smla__gpu_enter(gpu, &pushed, detail);
    if (status == SMLA_OK) {
        int result = open_memory(gpu->driver, state);
        if (result) {
            close_memory(gpu->driver, state);
            status = smla__driver_fail(gpu->driver, result, "cuMemAlloc of step metadata", detail);
        }
        smla__gpu_leave(gpu, pushed);
    }
    if (status != SMLA_OK) {
        free(state);
        return status;
    }
    step->state = state;
    return SMLA_OK;
}

void smla__gpu_step_close(smla_step *step)
{
    const struct smla__gpu *gpu = smla__gpu_of(step->plan->context);
    bool pushed;
    if (smla__gpu_enter(gpu, &pushed, NULL) == SMLA_OK) {
        close_memory(gpu->driver, step->state);
        smla__gpu_leave(gpu, pushed);
    }
    free(step->state);
}

/* Copies the blocks of each request with rows, as far as its seq_len reaches: the step holds no others. The rest of
 * the table in use is -1, no block. */
static void stage_table(const smla_step *step, int32_t *to)
{
    const struct smla__lanes *lanes = &step->lanes;
    const smla_plan *plan = step->plan;
    int64_t width = lanes->block_table_width, size = plan->problem.block_size;
    if (width == 0)
        return;
    memset(to, 0xff, (size_t)(lanes->info.requests * width) * sizeof *to);
    for (int64_t row = 0; row < lanes->info.rows; row++) {
        int64_t request = lanes->row_request[row];
        if (row && request == lanes->row_request[row - 1])
            continue;
        int64_t blocks = (smla__local_length(&plan->problem, lanes->seq_lens[request]) + size - 1) / size;
        memcpy(to + request * width, lanes->block_table + request * plan->info.max_blocks,
               (size_t)blocks * sizeof *to);
    }
}

/* Copies a batch into a staging buffer. */
static void stage(const smla_step *step, const struct gpu_step *state, char *to)
{
    const struct smla__lanes *lanes = &step->lanes;
    const struct smla_step_head head = {.rows = (int32_t)lanes->info.rows,
                                        .requests = (int32_t)lanes->info.requests,
                                        .table_width = (int32_t)lanes->block_table_width};
    memcpy(to, &head, sizeof head);
    memcpy(to + state->requests_at, lanes->row_request, (size_t)lanes->info.rows * sizeof(int32_t));
    memcpy(to + state->lengths_at, lanes->seq_lens, (size_t)lanes->info.requests * sizeof(int32_t));
    stage_table(step, (int32_t *)(void *)(to + state->table_at));
}

/* Head and row arrays lie together as far as they are in use; the table is copied row by row to its fixed stride. */
static int copy(const struct smla__driver *driver, const smla_step *step, const struct gpu_step *state,
                const char *from, struct CUstream_st *stream)
{
    const struct smla__lanes *lanes = &step->lanes;
    size_t row_bytes = (size_t)lanes->block_table_width * sizeof(int32_t);
    size_t head_bytes = state->requests_at + (size_t)lanes->info.rows * sizeof(int32_t);
    size_t length_bytes = (size_t)lanes->info.requests * sizeof(int32_t);
    int result = driver->cuMemcpyHtoDAsync(state->memory, from, head_bytes, stream);
    if (!result && length_bytes)
        result = driver->cuMemcpyHtoDAsync(state->memory + state->lengths_at, from + state->lengths_at,
                                           length_bytes, stream);
    if (result || !row_bytes || !length_bytes)
        return result;
    const struct smla__copy_2d table = {.from_type = SMLA__CUDA_MEMORY_HOST,
                                        .from_host = from + state->table_at,
                                        .from_pitch = row_bytes,
                                        .to_type = SMLA__CUDA_MEMORY_DEVICE,
                                        .to_device = state->memory + state->table_at,
                                        .to_pitch = (size_t)step->plan->info.max_blocks * sizeof(int32_t),
                                        .width = row_bytes,
                                        .height = (size_t)lanes->info.requests};
    return driver->cuMemcpy2DAsync(&table, stream);
}

static int upload(const struct smla__driver *driver, const smla_step *step, struct gpu_step *state,
                  struct CUstream_st *stream)
{
    struct staging *staging = &state->staging[state->next];
    int result = staging->in_flight ? driver->cuEventSynchronize(staging->copied) : 0;
    if (result)
        return result;
    stage(step, state, staging->memory);
    result = copy(driver, step, state, staging->memory, stream);
    if (!result)
        result = driver->cuEventRecord(staging->copied, stream);
    staging->in_flight = result == 0;
    state->next = (state->next + 1) % BUFFERS;
    return result;
}

smla_status smla__gpu_step_begin(smla_step *step, struct CUstream_st *stream)
{
    const struct smla__gpu *gpu = smla__gpu_of(step->plan->context);
    struct smla__detail *detail = &step->plan->context->detail;
    bool pushed;
    smla_status status = smla__gpu_enter(gpu, &pushed, detail);
    if (status != SMLA_OK)
        return status;
    status = smla__gpu_check_capture(gpu, stream, "update the step outside", detail);
    smla__gpu_leave(gpu, pushed);
    return status;
}

smla_status smla__gpu_step_upload(smla_step *step, struct CUstream_st *stream)
{
    const struct smla__gpu *gpu = smla__gpu_of(step->plan->context);
    struct smla__detail *detail = &step->plan->context->detail;
    bool pushed;
    smla_status status = smla__gpu_enter(gpu, &pushed, detail);
    if (status != SMLA_OK)
        return status;
    int result = upload(gpu->driver, step, step->state, stream);
    smla__gpu_leave(gpu, pushed);
    return result ? smla__driver_fail(gpu->driver, result, "upload of step metadata", detail) : SMLA_OK;
}

void smla__gpu_step_lists(const smla_step *step, struct smla_lists *lists)
{
    const struct gpu_step *state = step->state;
    lists->step = (const struct smla_step_head *)(uintptr_t)state->memory;
    lists->row_request = (const int32_t *)(uintptr_t)(state->memory + state->requests_at);
    lists->seq_lens = (const int32_t *)(uintptr_t)(state->memory + state->lengths_at);
    lists->block_table = (const int32_t *)(uintptr_t)(state->memory + state->table_at);
    lists->table_stride = step->plan->info.max_blocks;
}
