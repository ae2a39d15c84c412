#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic_file.h"

enum { LENGTH_BYTES = 8, NAME_SHOWN = 64 };

struct safetensors {
    const unsigned char *bytes;
    size_t size;
    size_t data_start;
    bool mapped;
    json_t *header;
    size_t count;
    struct safetensors_tensor *tensors; /* sorted by where their data begin */
};

struct dtype {
    const char *name;
    size_t size;
};

static const struct dtype dtypes[] = {
    {"BF16", 2}, {"F32", 4},     {"I32", 4},     {"F16", 2},     {"F64", 8}, {"I64", 8},
    {"U64", 8},  {"U32", 4},     {"I16", 2},     {"U16", 2},     {"I8", 1},  {"U8", 1},
    {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
};

/* 0 for a dtype that we do not know. */
static size_t dtype_size(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].name, name))
            return dtypes[i].size;
    return 0;
}

/* Bytes of a tensor; false when they do not fit. */
static bool shape_bytes(const int64_t *shape, int rank, size_t element, size_t *bytes)
{
    uint64_t total = element;
    for (int d = 0; d < rank; d++)
        if (__builtin_mul_overflow(total, (uint64_t)shape[d], &total))
            return false;
    *bytes = (size_t)total;
    return total <= INT64_MAX;
}

static bool read_shape(struct safetensors_tensor *tensor, const json_t *shape, struct io_error *error)
{
    if (!json_is_array(shape))
        return io_fail(error, "tensor %.*s: shape is not a list of integers", NAME_SHOWN, tensor->name);
    if (json_array_size(shape) > SAFETENSORS_RANK_MAX)
        return io_fail(error, "tensor %.*s: %zu dimensions; accepted: at most %d", NAME_SHOWN, tensor->name,
                       json_array_size(shape), SAFETENSORS_RANK_MAX);
    tensor->rank = (int)json_array_size(shape);
    for (int d = 0; d < tensor->rank; d++) {
        const json_t *size = json_array_get(shape, (size_t)d);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return io_fail(error, "tensor %.*s: dimension %d of shape is not an integer >= 0", NAME_SHOWN,
                           tensor->name, d);
        tensor->shape[d] = json_integer_value(size);
    }
    return true;
}

/* Places the tensor within the data of the file. */
static bool read_offsets(const struct safetensors *file, struct safetensors_tensor *tensor,
                         const json_t *offsets, struct io_error *error)
{
    const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(second))
        return io_fail(error, "tensor %.*s: data_offsets is not a pair of integers", NAME_SHOWN,
                       tensor->name);
    long long begin = json_integer_value(first), end = json_integer_value(second);
    size_t data_size = file->size - file->data_start;
    if (begin < 0 || end < begin || (unsigned long long)end > data_size)
        return io_fail(error, "tensor %.*s: data_offsets [%lld,%lld]; accepted: 0 <= begin <= end <= %zu",
                       NAME_SHOWN, tensor->name, begin, end, data_size);
    size_t element = dtype_size(tensor->dtype);
    if (!shape_bytes(tensor->shape, tensor->rank, element, &tensor->bytes))
        return io_fail(error, "tensor %.*s: the product of its shape overflows", NAME_SHOWN, tensor->name);
    if (tensor->bytes != (size_t)(end - begin))
        return io_fail(error, "tensor %.*s: data_offsets hold %lld bytes; dtype and shape make %zu",
                       NAME_SHOWN, tensor->name, end - begin, tensor->bytes);
    if ((file->data_start + (size_t)begin) % element)
        return io_fail(error,
                       "tensor %.*s: misaligned: its data start at byte %zu; accepted: a multiple of %zu",
                       NAME_SHOWN, tensor->name, file->data_start + (size_t)begin, element);
    tensor->data = file->bytes + file->data_start + begin;
    return true;
}

static bool read_tensor(const struct safetensors *file, struct safetensors_tensor *tensor, const char *name,
                        const json_t *entry, struct io_error *error)
{
    tensor->name = name;
    tensor->dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!tensor->dtype)
        return io_fail(error, "tensor %.*s: dtype is missing or not a text", NAME_SHOWN, name);
    if (!dtype_size(tensor->dtype))
        return io_fail(error, "tensor %.*s: dtype %.*s is unknown; accepted: BF16, F32, I32 and the like",
                       NAME_SHOWN, name, NAME_SHOWN, tensor->dtype);
    return read_shape(tensor, json_object_get(entry, "shape"), error) &&
           read_offsets(file, tensor, json_object_get(entry, "data_offsets"), error);
}

static int by_data(const void *left, const void *right)
{
    const struct safetensors_tensor *a = left, *b = right;
    if (a->data != b->data)
        return (const char *)a->data < (const char *)b->data ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Sorts the tensors by place and sees that they tile the data exactly. */
static bool check_tiling(struct safetensors *file, struct io_error *error)
{
    if (file->count)
        qsort(file->tensors, file->count, sizeof *file->tensors, by_data);
    const unsigned char *data = file->bytes + file->data_start, *end = data;
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *tensor = &file->tensors[i];
        const unsigned char *begin = tensor->data;
        if (begin < end)
            return io_fail(error, "tensor %.*s: its data overlap those of tensor %.*s", NAME_SHOWN,
                           tensor->name, NAME_SHOWN, file->tensors[i - 1].name);
        if (begin > end)
            return io_fail(error, "tensor %.*s: %td bytes before its data belong to no tensor", NAME_SHOWN,
                           tensor->name, begin - end);
        end = begin + tensor->bytes;
    }
    if (end != file->bytes + file->size)
        return io_fail(error, "%td bytes at the end of the file belong to no tensor",
                       file->bytes + file->size - end);
    return true;
}

static bool check_metadata(const json_t *metadata, struct io_error *error)
{
    const char *key;
    json_t *value;
    if (metadata && !json_is_object(metadata))
        return io_fail(error, "__metadata__ is not an object of texts");
    json_object_foreach((json_t *)metadata, key, value)
    {
        if (!json_is_string(value))
            return io_fail(error, "__metadata__: %.*s is not a text", NAME_SHOWN, key);
    }
    return true;
}

static bool read_tensors(struct safetensors *file, struct io_error *error)
{
    const char *name;
    json_t *entry;
    file->tensors = calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (!file->tensors)
        return io_fail(error, "out of memory");
    json_object_foreach(file->header, name, entry)
    {
        if (!strcmp(name, "__metadata__"))
            continue;
        if (!read_tensor(file, &file->tensors[file->count], name, entry, error))
            return false;
        file->count++;
    }
    return check_tiling(file, error);
}

static bool read_header(struct safetensors *file, struct io_error *error)
{
    uint64_t length = 0;
    if (file->size < LENGTH_BYTES)
        return io_fail(error,
                       "the file has %zu bytes; a safetensors file starts with 8 bytes of header length",
                       file->size);
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | file->bytes[i];
    if (length > file->size - LENGTH_BYTES)
        return io_fail(error, "the header length is %llu; only %zu bytes follow it",
                       (unsigned long long)length, file->size - LENGTH_BYTES);
    json_error_t where;
    const char *text = (const char *)file->bytes + LENGTH_BYTES;
    file->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &where);
    if (!file->header)
        return io_fail(error, "the header is not JSON: %s (byte %d of it)", where.text, where.position);
    if (!json_is_object(file->header))
        return io_fail(error, "the header is not a JSON object");
    file->data_start = LENGTH_BYTES + (size_t)length;
    return check_metadata(json_object_get(file->header, "__metadata__"), error) && read_tensors(file, error);
}

bool safetensors_parse(struct safetensors **out, const void *bytes, size_t size, struct io_error *error)
{
    struct safetensors *file = calloc(1, sizeof *file);
    if (!file)
        return io_fail(error, "out of memory");
    file->bytes = bytes;
    file->size = size;
    if (!read_header(file, error)) {
        safetensors_close(file);
        return false;
    }
    *out = file;
    return true;
}

/* Maps a regular file; an empty one gives no bytes. */
static bool map_file(const char *path, const void **bytes, size_t *size, struct io_error *error)
{
    struct stat status;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return io_fail(error, "cannot be opened: %s", strerror(errno));
    bool known = !fstat(descriptor, &status);
    if (!known || !S_ISREG(status.st_mode)) {
        close(descriptor);
        return io_fail(error, "is not a regular file");
    }
    *size = (size_t)status.st_size;
    *bytes = "";
    if (*size)
        *bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    int reason = errno;
    close(descriptor);
    return *bytes != MAP_FAILED || io_fail(error, "cannot be mapped: %s", strerror(reason));
}

bool safetensors_open(struct safetensors **out, const char *path, struct io_error *error)
{
    const void *bytes = NULL;
    size_t size = 0;
    if (!map_file(path, &bytes, &size, error))
        return false;
    if (!safetensors_parse(out, bytes, size, error)) {
        if (size)
            munmap((void *)bytes, size);
        return false;
    }
    (*out)->mapped = size > 0;
    return true;
}

void safetensors_close(struct safetensors *file)
{
    if (!file)
        return;
    json_decref(file->header);
    if (file->mapped)
        munmap((void *)file->bytes, file->size);
    free(file->tensors);
    free(file);
}

void safetensors_release_pages(const struct safetensors *file)
{
    if (file->mapped)
        (void)madvise((void *)file->bytes, file->size, MADV_DONTNEED);
}

size_t safetensors_count(const struct safetensors *file)
{
    return file->count;
}

const struct safetensors_tensor *safetensors_at(const struct safetensors *file, size_t i)
{
    return &file->tensors[i];
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (!strcmp(file->tensors[i].name, name))
            return &file->tensors[i];
    return NULL;
}

const char *safetensors_metadata(const struct safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

static json_t *tensor_entry(const struct safetensors_tensor *tensor, size_t begin)
{
    json_t *shape = json_array();
    for (int d = 0; d < tensor->rank; d++)
        json_array_append_new(shape, json_integer(tensor->shape[d]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", tensor->dtype, "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + tensor->bytes));
}

/* Larger elements first: then every tensor is aligned although none may be padded. */
static int by_element_size(const void *left, const void *right)
{
    const struct safetensors_tensor *a = left, *b = right;
    size_t sa = dtype_size(a->dtype), sb = dtype_size(b->dtype);
    if (sa != sb)
        return sa > sb ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Header text padded with blanks to a multiple of 8, and its tensors in `sorted`; NULL if it cannot be made. */
static char *make_header(const struct safetensors_pair *metadata, size_t metadata_count,
                         struct safetensors_tensor *sorted, size_t count, size_t *length)
{
    json_t *header = json_object(), *pairs = json_object();
    size_t begin = 0;
    int bad = 0;
    for (size_t i = 0; i < metadata_count; i++)
        bad |= json_object_set_new(pairs, metadata[i].key, json_string(metadata[i].value));
    bad |= json_object_set_new(header, "__metadata__", pairs);
    qsort(sorted, count, sizeof *sorted, by_element_size);
    for (size_t i = 0; i < count; i++) {
        size_t element = dtype_size(sorted[i].dtype);
        bad |= !element || !shape_bytes(sorted[i].shape, sorted[i].rank, element, &sorted[i].bytes);
        bad |= json_object_set_new(header, sorted[i].name, tensor_entry(&sorted[i], begin));
        begin += sorted[i].bytes;
    }
    char *text = bad ? NULL : json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (!text)
        return NULL;
    size_t used = strlen(text);
    *length = (used + 7) / 8 * 8;
    char *padded = realloc(text, *length + 1);
    if (!padded) {
        free(text);
        return NULL;
    }
    memset(padded + used, ' ', *length - used);
    return padded;
}

bool safetensors_write(const char *path, const struct safetensors_pair *metadata, size_t metadata_count,
                       const struct safetensors_tensor *tensors, size_t tensor_count, struct io_error *error)
{
    size_t length = 0;
    struct atomic_file file;
    struct safetensors_tensor *sorted = malloc((tensor_count + 1) * sizeof *sorted);
    if (!sorted)
        return io_fail(error, "out of memory");
    if (tensor_count)
        memcpy(sorted, tensors, tensor_count * sizeof *sorted);
    char *header = make_header(metadata, metadata_count, sorted, tensor_count, &length);
    bool written = false;
    if (!header) {
        io_fail(error, "the header cannot be made: out of memory or a text that is not UTF-8");
    } else if (atomic_file_open(&file, path, error)) {
        unsigned char prefix[LENGTH_BYTES];
        for (int i = 0; i < LENGTH_BYTES; i++)
            prefix[i] = (unsigned char)((uint64_t)length >> (8 * i));
        atomic_file_write(&file, prefix, LENGTH_BYTES);
        atomic_file_write(&file, header, length);
        for (size_t i = 0; i < tensor_count; i++)
            atomic_file_write(&file, sorted[i].data, sorted[i].bytes);
        written = atomic_file_commit(&file, error);
    }
    free(header);
    free(sorted);
    return written;
}
