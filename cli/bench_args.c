#include "bench_args.h"

#include <string.h>

#include "command.h"

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
    KEY_JSON,
    KEY_PDL,
    KEY_PORTABLE,
    KEY_POSITIONS,
    KEY_INVALID,
    KEY_SPLITS,
    KEY_CHECK,
    KEY_HOST_COST
};

static const struct argp_option options[] = {
    {"backend", KEY_BACKEND, "NAME", 0, "auto (default: the GPU if there is one, else the CPU), cpu or cuda",
     0},
    {"heads", KEY_HEADS, "LIST", 0, "Query heads (default 8,16,32,64,128)", 0},
    {"rows", KEY_ROWS, "LIST", 0, "Query rows (default 1,16; GPU: 1,2,4,...,512)", 0},
    {"topk", KEY_TOPK, "LIST", 0, "Widths of the lists (default 2048)", 0},
    {"output", 'o', "CSV", 0, "Write the table as CSV", 0},
    {"plot", KEY_PLOT, "SVG", 0, "Draw a roofline with gnuplot", 0},
    {"peers", KEY_PEERS, "CSV", 0,
     "Times of others, with columns heads, tokens, topk, us and perhaps threads", 0},
    {"pool-rows", KEY_POOL_ROWS, "N", 0,
     "Cache rows to draw from (default: four times the last cache, if memory allows; GPU: 2097152)", 0},
    {"json", KEY_JSON, NULL, 0, "Report as JSON", 0},
    {NULL, 0, NULL, 0, "On the CPU:", 1},
    {"isa", KEY_ISA, "NAME", 0,
     "scalar, avx2, avx512, avx512_bf16 or amx_bf16 (default: the library chooses)", 0},
    {"threads", KEY_THREADS, "LIST", 0, "Numbers of threads (default: 1 and all CPUs)", 0},
    {"seconds", KEY_SECONDS, "X", 0, "Time for each line (default 0.3)", 0},
    {NULL, 0, NULL, 0, "On the GPU:", 2},
    {"pdl", KEY_PDL, NULL, 0, "Let each launch begin before the one in front has ended", 0},
    {"portable", KEY_PORTABLE, NULL, 0, "Use the kernels for any GPU", 0},
    {"positions", KEY_POSITIONS, NULL, 0, "Lists of positions in requests with shuffled blocks, not of slots",
     0},
    {"invalid", KEY_INVALID, "FRACTION", 0, "Share of the list entries that are -1 (default 0)", 0},
    {"splits", KEY_SPLITS, "N", 0, "Parts that each list is cut into (default: the library chooses)", 0},
    {"check", KEY_CHECK, NULL, 0, "Compare some rows of each shape with float64 first", 0},
    {"host-cost", KEY_HOST_COST, NULL, 0, "Measure what a call costs the host instead", 0},
    {0},
};

static const char doc[] =
    "Measures all combinations of the given shapes: random lists over a pool larger than the caches, another "
    "list each time, bf16 out, lse included. LIST is numbers with commas between."
    "\v"
    "Columns: us is the median, GB/s counts 1152 bytes for each gathered row, TFLOP/s 2176 FLOP for each row "
    "and "
    "head. The floor on the CPU is what that many FLOP take at the peak of one core times the threads; the "
    "peak is "
    "that of the fastest multiply-add which the instruction set in use and those below it have, measured in "
    "the same "
    "run. On the GPU it is what it takes just to bring the rows of the same lists into shared memory, also "
    "measured in "
    "the same run; times are of graphs that hold a launch for each of many lists. Ratio is us over floor. "
    "The peer is "
    "the shortest time for the shape in the --peers file.\n"
    "\n"
    "Examples:\n"
    "  smla bench\n"
    "  smla bench --heads 8,64 --rows 1 --threads 1,2 -o bench.csv --plot bench.svg\n"
    "  smla bench --isa avx2 --threads 1 --peers others.csv --json\n"
    "  smla bench --backend cuda --heads 16 --positions --check\n";

static error_t parse_splits(const struct argp_state *state, const char *text, int *splits)
{
    int64_t value = 0;
    error_t error = args_int(state, "--splits", text, 1, 64, &value);
    *splits = (int)value;
    return error;
}

/* Options that only the CPU has. */
static error_t parse_cpu(int key, char *argument, struct argp_state *state)
{
    struct bench_args *args = state->input;
    switch (key) {
    case KEY_ISA:
        args->cpu_option = "--isa";
        return args_isa(state, argument, &args->isa);
    case KEY_THREADS:
        args->cpu_option = "--threads";
        return args_ints(state, "--threads", argument, 1, 1024, &args->threads);
    case KEY_SECONDS:
        args->cpu_option = "--seconds";
        return args_real(state, "--seconds", argument, 0.001, 3600, &args->seconds);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Options that only the GPU has. */
static error_t parse_gpu(int key, char *argument, struct argp_state *state)
{
    struct bench_args *args = state->input;
    struct bench_gpu_options *gpu = &args->gpu;
    const struct {
        int key;
        const char *name;
        bool *flag;
    } flags[] = {{KEY_PDL, "--pdl", &gpu->pdl},
                 {KEY_PORTABLE, "--portable", &gpu->portable},
                 {KEY_POSITIONS, "--positions", &gpu->positions},
                 {KEY_CHECK, "--check", &gpu->check},
                 {KEY_HOST_COST, "--host-cost", &args->host_cost}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (key == flags[i].key) {
            args->gpu_option = flags[i].name;
            *flags[i].flag = true;
            return 0;
        }
    switch (key) {
    case KEY_INVALID:
        args->gpu_option = "--invalid";
        return args_real(state, "--invalid", argument, 0, 0.99, &gpu->invalid);
    case KEY_SPLITS:
        args->gpu_option = "--splits";
        return parse_splits(state, argument, &gpu->splits);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* A backend that was not named is told by the options that only it has; at the end they must agree. */
static error_t settle_backend(const struct argp_state *state, struct bench_args *args)
{
    if (args->cpu_option && args->gpu_option)
        return args_refuse(state, "%s and %s: accepted: options of one backend", args->cpu_option,
                           args->gpu_option);
    if (args->cpu_option && args->backend == SMLA_BACKEND_CUDA)
        return args_refuse(state, "%s: accepted: with --backend cpu", args->cpu_option);
    if (args->gpu_option && args->backend == SMLA_BACKEND_CPU)
        return args_refuse(state, "%s: accepted: with --backend cuda", args->gpu_option);
    if (args->host_cost && (args->csv || args->plot || args->peers))
        return args_refuse(state, "--host-cost: accepted: without --output, --plot and --peers");
    if (args->host_cost)
        args->gpu.positions = true; /* a step that can be updated belongs to these */
    if (args->cpu_option)
        args->backend = SMLA_BACKEND_CPU;
    if (args->gpu_option)
        args->backend = SMLA_BACKEND_CUDA;
    return 0;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct bench_args *args = state->input;
    error_t error;
    switch (key) {
    case KEY_BACKEND:
        return args_backend(state, argument, &args->backend);
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
    case KEY_POOL_ROWS:
        return args_int(state, "--pool-rows", argument, 1, INT32_MAX - BENCH_BLOCK_SIZE, &args->pool_rows);
    case KEY_JSON:
        args->json = true;
        return 0;
    case ARGP_KEY_ARG:
        return args_refuse(state, "unexpected argument '%s': accepted: options only", argument);
    case ARGP_KEY_END:
        return settle_backend(state, args);
    default:
        error = parse_cpu(key, argument, state);
        return error == ARGP_ERR_UNKNOWN ? parse_gpu(key, argument, state) : error;
    }
}

static void use_default(struct args_list *list, int count, const int64_t *values)
{
    if (list->count)
        return;
    list->count = count;
    memcpy(list->values, values, (size_t)count * sizeof *values);
}

int bench_args_parse(struct bench_args *args, int argc, char **argv)
{
    const struct argp parser = {.options = options, .parser = parse, .doc = doc};
    const int64_t heads[] = {8, 16, 32, 64, 128}, topk[] = {2048};
    *args = (struct bench_args){.isa = -1, .seconds = 0.3};
    int code = args_parse(&parser, argc, argv, args);
    use_default(&args->heads, 5, heads);
    use_default(&args->topk, 1, topk);
    return code;
}

void bench_args_defaults(struct bench_args *args, smla_backend backend, const smla_machine *machine)
{
    const int64_t threads[] = {1, machine->cpus}, no_threads[] = {0}, rows[] = {1, 16},
                  gpu_rows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
    if (backend == SMLA_BACKEND_CUDA) {
        use_default(&args->threads, 1, no_threads);
        use_default(&args->rows, 10, gpu_rows);
    } else {
        use_default(&args->threads, machine->cpus > 1 ? 2 : 1, threads);
        use_default(&args->rows, 2, rows);
    }
}
