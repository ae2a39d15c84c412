#include "detail.h"

#include <stdarg.h>
#include <stdio.h>

smla_status smla__fail(struct smla__detail *detail, smla_status status, const char *format, ...)
{
    if (detail && detail->text && detail->size) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(detail->text, detail->size, format, arguments);
        va_end(arguments);
    }
    return status;
}

void smla__detail_clear(struct smla__detail *detail)
{
    if (detail && detail->text && detail->size)
        detail->text[0] = '\0';
}
