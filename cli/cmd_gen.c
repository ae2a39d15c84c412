/* smla gen: a synthetic capture. */
#include <capture.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "args.h"
#include "command.h"
#include "oracle.h"
#include "progress.h"
#include "report.h"
#include "synth.h"

enum {
    KEY_ROWS = 256,
    KEY_REQUESTS,
    KEY_HEADS,
    KEY_TOPK,
    KEY_SEQ_LEN,
    KEY_BLOCK_SIZE,
    KEY_SEED,
    KEY_INVALID,
    KEY_SCALE,
    KEY_LENGTHS,
    KEY_SINKS,
    KEY_EXPECTED,
    KEY_JSON
};

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "The capture (default capture.safetensors)", 0},
    {"rows", KEY_ROWS, "T", 0, "Query rows of all requests together (default 16)", 0},
    {"requests", KEY_REQUESTS, "R", 0, "Requests (default: one for each row, that is plain decoding)", 0},
    {"heads", KEY_HEADS, "H", 0, "Query heads (default 16)", 0},
    {"topk", KEY_TOPK, "K", 0, "Width of the top-k lists (default 2048)", 0},
    {"seq-len", KEY_SEQ_LEN, "N", 0,
     "Tokens of the longest request (default 4096); the others have a quarter of it or more", 0},
    {"block-size", KEY_BLOCK_SIZE, "B", 0, "Rows of a cache block (default 64)", 0},
    {"seed", KEY_SEED, "N", 0, "Same seed, same bytes, on any machine (default 1)", 0},
    {"invalid", KEY_INVALID, "FRACTION", 0, "Share of the list entries that become -1 (default 0)", 0},
    {"scale", KEY_SCALE, "X", 0, "Softmax scale (default 576^-0.5)", 0},
    {"lengths", KEY_LENGTHS, NULL, 0, "Give each row a length, with garbage behind it", 0},
    {"sinks", KEY_SINKS, NULL, 0, "Give each head a sink", 0},
    {"expected", KEY_EXPECTED, NULL, 0, "Add expected_out and expected_lse, computed in float64", 0},
    {"json", KEY_JSON, NULL, 0, "Report as JSON", 0},
    {0},
};

static const char doc[] =
    "Writes a synthetic capture. Blocks are dealt in random order, cache rows that no request owns hold NaN, "
    "and "
    "every row lists random positions up to its own, each once; where there are fewer than K, -1 stands at "
    "random places."
    "\v"
    "The bytes depend on the options alone, except that the last bit of a number of --expected may differ "
    "where "
    "the C library's exp does.\n"
    "\n"
    "Examples:\n"
    "  smla gen --rows 64 --heads 16 --topk 2048 -o decode.safetensors\n"
    "  smla gen --rows 512 --requests 2 --heads 128 --seq-len 8192 --invalid 0.1\n"
    "  smla gen --rows 5 --topk 100 --lengths --sinks --expected --seed 7\n";

struct gen_args {
    struct synth_options synth;
    const char *path;
    bool json;
};

static error_t parse_flag(int key, struct gen_args *args)
{
    bool *flag = key == KEY_LENGTHS    ? &args->synth.lengths
                 : key == KEY_SINKS    ? &args->synth.sinks
                 : key == KEY_EXPECTED ? &args->synth.expected
                 : key == KEY_JSON     ? &args->json
                                       : NULL;
    if (!flag)
        return ARGP_ERR_UNKNOWN;
    *flag = true;
    return 0;
}

/* A request can have no more rows than tokens. */
static error_t check_args(struct gen_args *args, const struct argp_state *state)
{
    struct synth_options *synth = &args->synth;
    if (!synth->requests)
        synth->requests = synth->rows;
    int64_t longest = (synth->rows + synth->requests - 1) / synth->requests;
    if (longest > synth->seq_len)
        return args_refuse(state, "--seq-len '%lld': accepted: at least the %lld query rows of a request",
                           (long long)synth->seq_len, (long long)longest);
    return 0;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct gen_args *args = state->input;
    struct synth_options *synth = &args->synth;
    switch (key) {
    case 'o':
        args->path = argument;
        return 0;
    case KEY_ROWS:
        return args_int(state, "--rows", argument, 1, 1 << 24, &synth->rows);
    case KEY_REQUESTS:
        return args_int(state, "--requests", argument, 1, 1 << 24, &synth->requests);
    case KEY_HEADS:
        return args_int(state, "--heads", argument, 1, 1024, &synth->heads);
    case KEY_TOPK:
        return args_int(state, "--topk", argument, 1, 1 << 24, &synth->topk);
    case KEY_SEQ_LEN:
        return args_int(state, "--seq-len", argument, 1, 1 << 24, &synth->seq_len);
    case KEY_BLOCK_SIZE:
        return args_int(state, "--block-size", argument, 1, 1 << 20, &synth->block_size);
    case KEY_SEED:
        return args_int(state, "--seed", argument, 0, INT64_MAX, &synth->seed);
    case KEY_INVALID:
        return args_real(state, "--invalid", argument, 0, 1, &synth->invalid);
    case KEY_SCALE:
        return args_real(state, "--scale", argument, -1e30, 1e30, &synth->scale);
    case ARGP_KEY_ARG:
        return args_refuse(state, "unexpected argument '%s': accepted: options only", argument);
    case ARGP_KEY_END:
        return check_args(args, state);
    default:
        return parse_flag(key, args);
    }
}

/* expected_*, a row at a time. */
static bool fill_expected(struct synth *synth, const struct capture *capture, struct progress *progress)
{
    int64_t width = capture->heads * CAPTURE_LATENT;
    int32_t *row_request = oracle_row_requests(capture);
    double *out = malloc((size_t)width * sizeof *out), *lse = malloc((size_t)capture->heads * sizeof *lse);
    bool right = row_request && out && lse;
    for (int64_t t = 0; right && t < capture->rows; t++) {
        right = oracle_attend(capture, row_request, t, 1, out, lse);
        for (int64_t i = 0; i < width; i++)
            synth->expected_out[t * width + i] = (float)out[i];
        for (int64_t h = 0; h < capture->heads; h++)
            synth->expected_lse[t * capture->heads + h] = (float)lse[h];
        progress_set(progress, (double)t + 1, (double)capture->rows);
    }
    free(row_request);
    free(out);
    free(lse);
    return right;
}

static void report(const struct gen_args *args, const struct capture *capture)
{
    if (args->json)
        report_json(json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "file", report_text(args->path),
                              "rows", (json_int_t)capture->rows, "requests", (json_int_t)capture->requests,
                              "heads", (json_int_t)capture->heads, "topk", (json_int_t)capture->topk,
                              "cache_blocks", (json_int_t)capture->cache_blocks, "block_size",
                              (json_int_t)capture->block_size, "seed", (json_int_t)args->synth.seed));
    else
        printf(
            "%s: %lld rows of %lld requests, %lld heads, top-k %lld, %lld blocks of %lld rows, seed %lld\n",
            args->path, (long long)capture->rows, (long long)capture->requests, (long long)capture->heads,
            (long long)capture->topk, (long long)capture->cache_blocks, (long long)capture->block_size,
            (long long)args->synth.seed);
}

/* Asking for more than the machine has would end in the middle of filling it. */
static bool fits_memory(const struct gen_args *args, int *code)
{
    double needed = synth_bytes(&args->synth);
    double there = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (needed > there)
        *code = report_failure(args->json, EXIT_FAILED,
                               "a capture of this size takes %.1f GB of memory; this machine has %.1f GB",
                               1e-9 * needed, 1e-9 * there);
    return needed <= there;
}

int command_gen(int argc, char **argv)
{
    struct gen_args args = {
        .synth = {.rows = 16,
                  .heads = 16,
                  .topk = 2048,
                  .seq_len = 4096,
                  .block_size = 64,
                  .seed = 1,
                  .scale = 1.0 / 24},
        .path = "capture.safetensors",
    };
    const struct argp parser = {.options = options, .parser = parse, .doc = doc};
    struct synth synth;
    struct capture capture;
    struct io_error error;
    struct progress progress = {0};
    char scale[40];
    int code = EXIT_RIGHT;
    if (args_parse(&parser, argc, argv, &args) != EXIT_RIGHT)
        return EXIT_USAGE;
    if (!fits_memory(&args, &code))
        return code;
    progress_begin(&progress, "making the capture");
    snprintf(scale, sizeof scale, "%.17g", args.synth.scale);
    bool made = synth_make(&synth, &capture, &args.synth);
    if (made && args.synth.expected)
        made = fill_expected(&synth, &capture, &progress);
    bool written = made && capture_write(&capture, scale, args.path, &error);
    progress_end(&progress);
    if (!made)
        code = report_failure(args.json, EXIT_FAILED, "no memory for a capture of this size");
    else if (!written)
        code = report_failure(args.json, EXIT_FAILED, "%s: %s", args.path, error.text);
    else
        report(&args, &capture);
    synth_free(&synth);
    return code;
}
