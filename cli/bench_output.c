#include "bench_output.h"

#include <atomic_file.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "report.h"

void bench_print_machine(const struct bench_report *report)
{
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
    printf("%-34s %5d %6" PRId64 " %5d %7d %11.1f %11.1f %8.2f %7.4f", result->kernel, shape->heads,
           shape->tokens, shape->topk, shape->threads, result->us, result->us_best, result->gbps,
           result->tflops);
    print_known(result->floor_us, 11, 1);
    print_known(result->ratio, 6, 2);
    print_known(result->peer_us, 11, 1);
    putchar('\n');
    fflush(stdout);
}

static json_t *result_json(const struct bench_result *result)
{
    const struct bench_case *shape = &result->shape;
    return json_pack("{s:s, s:s, s:i, s:I, s:i, s:i, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "backend",
                     smla_backend_name(SMLA_BACKEND_CPU), "kernel", result->kernel, "heads", shape->heads,
                     "tokens", (json_int_t)shape->tokens, "topk", shape->topk, "threads", shape->threads,
                     "us", report_number(result->us), "us_best", report_number(result->us_best), "runs",
                     result->runs, "gbps", report_number(result->gbps), "tflops",
                     report_number(result->tflops), "floor_us", report_number(result->floor_us), "ratio",
                     report_number(result->ratio), "peer_us", report_number(result->peer_us));
}

void bench_print_json(const struct bench_report *report)
{
    json_t *roofs = json_array(), *results = json_array(), *peaks = json_object();
    for (int i = 0; i < SMLA_ISA_COUNT; i++)
        if (report->peaks[i] > 0)
            json_object_set_new(peaks, smla_isa_name((smla_isa)i), report_number(report->peaks[i]));
    for (int i = 0; i < report->roof_count; i++)
        json_array_append_new(roofs, json_pack("{s:i, s:o, s:o}", "threads", report->roofs[i].threads,
                                               "gflops", report_number(report->roofs[i].gflops),
                                               "gather_gbps", report_number(report->roofs[i].gather_gbps)));
    for (int i = 0; i < report->result_count; i++)
        json_array_append_new(results, result_json(&report->results[i]));
    report_json(json_pack("{s:o, s:s, s:o, s:o, s:I, s:o, s:o}", "cpu", report_text(report->machine.cpu_name),
                          "isa", smla_isa_name(report->isa), "core_gflops",
                          report_number(report->core_gflops), "peaks", peaks, "pool_rows",
                          (json_int_t)report->pool_rows, "roofs", roofs, "results", results));
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
        fprintf(file.stream, "%s,%s,%d,%" PRId64 ",%d,%d", smla_backend_name(SMLA_BACKEND_CPU),
                result->kernel, shape->heads, shape->tokens, shape->topk, shape->threads);
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
