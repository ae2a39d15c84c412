/* Why a file was refused: one line of printable ASCII that names what was found and what is accepted. */
#ifndef IO_ERROR_H
#define IO_ERROR_H

#include <stdbool.h>

struct io_error {
    char text[512];
};

/* Writes the line and gives back false, so that a check is one return. Bytes of the file that are not
 * printable ASCII appear as '?': a name in a hostile header cannot break the line. */
bool io_fail(struct io_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
