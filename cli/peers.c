#include "peers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COLUMN_HEADS, COLUMN_TOKENS, COLUMN_TOPK, COLUMN_US, COLUMN_THREADS, COLUMNS };

static const char *const column_names[COLUMNS] = {"heads", "tokens", "topk", "us", "threads"};

/* Cuts the line at its commas, one field a call. */
static char *next_field(char **line)
{
    char *field = strsep(line, ",");
    if (field)
        field[strcspn(field, "\r\n")] = '\0';
    return field;
}

/* Which field holds each column; -1 for none. */
static bool read_names(char *line, int place[COLUMNS], struct io_error *error)
{
    char *field;
    for (int c = 0; c < COLUMNS; c++)
        place[c] = -1;
    for (int i = 0; (field = next_field(&line)) != NULL; i++)
        for (int c = 0; c < COLUMNS; c++)
            if (!strcmp(field, column_names[c]))
                place[c] = i;
    for (int c = 0; c < COLUMN_THREADS; c++)
        if (place[c] < 0)
            return io_fail(error, "column %s is missing; accepted: CSV with heads, tokens, topk and us",
                           column_names[c]);
    return true;
}

static bool read_row(char *line, const int place[COLUMNS], int number, struct peer_row *row,
                     struct io_error *error)
{
    double values[COLUMNS] = {0};
    bool seen[COLUMNS] = {false};
    char *field;
    for (int i = 0; (field = next_field(&line)) != NULL; i++)
        for (int c = 0; c < COLUMNS; c++) {
            char *end = field;
            if (place[c] != i)
                continue;
            values[c] = strtod(field, &end);
            seen[c] = end > field && !*end && values[c] >= 0 && values[c] < 1e15;
        }
    for (int c = 0; c < COLUMNS; c++)
        if (place[c] >= 0 && !seen[c])
            return io_fail(error, "line %d: column %s is not a number >= 0", number, column_names[c]);
    *row =
        (struct peer_row){(int64_t)values[COLUMN_HEADS], (int64_t)values[COLUMN_TOKENS],
                          (int64_t)values[COLUMN_TOPK], (int64_t)values[COLUMN_THREADS], values[COLUMN_US]};
    return true;
}

static bool add_row(struct peers *peers, const struct peer_row *row, struct io_error *error)
{
    struct peer_row *rows = realloc(peers->rows, (peers->count + 1) * sizeof *rows);
    if (!rows)
        return io_fail(error, "out of memory");
    peers->rows = rows;
    rows[peers->count++] = *row;
    return true;
}

bool peers_read(struct peers *peers, const char *path, struct io_error *error)
{
    *peers = (struct peers){0};
    struct stat status;
    if (!stat(path, &status) && !S_ISREG(status.st_mode))
        return io_fail(error, "is not a regular file");
    FILE *stream = fopen(path, "r");
    if (!stream)
        return io_fail(error, "cannot be opened: %s", strerror(errno));
    char *line = NULL;
    size_t room = 0;
    int place[COLUMNS], number = 1;
    struct peer_row row;
    bool right = getline(&line, &room, stream) > 0 ? read_names(line, place, error)
                                                   : io_fail(error, "is empty; accepted: CSV");
    while (right && getline(&line, &room, stream) > 0) {
        number++;
        if (line[0] != '\n')
            right = read_row(line, place, number, &row, error) && add_row(peers, &row, error);
    }
    free(line);
    fclose(stream);
    return right;
}

void peers_free(struct peers *peers)
{
    free(peers->rows);
    *peers = (struct peers){0};
}

double peers_find(const struct peers *peers, int64_t heads, int64_t tokens, int64_t topk, int64_t threads)
{
    double best = NAN;
    for (size_t i = 0; i < peers->count; i++) {
        const struct peer_row *row = &peers->rows[i];
        if (row->heads == heads && row->tokens == tokens && row->topk == topk &&
            (!row->threads || row->threads == threads))
            best = fmin(best, row->us);
    }
    return best;
}
