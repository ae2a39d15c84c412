/* The commands of the tool. Each parses its own arguments (argv[0] is "smla NAME") and gives an exit code. */
#ifndef COMMAND_H
#define COMMAND_H

enum exit_code {
    EXIT_RIGHT = 0,       /* done; results within bounds */
    EXIT_WRONG = 1,       /* a result beyond its bound */
    EXIT_USAGE = 2,       /* the command line cannot be understood */
    EXIT_UNSUPPORTED = 3, /* no backend that may be used can do this */
    EXIT_BAD_FILE = 4,    /* an input file is not what it should be */
    EXIT_FAILED = 5       /* memory, device or output file */
};

int command_run(int argc, char **argv);
int command_check(int argc, char **argv);
int command_gen(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_info(int argc, char **argv);

#endif
