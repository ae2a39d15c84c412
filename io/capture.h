/*
 * A capture: one attention step as a safetensors file, every tensor checked for dtype, shape and agreement
 * with the others. What the step means (query_start_loc, seq_lens, the block table) is for the library to
 * judge: see smla_step_update.
 */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io_error.h"

struct safetensors;

enum { CAPTURE_ROW = 576, CAPTURE_LATENT = 512 };

struct capture {
    struct safetensors *file;  /* holds everything below */
    const char *model;         /* "" if the file names none */
    double scale;              /* softmax_scale, finite as float too */
    int64_t rows;              /* T */
    int64_t heads;             /* H */
    int64_t topk;              /* K */
    int64_t cache_blocks;      /* C */
    int64_t block_size;        /* B */
    int64_t requests;          /* R */
    int64_t block_table_width; /* W */

    const uint16_t *q;              /* [T, H, 576] bf16 */
    const uint16_t *kv_cache;       /* [C, B, 576] bf16 */
    const int32_t *topk_indices;    /* [T, K] request-local positions, -1 for none */
    const int32_t *block_table;     /* [R, W] -1 unused */
    const int32_t *seq_lens;        /* [R] */
    const int32_t *query_start_loc; /* [R + 1] */
    const int32_t *topk_length;     /* [T] or NULL */
    const float *sinks;             /* [H] or NULL */
    const float *expected_out;      /* [T, H, 512] or NULL */
    const float *expected_lse;      /* [T, H] or NULL */
};

/* Opens the capture at `path`; false, and a reason, if anything about it is wrong. */
bool capture_open(struct capture *capture, const char *path, struct io_error *error);

/* The same over bytes in memory, which must start at a multiple of 8 and outlive the capture. */
bool capture_parse(struct capture *capture, const void *bytes, size_t size, struct io_error *error);

void capture_close(struct capture *capture);

/* Name of the next tensor that a capture does not know and that was therefore left alone; NULL after the last.
 * `at` is 0 at first. Worth a word to the user: it may be a misspelt optional one. */
const char *capture_unknown(const struct capture *capture, size_t *at);

/* Writes the file. `capture->file` is not looked at; expected_* and the other optional ones may be NULL.
 * `scale_text` is the decimal text of the scale. */
bool capture_write(const struct capture *capture, const char *scale_text, const char *path,
                   struct io_error *error);

#endif
