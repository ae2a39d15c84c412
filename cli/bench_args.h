/* The command line of smla bench. */
#ifndef BENCH_ARGS_H
#define BENCH_ARGS_H

#include <smla/smla.h>
#include <stdbool.h>
#include <stdint.h>

#include "args.h"
#include "bench_gpu.h"

struct bench_args {
    int backend; /* smla_backend: what the user asks for, by name or by options that one backend alone has */
    int isa;     /* smla_isa, or -1 */
    struct args_list threads, heads, rows, topk;
    const char *csv, *plot, *peers;
    double seconds;
    int64_t pool_rows; /* 0: the backend's default */
    bool json, host_cost;
    struct bench_gpu_options gpu; /* but for pool_rows */
    const char *cpu_option;       /* an option of one backend that was given, for the refusal, or NULL */
    const char *gpu_option;
};

/* Gives EXIT_RIGHT or EXIT_USAGE. Threads and rows that were not given stay empty: their defaults are the backend's. */
int bench_args_parse(struct bench_args *args, int argc, char **argv);

/* Fills these. */
void bench_args_defaults(struct bench_args *args, smla_backend backend, const smla_machine *machine);

#endif
