#include "io_error.h"

#include <stdarg.h>
#include <stdio.h>

bool io_fail(struct io_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    for (char *c = error->text; *c; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    return false;
}
