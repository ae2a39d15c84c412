#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 4096, BUFFERS = 8, CANARY = 0x5a, POISON = 0xff };

bool gpu_mode(void)
{
    const char *backend = getenv("SMLA_TEST_BACKEND");
    return backend && strcmp(backend, "cuda") == 0;
}

const char *gpu_absent(void)
{
    static char reason[256];
    smla_context_options options;
    smla_context *context;
    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CUDA;
    options.detail = reason;
    options.detail_size = sizeof reason;
    smla_status status = smla_context_create(&context, &options);
    smla_context_destroy(context);
    bool absent = status == SMLA_ERROR_NO_KERNELS || status == SMLA_ERROR_NO_DRIVER ||
                  status == SMLA_ERROR_NO_DEVICE || status == SMLA_ERROR_DEVICE_ARCH;
    return absent ? reason : NULL; /* other failures are for the tests to show */
}

struct device *gpu_device(void)
{
    static struct device *device;
    struct io_error error;
    if (!device)
        device = device_open(0, &error);
    if (!device) {
        fprintf(stderr, "no GPU: %s\n", error.text);
        exit(1);
    }
    return device;
}

int64_t gpu_gap(int64_t bytes)
{
    return gpu_mode() ? (bytes + 15) / 16 * 16 : bytes;
}

/* A buffer of the stage and its copy, with margins, in device memory. */
struct copy {
    const struct guard *guard;
    unsigned char *memory, *host;
    size_t bytes;
};

static void must(bool done)
{
    if (!done) {
        fprintf(stderr, "%s\n", device_error(gpu_device()));
        exit(1);
    }
}

/* The copy ends as its buffer does, at an end of 16 bytes, so that both have the same alignment. */
static void copy_in(struct copy *copy, const struct guard *guard)
{
    *copy = (struct copy){.guard = guard, .bytes = guard->bytes + 2 * MARGIN};
    copy->host = must_malloc(copy->bytes);
    memset(copy->host, CANARY, copy->bytes);
    if (guard->bytes)
        memcpy(copy->host + MARGIN, guard->data, guard->bytes);
    copy->memory = device_alloc(gpu_device(), copy->bytes);
    must(copy->memory && device_upload(gpu_device(), copy->memory, copy->host, copy->bytes));
}

/* Brings outputs back into their buffer; everything else must be as it was. */
static bool copy_out(struct copy *copy, bool output)
{
    unsigned char *now = must_malloc(copy->bytes);
    must(device_download(gpu_device(), now, copy->memory, copy->bytes, NULL));
    if (output && copy->guard->bytes) {
        memcpy(copy->guard->data, now + MARGIN, copy->guard->bytes);
        memcpy(copy->host + MARGIN, now + MARGIN, copy->guard->bytes);
    }
    bool kept = memcmp(now, copy->host, copy->bytes) == 0;
    device_free(gpu_device(), copy->memory);
    free(now);
    free(copy->host);
    return kept;
}

/* Where a pointer into one of the buffers lies on the device. NULL stays NULL. */
static void *translate(const struct copy copies[BUFFERS], const void *pointer)
{
    const unsigned char *byte = pointer;
    for (int i = 0; i < BUFFERS && byte; i++)
        if (copies[i].guard->data && byte >= copies[i].guard->data &&
            byte <= copies[i].guard->data + copies[i].guard->bytes)
            return copies[i].memory + MARGIN + (byte - copies[i].guard->data);
    if (byte) {
        fprintf(stderr, "a tensor lies outside of the stage\n");
        exit(1);
    }
    return NULL;
}

smla_status gpu_run(const smla_plan *plan, const smla_step *step, const struct stage *stage,
                    const smla_tensors *tensors, bool *kept)
{
    const struct guard *guards[BUFFERS] = {&stage->q,      &stage->q_rope, &stage->kv,  &stage->topk,
                                           &stage->length, &stage->sinks,  &stage->out, &stage->lse};
    struct copy copies[BUFFERS];
    smla_tensors t = *tensors;
    gpu_device();
    for (int i = 0; i < BUFFERS; i++)
        copy_in(&copies[i], guards[i]);
    t.q = translate(copies, t.q);
    t.q_latent = translate(copies, t.q_latent);
    t.q_rope = translate(copies, t.q_rope);
    t.kv_cache = translate(copies, t.kv_cache);
    t.topk = translate(copies, t.topk);
    t.topk_length = translate(copies, t.topk_length);
    t.sinks = translate(copies, t.sinks);
    t.out = translate(copies, t.out);
    t.lse = translate(copies, t.lse);
    size_t bytes = smla_plan_workspace_bytes(plan);
    void *workspace = device_alloc(gpu_device(), bytes);
    must(workspace && device_fill(gpu_device(), workspace, POISON, bytes, NULL));
    smla_status status = smla_run(plan, step, &t, workspace, bytes, NULL);
    must(device_wait(gpu_device()));
    device_free(gpu_device(), workspace);
    *kept = true;
    for (int i = 0; i < BUFFERS; i++)
        *kept &= copy_out(&copies[i], guards[i] == &stage->out || guards[i] == &stage->lse);
    return status;
}
