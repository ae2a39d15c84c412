#include "half.h"

#include <math.h>

#include "harness.h"

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Value of a bf16 by its fields: sign, 8 bits of exponent, 7 of fraction. */
static double by_fields(uint32_t bits)
{
    int exponent = (int)(bits >> 7 & 0xff), fraction = (int)(bits & 0x7f);
    double size = exponent ? ldexp(128 + fraction, exponent - 134) : ldexp(fraction, -133);
    return bits & 0x8000 ? -size : size;
}

static void half_every_bf16(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float value = smla__bf16_to_f32((uint16_t)bits);
        bool special = (bits & 0x7f80) == 0x7f80;
        if (special && (bits & 0x7f))
            assert_true(isnan(value));
        else if (special)
            assert_true(isinf(value) && (value < 0) == (bits >> 15));
        else
            assert_true((double)value == by_fields(bits) && !signbit(value) == !(bits >> 15));
    }
}

static void half_round_trip(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t back = smla__f32_to_bf16(smla__bf16_to_f32((uint16_t)bits));
        bool nan = (bits & 0x7f80) == 0x7f80 && (bits & 0x7f);
        assert_int_equal(back, nan ? bits | 0x40 : bits);
    }
}

/* Between every two neighbours: just below, at and just above the middle, denormals and the step to Inf
 * included. Ties go to the even one. */
static void half_rounding(void **state)
{
    (void)state;
    for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000)
        for (uint32_t low = sign; low < sign + 0x7f80; low++) {
            uint32_t high = low + 1, even = low & 1 ? high : low;
            assert_int_equal(smla__f32_to_bf16(float_of(low << 16 | 1)), low);
            assert_int_equal(smla__f32_to_bf16(float_of(low << 16 | 0x7fff)), low);
            assert_int_equal(smla__f32_to_bf16(float_of(low << 16 | 0x8000)), even);
            assert_int_equal(smla__f32_to_bf16(float_of(low << 16 | 0x8001)), high);
            assert_int_equal(smla__f32_to_bf16(float_of(low << 16 | 0xffff)), high);
        }
}

static void half_nan_stays_nan(void **state)
{
    (void)state;
    for (uint32_t sign = 0; sign < 2; sign++)
        for (uint32_t fraction = 1; fraction < 0x800000; fraction = fraction * 3 + 1) {
            uint16_t bits = smla__f32_to_bf16(float_of(sign << 31 | 0x7f800000 | fraction));
            assert_true((bits & 0x7f80) == 0x7f80 && (bits & 0x7f) && bits >> 15 == sign);
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(half_every_bf16),
    cmocka_unit_test(half_round_trip),
    cmocka_unit_test(half_rounding),
    cmocka_unit_test(half_nan_stays_nan),
};

HARNESS_MAIN(tests)
