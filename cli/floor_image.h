/* The compiled bench/gather_floor.cu within the program; NULL if it was built without nvcc. */
#ifndef FLOOR_IMAGE_H
#define FLOOR_IMAGE_H

const void *floor_image(void);

#endif
