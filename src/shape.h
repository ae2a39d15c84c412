/* Strides, bounds and sizes of what a caller hands over. Nothing here reads tensor memory. */
#ifndef SMLA_SHAPE_H
#define SMLA_SHAPE_H

#include "internal.h"

/* A two-level array: `outer` x `inner` items of `item` bytes, each aligned to `align`. */
struct smla__array {
    const char *name; /* of the pointer in the public struct, and of its two strides */
    const char *outer_name, *inner_name;
    const void *data;
    int64_t outer, outer_stride;
    int64_t inner, inner_stride;
    int64_t item;
    int64_t align;
    bool written; /* items may then not overlap */
};

/* ERROR_STRIDE for negative, overflowing or (if written) overlapping strides, ERROR_ALIGNMENT for
 * misaligned ones or a misaligned pointer. */
smla_status smla__check_array(const struct smla__array *array, struct smla__detail *detail);

/* Strides and alignment of all tensors of a run; counts must not be negative. NULL pointers pass. */
smla_status smla__check_layout(const smla_problem *problem, const smla_tensors *tensors,
                               struct smla__detail *detail);

/* Bytes of an element; 0 for an unknown type. */
int64_t smla__dtype_bytes(int32_t dtype);

/* a * b as a size; false if it does not fit. */
bool smla__size_mul(int64_t a, int64_t b, size_t *product);

/* How many of a request's first `length` positions this rank keeps under decode context parallelism. */
int64_t smla__local_length(const smla_problem *problem, int64_t length);

#endif
