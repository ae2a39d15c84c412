/*
 * Memory, streams, events, graphs and kernels of one GPU, for the tool and the tests: what a program that uses the
 * library has from its own engine. The driver is found by dlopen, so this needs no CUDA toolkit to build and no GPU
 * to link; on a machine without one device_open tells why.
 *
 *     struct io_error error;
 *     struct device *gpu = device_open(0, &error);
 *     float *x = device_alloc(gpu, bytes);
 *     struct CUstream_st *stream = device_stream_new(gpu);
 *     device_upload(gpu, x, host, bytes);
 *     ... smla_run(..., stream) ...
 *     device_download(gpu, host, x, bytes, stream);
 *
 * Functions that fail give NULL, false or NaN, and device_error says which driver call failed and why. A device
 * belongs to one thread at a time. Its context is the primary one, current from device_open on; work goes to
 * whatever context is current, so who changes that (device_context_use) changes it for these functions too.
 * Pointers to device memory are plain pointers that the host must not follow. A stream NULL is the default stream.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io_error.h"

struct CUstream_st;
struct CUevent_st;
struct CUctx_st;
struct CUgraphExec_st;
struct CUmod_st;
struct CUfunc_st;
struct device;

struct device_facts {
    char name[128];
    int arch;         /* 90 for sm_90 */
    int processors;   /* SMs */
    int shared_bytes; /* most shared memory of a block */
    int64_t l2_bytes;
    int driver; /* CUDA version of the driver, e.g. 13000 */
};

/* ---- The device ---- */

/* Opens GPU `ordinal` and makes its primary context current. NULL, and the reason, if that is not possible. */
struct device *device_open(int ordinal, struct io_error *error);

/* Gives the primary context back. What was made here should be freed before; NULL is fine. */
void device_close(struct device *device);

/* The last failure: "cuMemAlloc_v2(4096): CUDA_ERROR_OUT_OF_MEMORY, out of memory"; "" if there was none. */
const char *device_error(const struct device *device);

const struct device_facts *device_facts(const struct device *device);

/* ---- Memory ---- */

/* At least 256-byte aligned, contents undefined. 0 bytes give a pointer too. */
void *device_alloc(struct device *device, size_t bytes);
void device_free(struct device *device, void *memory);

/* Host memory that copies may use asynchronously. */
void *device_host_alloc(struct device *device, size_t bytes);
void device_host_free(struct device *device, void *memory);

/* Free and total bytes of the GPU. */
bool device_memory(struct device *device, size_t *free_bytes, size_t *total_bytes);

/* Waits until all of the GPU is idle, copies, and returns when done. */
bool device_upload(struct device *device, void *to, const void *from, size_t bytes);

/* Copies behind the work in `stream` and waits for it. */
bool device_download(struct device *device, void *to, const void *from, size_t bytes,
                     struct CUstream_st *stream);

/* Enqueued only. Host memory should come from device_host_alloc, else the driver may wait. */
bool device_upload_async(struct device *device, void *to, const void *from, size_t bytes,
                         struct CUstream_st *stream);
bool device_download_async(struct device *device, void *to, const void *from, size_t bytes,
                           struct CUstream_st *stream);
bool device_copy(struct device *device, void *to, const void *from, size_t bytes, struct CUstream_st *stream);
bool device_fill(struct device *device, void *to, unsigned char byte, size_t bytes,
                 struct CUstream_st *stream);

/* ---- Streams and events ---- */

/* A stream that does not wait for the default stream. */
struct CUstream_st *device_stream_new(struct device *device);
void device_stream_free(struct device *device, struct CUstream_st *stream);

/* Waits for all work in the stream; faults of its kernels show here. */
bool device_stream_wait(struct device *device, struct CUstream_st *stream);

/* Is the stream idle? A fault counts as idle and leaves its text in device_error. */
bool device_stream_idle(struct device *device, struct CUstream_st *stream);

/* Waits for all work of the context. */
bool device_wait(struct device *device);

struct CUevent_st *device_event_new(struct device *device);
void device_event_free(struct device *device, struct CUevent_st *event);
bool device_event_record(struct device *device, struct CUevent_st *event, struct CUstream_st *stream);
bool device_event_wait(struct device *device, struct CUevent_st *event);

/* Lets later work of the stream wait for the event. */
bool device_stream_after(struct device *device, struct CUstream_st *stream, struct CUevent_st *event);

/* Microseconds between two recorded events; waits for the second one. NaN on failure. */
double device_elapsed_us(struct device *device, struct CUevent_st *begin, struct CUevent_st *end);

/* ---- Graphs ---- */

/* Who is forbidden unsafe calls, such as allocations, while a capture goes on: every thread, the capturing one, or
 * nobody. */
enum device_capture { DEVICE_CAPTURE_GLOBAL = 0, DEVICE_CAPTURE_THREAD = 1, DEVICE_CAPTURE_RELAXED = 2 };

/* Between the two, work for `stream` (not NULL) is recorded and not run. The end must be called even when work in
 * between failed; it then gives NULL. */
bool device_capture_begin(struct device *device, struct CUstream_st *stream, enum device_capture mode);
struct CUgraphExec_st *device_capture_end(struct device *device, struct CUstream_st *stream);
bool device_graph_launch(struct device *device, struct CUgraphExec_st *graph, struct CUstream_st *stream);
void device_graph_free(struct device *device, struct CUgraphExec_st *graph);

/* ---- Kernels ---- */

/* Loads a cubin, fatbin or PTX text into the current context. */
struct CUmod_st *device_image_load(struct device *device, const void *image);
void device_image_free(struct device *device, struct CUmod_st *image);

/* The kernel of this name, allowed `shared_bytes` of dynamic shared memory. */
struct CUfunc_st *device_kernel(struct device *device, struct CUmod_st *image, const char *name,
                                int shared_bytes);

/* Registers, local memory and so on are the image's affair. `arguments` points to pointers to the arguments. */
bool device_launch(struct device *device, struct CUfunc_st *kernel, unsigned grid, unsigned block,
                   unsigned shared_bytes, struct CUstream_st *stream, void **arguments);

/* ---- Contexts: for tests of programs that have their own ---- */

/* A second context on the same GPU; as the driver does, it becomes current. */
struct CUctx_st *device_context_new(struct device *device);
void device_context_free(struct device *device, struct CUctx_st *context);
struct CUctx_st *device_context_current(struct device *device);
bool device_context_use(struct device *device, struct CUctx_st *context); /* NULL: none */
struct CUctx_st *device_context_primary(const struct device *device);

#endif
