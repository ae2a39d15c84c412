/*
 * Sizes on the GPU: every kernel of the library by name, head counts by list widths, forced splits, row counts, and the
 * CPU backend's answer to the same step. What is run is small; the sanitizers go through every_kernel as well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "harness.h"

/* A scene of so many rows: one long request and some of a row each. */
static void build(struct scene *scene, int32_t heads, int32_t topk, int32_t rows, uint64_t seed)
{
    enum { SINGLE = 4 };
    int32_t q_lens[SINGLE + 1] = {rows}, requests = 1;
    while (requests <= SINGLE && q_lens[0] > 1) {
        q_lens[0]--;
        q_lens[requests++] = 1;
    }
    const struct scene_spec spec = {.name = "sizes",
                                    .heads = heads,
                                    .topk = topk,
                                    .block_size = seed % 2 ? 64 : 20,
                                    .requests = requests,
                                    .q_lens = q_lens,
                                    .invalid = seed % 3 ? 0.15 : 0,
                                    .lengths = seed % 4 == 1 ? LENGTHS_RANDOM : LENGTHS_EXACT,
                                    .sinks = seed % 5 == 2 ? SINKS_RANDOM : SINKS_NONE,
                                    .lse_base = seed % 2 ? SMLA_LSE_BASE2 : SMLA_LSE_NATURAL,
                                    .empty_lse = seed % 3 == 1 ? SMLA_EMPTY_POS_INF : SMLA_EMPTY_NEG_INF,
                                    .seed = seed};
    scene_build(scene, &spec);
}

static struct setting variant(uint64_t seed, int32_t splits)
{
    return (struct setting){.threads = 1,
                            .splits = splits,
                            .out_dtype = seed % 2 ? SMLA_BF16 : 0,
                            .slots = seed % 3 == 0,
                            .split_query = seed % 4 == 3,
                            .dense = seed % 5 == 0};
}

/* The kernel that a plan for this scene and setting names. */
static void name_kernel(char name[64], const struct scene *scene, const struct setting *setting)
{
    smla_context *context;
    smla_plan *plan;
    smla_plan_info info = {.struct_size = sizeof info};
    smla_plan_options maxima = scene_maxima(scene, setting);
    smla_problem problem = scene_problem(scene, setting);
    assert_int_equal(open_context(&context, setting), SMLA_OK);
    if (smla_plan_create(&plan, context, &problem, &maxima) != SMLA_OK)
        fail_msg("no plan: %s", smla_context_error(context));
    assert_int_equal(smla_plan_get_info(plan, &info), SMLA_OK);
    snprintf(name, 64, "%s", info.kernel);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
}

/* Runs the first of some shapes that gets the kernel; false if none does. */
static bool run_through(const char *wanted, int32_t heads, int32_t splits, bool slots)
{
    static const int32_t rows[] = {2, 20, 70, 140, 300};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct scene scene;
        char name[64];
        build(&scene, heads, 290, rows[i], (uint64_t)(heads + splits));
        struct setting setting = variant((uint64_t)splits, splits);
        setting.slots = slots;
        name_kernel(name, &scene, &setting);
        bool found = strcmp(name, wanted) == 0;
        if (found) {
            fprintf(stderr, "%s: %d heads, %d rows\n", wanted, (int)heads, (int)rows[i]);
            expect_right(&scene, &setting);
        }
        scene_close(&scene);
        if (found)
            return true;
    }
    return false;
}

static void every_kernel(void **state)
{
    (void)state;
    static const int32_t heads[] = {8, 16, 32, 64}, clusters[] = {1, 2, 3, 4, 6, 8, 16};
    char wanted[64];
    if (gpu_portable()) {
        for (int32_t splits = 1; splits < 4; splits++)
            assert_true(run_through("portable_h16", 21, splits, splits == 2));
        return;
    }
    for (size_t h = 0; h < ARRAY_LENGTH(heads); h++)
        for (size_t c = 0; c < ARRAY_LENGTH(clusters); c++) {
            if (heads[h] > 16 && clusters[c] > 8)
                continue;
            snprintf(wanted, sizeof wanted, "hopper_h%d_c%d", (int)heads[h], (int)clusters[c]);
            /* Few heads fewer than the kernel takes, so that some of its places stay free. */
            if (!run_through(wanted, heads[h] - heads[h] / 8, clusters[c], c % 2))
                fail_msg("no shape here gets %s", wanted);
        }
    if (!run_through("hopper_h16_pairs", 15, 1, true))
        fail_msg("no shape here gets hopper_h16_pairs");
}

static const int32_t head_counts[] = {1, 2, 3, 5, 8, 11, 12, 16, 20, 24, 32, 48, 64, 66, 96, 127, 128};

/* Each head count with four widths and each width with six head counts or so. */
static void heads_by_widths(void **state)
{
    (void)state;
    static const int32_t widths[] = {1, 63, 64, 65, 100, 128, 512, 576, 2048, 2176, 4096};
    for (size_t h = 0; h < ARRAY_LENGTH(head_counts); h++)
        for (size_t n = 0; n < 4; n++) {
            uint64_t seed = 4 * h + n;
            struct scene scene;
            build(&scene, head_counts[h], widths[(3 * h + 5 * n) % ARRAY_LENGTH(widths)], 1 + (int32_t)n,
                  seed);
            struct setting setting = variant(seed, 0);
            expect_right(&scene, &setting);
            scene_close(&scene);
        }
}

static void splits_by_lengths(void **state)
{
    (void)state;
    static const int32_t heads[] = {8, 16, 20, 64, 128}, splits[] = {1, 2, 3, 4, 5, 6, 8, 16, 64},
                         widths[] = {1, 17, 95, 257, 900};
    for (size_t h = 0; h < ARRAY_LENGTH(heads); h++)
        for (size_t s = 0; s < ARRAY_LENGTH(splits); s++) {
            uint64_t seed = 10 * h + s;
            struct scene scene;
            build(&scene, heads[h], widths[(h + 2 * s) % ARRAY_LENGTH(widths)], 3, seed);
            struct setting setting = variant(seed, splits[s]);
            expect_right(&scene, &setting);
            scene_close(&scene);
        }
}

static void row_counts(void **state)
{
    (void)state;
    static const int32_t rows[] = {1, 2, 3, 4, 5, 8, 16, 63, 64, 65, 127, 128, 129, 300};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        for (int32_t heads = 8; heads <= 64; heads *= 2) {
            struct scene scene;
            build(&scene, heads, 130, rows[i], 7 * i + (uint64_t)heads);
            struct setting setting = variant(i, 0);
            expect_right(&scene, &setting);
            scene_close(&scene);
        }
}

/* Many rows: more than 16 bits count for a kernel with a CTA for each row, thousands for one whose CTAs take turns. */
static void rows_65536(void **state)
{
    (void)state;
    for (int32_t heads = 2; heads <= 24; heads += 22) {
        struct scene scene;
        build(&scene, heads, 6, heads == 2 ? 65536 : 8192, (uint64_t)heads);
        struct setting setting = {.threads = 1, .slots = heads == 2, .out_dtype = SMLA_BF16};
        expect_right(&scene, &setting);
        scene_close(&scene);
    }
}

/* Runs on the backend of this name, and gives its bounds. */
static void run_on(const char *backend, const struct scene *scene, const struct setting *setting,
                   struct result *result, struct bound *out, struct bound *lse)
{
    setenv("SMLA_TEST_BACKEND", backend, 1);
    scene_run(scene, setting, result);
    if (result->status != SMLA_OK)
        fail_msg("%s: %s", backend, result->error);
    *out = bound_out(setting->isa, SMLA_F32, scene->score_size);
    *lse = bound_lse(scene->score_size);
}

static struct bound both(struct bound a, struct bound b)
{
    return (struct bound){.element = a.element + b.element,
                          .relative = a.relative + b.relative,
                          .absolute = a.absolute + b.absolute,
                          .norm = a.norm + b.norm};
}

/* The CPU's and the GPU's answer differ by no more than both may err. */
static void agrees_with_cpu(void **state)
{
    (void)state;
    char backend[32];
    snprintf(backend, sizeof backend, "%s", gpu_portable() ? "cuda-portable" : "cuda");
    for (size_t h = 0; h < ARRAY_LENGTH(head_counts); h++) {
        struct scene scene;
        struct result cpu, gpu;
        struct bound out[2], lse[2];
        build(&scene, head_counts[h], 200 + 90 * (int32_t)h, 3, h);
        struct setting setting = variant(2 * h, 0);
        run_on("cpu", &scene, &setting, &cpu, &out[0], &lse[0]);
        run_on(backend, &scene, &setting, &gpu, &out[1], &lse[1]);
        struct bound of_out = both(out[0], out[1]), of_lse = both(lse[0], lse[1]);
        struct comparison outs =
            compare(gpu.out, cpu.out, gpu.rows * gpu.heads * REF_LATENT, REF_LATENT, of_out);
        struct comparison lses = compare(gpu.lse, cpu.lse, gpu.rows * gpu.heads, 1, of_lse);
        if (!outs.right)
            comparison_print("out", &outs, gpu.out, cpu.out, of_out);
        if (!lses.right)
            comparison_print("lse", &lses, gpu.lse, cpu.lse, of_lse);
        assert_true(outs.right && lses.right);
        result_close(&cpu);
        result_close(&gpu); /* the environment names the GPU again */
        scene_close(&scene);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_kernel), cmocka_unit_test(heads_by_widths), cmocka_unit_test(splits_by_lengths),
    cmocka_unit_test(row_counts),   cmocka_unit_test(rows_65536),      cmocka_unit_test(agrees_with_cpu),
};

HARNESS_MAIN(tests)
