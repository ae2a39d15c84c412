/* What others measured: a CSV file whose first line names at least heads, tokens, topk and us. */
#ifndef PEERS_H
#define PEERS_H

#include <io_error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer_row {
    int64_t heads, tokens, topk;
    int64_t threads; /* 0 if the file has no such column */
    double us;
};

struct peers {
    struct peer_row *rows;
    size_t count;
};

bool peers_read(struct peers *peers, const char *path, struct io_error *error);
void peers_free(struct peers *peers);

/* The shortest time for this shape, NaN if there is none. */
double peers_find(const struct peers *peers, int64_t heads, int64_t tokens, int64_t topk, int64_t threads);

#endif
