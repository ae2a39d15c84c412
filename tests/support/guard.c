#include "guard.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static struct guard map(size_t bytes, int flags)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guard guard = {.bytes = bytes, .map_bytes = whole_pages(bytes) + page};
    guard.map =
        mmap(NULL, guard.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (guard.map == MAP_FAILED)
        return (struct guard){0};
    unsigned char *fence = (unsigned char *)guard.map + guard.map_bytes - page;
    if (mprotect(fence, page, PROT_NONE) != 0) {
        munmap(guard.map, guard.map_bytes);
        return (struct guard){0};
    }
    guard.data = fence - bytes;
    return guard;
}

struct guard guard_open(size_t bytes, int fill)
{
    struct guard guard = map(bytes, 0);
    if (guard.data)
        memset(guard.data, fill, bytes);
    return guard;
}

struct guard guard_sparse(size_t bytes)
{
    return map(bytes, MAP_NORESERVE);
}

void guard_close(struct guard *guard)
{
    if (guard->map)
        munmap(guard->map, guard->map_bytes);
    *guard = (struct guard){0};
}

void guard_protect(const struct guard *guard)
{
    if (guard->map)
        mprotect(guard->map, whole_pages(guard->bytes), PROT_READ);
}

bool guard_filled(const void *data, size_t bytes, int fill)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++)
        if (byte[i] != (unsigned char)fill)
            return false;
    return true;
}
