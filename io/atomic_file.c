#include "atomic_file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* mkstemp makes files that only the owner may read; ours follow the umask like any other. */
static void apply_umask(int descriptor)
{
    mode_t mask = umask(0);
    umask(mask);
    (void)!fchmod(descriptor, 0666 & ~mask);
}

/* The temporary file that a signal would otherwise leave behind; the tool writes one at a time. */
static char *volatile unfinished;

static void remove_unfinished(int signal_number)
{
    if (unfinished)
        unlink(unfinished);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Signals that the process ignores stay ignored. */
static void watch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (signal(numbers[i], remove_unfinished) == SIG_IGN)
            signal(numbers[i], SIG_IGN);
}

static void forget(struct atomic_file *file)
{
    unfinished = NULL;
    free(file->path);
    free(file->temporary);
    *file = (struct atomic_file){0};
}

/* Where the file will really stand: behind symbolic links, which a rename would replace. NULL with the reason if
 * that is no place for a file: a rename would replace a device or a pipe too, and /dev and /proc hold links
 * to whatever is open. */
static char *target_of(const char *path, struct io_error *error)
{
    struct stat status;
    char *target = NULL;
    if (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6) ||
        (!stat(path, &status) && !S_ISREG(status.st_mode)))
        io_fail(error, "is not a regular file");
    else if (lstat(path, &status) || !S_ISLNK(status.st_mode))
        target = strdup(path);
    else if (!(target = realpath(path, NULL)))
        io_fail(error, "is a link to nothing");
    return target;
}

bool atomic_file_open(struct atomic_file *file, const char *path, struct io_error *error)
{
    *file = (struct atomic_file){.path = target_of(path, error)};
    if (!file->path)
        return false;
    if (asprintf(&file->temporary, "%s.XXXXXX", file->path) < 0) {
        file->temporary = NULL;
        forget(file);
        return io_fail(error, "out of memory");
    }
    watch_signals();
    int descriptor = mkstemp(file->temporary);
    if (descriptor >= 0) {
        unfinished = file->temporary;
        apply_umask(descriptor);
        file->stream = fdopen(descriptor, "wb");
    }
    if (!file->stream) {
        int reason = errno;
        if (descriptor >= 0) {
            close(descriptor);
            unlink(file->temporary);
        }
        forget(file);
        return io_fail(error, "cannot be created: %s", strerror(reason));
    }
    return true;
}

static void keep_reason(struct atomic_file *file, bool failed)
{
    if (failed && !file->reason)
        file->reason = errno ? errno : EIO;
}

void atomic_file_write(struct atomic_file *file, const void *bytes, size_t size)
{
    keep_reason(file, fwrite(bytes, 1, size, file->stream) != size);
}

bool atomic_file_commit(struct atomic_file *file, struct io_error *error)
{
    errno = 0;
    keep_reason(file, ferror(file->stream));
    keep_reason(file, fflush(file->stream) || fsync(fileno(file->stream)));
    keep_reason(file, fclose(file->stream));
    if (!file->reason)
        keep_reason(file, rename(file->temporary, file->path));
    int reason = file->reason;
    if (reason)
        unlink(file->temporary);
    forget(file);
    return !reason || io_fail(error, "cannot be written: %s", strerror(reason));
}

void atomic_file_abandon(struct atomic_file *file)
{
    fclose(file->stream);
    unlink(file->temporary);
    forget(file);
}
