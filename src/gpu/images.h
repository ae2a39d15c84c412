/* The compiled kernels inside the library: one image (a fatbin) for each file of kernels/. */
#ifndef SMLA_GPU_IMAGES_H
#define SMLA_GPU_IMAGES_H

enum smla__image {
    SMLA__IMAGE_DECODE_H1,
    SMLA__IMAGE_DECODE_H2,
    SMLA__IMAGE_DECODE_H4,
    SMLA__IMAGE_DECODE_H8,
    SMLA__IMAGE_CACHE_WRITE,
    SMLA__IMAGE_MERGE,
    SMLA__IMAGE_CHECK_LISTS,
    SMLA__IMAGE_DECODE_PORTABLE,
    SMLA__IMAGES
};

/* First byte of an image; NULL if this build lacks it. */
const void *smla__image_data(enum smla__image image);

/* The file below kernels/ that it was compiled from, without its ending. */
const char *smla__image_name(enum smla__image image);

/* Kernels built in: the number of images, or 0. */
int smla__image_count(void);

#endif
