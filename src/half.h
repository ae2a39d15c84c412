/* bf16 as its 16 bits: the upper half of the fp32 pattern. */
#ifndef SMLA_HALF_H
#define SMLA_HALF_H

#include <stdint.h>
#include <string.h>

typedef uint16_t smla__bf16;

static inline float smla__bf16_to_f32(smla__bf16 value)
{
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* Round to nearest, ties to even; NaN stays a (quiet) NaN. */
static inline smla__bf16 smla__f32_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (smla__bf16)((bits >> 16) | 0x40u);
    bits += 0x7fffu + ((bits >> 16) & 1u);
    return (smla__bf16)(bits >> 16);
}

#endif
