/* smla check: every backend with yes or the reason why not. */
#include <smla/smla.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "command.h"
#include "report.h"

enum { REASON_SIZE = 256, BACKENDS_MAX = 8 };

enum {
    KEY_HEADS = 256,
    KEY_TOPK,
    KEY_KV_CACHE,
    KEY_BLOCK_SIZE,
    KEY_DCP,
    KEY_INTERLEAVE,
    KEY_ARCH,
    KEY_LATENT,
    KEY_ROPE,
    KEY_JSON
};

static const struct argp_option options[] = {
    {"heads", KEY_HEADS, "H", 0, "Query heads of a rank (required)", 0},
    {"topk", KEY_TOPK, "K", 0, "Width of the top-k lists (required)", 0},
    {"kv-cache", KEY_KV_CACHE, "FORMAT", 0, "bf16 (default), fp16, fp8_e4m3 or fp8_ds_mla", 0},
    {"block-size", KEY_BLOCK_SIZE, "B", 0, "Rows of a cache block (default 64)", 0},
    {"kv-lora-rank", KEY_LATENT, "N", 0, "Latent columns (default 512)", 0},
    {"qk-rope-head-dim", KEY_ROPE, "N", 0, "Rope columns (default 64)", 0},
    {"dcp", KEY_DCP, "N", 0, "Ranks of decode context parallelism (default 1: off)", 0},
    {"dcp-interleave", KEY_INTERLEAVE, "N", 0, "Neighbouring positions that one rank keeps (default 1)", 0},
    {"arch", KEY_ARCH, "sm_NN", 0, "Ask for a GPU of this architecture, which need not be here", 0},
    {"json", KEY_JSON, NULL, 0, "Report as JSON", 0},
    {0},
};

static const char doc[] =
    "Tells for every backend, in the order in which they are tried, whether it can "
    "attend such a problem, and "
    "if not, why; and names the GPU if there is one. Ends with 0 if any can, else with 3."
    "\v"
    "Examples:\n"
    "  smla check --heads 16 --topk 2048\n"
    "  smla check --heads 16 --topk 2048 --kv-cache fp8_ds_mla --arch sm_90\n"
    "  smla check --heads 8 --topk 2048 --dcp 8 --json\n";

struct check_args {
    smla_problem problem;
    int arch;
    bool has_heads, has_topk, json;
};

/* In the order of smla_cache_format, which starts at 1. */
static const char *const formats[] = {"bf16", "fp16", "fp8_e4m3", "fp8_ds_mla"};

static error_t parse_int32(const struct argp_state *state, const char *option, const char *text,
                           int32_t *value)
{
    int64_t read = 0;
    error_t error = args_int(state, option, text, 1, INT32_MAX, &read);
    if (!error)
        *value = (int32_t)read;
    return error;
}

/* "sm_90", or "sm_90a" for the same chips. */
static error_t parse_arch(const struct argp_state *state, const char *text, int *arch)
{
    int read = 0, used = 0;
    bool digits = !strncmp(text, "sm_", 3) && strspn(text + 3, "0123456789") >= 2;
    if (!digits || sscanf(text + 3, "%4d%n", &read, &used) != 1 || read < 10 ||
        (text[3 + used] && strcmp(text + 3 + used, "a")))
        return args_refuse(state, "--arch '%s': accepted: sm_ and a number, such as sm_90", text);
    *arch = read;
    return 0;
}

static error_t parse_format(const struct argp_state *state, const char *text, int32_t *format)
{
    int index = 0;
    error_t error = args_name(state, "--kv-cache", text, formats, 4, &index);
    *format = (int32_t)(SMLA_CACHE_BF16 + index);
    return error;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct check_args *args = state->input;
    smla_problem *problem = &args->problem;
    switch (key) {
    case KEY_HEADS:
        args->has_heads = true;
        return parse_int32(state, "--heads", argument, &problem->heads);
    case KEY_TOPK:
        args->has_topk = true;
        return parse_int32(state, "--topk", argument, &problem->topk);
    case KEY_KV_CACHE:
        return parse_format(state, argument, &problem->cache_format);
    case KEY_BLOCK_SIZE:
        return parse_int32(state, "--block-size", argument, &problem->block_size);
    case KEY_LATENT:
        return parse_int32(state, "--kv-lora-rank", argument, &problem->kv_lora_rank);
    case KEY_ROPE:
        return parse_int32(state, "--qk-rope-head-dim", argument, &problem->qk_rope_head_dim);
    case KEY_DCP:
        return parse_int32(state, "--dcp", argument, &problem->dcp_world_size);
    case KEY_INTERLEAVE:
        return parse_int32(state, "--dcp-interleave", argument, &problem->dcp_interleave);
    case KEY_ARCH:
        return parse_arch(state, argument, &args->arch);
    case KEY_JSON:
        args->json = true;
        return 0;
    case ARGP_KEY_ARG:
        return args_refuse(state, "unexpected argument '%s': accepted: options only", argument);
    case ARGP_KEY_END:
        if (!args->has_heads || !args->has_topk)
            return args_refuse(state, "%s is missing: accepted: an integer in 1..%d",
                               args->has_heads ? "--topk" : "--heads", INT32_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

struct verdict {
    smla_backend backend;
    smla_status status;
    char reason[REASON_SIZE];
};

static void print_json(const struct verdict *verdicts, int count, bool any)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:b, s:s, s:o}", "backend", smla_backend_name(verdicts[i].backend),
                            "supported", verdicts[i].status == SMLA_OK, "status",
                            smla_status_name(verdicts[i].status), "reason", report_text(verdicts[i].reason)));
    report_json(json_pack("{s:b, s:o}", "supported", any, "backends", list));
}

/* The GPU that was asked about, if it is in this machine. */
static void print_gpu(void)
{
    smla_machine machine = {.struct_size = sizeof machine};
    if (smla_machine_query(&machine) != SMLA_OK || machine.cuda_status != SMLA_OK)
        return;
    printf("gpu   %s, sm_%d, driver for CUDA %d.%d, %d kernels built in\n", machine.cuda_name,
           machine.cuda_arch, machine.cuda_driver / 1000, machine.cuda_driver % 1000 / 10,
           machine.cuda_kernels);
}

int command_check(int argc, char **argv)
{
    struct check_args args = {.arch = 0};
    struct verdict verdicts[BACKENDS_MAX];
    const struct argp parser = {.options = options, .parser = parse, .doc = doc};
    int count = 0;
    bool any = false;
    smla_problem_init(&args.problem);
    if (args_parse(&parser, argc, argv, &args) != EXIT_RIGHT)
        return EXIT_USAGE;
    for (smla_backend b; count < BACKENDS_MAX && (b = smla_backend_at(count)) != SMLA_BACKEND_AUTO; count++) {
        struct verdict *verdict = &verdicts[count];
        verdict->backend = b;
        verdict->status =
            smla_support_query(&args.problem, b, args.arch, NULL, verdict->reason, sizeof verdict->reason);
        any |= verdict->status == SMLA_OK;
    }
    if (args.json)
        print_json(verdicts, count, any);
    for (int i = 0; !args.json && i < count; i++)
        printf("%-5s %s%s\n", smla_backend_name(verdicts[i].backend),
               verdicts[i].status == SMLA_OK ? "yes" : "no: ", verdicts[i].reason);
    if (!args.json && !args.arch)
        print_gpu();
    return any ? EXIT_RIGHT : EXIT_UNSUPPORTED;
}
