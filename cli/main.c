/* The smla tool: picks the command. */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <smla/smla.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "command.h"
#include "report.h"

static const struct command {
    const char *name;
    int (*call)(int argc, char **argv);
} commands[] = {
    {"run", command_run},     {"check", command_check}, {"gen", command_gen},
    {"bench", command_bench}, {"info", command_info},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static const char doc[] =
    "Sparse MLA attention: attends captured steps, tells what is supported, makes captures, measures."
    "\v"
    "Commands:\n"
    "  run     attend a captured step and compare it with float64\n"
    "  check   which backends can attend a problem, and why the others cannot\n"
    "  gen     write a synthetic capture\n"
    "  bench   measure, as a table, CSV and a plot\n"
    "  info    what this machine and this build have\n"
    "\n"
    "`smla COMMAND --help' says more about each.\n"
    "\n"
    "Examples:\n"
    "  smla run step.safetensors -o out.safetensors\n"
    "  smla check --heads 16 --topk 2048 --arch sm_90\n"
    "  smla gen --rows 64 --heads 16 --topk 2048 -o step.safetensors\n"
    "  smla bench --heads 8,64 -o bench.csv --plot bench.svg\n"
    "\n"
    "Exit codes: 0 right, 1 wrong result, 2 usage, 3 unsupported, 4 bad input file, 5 memory, device or "
    "output file.\n";

struct choice {
    const struct command *command;
    int first; /* argv index of the command's name */
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct choice *choice = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        for (int i = 0; i < COMMANDS; i++)
            if (!strcmp(commands[i].name, argument))
                choice->command = &commands[i];
        if (!choice->command)
            return args_refuse(state, "unknown command '%s': accepted: run, check, gen, bench, info",
                               argument);
        choice->first = state->next - 1;
        state->next = state->argc; /* the rest is the command's */
        return 0;
    case ARGP_KEY_NO_ARGS:
        return args_refuse(state, "a command is missing: accepted: run, check, gen, bench, info");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int run_command(const struct choice *choice, int argc, char **argv)
{
    char name[32];
    snprintf(name, sizeof name, "smla %s", choice->command->name);
    argv[choice->first] = name;
    int code = choice->command->call(argc - choice->first, argv + choice->first);
    errno = EIO;
    if (fflush(stdout) || ferror(stdout))
        return report_failure(false, EXIT_FAILED, "standard output: %s", strerror(errno));
    return code;
}

/* argp ends the process itself after --help and --version. */
static void check_output(void)
{
    if (fflush(stdout) || ferror(stdout))
        _exit(EXIT_FAILED);
}

int main(int argc, char **argv)
{
    static char version[32];
    static char tool[] = "smla";
    report_begin();
    int number = smla_version();
    snprintf(version, sizeof version, "smla %d.%d.%d", number / 10000, number / 100 % 100, number % 100);
    signal(SIGXFSZ, SIG_IGN); /* a write that is too large then fails like any other */
    atexit(check_output);
    argp_program_version = version;
    argp_err_exit_status = EXIT_USAGE;
    if (argc > 0)
        argv[0] = tool;
    struct choice choice = {NULL, 0};
    const struct argp parser = {.parser = parse, .args_doc = "COMMAND [OPTION...]", .doc = doc};
    if (argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &choice))
        return EXIT_USAGE;
    return run_command(&choice, argc, argv);
}
