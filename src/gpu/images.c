#include "images.h"

#include <stddef.h>

#ifdef SMLA_IMAGE_FOLDER

/* name: file below the image folder, without its ending. In the order of the enum. */
#define IMAGES(X)                                                                                            \
    X(decode_h1)                                                                                             \
    X(decode_h2)                                                                                             \
    X(cache_write)                                                                                           \
    X(merge)                                                                                                 \
    X(check_lists)

#define EMBED(name)                                                                                          \
    __asm__(".section .rodata\n"                                                                             \
            ".balign 16\n"                                                                                   \
            "smla__image_" #name ":\n"                                                                       \
            ".incbin \"" SMLA_IMAGE_FOLDER "/" #name ".fatbin\"\n"                                           \
            ".previous\n");                                                                                  \
    extern const char smla__image_##name[] __attribute__((visibility("hidden")));
IMAGES(EMBED)

const void *smla__image_data(enum smla__image image)
{
#define DATA(name) smla__image_##name,
    static const void *const data[SMLA__IMAGES] = {IMAGES(DATA)};
    return data[image];
}

int smla__image_count(void)
{
    return SMLA__IMAGES;
}

#else

const void *smla__image_data(enum smla__image image)
{
    (void)image;
    return NULL;
}

int smla__image_count(void)
{
    return 0;
}

#endif
