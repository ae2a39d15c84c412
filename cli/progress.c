#include "progress.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "report.h"

static const double patience = 2; /* seconds */

static void show_line(struct progress *progress, double seconds)
{
    int percent = atomic_load(&progress->percent);
    if (percent > 0)
        fprintf(stderr, "\r%s: %d %%, %.0f s\033[K", progress->what, percent, seconds);
    else
        fprintf(stderr, "\r%s: %.0f s\033[K", progress->what, seconds);
}

static void *show(void *cookie)
{
    struct progress *progress = cookie;
    bool visible = false;
    pthread_mutex_lock(&progress->lock);
    while (!progress->stop) {
        double seconds = report_clock() - progress->begin;
        if (seconds >= patience) {
            show_line(progress, seconds);
            visible = true;
        }
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 250000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&progress->stopped, &progress->lock, &until);
    }
    pthread_mutex_unlock(&progress->lock);
    if (visible)
        fputs("\r\033[K", stderr);
    return NULL;
}

void progress_begin(struct progress *progress, const char *what)
{
    progress->what = what;
    progress->stop = false;
    if (progress->begin == 0)
        progress->begin = report_clock();
    if (!isatty(STDERR_FILENO))
        return;
    pthread_mutex_init(&progress->lock, NULL);
    pthread_cond_init(&progress->stopped, NULL);
    progress->running = pthread_create(&progress->thread, NULL, show, progress) == 0;
}

void progress_set(struct progress *progress, double done, double total)
{
    atomic_store(&progress->percent, total > 0 ? (int)(100 * done / total) : 0);
}

void progress_end(struct progress *progress)
{
    if (!progress->running)
        return;
    pthread_mutex_lock(&progress->lock);
    progress->stop = true;
    pthread_cond_signal(&progress->stopped);
    pthread_mutex_unlock(&progress->lock);
    pthread_join(progress->thread, NULL);
    pthread_mutex_destroy(&progress->lock);
    pthread_cond_destroy(&progress->stopped);
    progress->running = false;
}
