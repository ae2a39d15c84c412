/* Numbers out of a fuzzer's bytes; zeros when they run out. */
#ifndef FUZZ_BYTES_H
#define FUZZ_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
    const uint8_t *data;
    size_t left;
};

static inline uint8_t take_byte(struct bytes *bytes)
{
    if (bytes->left == 0)
        return 0;
    bytes->left--;
    return *bytes->data++;
}

/* 0 .. limit - 1 */
static inline int32_t take_below(struct bytes *bytes, int32_t limit)
{
    uint32_t value = take_byte(bytes);
    if (limit > 256)
        value = value << 8 | take_byte(bytes);
    return (int32_t)(value % (uint32_t)limit);
}

/* Wraps round, as extreme values meet here. */
static inline int32_t plus(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* Mostly the usual value; at times any other, the extreme ones included. */
static inline int32_t take_odd(struct bytes *bytes, int32_t usual)
{
    static const int32_t extremes[] = {0, -1, 1, INT32_MIN, INT32_MAX, 129, 3, 65536};
    uint8_t kind = take_byte(bytes);
    if (kind < 224)
        return usual;
    return kind < 240 ? extremes[kind % 8] : plus(usual, take_byte(bytes) - 128);
}

#endif
