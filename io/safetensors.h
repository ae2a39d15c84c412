/*
 * safetensors files: 8 bytes of header length (little-endian), a JSON header, then the data of the tensors.
 *
 * The reader maps the file and checks all of its structure before it gives anything out: every tensor lies
 * within the file, is as large as its dtype and shape say, and starts at a multiple of its element size
 * (counted from the start of the file); together the tensors cover the data without overlap or hole.
 */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io_error.h"

enum { SAFETENSORS_RANK_MAX = 8 };

struct safetensors_tensor {
    const char *name;
    const char *dtype; /* as the file spells it: "BF16", "F32", "I32", ... */
    int rank;
    int64_t shape[SAFETENSORS_RANK_MAX];
    size_t bytes;
    const void *data;
};

struct safetensors;

/* Maps and checks the file at `path`. */
bool safetensors_open(struct safetensors **out, const char *path, struct io_error *error);

/* The same over bytes in memory, which must start at a multiple of 8 and outlive the result. */
bool safetensors_parse(struct safetensors **out, const void *bytes, size_t size, struct io_error *error);

void safetensors_close(struct safetensors *file); /* NULL is fine */

/* Lets the pages of a mapped file go; they come back as they are read. */
void safetensors_release_pages(const struct safetensors *file);

/* Tensors in the order of their data. */
size_t safetensors_count(const struct safetensors *file);
const struct safetensors_tensor *safetensors_at(const struct safetensors *file, size_t i);

/* NULL if there is no such tensor or no such entry of __metadata__. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);
const char *safetensors_metadata(const struct safetensors *file, const char *key);

struct safetensors_pair {
    const char *key, *value;
};

/* Writes a file whole or not at all. Tensors need name, dtype, rank, shape and data; `bytes` is computed. */
bool safetensors_write(const char *path, const struct safetensors_pair *metadata, size_t metadata_count,
                       const struct safetensors_tensor *tensors, size_t tensor_count, struct io_error *error);

#endif
