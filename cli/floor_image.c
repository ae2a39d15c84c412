#include "floor_image.h"

#include <stddef.h>

#ifdef FLOOR_FATBIN

__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        "floor_image_bytes:\n"
        ".incbin \"" FLOOR_FATBIN "\"\n"
        ".popsection\n");

extern const unsigned char floor_image_bytes[] __attribute__((visibility("hidden")));

const void *floor_image(void)
{
    return floor_image_bytes;
}

#else

const void *floor_image(void)
{
    return NULL;
}

#endif
