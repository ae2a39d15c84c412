#include "run_report.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>

#include "report.h"

enum { ROW_BYTES = 2 * CAPTURE_ROW, ROW_FLOPS = 2 * (CAPTURE_ROW + CAPTURE_LATENT) };

static double gathered_bytes(const struct run_report *report)
{
    return (double)report->valid_entries * ROW_BYTES;
}

static double flops(const struct run_report *report, const struct capture *capture)
{
    return (double)report->valid_entries * (double)capture->heads * ROW_FLOPS;
}

static const char *isa_name(const struct attend *attend)
{
    return smla_isa_name((smla_isa)attend->plan_info.isa);
}

/* Text of a file that may be hostile: nothing in it can end the line or speak to the terminal. */
static void print_text(const char *text, int most)
{
    for (; *text && most > 0; text++, most--)
        putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
}

static void print_unknown(const struct capture *capture)
{
    enum { SHOWN = 8 };
    const char *name;
    size_t at = 0, count = 0;
    for (; (name = capture_unknown(capture, &at)) != NULL; count++) {
        if (count >= SHOWN)
            continue;
        printf("          tensor ");
        print_text(name, 64);
        printf(" is none of a capture's and was not used\n");
    }
    if (count > SHOWN)
        printf("          nor were %zu more\n", count - SHOWN);
}

static void print_step(const struct run_report *report, const struct capture *capture)
{
    printf("capture   ");
    print_text(report->path, INT_MAX);
    printf("%s", *capture->model ? ": " : "");
    print_text(capture->model, 256);
    printf("\n");
    print_unknown(capture);
    printf("step      %lld rows of %lld requests, %lld heads, top-k %lld, %lld blocks of %lld rows, scale "
           "%g%s%s\n",
           (long long)capture->rows, (long long)capture->requests, (long long)capture->heads,
           (long long)capture->topk, (long long)capture->cache_blocks, (long long)capture->block_size,
           capture->scale, capture->topk_length ? ", lengths" : "", capture->sinks ? ", sinks" : "");
}

static void print_backend(const struct attend *attend)
{
    printf("backend   %s: %s, ", smla_backend_name(attend->chosen), attend->plan_info.kernel);
    if (attend->gpu.device) {
        const struct device_facts *gpu = device_facts(attend->gpu.device);
        printf("%s, sm_%d, kernels for sm_%d\n", gpu->name, gpu->arch, attend->plan_info.arch);
    } else {
        printf("%d thread%s\n", attend->plan_info.threads, attend->plan_info.threads == 1 ? "" : "s");
    }
    for (int i = 0; i < attend->verdict_count; i++)
        if (attend->verdicts[i].backend != attend->chosen)
            printf("          not %s: %s\n", smla_backend_name(attend->verdicts[i].backend),
                   attend->verdicts[i].reason);
}

/* Index of an element of [T, H, width] in words. */
static void print_place(const struct capture *capture, int64_t index, int64_t width)
{
    int64_t query = index / width;
    printf("row %lld head %lld", (long long)(query / capture->heads), (long long)(query % capture->heads));
    if (width > 1)
        printf(" column %lld", (long long)(index % width));
}

static void print_tensor(const char *name, const struct compare *compare, const struct capture *capture,
                         int64_t width, double bound)
{
    printf("          %s: ", name);
    if (compare->mismatches) {
        printf("%lld elements NaN or infinite on one side only, first at ", (long long)compare->mismatches);
        print_place(capture, compare->first_mismatch, width);
        printf("; ");
    }
    printf("largest error %.2e at ", compare->max_error);
    print_place(capture, compare->worst, width);
    if (width > 1)
        printf(" (bound %.2e), relative norm %.2e (bound %.2e)\n", 4 * bound * compare->max_wanted,
               compare_relative_norm(compare), bound);
    else
        printf(" (bound %.2e)\n", bound);
}

static void print_check(const char *name, const struct run_check *check, const struct capture *capture)
{
    if (!check->made)
        return;
    printf("%-9s %s, %lld of %lld rows\n", name, check->right ? "right" : "WRONG", (long long)check->rows,
           (long long)capture->rows);
    print_tensor("out", &check->out, capture, CAPTURE_LATENT, check->out_bound);
    print_tensor("lse", &check->lse, capture, 1, check->lse_bound);
}

void run_report_text(const struct run_report *report, const struct capture *capture,
                     const struct attend *attend)
{
    const smla_step_info *step = &attend->step_info;
    print_step(report, capture);
    print_backend(attend);
    printf("lanes     decode %lld rows of %lld requests, prefill %lld rows of %lld requests\n",
           (long long)step->decode_rows, (long long)step->decode_requests, (long long)step->prefill_rows,
           (long long)step->prefill_requests);
    printf("time      %.1f us median of %d, %.1f us best; the first was done %.1f ms after the start\n",
           1e6 * attend->median, attend->runs, 1e6 * attend->best, report_since_begin(attend->first_result));
    printf("rate      %lld cache rows gathered, %.2f GB/s, %.1f GFLOP/s\n", (long long)report->valid_entries,
           1e-9 * gathered_bytes(report) / attend->median, 1e-9 * flops(report, capture) / attend->median);
    print_check("oracle", &report->oracle, capture);
    print_check("expected", &report->expected, capture);
    printf("result    %s\n", report->right ? "right" : "WRONG");
}

static json_t *tensor_json(const struct compare *compare, double bound)
{
    return json_pack("{s:o, s:I, s:o, s:o, s:I, s:o}", "max_error", report_number(compare->max_error),
                     "worst_index", (json_int_t)compare->worst, "max_wanted",
                     report_number(compare->max_wanted), "relative_norm",
                     report_number(compare_relative_norm(compare)), "non_finite_mismatches",
                     (json_int_t)compare->mismatches, "bound", report_number(bound));
}

static json_t *check_json(const struct run_check *check)
{
    if (!check->made)
        return json_null();
    return json_pack("{s:b, s:I, s:o, s:o}", "right", check->right, "rows", (json_int_t)check->rows, "out",
                     tensor_json(&check->out, check->out_bound), "lse",
                     tensor_json(&check->lse, check->lse_bound));
}

static json_t *capture_json(const struct run_report *report, const struct capture *capture)
{
    json_t *unknown = json_array();
    const char *name;
    size_t at = 0;
    while ((name = capture_unknown(capture, &at)) != NULL)
        json_array_append_new(unknown, report_text(name));
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:o}", "file",
                     report_text(report->path), "model", report_text(capture->model), "rows",
                     (json_int_t)capture->rows, "requests", (json_int_t)capture->requests, "heads",
                     (json_int_t)capture->heads, "topk", (json_int_t)capture->topk, "cache_blocks",
                     (json_int_t)capture->cache_blocks, "block_size", (json_int_t)capture->block_size,
                     "scale", report_number(capture->scale), "valid_entries",
                     (json_int_t)report->valid_entries, "unknown_tensors", unknown);
}

static json_t *backend_json(const struct attend *attend)
{
    json_t *others = json_object();
    for (int i = 0; i < attend->verdict_count; i++)
        if (attend->verdicts[i].backend != attend->chosen)
            json_object_set_new(others, smla_backend_name(attend->verdicts[i].backend),
                                report_text(attend->verdicts[i].reason));
    const struct device_facts *gpu = attend->gpu.device ? device_facts(attend->gpu.device) : NULL;
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name", smla_backend_name(attend->chosen), "kernel",
        attend->plan_info.kernel, "isa", gpu ? json_null() : json_string(isa_name(attend)), "threads",
        gpu ? json_null() : json_integer(attend->plan_info.threads), "gpu",
        gpu ? report_text(gpu->name) : json_null(), "arch", gpu ? json_integer(gpu->arch) : json_null(),
        "kernel_arch", gpu ? json_integer(attend->plan_info.arch) : json_null(), "not_used", others);
}

void run_report_json(const struct run_report *report, const struct capture *capture,
                     const struct attend *attend)
{
    const smla_step_info *step = &attend->step_info;
    json_t *lanes =
        json_pack("{s:I, s:I, s:I, s:I}", "decode_rows", (json_int_t)step->decode_rows, "decode_requests",
                  (json_int_t)step->decode_requests, "prefill_rows", (json_int_t)step->prefill_rows,
                  "prefill_requests", (json_int_t)step->prefill_requests);
    json_t *time =
        json_pack("{s:f, s:f, s:i, s:f, s:f, s:f}", "us", 1e6 * attend->median, "us_best", 1e6 * attend->best,
                  "runs", attend->runs, "gbps", 1e-9 * gathered_bytes(report) / attend->median, "gflops",
                  1e-9 * flops(report, capture) / attend->median, "first_result_ms",
                  report_since_begin(attend->first_result));
    report_json(json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "capture",
                          capture_json(report, capture), "backend", backend_json(attend), "lanes", lanes,
                          "time", time, "score_size", report_number(report->score_size), "oracle",
                          check_json(&report->oracle), "expected", check_json(&report->expected), "right",
                          report->right));
}
