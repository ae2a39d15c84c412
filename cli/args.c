#include "args.h"

#include <errno.h>
#include <math.h>
#include <smla/smla.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

error_t args_refuse(const struct argp_state *state, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", state->name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return EINVAL;
}

/* Digits with an optional minus; what strtoll would take beyond that (blanks, a plus) is refused. */
static bool read_int(const char *text, size_t length, int64_t *value)
{
    char digits[24];
    char *end;
    size_t sign = length && text[0] == '-';
    if (length == sign || length >= sizeof digits)
        return false;
    for (size_t i = sign; i < length; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    errno = 0;
    *value = strtoll(digits, &end, 10);
    return !errno;
}

error_t args_int(const struct argp_state *state, const char *option, const char *text, int64_t low,
                 int64_t high, int64_t *value)
{
    int64_t read = 0;
    if (!read_int(text, strlen(text), &read) || read < low || read > high)
        return args_refuse(state, "%s '%s': accepted: an integer in %lld..%lld", option, text, (long long)low,
                           (long long)high);
    *value = read;
    return 0;
}

error_t args_real(const struct argp_state *state, const char *option, const char *text, double low,
                  double high, double *value)
{
    char *end;
    double read = strtod(text, &end);
    bool decimal = *text && text[strspn(text, "-.0123456789eE")] == '\0' && !*end;
    if (!decimal || !isfinite(read) || read < low || read > high)
        return args_refuse(state, "%s '%s': accepted: a decimal number in %g..%g", option, text, low, high);
    *value = read;
    return 0;
}

error_t args_ints(const struct argp_state *state, const char *option, const char *text, int64_t low,
                  int64_t high, struct args_list *list)
{
    list->count = 0;
    for (const char *item = text;; item++) {
        size_t length = strcspn(item, ",");
        int64_t value = 0;
        if (list->count == ARGS_LIST_MAX || !read_int(item, length, &value) || value < low || value > high)
            return args_refuse(state,
                               "%s '%s': accepted: up to %d integers in %lld..%lld with commas between",
                               option, text, ARGS_LIST_MAX, (long long)low, (long long)high);
        list->values[list->count++] = value;
        item += length;
        if (!*item)
            return 0;
    }
}

error_t args_name(const struct argp_state *state, const char *option, const char *text,
                  const char *const *names, int count, int *value)
{
    char accepted[160];
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        if (!strcmp(names[i], text)) {
            *value = i;
            return 0;
        }
        if (used < sizeof accepted)
            used +=
                (size_t)snprintf(accepted + used, sizeof accepted - used, "%s%s", i ? ", " : "", names[i]);
    }
    return args_refuse(state, "%s '%s': accepted: %s", option, text, accepted);
}

error_t args_backend(const struct argp_state *state, const char *text, int *backend)
{
    const char *names[] = {[SMLA_BACKEND_AUTO] = smla_backend_name(SMLA_BACKEND_AUTO),
                           [SMLA_BACKEND_CPU] = smla_backend_name(SMLA_BACKEND_CPU),
                           [SMLA_BACKEND_CUDA] = smla_backend_name(SMLA_BACKEND_CUDA)};
    return args_name(state, "--backend", text, names, 3, backend);
}

error_t args_isa(const struct argp_state *state, const char *text, int *isa)
{
    const char *names[SMLA_ISA_COUNT];
    for (int i = 0; i < SMLA_ISA_COUNT; i++)
        names[i] = smla_isa_name((smla_isa)i);
    return args_name(state, "--isa", text, names, SMLA_ISA_COUNT, isa);
}

int args_parse(const struct argp *parser, int argc, char **argv, void *input)
{
    return argp_parse(parser, argc, argv, 0, NULL, input) ? EXIT_USAGE : EXIT_RIGHT;
}
