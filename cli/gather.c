#include "gather.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "rng.h"

/* Rows that a reader asks for ahead of the one it reads. */
enum { AHEAD = 4, LINE_BYTES = 64, THREADS_MAX = 1024, ATTEMPTS = 20 };

static const double seconds = 0.01;

static volatile uint64_t sink;

struct reader {
    pthread_t thread;
    const char *pool;
    int64_t rows; /* in the pool */
    uint64_t seed;
    double bytes_per_second;
    uint64_t sum; /* keeps the reads alive */
};

static void prefetch_row(const char *row)
{
    for (int offset = 0; offset < GATHER_ROW_BYTES; offset += LINE_BYTES)
        __builtin_prefetch(row + offset);
}

static uint64_t read_row(const char *row)
{
    uint64_t words[GATHER_ROW_BYTES / 8], sum = 0;
    memcpy(words, row, sizeof words);
    for (int i = 0; i < GATHER_ROW_BYTES / 8; i++)
        sum ^= words[i];
    return sum;
}

static void *read_rows(void *cookie)
{
    struct reader *reader = cookie;
    /* two walkers on the same random path, one a few rows in front */
    struct rng here = {reader->seed}, front = here;
    double begin = report_clock(), elapsed = 0;
    int64_t done = 0;
    for (int i = 0; i < AHEAD; i++)
        prefetch_row(reader->pool + rng_below(&front, reader->rows) * GATHER_ROW_BYTES);
    while (elapsed < seconds) {
        for (int i = 0; i < 256; i++) {
            prefetch_row(reader->pool + rng_below(&front, reader->rows) * GATHER_ROW_BYTES);
            reader->sum ^= read_row(reader->pool + rng_below(&here, reader->rows) * GATHER_ROW_BYTES);
        }
        done += 256;
        elapsed = report_clock() - begin;
    }
    reader->bytes_per_second = (double)done * GATHER_ROW_BYTES / elapsed;
    return NULL;
}

/* Bytes a second of all readers at once; 0 if one cannot be started. */
static double read_at_once(struct reader *readers, int threads)
{
    int started = 0;
    double total = 0;
    while (started < threads && !pthread_create(&readers[started].thread, NULL, read_rows, &readers[started]))
        started++;
    for (int i = 0; i < started; i++) {
        pthread_join(readers[i].thread, NULL);
        total += readers[i].bytes_per_second;
        sink = readers[i].sum;
    }
    return started == threads ? total : 0;
}

double gather_gbps(const void *pool, int64_t rows, int threads)
{
    double best = 0;
    struct reader *readers =
        threads > 0 && threads <= THREADS_MAX ? calloc((size_t)threads, sizeof *readers) : NULL;
    for (int attempt = 0; readers && attempt < ATTEMPTS; attempt++) {
        for (int i = 0; i < threads; i++)
            readers[i] = (struct reader){
                .pool = pool, .rows = rows, .seed = (uint64_t)attempt * THREADS_MAX + (uint64_t)i};
        double rate = read_at_once(readers, threads);
        best = rate > best ? rate : best;
    }
    free(readers);
    return 1e-9 * best;
}
