#include "detail.h"

#include <string.h>

#include "harness.h"

static void detail_is_written_and_cleared(void **state)
{
    (void)state;
    char text[32] = "old";
    struct smla__detail detail = {text, sizeof text};
    assert_int_equal(smla__fail(&detail, SMLA_ERROR_STEP, "rows = %d", 7), SMLA_ERROR_STEP);
    assert_string_equal(text, "rows = 7");
    smla__detail_clear(&detail);
    assert_string_equal(text, "");
}

static void detail_is_cut_to_its_buffer(void **state)
{
    (void)state;
    char text[8];
    memset(text, 'x', sizeof text);
    struct smla__detail detail = {text, 5};
    smla__fail(&detail, SMLA_ERROR_STEP, "%s", "a long sentence");
    assert_memory_equal(text, "a lo\0xxx", 8);
}

static void detail_may_be_absent(void **state)
{
    (void)state;
    char text[1] = "x";
    struct smla__detail none = {0}, empty = {text, 0};
    assert_int_equal(smla__fail(NULL, SMLA_ERROR_SLOT, "x"), SMLA_ERROR_SLOT);
    assert_int_equal(smla__fail(&none, SMLA_ERROR_SLOT, "x"), SMLA_ERROR_SLOT);
    assert_int_equal(smla__fail(&empty, SMLA_ERROR_SLOT, "x"), SMLA_ERROR_SLOT);
    smla__detail_clear(NULL);
    smla__detail_clear(&none);
    smla__detail_clear(&empty);
    assert_int_equal(text[0], 'x');
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(detail_is_written_and_cleared),
    cmocka_unit_test(detail_is_cut_to_its_buffer),
    cmocka_unit_test(detail_may_be_absent),
};

HARNESS_MAIN(tests)
