#include <sched.h>
#include <string.h>

#include "harness.h"

static void machine_isa_names(void **state)
{
    (void)state;
    static const char *const names[SMLA_ISA_COUNT] = {"scalar", "avx2", "avx512", "avx512_bf16", "amx_bf16"};
    for (int isa = 0; isa < SMLA_ISA_COUNT; isa++)
        assert_string_equal(smla_isa_name((smla_isa)isa), names[isa]);
    assert_null(smla_isa_name((smla_isa)SMLA_ISA_COUNT));
    assert_null(smla_isa_name((smla_isa)-1));
}

static void machine_arguments(void **state)
{
    (void)state;
    smla_machine machine = {.struct_size = 3};
    assert_int_equal(smla_machine_query(NULL), SMLA_ERROR_NULL);
    assert_int_equal(smla_machine_query(&machine), SMLA_ERROR_STRUCT_SIZE);
}

/* Against the compiler's own detection, which also asks the operating system. */
static void machine_instruction_sets(void **state)
{
    (void)state;
    uint32_t mask = machine_isas();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    assert_true(mask & 1u << SMLA_ISA_SCALAR);
    assert_int_equal(mask >> SMLA_ISA_AVX2 & 1, avx2);
    assert_int_equal(mask >> SMLA_ISA_AVX512 & 1, avx512 && avx2);
    assert_int_equal(mask >> SMLA_ISA_COUNT, 0);
    if (mask & 1u << SMLA_ISA_AVX512_BF16)
        assert_true(mask & 1u << SMLA_ISA_AVX512);
}

static void machine_cpus_follow_affinity(void **state)
{
    (void)state;
    smla_machine machine = {.struct_size = sizeof machine};
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_int_equal(smla_machine_query(&machine), SMLA_OK);
    assert_int_equal(machine.cpus, CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && CPU_COUNT(&one) == 0)
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(smla_machine_query(&machine), SMLA_OK);
    assert_int_equal(machine.cpus, 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

/* Every member is set, whatever was there: strings end, numbers are numbers. */
static void machine_fills_everything(void **state)
{
    (void)state;
    smla_machine machine;
    memset(&machine, 0x55, sizeof machine);
    machine.struct_size = sizeof machine;
    assert_int_equal(smla_machine_query(&machine), SMLA_OK);
    assert_int_equal(machine.struct_size, sizeof machine);
    assert_true(strlen(machine.cpu_name) > 0 && strlen(machine.cpu_name) < sizeof machine.cpu_name);
    assert_true(memchr(machine.cuda_detail, 0, sizeof machine.cuda_detail) != NULL);
    assert_true(memchr(machine.cuda_name, 0, sizeof machine.cuda_name) != NULL);
    assert_true(machine.cuda_kernels >= 0 && machine.cuda_devices >= 0 && machine.cuda_devices < 1000);
    assert_string_not_equal(smla_status_name((smla_status)machine.cuda_status), "unknown status");
    assert_int_equal(machine.cuda_status == SMLA_OK, machine.cuda_detail[0] == '\0');
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(machine_isa_names),        cmocka_unit_test(machine_arguments),
    cmocka_unit_test(machine_instruction_sets), cmocka_unit_test(machine_cpus_follow_affinity),
    cmocka_unit_test(machine_fills_everything),
};

HARNESS_MAIN(tests)
