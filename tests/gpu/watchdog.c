/* A hung GPU blocks the thread that feeds it, somewhere in the driver: only another thread can tell. */
#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t stop;
    struct timespec end;
    unsigned seconds;
    bool stopped;
    void (*describe)(void);
} dog = {.mutex = PTHREAD_MUTEX_INITIALIZER, .stop = PTHREAD_COND_INITIALIZER};

static void *watch(void *argument)
{
    int waited = 0;
    (void)argument;
    pthread_mutex_lock(&dog.mutex);
    while (!dog.stopped && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&dog.stop, &dog.mutex, &dog.end);
    bool late = !dog.stopped;
    pthread_mutex_unlock(&dog.mutex);
    if (late) {
        fprintf(stderr, "watchdog: not done after %u s\n", dog.seconds);
        dog.describe();
        fflush(stderr);
        abort();
    }
    return NULL;
}

void watchdog_start(unsigned seconds, void (*describe)(void))
{
    clock_gettime(CLOCK_REALTIME, &dog.end);
    dog.end.tv_sec += (time_t)seconds;
    dog.seconds = seconds;
    dog.describe = describe;
    dog.stopped = false;
    if (pthread_create(&dog.thread, NULL, watch, NULL) != 0)
        abort();
}

void watchdog_stop(void)
{
    pthread_mutex_lock(&dog.mutex);
    dog.stopped = true;
    pthread_cond_signal(&dog.stop);
    pthread_mutex_unlock(&dog.mutex);
    pthread_join(dog.thread, NULL);
}
