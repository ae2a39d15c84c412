/* What a benchmark found, as table, CSV, JSON and plot. */
#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include <device.h>
#include <io_error.h>
#include <jansson.h>
#include <smla/smla.h>
#include <stdbool.h>

#include "bench_case.h"
#include "bench_gpu.h"

/* What the machine gives at most with a number of threads. */
struct bench_roof {
    int threads;   /* 0: a GPU */
    double gflops; /* multiply-add peak of one core x threads; infinite on a GPU, where it is not measured */
    double gather_gbps; /* random rows of the pool */
};

struct bench_report {
    smla_machine machine;
    smla_backend backend;
    const struct device_facts *gpu; /* with its options; NULL on the CPU */
    const struct bench_gpu_options *gpu_options;
    char no_gpu[BENCH_TEXT]; /* why the GPU is not measured, "" if it is or nobody asked */
    smla_isa isa;
    double peaks[SMLA_ISA_COUNT]; /* of the multiply-adds up to isa, GFLOP/s of one core; 0 = not measured */
    double core_gflops;           /* the largest of them */
    int64_t pool_rows;
    struct bench_roof *roofs;
    int roof_count;
    struct bench_result *results;
    int result_count;
};

void bench_print_machine(const struct bench_report *report);
void bench_print_titles(void);
void bench_print_line(const struct bench_result *result);
void bench_print_json(const struct bench_report *report);

/* Host time of calls: --host-cost. */
void bench_print_host_titles(void);
void bench_print_host_line(const struct bench_case *shape, const struct bench_host_cost *cost);
json_t *bench_host_json(const struct bench_case *shape, const struct bench_host_cost *cost);

bool bench_write_csv(const struct bench_report *report, const char *path, struct io_error *error);

/* Is gnuplot here? */
bool bench_can_plot(void);

/* A roofline: GFLOP/s over FLOP per gathered byte, both logarithmic, one colour for each number of
 * threads, or on a GPU of rows. */
bool bench_write_plot(const struct bench_report *report, const char *path, struct io_error *error);

#endif
