/* smla bench: how fast this machine attends, beside what it could do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "bench_case.h"
#include "bench_output.h"
#include "command.h"
#include "gather.h"
#include "peak.h"
#include "peers.h"
#include "progress.h"
#include "report.h"

enum {
    KEY_BACKEND = 256,
    KEY_ISA,
    KEY_THREADS,
    KEY_HEADS,
    KEY_ROWS,
    KEY_TOPK,
    KEY_PLOT,
    KEY_PEERS,
    KEY_SECONDS,
    KEY_POOL_ROWS,
    KEY_JSON
};

static const struct argp_option options[] = {
    {"backend", KEY_BACKEND, "NAME", 0, "auto (default) or cpu; cuda says why not", 0},
    {"isa", KEY_ISA, "NAME", 0,
     "scalar, avx2, avx512, avx512_bf16 or amx_bf16 (default: the library chooses)", 0},
    {"threads", KEY_THREADS, "LIST", 0, "Numbers of threads (default: 1 and all CPUs)", 0},
    {"heads", KEY_HEADS, "LIST", 0, "Query heads (default 8,16,32,64,128)", 0},
    {"rows", KEY_ROWS, "LIST", 0, "Query rows (default 1,16)", 0},
    {"topk", KEY_TOPK, "LIST", 0, "Widths of the lists (default 2048)", 0},
    {"output", 'o', "CSV", 0, "Write the table as CSV", 0},
    {"plot", KEY_PLOT, "SVG", 0, "Draw a roofline with gnuplot", 0},
    {"peers", KEY_PEERS, "CSV", 0,
     "Times of others, with columns heads, tokens, topk, us and perhaps threads", 0},
    {"seconds", KEY_SECONDS, "X", 0, "Time for each line (default 0.3)", 0},
    {"pool-rows", KEY_POOL_ROWS, "N", 0,
     "Cache rows to draw from (default: four times the last cache, if memory allows)", 0},
    {"json", KEY_JSON, NULL, 0, "Report as JSON", 0},
    {0},
};

static const char doc[] =
    "Measures all combinations of the given shapes: random lists over a pool larger than the caches, another "
    "list "
    "each time, bf16 out, lse included. LIST is numbers with commas between."
    "\v"
    "Columns: us is the median, GB/s counts 1152 bytes for each gathered row, TFLOP/s 2176 FLOP for each row "
    "and "
    "head. The floor is what that many FLOP take at the peak of one core times the threads; the peak is that "
    "of the "
    "fastest multiply-add which the instruction set in use and those below it have, measured in the same "
    "run. Ratio "
    "is us over floor. The peer is the shortest time for the shape in the --peers file.\n"
    "\n"
    "Examples:\n"
    "  smla bench\n"
    "  smla bench --heads 8,64 --rows 1 --threads 1,2 -o bench.csv --plot bench.svg\n"
    "  smla bench --isa avx2 --threads 1 --peers others.csv --json\n";

struct bench_args {
    int backend, isa;
    struct args_list threads, heads, rows, topk;
    const char *csv, *plot, *peers;
    double seconds;
    int64_t pool_rows;
    bool json;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct bench_args *args = state->input;
    switch (key) {
    case KEY_BACKEND:
        return args_backend(state, argument, &args->backend);
    case KEY_ISA:
        return args_isa(state, argument, &args->isa);
    case KEY_THREADS:
        return args_ints(state, "--threads", argument, 1, 1024, &args->threads);
    case KEY_HEADS:
        return args_ints(state, "--heads", argument, 1, INT32_MAX, &args->heads);
    case KEY_ROWS:
        return args_ints(state, "--rows", argument, 1, 1 << 20, &args->rows);
    case KEY_TOPK:
        return args_ints(state, "--topk", argument, 1, 1 << 20, &args->topk);
    case 'o':
        args->csv = argument;
        return 0;
    case KEY_PLOT:
        args->plot = argument;
        return 0;
    case KEY_PEERS:
        args->peers = argument;
        return 0;
    case KEY_SECONDS:
        return args_real(state, "--seconds", argument, 0.001, 3600, &args->seconds);
    case KEY_POOL_ROWS:
        return args_int(state, "--pool-rows", argument, 1, INT32_MAX - BENCH_BLOCK_SIZE, &args->pool_rows);
    case KEY_JSON:
        args->json = true;
        return 0;
    case ARGP_KEY_ARG:
        return args_refuse(state, "unexpected argument '%s': accepted: options only", argument);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void use_default(struct args_list *list, int count, const int64_t *values)
{
    if (list->count)
        return;
    list->count = count;
    memcpy(list->values, values, (size_t)count * sizeof *values);
}

static void fill_defaults(struct bench_args *args, const smla_machine *machine)
{
    const int64_t threads[] = {1, machine->cpus}, heads[] = {8, 16, 32, 64, 128}, rows[] = {1, 16},
                  topk[] = {2048};
    use_default(&args->threads, machine->cpus > 1 ? 2 : 1, threads);
    use_default(&args->heads, 5, heads);
    use_default(&args->rows, 2, rows);
    use_default(&args->topk, 1, topk);
}

/* Sees before any measuring that the backend, the instruction set and all shapes are possible. */
static int check_support(const struct bench_args *args, smla_isa *isa)
{
    char reason[BENCH_TEXT];
    struct bench_case shape = {.topk = 1};
    smla_problem problem;
    smla_backend backend = args->backend == SMLA_BACKEND_CUDA ? SMLA_BACKEND_CUDA : SMLA_BACKEND_CPU;
    for (int i = 0; i < args->heads.count; i++) {
        shape.heads = (int)args->heads.values[i];
        bench_problem(&problem, &shape);
        smla_status status = smla_support_query(&problem, backend, 0, NULL, reason, sizeof reason);
        if (status != SMLA_OK)
            return report_failure(args->json, report_exit_of(status), "backend %s: %s",
                                  smla_backend_name(backend), reason);
    }
    if (backend == SMLA_BACKEND_CUDA)
        return report_failure(args->json, EXIT_UNSUPPORTED,
                              "backend cuda: this tool keeps its tensors in host memory");
    int code = bench_probe(args->isa, isa, reason);
    return code == EXIT_RIGHT ? code : report_failure(args->json, code, "backend cpu: %s", reason);
}

/* Peak and gather bandwidth, for each number of threads. */
static bool measure_roofs(struct bench_report *report, const struct bench_args *args,
                          const struct bench_pool *pool)
{
    report->roofs = calloc((size_t)args->threads.count, sizeof *report->roofs);
    if (!report->roofs)
        return false;
    report->core_gflops = peak_measure(report->isa, report->machine.isa_mask, report->peaks);
    for (int i = 0; i < args->threads.count; i++) {
        struct bench_roof *roof = &report->roofs[report->roof_count++];
        roof->threads = (int)args->threads.values[i];
        roof->gflops = report->core_gflops * roof->threads;
        roof->gather_gbps = gather_gbps(pool->rows, pool->count, roof->threads);
    }
    return true;
}

static void compare_result(struct bench_result *result, double core_gflops, const struct peers *peers)
{
    const struct bench_case *shape = &result->shape;
    if (core_gflops > 0)
        result->floor_us = result->tflops * 1e3 * result->us / (core_gflops * shape->threads);
    result->ratio = result->us / result->floor_us;
    result->peer_us = peers_find(peers, shape->heads, shape->tokens, shape->topk, shape->threads);
}

/* The i-th combination: threads vary slowest, heads fastest. */
static struct bench_case case_at(const struct bench_args *args, int i)
{
    struct bench_case shape = {.isa = args->isa};
    shape.heads = (int)args->heads.values[i % args->heads.count];
    i /= args->heads.count;
    shape.tokens = args->rows.values[i % args->rows.count];
    i /= args->rows.count;
    shape.topk = (int)args->topk.values[i % args->topk.count];
    shape.threads = (int)args->threads.values[i / args->topk.count];
    return shape;
}

static int case_count(const struct bench_args *args)
{
    return args->threads.count * args->heads.count * args->rows.count * args->topk.count;
}

/* One line after the other; the progress makes way for each. */
static int measure_all(struct bench_report *report, const struct bench_args *args,
                       const struct bench_pool *pool, const struct peers *peers, struct progress *progress)
{
    int total = case_count(args);
    report->results = calloc((size_t)total, sizeof *report->results);
    if (!report->results)
        return report_failure(args->json, EXIT_FAILED, "no memory for the results");
    for (int i = 0; i < total; i++) {
        struct bench_result *result = &report->results[i];
        struct bench_case shape = case_at(args, i);
        progress_set(progress, i, total);
        progress_begin(progress, "measuring");
        int code = bench_measure(result, &shape, pool, args->seconds);
        progress_end(progress);
        if (code != EXIT_RIGHT)
            return report_failure(args->json, code, "%d heads, %lld rows: %s", shape.heads,
                                  (long long)shape.tokens, result->error);
        compare_result(result, report->core_gflops, peers);
        report->result_count++;
        if (!args->json)
            bench_print_line(result);
    }
    return EXIT_RIGHT;
}

static int write_files(const struct bench_report *report, const struct bench_args *args)
{
    struct io_error error;
    if (args->csv && !bench_write_csv(report, args->csv, &error))
        return report_failure(args->json, EXIT_FAILED, "%s: %s", args->csv, error.text);
    if (args->plot && !bench_write_plot(report, args->plot, &error))
        return report_failure(args->json, EXIT_FAILED, "%s: %s", args->plot, error.text);
    if (args->json)
        bench_print_json(report);
    return EXIT_RIGHT;
}

static int bench_with(const struct bench_args *args, const smla_machine *machine, smla_isa isa,
                      const struct peers *peers)
{
    struct bench_pool pool;
    struct bench_report report = {.machine = *machine, .isa = isa};
    struct progress progress = {0};
    progress_begin(&progress, "measuring the machine");
    bool made = bench_pool_make(&pool, args->pool_rows);
    bool measured = made && measure_roofs(&report, args, &pool);
    progress_end(&progress);
    if (!made)
        return report_failure(args->json, EXIT_FAILED, "no memory for a pool of %lld rows",
                              (long long)pool.count);
    report.pool_rows = pool.count;
    if (measured && !args->json) {
        bench_print_machine(&report);
        bench_print_titles();
    }
    int code = measured ? measure_all(&report, args, &pool, peers, &progress)
                        : report_failure(args->json, EXIT_FAILED, "no memory for the results");
    if (code == EXIT_RIGHT)
        code = write_files(&report, args);
    free(report.results);
    free(report.roofs);
    bench_pool_free(&pool);
    return code;
}

int command_bench(int argc, char **argv)
{
    struct bench_args args = {.isa = -1, .seconds = 0.3};
    const struct argp parser = {.options = options, .parser = parse, .doc = doc};
    smla_machine machine = {.struct_size = sizeof machine};
    struct peers peers = {0};
    struct io_error error;
    smla_isa isa = SMLA_ISA_SCALAR;
    if (args_parse(&parser, argc, argv, &args) != EXIT_RIGHT)
        return EXIT_USAGE;
    smla_machine_query(&machine);
    fill_defaults(&args, &machine);
    int code = check_support(&args, &isa);
    if (code != EXIT_RIGHT)
        return code;
    if (args.csv && args.plot && !strcmp(args.csv, args.plot))
        return report_failure(args.json, EXIT_USAGE, "--plot '%s': is the CSV: accepted: another file",
                              args.plot);
    if (args.plot && !bench_can_plot())
        return report_failure(args.json, EXIT_FAILED, "--plot needs gnuplot, which is not installed");
    if (args.peers && !peers_read(&peers, args.peers, &error))
        code = report_failure(args.json, EXIT_BAD_FILE, "%s: %s", args.peers, error.text);
    if (code == EXIT_RIGHT)
        code = bench_with(&args, &machine, isa, &peers);
    peers_free(&peers);
    return code;
}
