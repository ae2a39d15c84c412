#include "bench_output.h"

#include <atomic_file.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "report.h"

/* What else was asked for, each behind a comma. */
static void print_gpu_options(const struct bench_gpu_options *options)
{
    printf("lists   %s", options->positions ? "positions in requests with shuffled blocks" : "cache slots");
    if (options->invalid > 0)
        printf(", %g of the entries -1", options->invalid);
    if (options->splits)
        printf(", %d splits", options->splits);
    printf("%s%s%s\n", options->portable ? ", portable kernels" : "",
           options->pdl ? ", programmatic dependent launch" : "", options->check ? ", checked" : "");
}

static void print_gpu(const struct bench_report *report)
{
    const struct device_facts *gpu = report->gpu;
    printf("gpu     %s, sm_%d, %d processors, driver for CUDA %d.%d\n", gpu->name, gpu->arch, gpu->processors,
           gpu->driver / 1000, gpu->driver % 1000 / 10);
    printf("pool    %" PRId64 " rows, %.2f GB; last cache %.0f MB\n", report->pool_rows,
           1e-9 * (double)report->pool_rows * 2 * BENCH_ROW, 1e-6 * (double)gpu->l2_bytes);
    print_gpu_options(report->gpu_options);
    putchar('\n');
}

void bench_print_machine(const struct bench_report *report)
{
    if (report->gpu) {
        print_gpu(report);
        return;
    }
    if (*report->no_gpu)
        printf("gpu     not measured: %s\n", report->no_gpu);
    printf("cpu     %s, %d CPUs may be used\n", report->machine.cpu_name, report->machine.cpus);
    printf("peak    %.1f GFLOP/s a core; multiply-adds of", report->core_gflops);
    for (int i = 0; i < SMLA_ISA_COUNT; i++)
        if (report->peaks[i] > 0)
            printf(" %s %.1f", smla_isa_name((smla_isa)i), report->peaks[i]);
    putchar('\n');
    printf("pool    %" PRId64 " rows, %.2f GB; last cache %.0f MB\n", report->pool_rows,
           1e-9 * (double)report->pool_rows * 2 * BENCH_ROW, 1e-6 * (double)bench_cache_bytes());
    for (int i = 0; i < report->roof_count; i++)
        printf("gather  %d thread%s: %.2f GB/s of random rows\n", report->roofs[i].threads,
               report->roofs[i].threads == 1 ? "" : "s", report->roofs[i].gather_gbps);
    putchar('\n');
}

void bench_print_titles(void)
{
    printf("%-34s %5s %6s %5s %7s %11s %11s %8s %7s %11s %6s %11s\n", "kernel", "heads", "tokens", "topk",
           "threads", "us", "least us", "GB/s", "TFLOP/s", "floor us", "ratio", "peer us");
}

void bench_print_host_titles(void)
{
    printf("%5s %6s %5s %14s %14s\n", "heads", "tokens", "topk", "us of a run", "us of an update");
}

void bench_print_host_line(const struct bench_case *shape, const struct bench_host_cost *cost)
{
    printf("%5d %6" PRId64 " %5d %14.2f %14.2f\n", shape->heads, shape->tokens, shape->topk, cost->run_us,
           cost->update_us);
    fflush(stdout);
}

json_t *bench_host_json(const struct bench_case *shape, const struct bench_host_cost *cost)
{
    return json_pack("{s:i, s:I, s:i, s:f, s:f}", "heads", shape->heads, "tokens", (json_int_t)shape->tokens,
                     "topk", shape->topk, "run_us", cost->run_us, "update_us", cost->update_us);
}

/* NaN on a GPU. */
static double threads_of(const struct bench_case *shape)
{
    return shape->threads ? shape->threads : (double)NAN;
}

/* A number in its column, or a dash. */
static void print_known(double value, int width, int digits)
{
    if (isnan(value))
        printf(" %*s", width, "-");
    else
        printf(" %*.*f", width, digits, value);
}

void bench_print_line(const struct bench_result *result)
{
    const struct bench_case *shape = &result->shape;
    int digits = result->backend == SMLA_BACKEND_CUDA ? 2 : 1;
    printf("%-34s %5d %6" PRId64 " %5d", result->kernel, shape->heads, shape->tokens, shape->topk);
    print_known(threads_of(shape), 7, 0);
    printf(" %11.*f %11.*f %8.2f %7.*f", digits, result->us, digits, result->us_best, result->gbps,
           result->backend == SMLA_BACKEND_CUDA ? 1 : 4, result->tflops);
    print_known(result->floor_us, 11, digits);
    print_known(result->ratio, 6, 2);
    print_known(result->peer_us, 11, digits);
    putchar('\n');
    fflush(stdout);
}

static json_t *result_json(const struct bench_result *result)
{
    const struct bench_case *shape = &result->shape;
    return json_pack("{s:s, s:s, s:i, s:I, s:i, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "backend",
                     smla_backend_name(result->backend), "kernel", result->kernel, "heads", shape->heads,
                     "tokens", (json_int_t)shape->tokens, "topk", shape->topk, "threads",
                     shape->threads ? json_integer(shape->threads) : json_null(), "us",
                     report_number(result->us), "us_best", report_number(result->us_best), "runs",
                     result->runs, "gbps", report_number(result->gbps), "tflops",
                     report_number(result->tflops), "floor_us", report_number(result->floor_us), "ratio",
                     report_number(result->ratio), "peer_us", report_number(result->peer_us));
}

static json_t *results_json(const struct bench_report *report)
{
    json_t *results = json_array();
    for (int i = 0; i < report->result_count; i++)
        json_array_append_new(results, result_json(&report->results[i]));
    return results;
}

static void print_gpu_json(const struct bench_report *report)
{
    const struct device_facts *gpu = report->gpu;
    const struct bench_gpu_options *options = report->gpu_options;
    json_t *facts = json_pack("{s:o, s:i, s:i, s:i}", "name", report_text(gpu->name), "arch", gpu->arch,
                              "processors", gpu->processors, "driver", gpu->driver);
    json_t *asked = json_pack("{s:b, s:b, s:b, s:b, s:f, s:i}", "pdl", options->pdl, "portable",
                              options->portable, "positions", options->positions, "check", options->check,
                              "invalid", options->invalid, "splits", options->splits);
    report_json(json_pack("{s:o, s:o, s:I, s:o}", "gpu", facts, "options", asked, "pool_rows",
                          (json_int_t)report->pool_rows, "results", results_json(report)));
}

void bench_print_json(const struct bench_report *report)
{
    if (report->gpu) {
        print_gpu_json(report);
        return;
    }
    json_t *roofs = json_array(), *peaks = json_object();
    for (int i = 0; i < SMLA_ISA_COUNT; i++)
        if (report->peaks[i] > 0)
            json_object_set_new(peaks, smla_isa_name((smla_isa)i), report_number(report->peaks[i]));
    for (int i = 0; i < report->roof_count; i++)
        json_array_append_new(roofs, json_pack("{s:i, s:o, s:o}", "threads", report->roofs[i].threads,
                                               "gflops", report_number(report->roofs[i].gflops),
                                               "gather_gbps", report_number(report->roofs[i].gather_gbps)));
    report_json(json_pack("{s:o, s:s, s:o, s:o, s:I, s:o, s:o}", "cpu", report_text(report->machine.cpu_name),
                          "isa", smla_isa_name(report->isa), "core_gflops",
                          report_number(report->core_gflops), "peaks", peaks, "pool_rows",
                          (json_int_t)report->pool_rows, "roofs", roofs, "results", results_json(report)));
}

/* A number after its comma, or nothing. */
static void put_known(FILE *stream, double value, int digits)
{
    fputc(',', stream);
    if (!isnan(value))
        fprintf(stream, "%.*f", digits, value);
}

bool bench_write_csv(const struct bench_report *report, const char *path, struct io_error *error)
{
    struct atomic_file file;
    if (!atomic_file_open(&file, path, error))
        return false;
    fputs("backend,kernel,heads,tokens,topk,threads,us,gbps,tflops,floor_us,ratio,peer_us\n", file.stream);
    for (int i = 0; i < report->result_count; i++) {
        const struct bench_result *result = &report->results[i];
        const struct bench_case *shape = &result->shape;
        fprintf(file.stream, "%s,%s,%d,%" PRId64 ",%d", smla_backend_name(result->backend), result->kernel,
                shape->heads, shape->tokens, shape->topk);
        put_known(file.stream, threads_of(shape), 0);
        put_known(file.stream, result->us, 2);
        put_known(file.stream, result->gbps, 3);
        put_known(file.stream, result->tflops, 5);
        put_known(file.stream, result->floor_us, 2);
        put_known(file.stream, result->ratio, 3);
        put_known(file.stream, result->peer_us, 2);
        fputc('\n', file.stream);
    }
    return atomic_file_commit(&file, error);
}
