#include "harness.h"

static void version_matches_header(void **state)
{
    (void)state;
    assert_int_equal(smla_version(),
                     SMLA_VERSION_MAJOR * 10000 + SMLA_VERSION_MINOR * 100 + SMLA_VERSION_PATCH);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(version_matches_header)};

HARNESS_MAIN(tests)
