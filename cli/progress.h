/*
 * Progress of anything that takes longer than two seconds, on stderr if that is a terminal; nothing otherwise. A
 * thread of its own shows it, so that calls which cannot report in between are seen to go on.
 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct progress {
    const char *what;
    atomic_int percent; /* 0: not known yet */
    bool running, stop;
    double begin; /* of the first showing, so that pauses do not start the two seconds anew */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
};

/* Starts to show; the struct is zero before the first time. */
void progress_begin(struct progress *progress, const char *what);

void progress_set(struct progress *progress, double done, double total);

/* Clears the line and stops. May be called when nothing is shown. */
void progress_end(struct progress *progress);

#endif
