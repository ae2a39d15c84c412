/* What a benchmark found, as table, CSV, JSON and plot. */
#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include <io_error.h>
#include <smla/smla.h>
#include <stdbool.h>

#include "bench_case.h"

/* What the machine gives at most with a number of threads. */
struct bench_roof {
    int threads;
    double gflops;      /* multiply-add peak of one core x threads */
    double gather_gbps; /* random rows of the pool */
};

struct bench_report {
    smla_machine machine;
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
bool bench_write_csv(const struct bench_report *report, const char *path, struct io_error *error);

/* Is gnuplot here? */
bool bench_can_plot(void);

/* A roofline: GFLOP/s over FLOP per gathered byte, both logarithmic, one colour for each number of threads. */
bool bench_write_plot(const struct bench_report *report, const char *path, struct io_error *error);

#endif
