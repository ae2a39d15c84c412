/* The gather floor of a GPU and random data in its memory: the host side of bench/gather_floor.cu. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <device.h>
#include <stdbool.h>
#include <stdint.h>

enum { FLOOR_SHAPES = 4 };

struct bench_floor {
    struct device *device;
    struct CUmod_st *image;
    struct CUfunc_st *fill;
    struct CUfunc_st *gather[FLOOR_SHAPES]; /* NULL: needs more shared memory than there is */
    uint32_t *sink;
};

/* False, and a reason, if the kernels cannot be had. */
bool bench_floor_open(struct bench_floor *floor, struct device *device, struct io_error *error);
void bench_floor_close(struct bench_floor *floor);

/* Fills with nearly normal bf16 numbers; `bytes` is a multiple of 4. */
bool bench_floor_fill(const struct bench_floor *floor, void *to, size_t bytes, uint64_t seed,
                      struct CUstream_st *stream);

/* Microseconds that the best shape needs to gather a list of `total` slots, cold: `lists` holds `sets` of them in
 * turn. NaN if no shape runs here. */
double bench_floor_us(const struct bench_floor *floor, const void *pool, const int32_t *lists, int64_t total,
                      int sets, struct CUstream_st *stream);

#endif
