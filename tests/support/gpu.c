#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 4096, BUFFERS = 8, CANARY = 0x5a, POISON = 0xff };

bool gpu_mode(void)
{
    const char *backend = getenv("SMLA_TEST_BACKEND");
    return backend && strncmp(backend, "cuda", 4) == 0;
}

bool gpu_portable(void)
{
    return gpu_mode() && strcmp(getenv("SMLA_TEST_BACKEND"), "cuda-portable") == 0;
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

void gpu_must(bool done)
{
    if (!done) {
        fprintf(stderr, "%s\n", device_error(gpu_device()));
        exit(1);
    }
}

void *gpu_copy_of(const void *from, size_t bytes)
{
    void *memory = device_alloc(gpu_device(), bytes);
    gpu_must(memory && device_upload(gpu_device(), memory, from, bytes));
    return memory;
}

/* A buffer of the stage and its copy, with margins, in device memory; `host` is what the copy should hold. */
struct copy {
    const struct guard *guard;
    unsigned char *memory, *host;
    size_t bytes;
};

struct gpu_site {
    struct copy copies[BUFFERS];
};

enum { FIRST_OUTPUT = 6 }; /* the inputs come first */

static void list_guards(const struct stage *stage, const struct guard *guards[BUFFERS])
{
    const struct guard *all[BUFFERS] = {&stage->q,      &stage->q_rope, &stage->kv,  &stage->topk,
                                        &stage->length, &stage->sinks,  &stage->out, &stage->lse};
    memcpy(guards, all, sizeof all);
}

struct gpu_site *gpu_site_open(const struct stage *stage)
{
    struct gpu_site *site = must_malloc(sizeof *site);
    const struct guard *guards[BUFFERS];
    list_guards(stage, guards);
    for (int i = 0; i < BUFFERS; i++) {
        struct copy *copy = &site->copies[i];
        *copy = (struct copy){.guard = guards[i], .bytes = guards[i]->bytes + 2 * MARGIN};
        copy->host = must_malloc(copy->bytes);
        memset(copy->host, CANARY, copy->bytes);
        copy->memory = device_alloc(gpu_device(), copy->bytes);
        gpu_must(copy->memory != NULL);
    }
    return site;
}

void gpu_site_close(struct gpu_site *site)
{
    if (!site)
        return;
    for (int i = 0; i < BUFFERS; i++) {
        device_free(gpu_device(), site->copies[i].memory);
        free(site->copies[i].host);
    }
    free(site);
}

void gpu_site_load(struct gpu_site *site, const struct stage *stage)
{
    const struct guard *guards[BUFFERS];
    list_guards(stage, guards);
    for (int i = 0; i < BUFFERS; i++) {
        struct copy *copy = &site->copies[i];
        if (guards[i]->bytes + 2 * MARGIN != copy->bytes) {
            fprintf(stderr, "buffer %d of %zu bytes does not fit a site for %zu\n", i, guards[i]->bytes,
                    copy->bytes - 2 * MARGIN);
            exit(1);
        }
        copy->guard = guards[i];
        if (guards[i]->bytes)
            memcpy(copy->host + MARGIN, guards[i]->data, guards[i]->bytes);
        gpu_must(device_upload(gpu_device(), copy->memory, copy->host, copy->bytes));
    }
}

/* Where a pointer into one of the buffers lies on the device. NULL stays NULL. */
static void *translate(const struct gpu_site *site, const void *pointer)
{
    const unsigned char *byte = pointer;
    for (int i = 0; i < BUFFERS && byte; i++) {
        const struct copy *copy = &site->copies[i];
        if (copy->guard->data && byte >= copy->guard->data && byte <= copy->guard->data + copy->guard->bytes)
            return copy->memory + MARGIN + (byte - copy->guard->data);
    }
    if (byte) {
        fprintf(stderr, "a tensor lies outside of the stage\n");
        exit(1);
    }
    return NULL;
}

smla_tensors gpu_site_tensors(const struct gpu_site *site, const smla_tensors *tensors)
{
    smla_tensors t = *tensors;
    t.q = translate(site, t.q);
    t.q_latent = translate(site, t.q_latent);
    t.q_rope = translate(site, t.q_rope);
    t.kv_cache = translate(site, t.kv_cache);
    t.topk = translate(site, t.topk);
    t.topk_length = translate(site, t.topk_length);
    t.sinks = translate(site, t.sinks);
    t.out = translate(site, t.out);
    t.lse = translate(site, t.lse);
    return t;
}

/* Brings an output back into its buffer; everything else must be as it was. */
static bool copy_out(struct copy *copy, bool output)
{
    unsigned char *now = must_malloc(copy->bytes);
    gpu_must(device_download(gpu_device(), now, copy->memory, copy->bytes, NULL));
    if (output && copy->guard->bytes) {
        memcpy(copy->guard->data, now + MARGIN, copy->guard->bytes);
        memcpy(copy->host + MARGIN, now + MARGIN, copy->guard->bytes);
    }
    bool kept = memcmp(now, copy->host, copy->bytes) == 0;
    free(now);
    return kept;
}

bool gpu_site_fetch(struct gpu_site *site)
{
    bool kept = true;
    gpu_must(device_wait(gpu_device()));
    for (int i = 0; i < BUFFERS; i++)
        kept &= copy_out(&site->copies[i], i >= FIRST_OUTPUT);
    return kept;
}

smla_status gpu_run(const smla_plan *plan, const smla_step *step, const struct stage *stage,
                    const smla_tensors *tensors, bool *kept)
{
    struct gpu_site *site = gpu_site_open(stage);
    gpu_site_load(site, stage);
    const smla_tensors t = gpu_site_tensors(site, tensors);
    size_t bytes = smla_plan_workspace_bytes(plan);
    void *workspace = device_alloc(gpu_device(), bytes);
    gpu_must(workspace && device_fill(gpu_device(), workspace, POISON, bytes, NULL));
    smla_status status = smla_run(plan, step, &t, workspace, bytes, NULL);
    *kept = gpu_site_fetch(site);
    device_free(gpu_device(), workspace);
    gpu_site_close(site);
    return status;
}
