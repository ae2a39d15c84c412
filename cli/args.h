/*
 * Strict arguments for argp parsers. A value that is not accepted gives EINVAL after one line that names the
 * option, the value and what is accepted; argp_parse passes it on and the command ends with EXIT_USAGE.
 */
#ifndef ARGS_H
#define ARGS_H

#include <argp.h>
#include <stdint.h>

enum { ARGS_LIST_MAX = 64 };

struct args_list {
    int count;
    int64_t values[ARGS_LIST_MAX];
};

/* One line "smla NAME: text" on stderr; gives EINVAL. */
error_t args_refuse(const struct argp_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A decimal integer in low..high. */
error_t args_int(const struct argp_state *state, const char *option, const char *text, int64_t low,
                 int64_t high, int64_t *value);

/* A finite decimal number in low..high. */
error_t args_real(const struct argp_state *state, const char *option, const char *text, double low,
                  double high, double *value);

/* Integers with commas between them. */
error_t args_ints(const struct argp_state *state, const char *option, const char *text, int64_t low,
                  int64_t high, struct args_list *list);

/* One of the names; `value` becomes its index. */
error_t args_name(const struct argp_state *state, const char *option, const char *text,
                  const char *const *names, int count, int *value);

/* --backend: auto, cpu or cuda, as smla_backend; --isa: as smla_isa. */
error_t args_backend(const struct argp_state *state, const char *text, int *backend);
error_t args_isa(const struct argp_state *state, const char *text, int *isa);

/* argp_parse with the tool's habits: arguments it refuses give EXIT_USAGE, good ones EXIT_RIGHT. */
int args_parse(const struct argp *parser, int argc, char **argv, void *input);

#endif
