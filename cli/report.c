#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

double report_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double begin;

void report_begin(void)
{
    begin = report_clock();
}

double report_since_begin(double now)
{
    return 1e3 * (now - begin);
}

int report_failure(bool json, int code, const char *format, ...)
{
    char text[8192]; /* a path of the longest kind and the reason behind it */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?'; /* file names may hold anything, and this is one line */
    fprintf(stderr, "smla: %s\n", text);
    if (json)
        report_json(json_pack("{s:i, s:o}", "exit", code, "error", report_text(text)));
    return code;
}

int report_exit_of(smla_status status)
{
    int tens = (int)status / 10;
    if (tens == 1)
        return EXIT_USAGE;
    if (tens == 2)
        return EXIT_BAD_FILE;
    if (tens == 3 || (status >= SMLA_ERROR_NO_KERNELS && status <= SMLA_ERROR_DEVICE_ARCH))
        return EXIT_UNSUPPORTED;
    return EXIT_FAILED;
}

json_t *report_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *report_text(const char *text)
{
    char *ascii, *c;
    json_t *string = json_string(text);
    if (string || !(ascii = strdup(text)))
        return string ? string : json_null();
    for (c = ascii; *c; c++)
        if ((unsigned char)*c > 0x7e)
            *c = '?';
    string = json_string(ascii);
    free(ascii);
    return string ? string : json_null();
}

void report_json(json_t *object)
{
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(object);
}
