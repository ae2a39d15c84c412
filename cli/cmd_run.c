/* smla run: attends a captured step and compares the result with float64. */
#include <capture.h>
#include <math.h>
#include <safetensors.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "args.h"
#include "attend.h"
#include "command.h"
#include "oracle.h"
#include "progress.h"
#include "report.h"
#include "run_report.h"

enum { KEY_BACKEND = 256, KEY_ISA, KEY_THREADS, KEY_ORACLE_ROWS, KEY_PDL, KEY_PORTABLE, KEY_JSON };

/* Repeating a run for its time takes this long, seconds. */
static const double timing_budget = 0.02;

/* The oracle checks every row unless that would take more multiplications than this (a few seconds). */
static const double oracle_budget = 3e9;

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Write out (f32 [T,H,512]) and lse (f32 [T,H]) as safetensors", 0},
    {"backend", KEY_BACKEND, "NAME", 0, "auto (default: the GPU if there is one, else the CPU), cpu or cuda",
     0},
    {"isa", KEY_ISA, "NAME", 0,
     "CPU: scalar, avx2, avx512, avx512_bf16 or amx_bf16 (default: the library chooses)", 0},
    {"threads", KEY_THREADS, "N", 0,
     "CPU: threads, 1..1024 (default: one for each CPU, fewer if the step is small)", 0},
    {"oracle-rows", KEY_ORACLE_ROWS, "N", 0,
     "Rows to compare with the float64 oracle, spread evenly (default: all, or as many as a few seconds "
     "allow)",
     0},
    {"portable", KEY_PORTABLE, NULL, 0, "GPU: use the kernels for any GPU", 0},
    {"pdl", KEY_PDL, NULL, 0, "GPU: let each launch begin before the one in front has ended", 0},
    {"json", KEY_JSON, NULL, 0, "Report as JSON", 0},
    {0},
};

static const char doc[] =
    "Attends the step in CAPTURE, a safetensors file, and compares the result with a float64 oracle and with "
    "the file's own expected_out and expected_lse if it has them. Ends with 0 if all is within the bounds "
    "that "
    "it prints, with 1 if not."
    "\v"
    "The out bounds hold for the norm of the error over the norm of out; each element may be off by 4 x the "
    "bound "
    "x the largest element.\n"
    "\n"
    "Examples:\n"
    "  smla run step.safetensors\n"
    "  smla run step.safetensors -o out.safetensors --threads 4\n"
    "  smla run step.safetensors --backend cpu --isa avx2 --json\n"
    "\n"
    "A capture holds q bf16 [T,H,576], kv_cache bf16 [blocks,block_size,576], topk_indices i32 [T,K], "
    "block_table "
    "i32 [R,W], seq_lens i32 [R], query_start_loc i32 [R+1]; it may hold topk_length i32 [T], sinks f32 [H], "
    "expected_out f32 [T,H,512] and expected_lse f32 [T,H]. Its metadata are softmax_scale, block_size and "
    "model.\n";

struct run_args {
    const char *capture, *output;
    struct attend_options attend;
    int64_t oracle_rows; /* 0: by budget */
    bool json;
};

/* A backend that was not named is told by the options that only it has; at the end they must agree. */
static error_t settle_backend(const struct argp_state *state, struct attend_options *asked)
{
    bool cpu = asked->isa >= 0 || asked->threads, gpu = asked->pdl || asked->portable;
    if (gpu && (cpu || asked->backend == SMLA_BACKEND_CPU))
        return args_refuse(state, "%s: accepted: with --backend cuda", asked->pdl ? "--pdl" : "--portable");
    if (cpu && asked->backend == SMLA_BACKEND_CUDA)
        return args_refuse(state, "%s: accepted: with --backend cpu", asked->threads ? "--threads" : "--isa");
    if (cpu)
        asked->backend = SMLA_BACKEND_CPU;
    if (gpu)
        asked->backend = SMLA_BACKEND_CUDA;
    return 0;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct run_args *args = state->input;
    int64_t threads = 0;
    error_t error = 0;
    switch (key) {
    case 'o':
        args->output = argument;
        return 0;
    case KEY_BACKEND:
        return args_backend(state, argument, &args->attend.backend);
    case KEY_ISA:
        return args_isa(state, argument, &args->attend.isa);
    case KEY_THREADS:
        error = args_int(state, "--threads", argument, 1, 1024, &threads);
        args->attend.threads = (int)threads;
        return error;
    case KEY_ORACLE_ROWS:
        return args_int(state, "--oracle-rows", argument, 1, INT32_MAX, &args->oracle_rows);
    case KEY_PDL:
        args->attend.pdl = true;
        return 0;
    case KEY_PORTABLE:
        args->attend.portable = true;
        return 0;
    case KEY_JSON:
        args->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (args->capture)
            return args_refuse(state, "unexpected argument '%s': accepted: one CAPTURE", argument);
        args->capture = argument;
        return 0;
    case ARGP_KEY_END:
        if (!args->capture)
            return args_refuse(state, "CAPTURE is missing: accepted: a safetensors file");
        return settle_backend(state, &args->attend);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Bounds on the result. fp32 sums leave rounding alone, in out and, through the exponential, in the scores;
 * GPUs and instruction sets with bf16 products also round the weights, by 2^-9 at most, twice that in sums that cancel. */
static void judge(struct run_check *check, const struct attend *attend, double score_size)
{
    bool bf16_products = attend->chosen == SMLA_BACKEND_CUDA || attend->plan_info.isa >= SMLA_ISA_AVX512_BF16;
    check->out_bound = (bf16_products ? 4e-3 : 1e-6) + 3e-8 * score_size;
    check->lse_bound = 1e-6 + 2e-7 * score_size;
    check->right = compare_out_within(&check->out, check->out_bound) &&
                   compare_lse_within(&check->lse, check->lse_bound);
}

static int64_t affordable_rows(const struct run_args *args, const struct capture *capture,
                               int64_t valid_entries)
{
    double work = (double)valid_entries * (double)capture->heads * (CAPTURE_ROW + CAPTURE_LATENT);
    int64_t rows = args->oracle_rows;
    if (!rows)
        rows = work > oracle_budget ? (int64_t)((double)capture->rows * oracle_budget / work) : capture->rows;
    rows = rows < 1 ? 1 : rows;
    return rows < capture->rows ? rows : capture->rows;
}

/* Compares some rows with the oracle. False if memory is short. */
static bool compare_oracle(struct run_report *report, const struct capture *capture,
                           const struct attend *attend, const int32_t *row_request)
{
    struct run_check *check = &report->oracle;
    int64_t width = capture->heads * CAPTURE_LATENT;
    double *out = malloc((size_t)width * sizeof *out), *lse = malloc((size_t)capture->heads * sizeof *lse);
    bool room = out && lse;
    struct progress progress = {0};
    progress_begin(&progress, "comparing with the oracle");
    for (int64_t i = 0; room && i < check->rows; i++) {
        int64_t t = (int64_t)((double)i * (double)capture->rows / (double)check->rows);
        room = oracle_attend(capture, row_request, t, 1, out, lse);
        compare_add(&check->out, attend->out + t * width, out, width, t * width);
        compare_add(&check->lse, attend->lse + t * capture->heads, lse, capture->heads, t * capture->heads);
        report->score_size = fmax(report->score_size, oracle_score_size(capture, row_request, t));
        progress_set(&progress, (double)i + 1, (double)check->rows);
    }
    progress_end(&progress);
    free(out);
    free(lse);
    check->made = room;
    return room;
}

static void compare_floats(struct compare *compare, const float *got, const float *wanted, int64_t count)
{
    double portion[1024];
    for (int64_t done = 0; done < count; done += 1024) {
        int64_t n = count - done < 1024 ? count - done : 1024;
        for (int64_t i = 0; i < n; i++)
            portion[i] = (double)wanted[done + i];
        compare_add(compare, got + done, portion, n, done);
    }
}

static void compare_expected(struct run_check *check, const struct capture *capture,
                             const struct attend *attend)
{
    int64_t queries = capture->rows * capture->heads;
    check->made = capture->expected_out || capture->expected_lse;
    /* the cache is not needed any more: the process need not hold all of the file at once */
    safetensors_release_pages(capture->file);
    check->rows = capture->rows;
    if (capture->expected_out)
        compare_floats(&check->out, attend->out, capture->expected_out, queries * CAPTURE_LATENT);
    if (capture->expected_lse)
        compare_floats(&check->lse, attend->lse, capture->expected_lse, queries);
}

/* Fills the report; gives an exit code. */
static int examine(struct run_report *report, const struct run_args *args, const struct capture *capture,
                   const struct attend *attend)
{
    int32_t *row_request = oracle_row_requests(capture);
    if (row_request) {
        report->valid_entries = oracle_valid_entries(capture, row_request);
        report->oracle.rows = affordable_rows(args, capture, report->valid_entries);
    }
    bool room = row_request && compare_oracle(report, capture, attend, row_request);
    free(row_request);
    if (!room)
        return report_failure(args->json, EXIT_FAILED, "no memory for the oracle");
    compare_expected(&report->expected, capture, attend);
    judge(&report->oracle, attend, report->score_size);
    judge(&report->expected, attend, report->score_size);
    report->right = report->oracle.right && (!report->expected.made || report->expected.right);
    return report->right ? EXIT_RIGHT : EXIT_WRONG;
}

static int write_result(const struct run_args *args, const struct capture *capture,
                        const struct attend *attend)
{
    struct io_error error;
    const struct safetensors_pair metadata[] = {{"model", capture->model},
                                                {"backend", smla_backend_name(attend->chosen)},
                                                {"kernel", attend->plan_info.kernel}};
    const struct safetensors_tensor tensors[] = {{.name = "out",
                                                  .dtype = "F32",
                                                  .rank = 3,
                                                  .shape = {capture->rows, capture->heads, CAPTURE_LATENT},
                                                  .data = attend->out},
                                                 {.name = "lse",
                                                  .dtype = "F32",
                                                  .rank = 2,
                                                  .shape = {capture->rows, capture->heads},
                                                  .data = attend->lse}};
    if (!safetensors_write(args->output, metadata, 3, tensors, 2, &error))
        return report_failure(args->json, EXIT_FAILED, "%s: %s", args->output, error.text);
    return EXIT_RIGHT;
}

static int run_capture(const struct run_args *args, const struct capture *capture)
{
    struct attend attend;
    struct run_report report = {.path = args->capture};
    struct progress progress = {0};
    progress_begin(&progress, "attending");
    int code = attend_run(&attend, capture, &args->attend, timing_budget);
    progress_end(&progress);
    if (code != EXIT_RIGHT)
        report_failure(args->json, code, "%s: %s", args->capture, attend.error);
    if (code == EXIT_RIGHT && args->output)
        code = write_result(args, capture, &attend);
    if (code == EXIT_RIGHT) {
        code = examine(&report, args, capture, &attend);
        if (code != EXIT_FAILED)
            (args->json ? run_report_json : run_report_text)(&report, capture, &attend);
    }
    attend_close(&attend);
    return code;
}

static bool same_file(const char *a, const char *b)
{
    struct stat one, other;
    return !stat(a, &one) && !stat(b, &other) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

int command_run(int argc, char **argv)
{
    struct run_args args = {.attend = {.isa = -1}};
    const struct argp parser = {.options = options, .parser = parse, .args_doc = "CAPTURE", .doc = doc};
    struct capture capture;
    struct io_error error;
    if (args_parse(&parser, argc, argv, &args) != EXIT_RIGHT)
        return EXIT_USAGE;
    if (args.output && same_file(args.capture, args.output))
        return report_failure(args.json, EXIT_USAGE, "--output '%s': is the capture: accepted: another file",
                              args.output);
    if (!capture_open(&capture, args.capture, &error))
        return report_failure(args.json, EXIT_BAD_FILE, "%s: %s", args.capture, error.text);
    int code = run_capture(&args, &capture);
    capture_close(&capture);
    return code;
}
