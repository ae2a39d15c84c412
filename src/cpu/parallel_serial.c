#include "parallel.h"

void smla__parallel(int32_t count, void (*body)(void *cookie, int32_t i), void *cookie)
{
    for (int32_t i = 0; i < count; i++)
        body(cookie, i);
}
