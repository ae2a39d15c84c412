/*
 * Helper of the command-line tests.
 *   craft make FILE ZEROS [LENGTH]           a safetensors file of the header on stdin, padded to a multiple of 8
 *                                            bytes, and that many zero bytes; with LENGTH the header is not padded
 *                                            and LENGTH stands as its length
 *   craft poke FILE TENSOR INDEX VALUE       sets one 32-bit element of a tensor
 *   craft show FILE                          prints the tensors
 *   craft near FILE A FILE B BOUND           tensors A and B, of floats: no element further apart than BOUND
 *   craft within MS KB COMMAND...            COMMAND, quietly, in so much processor time and memory
 */
#include <inttypes.h>
#include <math.h>
#include <safetensors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int complain(const char *what)
{
    fprintf(stderr, "craft: %s\n", what);
    return 1;
}

static int make(const char *path, const char *zeros, const char *length)
{
    char header[8192];
    size_t size = fread(header, 1, sizeof header, stdin);
    while (size && header[size - 1] == '\n')
        size--;
    while (!length && size % 8 && size < sizeof header)
        header[size++] = ' ';
    uint64_t said = length ? strtoull(length, NULL, 10) : size;
    FILE *file = fopen(path, "wb");
    if (!file)
        return complain("cannot create the file");
    for (int i = 0; i < 8; i++)
        fputc((int)(said >> 8 * i & 0xff), file);
    fwrite(header, 1, size, file);
    for (long i = 0; i < atol(zeros); i++)
        fputc(0, file);
    return fclose(file) ? complain("cannot write the file") : 0;
}

static int poke(const char *path, const char *tensor, const char *index, const char *value)
{
    struct safetensors *file;
    struct io_error error;
    if (!safetensors_open(&file, path, &error))
        return complain(error.text);
    /* the first tensor begins where the header ends */
    const char *data = safetensors_at(file, 0)->data;
    size_t size = 0;
    for (size_t i = 0; i < safetensors_count(file); i++)
        size += safetensors_at(file, i)->bytes;
    const struct safetensors_tensor *found = safetensors_find(file, tensor);
    long from_end = found ? (long)size - ((const char *)found->data - data) - 4 * atol(index) : 0;
    safetensors_close(file);
    int32_t element = (int32_t)strtol(value, NULL, 10);
    FILE *stream = fopen(path, "r+b");
    if (!found || !stream || fseek(stream, -from_end, SEEK_END) || fwrite(&element, 4, 1, stream) != 1)
        return complain("cannot poke");
    return fclose(stream) ? complain("cannot write the file") : 0;
}

static int show(const char *path)
{
    struct safetensors *file;
    struct io_error error;
    if (!safetensors_open(&file, path, &error))
        return complain(error.text);
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const struct safetensors_tensor *tensor = safetensors_at(file, i);
        printf("%s %s", tensor->name, tensor->dtype);
        for (int d = 0; d < tensor->rank; d++)
            printf("%s%" PRId64, d ? "," : " ", tensor->shape[d]);
        putchar('\n');
    }
    safetensors_close(file);
    return 0;
}

static int near(const char *path_a, const char *name_a, const char *path_b, const char *name_b,
                const char *bound)
{
    struct safetensors *file_a, *file_b;
    struct io_error error;
    if (!safetensors_open(&file_a, path_a, &error) || !safetensors_open(&file_b, path_b, &error))
        return complain(error.text);
    const struct safetensors_tensor *a = safetensors_find(file_a, name_a),
                                    *b = safetensors_find(file_b, name_b);
    int bad = !a || !b || a->bytes != b->bytes;
    for (size_t i = 0; !bad && i < a->bytes / 4; i++) {
        float x = ((const float *)a->data)[i], y = ((const float *)b->data)[i];
        bad = !(fabsf(x - y) <= strtof(bound, NULL) || x == y);
    }
    safetensors_close(file_a);
    safetensors_close(file_b);
    return bad ? complain("the tensors differ") : 0;
}

static int within(long ms, long kb, char **command)
{
    struct rusage usage;
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout))
            execvp(command[0], command);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) != child || !WIFEXITED(status) || WEXITSTATUS(status))
        return complain("the command failed");
    long used = usage.ru_utime.tv_sec * 1000 + usage.ru_utime.tv_usec / 1000 + usage.ru_stime.tv_sec * 1000 +
                usage.ru_stime.tv_usec / 1000;
    if (used <= ms && usage.ru_maxrss <= kb)
        return 0;
    fprintf(stderr, "craft: %ld ms of %ld, %ld kB of %ld\n", used, ms, usage.ru_maxrss, kb);
    return 1;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "make") && (argc == 4 || argc == 5))
        return make(argv[2], argv[3], argv[4]);
    if (!strcmp(mode, "poke") && argc == 6)
        return poke(argv[2], argv[3], argv[4], argv[5]);
    if (!strcmp(mode, "show") && argc == 3)
        return show(argv[2]);
    if (!strcmp(mode, "near") && argc == 7)
        return near(argv[2], argv[3], argv[4], argv[5], argv[6]);
    if (!strcmp(mode, "within") && argc > 4)
        return within(atol(argv[2]), atol(argv[3]), argv + 4);
    return complain("unknown arguments");
}
