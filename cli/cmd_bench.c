/* smla bench: how fast this machine attends, beside what it could do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_args.h"
#include "bench_case.h"
#include "bench_gpu.h"
#include "bench_output.h"
#include "command.h"
#include "gather.h"
#include "peak.h"
#include "peers.h"
#include "progress.h"
#include "report.h"

/* What one call of the command holds. */
struct bench {
    struct bench_args args;
    smla_backend backend;
    struct peers peers;
    struct bench_report report;
    struct bench_pool pool; /* of the CPU */
    struct bench_gpu gpu;
    struct progress progress;
};

/* Sees before any measuring that the backend and all shapes are possible; the reason why not is one line. */
static int check_shapes(const struct bench_args *args, smla_backend backend, char reason[BENCH_TEXT])
{
    struct bench_case shape = {.topk = 1};
    smla_problem problem;
    for (int i = 0; i < args->heads.count; i++) {
        shape.heads = (int)args->heads.values[i];
        bench_problem(&problem, &shape);
        smla_status status = smla_support_query(&problem, backend, 0, NULL, reason, BENCH_TEXT);
        if (status != SMLA_OK)
            return report_exit_of(status);
    }
    return EXIT_RIGHT;
}

static int open_gpu(struct bench *bench, char reason[BENCH_TEXT])
{
    bench->args.gpu.pool_rows = bench->args.pool_rows;
    int code = check_shapes(&bench->args, SMLA_BACKEND_CUDA, reason);
    if (code != EXIT_RIGHT)
        return code;
    progress_begin(&bench->progress, "opening the GPU");
    code = bench_gpu_open(&bench->gpu, &bench->args.gpu, reason);
    progress_end(&bench->progress);
    if (code == EXIT_RIGHT) {
        bench->report.gpu = device_facts(bench->gpu.device);
        bench->report.gpu_options = &bench->gpu.options;
        bench->report.pool_rows = bench->gpu.pool_rows;
    }
    return code;
}

static int open_cpu(struct bench *bench, char reason[BENCH_TEXT])
{
    int code = check_shapes(&bench->args, SMLA_BACKEND_CPU, reason);
    return code == EXIT_RIGHT ? bench_probe(bench->args.isa, &bench->report.isa, reason) : code;
}

/* The GPU if there is one and nothing else was asked for. */
static int choose_backend(struct bench *bench)
{
    char reason[BENCH_TEXT] = "";
    int code = EXIT_UNSUPPORTED, wanted = bench->args.backend;
    bench->backend = SMLA_BACKEND_CUDA;
    if (wanted != SMLA_BACKEND_CPU)
        code = open_gpu(bench, reason);
    if (code != EXIT_RIGHT && wanted != SMLA_BACKEND_CUDA) {
        snprintf(bench->report.no_gpu, sizeof bench->report.no_gpu, "%s", reason);
        bench->backend = SMLA_BACKEND_CPU;
        code = open_cpu(bench, reason);
    }
    if (code != EXIT_RIGHT)
        return report_failure(bench->args.json, code, "backend %s: %s", smla_backend_name(bench->backend),
                              reason);
    bench->report.backend = bench->backend;
    bench_args_defaults(&bench->args, bench->backend, &bench->report.machine);
    return EXIT_RIGHT;
}

/* Peak and gather bandwidth of the CPU, for each number of threads. */
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

static int measure_machine(struct bench *bench)
{
    if (bench->backend != SMLA_BACKEND_CPU)
        return EXIT_RIGHT;
    progress_begin(&bench->progress, "measuring the machine");
    bool made = bench_pool_make(&bench->pool, bench->args.pool_rows);
    bool measured = made && measure_roofs(&bench->report, &bench->args, &bench->pool);
    progress_end(&bench->progress);
    bench->report.pool_rows = bench->pool.count;
    if (!made)
        return report_failure(bench->args.json, EXIT_FAILED, "no memory for a pool of %lld rows",
                              (long long)bench->pool.count);
    return measured ? EXIT_RIGHT : report_failure(bench->args.json, EXIT_FAILED, "no memory for the results");
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

static int measure_case(struct bench *bench, const struct bench_case *shape, struct bench_result *result)
{
    if (bench->backend == SMLA_BACKEND_CUDA)
        return bench_gpu_measure(&bench->gpu, shape, result);
    int code = bench_measure(result, shape, &bench->pool, bench->args.seconds);
    if (bench->report.core_gflops > 0)
        result->floor_us =
            result->tflops * 1e3 * result->us / (bench->report.core_gflops * result->shape.threads);
    result->ratio = result->us / result->floor_us;
    return code;
}

/* One line after the other; the progress makes way for each. */
static int measure_all(struct bench *bench)
{
    struct bench_report *report = &bench->report;
    int total = case_count(&bench->args);
    report->results = calloc((size_t)total, sizeof *report->results);
    if (!report->results)
        return report_failure(bench->args.json, EXIT_FAILED, "no memory for the results");
    for (int i = 0; i < total; i++) {
        struct bench_result *result = &report->results[i];
        struct bench_case shape = case_at(&bench->args, i);
        progress_set(&bench->progress, i, total);
        progress_begin(&bench->progress, "measuring");
        int code = measure_case(bench, &shape, result);
        progress_end(&bench->progress);
        if (code != EXIT_RIGHT)
            return report_failure(bench->args.json, code, "%d heads, %lld rows, top-k %d: %s", shape.heads,
                                  (long long)shape.tokens, shape.topk, result->error);
        result->peer_us = peers_find(&bench->peers, result->shape.heads, result->shape.tokens,
                                     result->shape.topk, result->shape.threads);
        report->result_count++;
        if (!bench->args.json)
            bench_print_line(result);
    }
    return EXIT_RIGHT;
}

/* The GPU's roof is the best that a gather floor gave, if there was one. */
static bool add_gpu_roof(struct bench_report *report)
{
    report->roofs = calloc(1, sizeof *report->roofs);
    if (!report->roofs)
        return false;
    report->roofs[0].gflops = (double)INFINITY;
    for (int i = 0; i < report->result_count; i++)
        report->roofs[0].gather_gbps =
            fmax(report->roofs[0].gather_gbps, report->results[i].gbps * report->results[i].ratio);
    report->roof_count = report->roofs[0].gather_gbps > 0;
    return true;
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

/* A line for each shape; what others need for it does not enter. */
static int measure_host_cost(struct bench *bench)
{
    json_t *list = json_array();
    int code = EXIT_RIGHT, total = case_count(&bench->args);
    if (!bench->args.json)
        bench_print_host_titles();
    for (int i = 0; code == EXIT_RIGHT && i < total; i++) {
        struct bench_case shape = case_at(&bench->args, i);
        struct bench_host_cost cost;
        char reason[BENCH_TEXT];
        code = bench_gpu_host_cost(&bench->gpu, &shape, &cost, reason);
        if (code != EXIT_RIGHT)
            report_failure(bench->args.json, code, "%d heads, %lld rows, top-k %d: %s", shape.heads,
                           (long long)shape.tokens, shape.topk, reason);
        else if (bench->args.json)
            json_array_append_new(list, bench_host_json(&shape, &cost));
        else
            bench_print_host_line(&shape, &cost);
    }
    if (code == EXIT_RIGHT && bench->args.json)
        report_json(json_pack("{s:O}", "host_cost", list));
    json_decref(list);
    return code;
}

static int bench_all(struct bench *bench)
{
    int code = measure_machine(bench);
    if (code != EXIT_RIGHT)
        return code;
    if (!bench->args.json)
        bench_print_machine(&bench->report);
    if (bench->args.host_cost)
        return measure_host_cost(bench);
    if (!bench->args.json)
        bench_print_titles();
    code = measure_all(bench);
    if (code == EXIT_RIGHT && bench->report.gpu && !add_gpu_roof(&bench->report))
        code = report_failure(bench->args.json, EXIT_FAILED, "no memory for the results");
    return code == EXIT_RIGHT ? write_files(&bench->report, &bench->args) : code;
}

/* What can be refused without a backend. */
static int check_files(struct bench *bench)
{
    const struct bench_args *args = &bench->args;
    struct io_error error;
    if (args->csv && args->plot && !strcmp(args->csv, args->plot))
        return report_failure(args->json, EXIT_USAGE, "--plot '%s': is the CSV: accepted: another file",
                              args->plot);
    if (args->plot && !bench_can_plot())
        return report_failure(args->json, EXIT_FAILED, "--plot needs gnuplot, which is not installed");
    if (args->peers && !peers_read(&bench->peers, args->peers, &error))
        return report_failure(args->json, EXIT_BAD_FILE, "%s: %s", args->peers, error.text);
    return EXIT_RIGHT;
}

int command_bench(int argc, char **argv)
{
    struct bench bench = {.report.machine.struct_size = sizeof bench.report.machine};
    if (bench_args_parse(&bench.args, argc, argv) != EXIT_RIGHT)
        return EXIT_USAGE;
    smla_machine_query(&bench.report.machine);
    int code = check_files(&bench);
    if (code == EXIT_RIGHT)
        code = choose_backend(&bench);
    if (code == EXIT_RIGHT)
        code = bench_all(&bench);
    free(bench.report.results);
    free(bench.report.roofs);
    peers_free(&bench.peers);
    bench_pool_free(&bench.pool);
    bench_gpu_close(&bench.gpu);
    return code;
}
