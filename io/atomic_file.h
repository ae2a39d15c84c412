/* A file that appears under its name only when it is complete: written beside it, then renamed. */
#ifndef ATOMIC_FILE_H
#define ATOMIC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "io_error.h"

struct atomic_file {
    FILE *stream;
    char *path; /* where it will stand */
    char *temporary;
    int reason; /* errno of the first write that failed, or 0 */
};

/* Opens the temporary file in the folder of `path`. */
bool atomic_file_open(struct atomic_file *file, const char *path, struct io_error *error);

/* fwrite that keeps the reason of a failure for the commit; plain writes to the stream are fine too. */
void atomic_file_write(struct atomic_file *file, const void *bytes, size_t size);

/* Closes it and gives it its name; any write that failed since the opening is found here, and then nothing
 * is left behind and what stood under the name stays. */
bool atomic_file_commit(struct atomic_file *file, struct io_error *error);

/* Removes the temporary file. */
void atomic_file_abandon(struct atomic_file *file);

#endif
