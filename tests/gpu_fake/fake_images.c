/* In place of the library's own images, so that these tests need no nvcc: nothing but the first bytes of a fatbin. */
#include <gpu/images.h>
#include <stddef.h>

#include "fake_gpu.h"

int fake_image_count = SMLA__IMAGES;

const void *smla__image_data(enum smla__image image)
{
    static const unsigned char fatbin[] = {0x50, 0xed, 0x55, 0xba};
    return (int)image < fake_image_count ? fatbin : NULL;
}

const char *smla__image_name(enum smla__image image)
{
    return image == SMLA__IMAGE_DECODE_PORTABLE ? "decode_portable" : "another";
}

int smla__image_count(void)
{
    return fake_image_count;
}
