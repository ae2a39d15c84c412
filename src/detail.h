/* The detail text of a failed call: a caller's buffer and the one way to write to it. */
#ifndef SMLA_DETAIL_H
#define SMLA_DETAIL_H

#include <smla/smla.h>

struct smla__detail {
    char *text; /* NULL: nobody reads it */
    size_t size;
};

/* Writes the text (cut to the buffer) and gives back `status`, so that a check is one return. */
smla_status smla__fail(struct smla__detail *detail, smla_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Empties the text. */
void smla__detail_clear(struct smla__detail *detail);

#endif
