/* The one way in which the CPU backend runs on several threads. */
#ifndef SMLA_CPU_PARALLEL_H
#define SMLA_CPU_PARALLEL_H

#include <stdint.h>

/* Calls body(cookie, i) once for each i < count, at once where the build has threads. */
void smla__parallel(int32_t count, void (*body)(void *cookie, int32_t i), void *cookie);

#endif
