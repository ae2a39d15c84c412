/* What every test program shares: main with a filter, skipping, and checks over scenes. */
#ifndef TEST_HARNESS_H
#define TEST_HARNESS_H

/* cmocka needs these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runner.h"

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof *(array))

/* Runs all tests, or those that match the pattern in argv[1] (a shell pattern). Exit code: 0 right, 1
 * wrong or no test matched, 77 all of them skipped. */
int harness_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);
#define HARNESS_MAIN(tests)                                                                                  \
    int main(int argc, char **argv)                                                                          \
    {                                                                                                        \
        return harness_main(argc, argv, tests, ARRAY_LENGTH(tests));                                         \
    }

/* Ends the running test as skipped, saying why. */
void harness_skip(const char *reason);

/* Every instruction set that this machine has. */
uint32_t machine_isas(void);
#define FOR_EACH_ISA(isa)                                                                                    \
    for (smla_isa isa = SMLA_ISA_SCALAR; (int)isa < SMLA_ISA_COUNT; isa = (smla_isa)((int)isa + 1))          \
        if (machine_isas() & 1u << isa)

/* Runs and compares with the oracle; the test fails if they disagree. */
void expect_right(const struct scene *scene, const struct setting *setting);
/* On every instruction set, in five settings that between them use every option. */
void expect_everywhere(const struct scene *scene);
/* The same with the gaps and hooks of `base`. */
void expect_everywhere_with(const struct scene *scene, const struct setting *base);
/* On every instruction set, threads 1, 2, 3 x splits 0, 1, 2, 3, 5, 64, the other options in rotation. */
void expect_full(const struct scene *scene);
/* The library answers with this status and writes nothing. */
void expect_refused(const struct scene *scene, const struct setting *setting, smla_status status);

/* Builds, checks everywhere and closes. */
void expect_spec(const struct scene_spec *spec);

#endif
