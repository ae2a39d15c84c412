#include "harness.h"
#include "gpu.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

static size_t skipped;

int harness_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    size_t chosen_count = 0;
    const char *absent = gpu_mode() ? gpu_absent() : NULL;
    if (absent) {
        fprintf(stderr, "skipped: %s\n", absent);
        return 77;
    }
    const char *pattern = argc > 1 ? argv[1] : "*";
    struct CMUnitTest *chosen = must_malloc(sizeof *chosen * count);
    for (size_t i = 0; i < count; i++)
        if (fnmatch(pattern, tests[i].name, 0) == 0)
            chosen[chosen_count++] = tests[i];
    if (chosen_count == 0)
        fprintf(stderr, "no test matches %s\n", pattern);
    int failed = chosen_count == 0 || _cmocka_run_group_tests(argv[0], chosen, chosen_count, NULL, NULL) != 0;
    free(chosen);
    return failed ? 1 : skipped == chosen_count ? 77 : 0;
}

void harness_skip(const char *reason)
{
    fprintf(stderr, "skipped: %s\n", reason);
    skipped++;
    skip();
}

uint32_t machine_isas(void)
{
    static uint32_t isas;
    if (gpu_mode()) /* one round: instruction sets are the CPU's affair */
        return 1u << SMLA_ISA_SCALAR;
    if (isas == 0) {
        smla_machine machine = {.struct_size = sizeof machine};
        assert_int_equal(smla_machine_query(&machine), SMLA_OK);
        isas = machine.isa_mask;
    }
    return isas;
}

void expect_right(const struct scene *scene, const struct setting *setting)
{
    struct result result;
    scene_run(scene, setting, &result);
    bool right = result_right(scene, setting, &result);
    result_close(&result);
    assert_true(right);
}

void expect_everywhere(const struct scene *scene)
{
    expect_everywhere_with(scene, &(const struct setting){0});
}

void expect_everywhere_with(const struct scene *scene, const struct setting *base)
{
    static const struct setting settings[] = {
        {.threads = 1, .workspace_shift = 1},
        {.threads = 2, .splits = 3, .slots = true, .split_query = true, .workspace_shift = 12},
        {.threads = 3, .out_dtype = SMLA_BF16, .no_lse = true, .dense = true},
        {.threads = 2, .splits = 64, .batch_invariant = true, .spare_rows = 7},
        {.threads = 3, .entry = ENTRY_SLICES_AT_ONCE, .slices = 2, .padded_rows = 2, .slots = true},
    };
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LENGTH(settings); i++) {
        struct setting setting = settings[i];
        setting.isa = isa;
        setting.q_row_gap = base->q_row_gap;
        setting.kv_row_gap = base->kv_row_gap;
        setting.kv_block_gap = base->kv_block_gap;
        setting.topk_row_gap = base->topk_row_gap;
        setting.huge_row_stride = base->huge_row_stride;
        setting.place_cache = base->place_cache;
        setting.edit = base->edit;
        expect_right(scene, &setting);
    }
}

/* Bit patterns of a running number choose the options, so that they meet in ever new company. */
static struct setting rotated(smla_isa isa, int32_t threads, int32_t splits, unsigned turn)
{
    return (struct setting){.isa = isa,
                            .threads = threads,
                            .splits = splits,
                            .out_dtype = turn & 1 ? SMLA_BF16 : SMLA_F32,
                            .split_query = turn >> 1 & 1,
                            .slots = turn >> 2 & 1,
                            .with_step = turn % 3 == 0,
                            .no_lse = turn % 5 == 1,
                            .dense = turn % 7 == 2,
                            .batch_invariant = turn % 5 == 3,
                            .padded_rows = turn % 9 == 4 ? 3 : 0,
                            .spare_rows = turn % 11 == 5 ? 100 : 0,
                            .workspace_shift = (int32_t)(turn * 5 % 64)};
}

void expect_full(const struct scene *scene)
{
    static const int32_t splits[] = {0, 1, 2, 3, 5, 64};
    unsigned turn = (unsigned)scene->spec.seed;
    FOR_EACH_ISA(isa)
    for (int32_t threads = 1; threads <= 3; threads++)
        for (size_t i = 0; i < ARRAY_LENGTH(splits); i++) {
            struct setting setting = rotated(isa, threads, splits[i], turn++);
            expect_right(scene, &setting);
        }
}

void expect_refused(const struct scene *scene, const struct setting *setting, smla_status status)
{
    struct result result;
    scene_run(scene, setting, &result);
    bool untouched = guard_filled(result.out_bits, result.out_bytes, 0xff) &&
                     guard_filled(result.lse_bits, result.lse_bytes, 0xff) && result.gaps_kept;
    smla_status got = result.status;
    bool said = result.error[0] != '\0';
    result_close(&result);
    assert_int_equal(got, status);
    assert_true(untouched);
    assert_true(said);
}

void expect_spec(const struct scene_spec *spec)
{
    struct scene scene;
    scene_build(&scene, spec);
    expect_everywhere(&scene);
    scene_close(&scene);
}
