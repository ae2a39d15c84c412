#include "mirror.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

enum { MARGIN = 4096, CANARY = 0x5a };

void mirror_open(struct mirror *mirror, size_t bytes, int fill)
{
    unsigned char *host = must_malloc(bytes + 2 * MARGIN);
    unsigned char *device = device_alloc(gpu_device(), bytes + 2 * MARGIN);
    gpu_must(device != NULL);
    memset(host, CANARY, bytes + 2 * MARGIN);
    memset(host + MARGIN, fill, bytes);
    *mirror = (struct mirror){host + MARGIN, device + MARGIN, bytes};
}

void mirror_close(struct mirror *mirror)
{
    free(mirror->host - MARGIN);
    device_free(gpu_device(), mirror->device - MARGIN);
    *mirror = (struct mirror){0};
}

void mirror_load(struct mirror *mirror)
{
    gpu_must(device_upload(gpu_device(), mirror->device - MARGIN, mirror->host - MARGIN,
                           mirror->bytes + 2 * MARGIN));
}

static unsigned char *download(const struct mirror *mirror)
{
    unsigned char *now = must_malloc(mirror->bytes + 2 * MARGIN);
    gpu_must(device_wait(gpu_device()));
    gpu_must(device_download(gpu_device(), now, mirror->device - MARGIN, mirror->bytes + 2 * MARGIN, NULL));
    return now;
}

bool mirror_same(const struct mirror *mirror, const char *what)
{
    const unsigned char *want = mirror->host - MARGIN;
    unsigned char *now = download(mirror);
    size_t bytes = mirror->bytes + 2 * MARGIN, at = 0;
    bool same = memcmp(now, want, bytes) == 0;
    while (!same && now[at] == want[at])
        at++;
    if (!same)
        fprintf(stderr, "%s: byte %lld of %zu is %02x, not %02x\n", what, (long long)at - MARGIN,
                mirror->bytes, now[at], want[at]);
    free(now);
    return same;
}

bool mirror_fetch(struct mirror *mirror, const char *what)
{
    unsigned char *now = download(mirror);
    bool kept =
        guard_filled(now, MARGIN, CANARY) && guard_filled(now + MARGIN + mirror->bytes, MARGIN, CANARY);
    if (!kept)
        fprintf(stderr, "%s: something was written outside of its %zu bytes\n", what, mirror->bytes);
    memcpy(mirror->host, now + MARGIN, mirror->bytes);
    free(now);
    return kept;
}
