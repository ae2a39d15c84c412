/* Any bytes as a safetensors file and as a capture: refused with a reason, or every byte that is given out
 * can be read. */
#include <capture.h>
#include <safetensors.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sink;

static void read_all(const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum += byte[i];
    sink += sum;
}

static void require(int truth)
{
    if (!truth)
        abort();
}

/* One line of printable text. */
static void check_reason(const struct io_error *error)
{
    size_t length = strnlen(error->text, sizeof error->text);
    require(length > 0 && length < sizeof error->text);
    for (size_t i = 0; i < length; i++)
        require(error->text[i] >= ' ' && error->text[i] <= '~');
}

static void try_file(const void *bytes, size_t size)
{
    struct safetensors *file = NULL;
    struct io_error error = {""};
    if (!safetensors_parse(&file, bytes, size, &error)) {
        check_reason(&error);
        return;
    }
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const struct safetensors_tensor *tensor = safetensors_at(file, i);
        read_all(tensor->name, strlen(tensor->name));
        read_all(tensor->data, tensor->bytes);
        require(tensor->rank >= 0 && tensor->rank <= SAFETENSORS_RANK_MAX);
        require(safetensors_find(file, tensor->name) == tensor);
    }
    safetensors_close(file);
}

static void try_capture(const void *bytes, size_t size)
{
    struct capture c;
    struct io_error error = {""};
    if (!capture_parse(&c, bytes, size, &error)) {
        check_reason(&error);
        return;
    }
    require(c.rows > 0 && c.heads > 0 && c.topk > 0 && c.block_size > 0);
    read_all(c.q, (size_t)(c.rows * c.heads * CAPTURE_ROW) * 2);
    read_all(c.kv_cache, (size_t)(c.cache_blocks * c.block_size * CAPTURE_ROW) * 2);
    read_all(c.topk_indices, (size_t)(c.rows * c.topk) * 4);
    read_all(c.block_table, (size_t)(c.requests * c.block_table_width) * 4);
    read_all(c.seq_lens, (size_t)c.requests * 4);
    read_all(c.query_start_loc, (size_t)(c.requests + 1) * 4);
    if (c.topk_length)
        read_all(c.topk_length, (size_t)c.rows * 4);
    if (c.sinks)
        read_all(c.sinks, (size_t)c.heads * 4);
    if (c.expected_out)
        read_all(c.expected_out, (size_t)(c.rows * c.heads * CAPTURE_LATENT) * 4);
    if (c.expected_lse)
        read_all(c.expected_lse, (size_t)(c.rows * c.heads) * 4);
    capture_close(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *bytes =
        malloc(size ? size : 1); /* the reader wants 8-byte alignment, the sanitizer the exact size */
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    try_file(bytes, size);
    try_capture(bytes, size);
    free(bytes);
    return 0;
}
