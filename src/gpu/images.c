#include "images.h"

#include <stddef.h>

/* name: file below the image folder, without its ending. In the order of the enum. */
#define IMAGES(X)                                                                                            \
    X(decode_h1)                                                                                             \
    X(decode_h2)                                                                                             \
    X(decode_h4)                                                                                             \
    X(decode_h8)                                                                                             \
    X(cache_write)                                                                                           \
    X(merge)                                                                                                 \
    X(check_lists)                                                                                           \
    X(decode_portable)

#ifdef SMLA_IMAGE_FOLDER

#define EMBED(name)                                                                                          \
    __asm__(".section .rodata\n"                                                                             \
            ".balign 16\n"                                                                                   \
            "smla__image_" #name ":\n"                                                                       \
            ".incbin \"" SMLA_IMAGE_FOLDER "/" #name ".fatbin\"\n"                                           \
            ".previous\n");                                                                                  \
    extern const char smla__image_##name[] __attribute__((visibility("hidden")));
IMAGES(EMBED)

#define DATA(name) smla__image_##name,
static const void *const data_of[SMLA__IMAGES] = {IMAGES(DATA)};

#else

static const void *const data_of[SMLA__IMAGES];

#endif

const void *smla__image_data(enum smla__image image)
{
    return data_of[image];
}

const char *smla__image_name(enum smla__image image)
{
#define NAME(name) #name,
    static const char *const names[SMLA__IMAGES] = {IMAGES(NAME)};
    return names[image];
}

int smla__image_count(void)
{
    int count = 0;
    for (int i = 0; i < SMLA__IMAGES; i++)
        count += data_of[i] != NULL;
    return count;
}
