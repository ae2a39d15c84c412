#include <string.h>

#include "harness.h"

/* Numbers are part of the ABI: they stand here once more, by hand. */
static const struct {
    smla_status status;
    int number;
    const char *name;
} pinned[] = {
    {SMLA_OK, 0, "SMLA_OK"},
    {SMLA_ERROR_NULL, 10, "SMLA_ERROR_NULL"},
    {SMLA_ERROR_ARGUMENT, 11, "SMLA_ERROR_ARGUMENT"},
    {SMLA_ERROR_STRUCT_SIZE, 12, "SMLA_ERROR_STRUCT_SIZE"},
    {SMLA_ERROR_STRIDE, 13, "SMLA_ERROR_STRIDE"},
    {SMLA_ERROR_ALIGNMENT, 14, "SMLA_ERROR_ALIGNMENT"},
    {SMLA_ERROR_LIMIT, 15, "SMLA_ERROR_LIMIT"},
    {SMLA_ERROR_STEP, 16, "SMLA_ERROR_STEP"},
    {SMLA_ERROR_QUERY_START, 20, "SMLA_ERROR_QUERY_START"},
    {SMLA_ERROR_SEQ_LEN, 21, "SMLA_ERROR_SEQ_LEN"},
    {SMLA_ERROR_BLOCK_TABLE, 22, "SMLA_ERROR_BLOCK_TABLE"},
    {SMLA_ERROR_BLOCK_ID, 23, "SMLA_ERROR_BLOCK_ID"},
    {SMLA_ERROR_ROW_TOTAL, 24, "SMLA_ERROR_ROW_TOTAL"},
    {SMLA_ERROR_SLOT, 25, "SMLA_ERROR_SLOT"},
    {SMLA_UNSUPPORTED_DTYPE, 30, "SMLA_UNSUPPORTED_DTYPE"},
    {SMLA_UNSUPPORTED_CACHE_FORMAT, 31, "SMLA_UNSUPPORTED_CACHE_FORMAT"},
    {SMLA_UNSUPPORTED_HEAD_DIM, 32, "SMLA_UNSUPPORTED_HEAD_DIM"},
    {SMLA_UNSUPPORTED_HEADS, 33, "SMLA_UNSUPPORTED_HEADS"},
    {SMLA_UNSUPPORTED_DCP, 34, "SMLA_UNSUPPORTED_DCP"},
    {SMLA_UNSUPPORTED_ISA, 35, "SMLA_UNSUPPORTED_ISA"},
    {SMLA_UNSUPPORTED_BACKEND, 36, "SMLA_UNSUPPORTED_BACKEND"},
    {SMLA_ERROR_MEMORY, 40, "SMLA_ERROR_MEMORY"},
    {SMLA_ERROR_WORKSPACE, 41, "SMLA_ERROR_WORKSPACE"},
    {SMLA_ERROR_NO_KERNELS, 50, "SMLA_ERROR_NO_KERNELS"},
    {SMLA_ERROR_NO_DRIVER, 51, "SMLA_ERROR_NO_DRIVER"},
    {SMLA_ERROR_OLD_DRIVER, 52, "SMLA_ERROR_OLD_DRIVER"},
    {SMLA_ERROR_NO_DEVICE, 53, "SMLA_ERROR_NO_DEVICE"},
    {SMLA_ERROR_DEVICE_ARCH, 54, "SMLA_ERROR_DEVICE_ARCH"},
    {SMLA_ERROR_DEVICE, 55, "SMLA_ERROR_DEVICE"},
};

static void status_numbers_and_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(pinned); i++) {
        assert_int_equal(pinned[i].status, pinned[i].number);
        assert_string_equal(smla_status_name(pinned[i].status), pinned[i].name);
        assert_true(strlen(smla_status_text(pinned[i].status)) > 3);
    }
}

static void status_texts_differ(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(pinned); i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(smla_status_text(pinned[i].status), smla_status_text(pinned[j].status));
}

/* No number outside the list has a name, so that nothing was added without being pinned. */
static void status_unknown_numbers(void **state)
{
    (void)state;
    for (int number = -300; number < 1000; number++) {
        bool known = false;
        for (size_t i = 0; i < ARRAY_LENGTH(pinned); i++)
            known |= pinned[i].number == number;
        assert_int_equal(strcmp(smla_status_name((smla_status)number), "unknown status") != 0, known);
        assert_int_equal(strcmp(smla_status_text((smla_status)number), "unknown status") != 0, known);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(status_numbers_and_names),
    cmocka_unit_test(status_texts_differ),
    cmocka_unit_test(status_unknown_numbers),
};

HARNESS_MAIN(tests)
