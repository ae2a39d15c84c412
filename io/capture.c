#include "capture.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "safetensors.h"

/* A dimension is a fixed number or one of these; R1 is R + 1. */
enum dim { DIM_T = -1, DIM_H = -2, DIM_K = -3, DIM_C = -4, DIM_B = -5, DIM_R = -6, DIM_R1 = -7, DIM_W = -8 };

static const char *const dim_letters[] = {"", "T", "H", "K", "C", "B", "R", "R+1", "W"};

struct layout {
    const char *name, *dtype;
    bool optional;
    int rank;
    int dims[3];
    size_t member; /* offset of its pointer in struct capture */
};

#define MEMBER(name) offsetof(struct capture, name)

/* In the order in which sizes become known. */
static const struct layout layouts[] = {
    {"q", "BF16", false, 3, {DIM_T, DIM_H, CAPTURE_ROW}, MEMBER(q)},
    {"kv_cache", "BF16", false, 3, {DIM_C, DIM_B, CAPTURE_ROW}, MEMBER(kv_cache)},
    {"topk_indices", "I32", false, 2, {DIM_T, DIM_K}, MEMBER(topk_indices)},
    {"seq_lens", "I32", false, 1, {DIM_R}, MEMBER(seq_lens)},
    {"query_start_loc", "I32", false, 1, {DIM_R1}, MEMBER(query_start_loc)},
    {"block_table", "I32", false, 2, {DIM_R, DIM_W}, MEMBER(block_table)},
    {"topk_length", "I32", true, 1, {DIM_T}, MEMBER(topk_length)},
    {"sinks", "F32", true, 1, {DIM_H}, MEMBER(sinks)},
    {"expected_out", "F32", true, 3, {DIM_T, DIM_H, CAPTURE_LATENT}, MEMBER(expected_out)},
    {"expected_lse", "F32", true, 2, {DIM_T, DIM_H}, MEMBER(expected_lse)},
};

enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static int64_t *dim_place(struct capture *capture, int dim)
{
    switch (dim) {
    case DIM_T:
        return &capture->rows;
    case DIM_H:
        return &capture->heads;
    case DIM_K:
        return &capture->topk;
    case DIM_C:
        return &capture->cache_blocks;
    case DIM_B:
        return &capture->block_size;
    case DIM_W:
        return &capture->block_table_width;
    default:
        return &capture->requests;
    }
}

/* What a dimension must be; 0 while nothing has fixed it. */
static int64_t dim_value(const struct capture *capture, int dim)
{
    if (dim > 0)
        return dim;
    int64_t value = *dim_place((struct capture *)capture, dim);
    return dim == DIM_R1 && value ? value + 1 : value;
}

static void shape_text(const struct safetensors_tensor *tensor, char *text, size_t size)
{
    size_t used = 0;
    for (int d = 0; d < tensor->rank && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, d ? ",%lld" : "%lld", (long long)tensor->shape[d]);
    if (!tensor->rank)
        text[0] = '\0';
}

/* "T=16,H,576": numbers where they are known. */
static void layout_text(const struct capture *capture, const struct layout *layout, char *text, size_t size)
{
    size_t used = 0;
    for (int d = 0; d < layout->rank && used < size; d++) {
        int dim = layout->dims[d];
        int64_t value = dim_value(capture, dim);
        const char *letter = dim < 0 ? dim_letters[-dim] : "";
        used += (size_t)snprintf(text + used, size - used, "%s%s", d ? "," : "", letter);
        if (value && used < size)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%lld", *letter ? "=" : "", (long long)value);
    }
}

/* Compares the shape and learns the sizes that it is the first to name. */
static bool check_shape(struct capture *capture, const struct layout *layout,
                        const struct safetensors_tensor *tensor, struct io_error *error)
{
    bool right = tensor->rank == layout->rank;
    for (int d = 0; right && d < layout->rank; d++) {
        int64_t value = dim_value(capture, layout->dims[d]), size = tensor->shape[d];
        right = value ? size == value : size >= 1 && size <= INT32_MAX;
    }
    if (!right) {
        char found[200], accepted[100];
        shape_text(tensor, found, sizeof found);
        layout_text(capture, layout, accepted, sizeof accepted);
        return io_fail(error, "tensor %s: shape [%s]; accepted: [%s], each size >= 1", layout->name, found,
                       accepted);
    }
    for (int d = 0; d < layout->rank; d++)
        if (layout->dims[d] < 0 && layout->dims[d] != DIM_R1)
            *dim_place(capture, layout->dims[d]) = tensor->shape[d];
    return true;
}

static bool take_tensor(struct capture *capture, const struct layout *layout, struct io_error *error)
{
    const struct safetensors_tensor *tensor = safetensors_find(capture->file, layout->name);
    if (!tensor)
        return layout->optional || io_fail(error, "tensor %s is missing", layout->name);
    if (strcmp(tensor->dtype, layout->dtype))
        return io_fail(error, "tensor %s: dtype %s; accepted: %s", layout->name, tensor->dtype,
                       layout->dtype);
    if (!check_shape(capture, layout, tensor, error))
        return false;
    memcpy((char *)capture + layout->member, &tensor->data, sizeof tensor->data);
    return true;
}

/* Plain decimal text: what strtod would take beyond it (blanks, hex, inf, nan) is not a number here. */
static bool is_decimal(const char *text)
{
    return *text && text[strspn(text, "+-.0123456789eE")] == '\0';
}

static bool read_scale(struct capture *capture, struct io_error *error)
{
    const char *text = safetensors_metadata(capture->file, "softmax_scale");
    char *end;
    if (!text)
        return io_fail(error, "metadata softmax_scale is missing; accepted: a finite decimal number");
    capture->scale = strtod(text, &end);
    if (!is_decimal(text) || *end || !isfinite((float)capture->scale))
        return io_fail(error, "metadata softmax_scale is '%.40s'; accepted: a finite decimal number", text);
    return true;
}

/* The cache's shape has the block size already; the metadata must say the same. */
static bool check_block_size(const struct capture *capture, struct io_error *error)
{
    const char *text = safetensors_metadata(capture->file, "block_size");
    if (!text)
        return io_fail(error, "metadata block_size is missing; accepted: %lld, as in the shape of kv_cache",
                       (long long)capture->block_size);
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool number = *text && strspn(text, "0123456789") == strlen(text) && !*end && !errno;
    if (!number || value != capture->block_size)
        return io_fail(error, "metadata block_size is '%.40s'; accepted: %lld, as in the shape of kv_cache",
                       text, (long long)capture->block_size);
    return true;
}

static bool take_all(struct capture *capture, struct io_error *error)
{
    const char *model = safetensors_metadata(capture->file, "model");
    capture->model = model ? model : "";
    for (int i = 0; i < LAYOUTS; i++)
        if (!take_tensor(capture, &layouts[i], error))
            return false;
    return read_scale(capture, error) && check_block_size(capture, error);
}

static bool take_or_close(struct capture *capture, struct io_error *error)
{
    if (take_all(capture, error))
        return true;
    capture_close(capture);
    return false;
}

bool capture_open(struct capture *capture, const char *path, struct io_error *error)
{
    *capture = (struct capture){0};
    return safetensors_open(&capture->file, path, error) && take_or_close(capture, error);
}

bool capture_parse(struct capture *capture, const void *bytes, size_t size, struct io_error *error)
{
    *capture = (struct capture){0};
    return safetensors_parse(&capture->file, bytes, size, error) && take_or_close(capture, error);
}

void capture_close(struct capture *capture)
{
    safetensors_close(capture->file);
    *capture = (struct capture){0};
}

static bool is_known(const char *name)
{
    for (int i = 0; i < LAYOUTS; i++)
        if (!strcmp(layouts[i].name, name))
            return true;
    return false;
}

const char *capture_unknown(const struct capture *capture, size_t *at)
{
    while (*at < safetensors_count(capture->file)) {
        const char *name = safetensors_at(capture->file, (*at)++)->name;
        if (!is_known(name))
            return name;
    }
    return NULL;
}

bool capture_write(const struct capture *capture, const char *scale_text, const char *path,
                   struct io_error *error)
{
    char block_size[24];
    snprintf(block_size, sizeof block_size, "%lld", (long long)capture->block_size);
    const struct safetensors_pair metadata[] = {
        {"softmax_scale", scale_text}, {"block_size", block_size}, {"model", capture->model}};
    struct safetensors_tensor tensors[LAYOUTS];
    size_t count = 0;
    for (int i = 0; i < LAYOUTS; i++) {
        const struct layout *layout = &layouts[i];
        struct safetensors_tensor *tensor = &tensors[count];
        *tensor =
            (struct safetensors_tensor){.name = layout->name, .dtype = layout->dtype, .rank = layout->rank};
        for (int d = 0; d < layout->rank; d++)
            tensor->shape[d] = dim_value(capture, layout->dims[d]);
        memcpy(&tensor->data, (const char *)capture + layout->member, sizeof tensor->data);
        count += tensor->data != NULL;
    }
    return safetensors_write(path, metadata, 3, tensors, count, error);
}
