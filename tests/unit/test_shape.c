#include "shape.h"

#include <string.h>

#include "harness.h"

static char text[256];
static struct smla__detail detail = {text, sizeof text};

static struct smla__array array_of(int64_t outer, int64_t outer_stride, int64_t inner, int64_t inner_stride)
{
    return (struct smla__array){.name = "data",
                                .outer_name = "far_stride",
                                .inner_name = "near_stride",
                                .data = (void *)0x1000,
                                .outer = outer,
                                .outer_stride = outer_stride,
                                .inner = inner,
                                .inner_stride = inner_stride,
                                .item = 64,
                                .align = 4};
}

static smla_status check(struct smla__array array)
{
    return smla__check_array(&array, &detail);
}

static void shape_strides(void **state)
{
    (void)state;
    assert_int_equal(check(array_of(3, 256, 4, 64)), SMLA_OK);
    assert_int_equal(check(array_of(3, 0, 4, 0)), SMLA_OK); /* a broadcast input */
    assert_int_equal(check(array_of(3, -256, 4, 64)), SMLA_ERROR_STRIDE);
    assert_non_null(strstr(text, "far_stride = -256"));
    assert_int_equal(check(array_of(3, 256, 4, -64)), SMLA_ERROR_STRIDE);
    assert_non_null(strstr(text, "near_stride = -64"));
    assert_int_equal(check(array_of(3, 258, 4, 64)), SMLA_ERROR_ALIGNMENT);
    assert_non_null(strstr(text, "far_stride = 258"));
    assert_int_equal(check(array_of(3, 256, 4, 65)), SMLA_ERROR_ALIGNMENT);
    assert_non_null(strstr(text, "near_stride = 65"));
}

static void shape_pointer_alignment(void **state)
{
    (void)state;
    struct smla__array array = array_of(3, 256, 4, 64);
    array.data = (void *)0x1002;
    assert_int_equal(check(array), SMLA_ERROR_ALIGNMENT);
    assert_non_null(strstr(text, "data"));
    array.align = 2;
    assert_int_equal(check(array), SMLA_OK);
    array.data = NULL;
    assert_int_equal(check(array), SMLA_OK);
}

static void shape_overflow(void **state)
{
    (void)state;
    assert_int_equal(check(array_of(3, INT64_MAX / 2 - 3, 1, 0)), SMLA_ERROR_STRIDE);
    assert_int_equal(check(array_of(2, INT64_MAX - 127, 1, 0)), SMLA_OK);
    assert_int_equal(check(array_of(2, INT64_MAX - 3, 1, 0)), SMLA_ERROR_STRIDE);
    assert_int_equal(check(array_of(1, INT64_MAX - 3, 1, INT64_MAX - 3)), SMLA_OK);
    assert_int_equal(check(array_of(INT64_MAX, 64, 1, 0)), SMLA_ERROR_STRIDE);
    assert_int_equal(check(array_of(2, INT64_MAX - 1023, 100, 64)), SMLA_ERROR_STRIDE);
}

/* Items that are written must not overlap, whichever level is the outer one in memory. */
static void shape_overlap(void **state)
{
    (void)state;
    static const struct {
        int64_t outer, outer_stride, inner, inner_stride;
        smla_status status;
    } cases[] = {
        {3, 256, 4, 64, SMLA_OK},
        {3, 64, 4, 192, SMLA_OK},
        {3, 255 * 4, 4, 64, SMLA_OK},
        {3, 252, 4, 64, SMLA_ERROR_STRIDE},
        {3, 64, 4, 188, SMLA_ERROR_STRIDE},
        {3, 0, 4, 64, SMLA_ERROR_STRIDE},
        {3, 256, 4, 0, SMLA_ERROR_STRIDE},
        {3, 256, 4, 60, SMLA_ERROR_STRIDE},
        {1, 0, 4, 64, SMLA_OK},
        {3, 64, 1, 0, SMLA_OK},
        {1, 0, 1, 0, SMLA_OK},
        {0, 0, 4, 64, SMLA_OK},
        {3, 60, 1, 0, SMLA_ERROR_STRIDE},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct smla__array array =
            array_of(cases[i].outer, cases[i].outer_stride, cases[i].inner, cases[i].inner_stride);
        assert_int_equal(check(array), SMLA_OK);
        array.written = true;
        assert_int_equal(check(array), cases[i].status);
    }
}

static void shape_sizes(void **state)
{
    (void)state;
    size_t product = 77;
    assert_true(smla__size_mul(3, 5, &product) && product == 15);
    assert_true(smla__size_mul(0, INT64_MAX, &product) && product == 0);
    assert_false(smla__size_mul(-1, 5, &product));
    assert_false(smla__size_mul(5, -1, &product));
    assert_false(smla__size_mul(INT64_MAX, 3, &product));
    assert_int_equal(smla__dtype_bytes(SMLA_BF16), 2);
    assert_int_equal(smla__dtype_bytes(SMLA_F16), 2);
    assert_int_equal(smla__dtype_bytes(SMLA_F32), 4);
    assert_int_equal(smla__dtype_bytes(0), 0);
    assert_int_equal(smla__dtype_bytes(-7), 0);
}

/* Against counting positions one by one. */
static void shape_local_length(void **state)
{
    (void)state;
    for (int32_t world = 1; world <= 4; world++)
        for (int32_t interleave = 1; interleave <= 5; interleave++)
            for (int32_t rank = 0; rank < world; rank++) {
                smla_problem problem;
                smla_problem_init(&problem);
                problem.dcp_world_size = world;
                problem.dcp_rank = rank;
                problem.dcp_interleave = interleave;
                int64_t count = 0;
                for (int64_t length = 0; length <= 70; length++) {
                    assert_int_equal(smla__local_length(&problem, length), count);
                    count += length / interleave % world == rank;
                }
            }
}

static void shape_local_length_of_large_interleave(void **state)
{
    (void)state;
    smla_problem problem;
    smla_problem_init(&problem);
    problem.dcp_world_size = 128;
    problem.dcp_rank = 1;
    problem.dcp_interleave = INT32_MAX;
    assert_int_equal(smla__local_length(&problem, INT32_MAX), 0);
    problem.dcp_rank = 0;
    assert_int_equal(smla__local_length(&problem, INT32_MAX), INT32_MAX);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(shape_strides),
    cmocka_unit_test(shape_pointer_alignment),
    cmocka_unit_test(shape_overflow),
    cmocka_unit_test(shape_overlap),
    cmocka_unit_test(shape_sizes),
    cmocka_unit_test(shape_local_length),
    cmocka_unit_test(shape_local_length_of_large_interleave),
};

HARNESS_MAIN(tests)
