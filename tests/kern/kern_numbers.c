/* Field cases: numbers at their edges. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "harness.h"

/* C21: masking multiplied by zero, and NaN times zero is NaN. Unselected rows are NaN or Inf in every scene;
 * here they are set to zero and the bits must stay. */
static void C21_poison_around(void **state)
{
    (void)state;
    const struct scene_spec spec = {.name = "C21", .topk = 150, .invalid = 0.2, .heads = 5};
    FOR_EACH_ISA(isa)
    {
        struct scene scene;
        struct setting setting = {.isa = isa, .threads = 2};
        struct result poisoned, zeroed;
        scene_build(&scene, &spec);
        scene_run(&scene, &setting, &poisoned);
        assert_true(result_right(&scene, &setting, &poisoned));
        int64_t cleared = 0;
        for (int64_t slot = 0; slot < scene.ref.cache_blocks * scene.spec.block_size; slot++)
            if (!isfinite(bf16_to(scene_key(&scene, slot)[0]))) {
                memset(scene_key(&scene, slot), 0, 2 * REF_ROW);
                cleared++;
            }
        assert_true(cleared > 20);
        scene_run(&scene, &setting, &zeroed);
        assert_true(results_same(&poisoned, &zeroed));
        result_close(&poisoned);
        result_close(&zeroed);
        scene_close(&scene);
    }
}

/* The neighbour of a row that does select a NaN: rows with like lists are attended together. */
static void C21_nan_stays_in_its_row(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C21 selected", .topk = 70, .heads = 3};
    scene_open_shared(&scene, &spec, 4, 90);
    for (int64_t i = 0; i < 4 * 70; i++)
        scene.topk[i] = (int32_t)(i % 70 + 2);
    scene_fill(&scene);
    scene_expect(&scene);
    FOR_EACH_ISA(isa)
    for (int32_t splits = 0; splits < 3; splits++) {
        struct setting setting = {.isa = isa, .threads = 2, .splits = splits};
        struct result clean, poisoned;
        scene_run(&scene, &setting, &clean);
        assert_true(result_right(&scene, &setting, &clean));
        scene_list(&scene, 1)[40] = 1; /* never filled: poison */
        memset(scene_key(&scene, 1), 0xff, 2 * REF_ROW);
        scene_run(&scene, &setting, &poisoned);
        for (int64_t t = 0; t < 4; t++)
            assert_int_equal(rows_same(&clean, t, &poisoned, t), t != 1);
        for (int i = 0; i < 3 * REF_LATENT; i++)
            assert_true(isnan(poisoned.out[3 * REF_LATENT + i]));
        scene_list(&scene, 1)[40] = 42;
        result_close(&clean);
        result_close(&poisoned);
    }
    scene_close(&scene);
}

/*
 * C22: a mask of -1e4, or a maximum that starts at -1e30, met true scores of that size. Scores here are
 * whole numbers, so that fp32 holds score + shift exactly and the result must not move at all: it is held
 * to the bound of small scores. The last rope column adds the shift.
 */
static void shifted(float shift)
{
    struct scene scene;
    const struct scene_spec spec = {.name = "C22", .topk = 100, .scale = 1, .heads = 5};
    scene_open_shared(&scene, &spec, 3, 120);
    for (int64_t t = 0; t < 3; t++)
        for (int32_t i = 0; i < 100; i++)
            scene_list(&scene, t)[i] = i % 3 == t ? -1 : (int32_t)((t + i * 7) % 120);
    for (int64_t slot = 0; slot < 120; slot++)
        for (int c = 0; c < REF_ROW; c++)
            scene_key(&scene, slot)[c] = bf16_from((float)(rng_below(&scene.rng, 5) - 2));
    for (int64_t i = 0; i < 3 * 5 * REF_ROW; i++)
        scene.q[i] = bf16_from(i % 40 ? 0.0f : (float)(rng_below(&scene.rng, 3) - 1));
    for (int64_t slot = 0; slot < 120; slot++)
        scene_key(&scene, slot)[REF_ROW - 1] = bf16_from(1);
    for (int64_t group = 0; group < 15; group++)
        scene.q[group * REF_ROW + REF_ROW - 1] = bf16_from(shift);
    scene_expect(&scene);
    expect_everywhere(&scene);
    FOR_EACH_ISA(isa)
    {
        struct result result;
        struct setting setting = {.isa = isa, .threads = 2};
        scene_run(&scene, &setting, &result);
        struct bound bound = bound_out(isa, SMLA_F32, 30);
        struct comparison c = compare(result.out, scene.want_out, 15 * REF_LATENT, REF_LATENT, bound);
        if (!c.right) {
            fprintf(stderr, "%s, shift %g\n", smla_isa_name(isa), (double)shift);
            comparison_print("out", &c, result.out, scene.want_out, bound);
        }
        result_close(&result);
        assert_true(c.right);
    }
    scene_close(&scene);
}

static void C22_huge_scores(void **state)
{
    (void)state;
    static const float shifts[] = {0, -59904, 59904, -299008, 299008};
    for (size_t i = 0; i < ARRAY_LENGTH(shifts); i++)
        shifted(shifts[i]);
}

/* The same sizes without whole numbers: every score is about `size`. */
static void C22_huge_scores_uneven(void **state)
{
    (void)state;
    static const float sizes[] = {-6e4f, -3e5f, 3e5f};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        struct scene scene;
        const struct scene_spec spec = {.name = "C22 uneven", .topk = 70, .invalid = 0.3};
        scene_open(&scene, &spec);
        scene_fill(&scene);
        for (int64_t slot = 0; slot < scene.ref.cache_blocks * scene.spec.block_size; slot++)
            if (isfinite(bf16_to(scene_key(&scene, slot)[0])))
                scene_key(&scene, slot)[REF_ROW - 1] = bf16_from(1);
        for (int64_t group = 0; group < scene.rows * 4; group++)
            scene.q[group * REF_ROW + REF_ROW - 1] = bf16_from(sizes[i] * 24);
        scene_expect(&scene);
        expect_everywhere(&scene);
        scene_close(&scene);
    }
}

/* C23: an empty row with a sink gave NaN; a large sink overflowed. Heads: finite, 100, -inf, +inf. */
static void C23_sinks(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {
        .name = "C23", .topk = 8, .sinks = SINKS_RANDOM, .lengths = LENGTHS_EXACT};
    scene_open_shared(&scene, &spec, 3, 16);
    for (int64_t i = 0; i < 3 * 8; i++)
        scene.topk[i] = (int32_t)(i * 3 % 16);
    scene.length[1] = 0;
    scene.sinks[1] = 100;
    scene.sinks[2] = -INFINITY;
    scene.sinks[3] = INFINITY;
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    float *sinks = scene.sinks;
    FOR_EACH_ISA(isa)
    {
        struct setting setting = {.isa = isa, .threads = 1};
        struct result with, without;
        scene.sinks = sinks;
        scene_run(&scene, &setting, &with);
        scene.sinks = NULL;
        scene_run(&scene, &setting, &without);
        size_t head = sizeof(float) * REF_LATENT;
        assert_memory_equal((char *)with.out_bits + 2 * head, (char *)without.out_bits + 2 * head, head);
        assert_memory_equal(with.lse_bits, without.lse_bits, with.lse_bytes);
        for (int i = 3 * REF_LATENT; i < 8 * REF_LATENT; i++)
            assert_true(with.out[i] == 0);
        result_close(&with);
        result_close(&without);
    }
    scene.sinks = sinks;
    scene_close(&scene);
}

/* C24: fp16 was read as bf16. */
static void C24_fp16(void **state)
{
    (void)state;
    smla_context *context;
    smla_plan *plan;
    smla_plan_options maxima;
    smla_problem query, cache, out;
    maxima_init(&maxima);
    smla_problem_init(&query);
    cache = out = query;
    query.query_dtype = SMLA_F16;
    cache.cache_format = SMLA_CACHE_F16;
    out.out_dtype = SMLA_F16;
    assert_int_equal(open_context(&context, &(const struct setting){.threads = 1}), SMLA_OK);
    assert_int_equal(smla_plan_create(&plan, context, &query, &maxima), SMLA_UNSUPPORTED_DTYPE);
    assert_non_null(strstr(smla_context_error(context), "query_dtype = 3"));
    assert_int_equal(smla_plan_create(&plan, context, &cache, &maxima), SMLA_UNSUPPORTED_CACHE_FORMAT);
    assert_non_null(strstr(smla_context_error(context), "cache_format = 2"));
    assert_int_equal(smla_plan_create(&plan, context, &out, &maxima), SMLA_UNSUPPORTED_DTYPE);
    assert_non_null(strstr(smla_context_error(context), "out_dtype = 3"));
    smla_context_destroy(context);
}

/* C25: the lse came in the other base. With one key it is the score itself, and out is the key. */
static void C25_one_key(void **state)
{
    (void)state;
    for (int base = SMLA_LSE_NATURAL; base <= SMLA_LSE_BASE2; base++) {
        struct scene scene;
        const struct scene_spec spec = {.name = "C25", .topk = 20, .lse_base = (smla_lse_base)base};
        scene_open_shared(&scene, &spec, 2, 32);
        scene_list(&scene, 0)[0] = 9;
        scene_list(&scene, 1)[17] = 11;
        scene_fill(&scene);
        scene_expect(&scene);
        expect_everywhere(&scene);
        double score = 0;
        for (int c = 0; c < REF_ROW; c++)
            score += (double)bf16_to(scene_query(&scene, 0, 0)[c]) * (double)bf16_to(scene_key(&scene, 9)[c]);
        score *= scene.ref.scale * (base == SMLA_LSE_BASE2 ? 1.4426950408889634 : 1);
        FOR_EACH_ISA(isa)
        {
            struct result result;
            scene_run(&scene, &(const struct setting){.isa = isa, .threads = 1}, &result);
            assert_true(fabs(result.lse[0] - score) < 1e-5);
            /* A GPU multiplies by the reciprocal of the weight. */
            double inexact = gpu_mode() ? 0x1p-22 : 0;
            for (int i = 0; i < 2 * 4 * REF_LATENT; i++) {
                double value =
                    (double)bf16_to(scene_key(&scene, i < 4 * REF_LATENT ? 9 : 11)[i % REF_LATENT]);
                assert_true(fabs(result.out[i] - value) <= inexact * fabs(value));
            }
            result_close(&result);
        }
        scene_close(&scene);
    }
}

/* C26: the weight of an empty partial was zero, and its NaN output times zero was NaN. */
static void C26_merge_with_an_empty_part(void **state)
{
    (void)state;
    static const float empty[] = {-INFINITY, INFINITY, NAN};
    float out[2 * REF_LATENT], lse[2], merged[REF_LATENT], merged_lse;
    smla_context *context;
    assert_int_equal(open_context(&context, &(const struct setting){.threads = 1}), SMLA_OK);
    for (int i = 0; i < 3 * 2; i++) {
        int full = i & 1;
        smla_partials p;
        smla_partials_init(&p, 2, 1, 1);
        p.part_dtype = p.out_dtype = SMLA_F32;
        p.part_out_part_stride = p.part_out_row_stride = p.part_out_head_stride = sizeof(float) * REF_LATENT;
        p.out_row_stride = p.out_head_stride = sizeof(float) * REF_LATENT;
        for (int c = 0; c < REF_LATENT; c++) {
            out[full * REF_LATENT + c] = 0.1f * (float)c - 20;
            out[(1 - full) * REF_LATENT + c] = NAN;
        }
        lse[full] = 3.3f;
        lse[1 - full] = empty[i / 2];
        p.part_out = out;
        p.part_lse = lse;
        p.out = merged;
        p.lse = &merged_lse;
        assert_int_equal(smla_merge(context, &p, NULL), SMLA_OK);
        assert_memory_equal(merged, out + full * REF_LATENT, sizeof merged);
        assert_memory_equal(&merged_lse, lse + full, sizeof merged_lse);
    }
    smla_context_destroy(context);
}

/* C27: splits that held no valid entry broke the merge. */
static void C27_every_split_count(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C27", .topk = 2048, .heads = 2};
    scene_open_shared(&scene, &spec, 2, 100);
    for (int32_t i = 2045; i < 2048; i++)
        scene_list(&scene, 0)[i] = i - 2000;
    for (int32_t i = 0; i < 2048; i += 31)
        scene_list(&scene, 1)[i] = i % 100;
    scene_fill(&scene);
    scene_expect(&scene);
    FOR_EACH_ISA(isa)
    for (int32_t splits = 0; splits <= 64; splits++)
        expect_right(&scene,
                     &(const struct setting){.isa = isa, .threads = 1 + splits % 3, .splits = splits});
    scene_close(&scene);
}

/* C28: the second half of the heads used the first row's list. */
static void C28_lists_and_head_groups(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C28", .topk = 64, .heads = 32};
    scene_open_shared(&scene, &spec, 2, 128);
    for (int32_t i = 0; i < 64; i++) {
        scene_list(&scene, 0)[i] = i;
        scene_list(&scene, 1)[i] = 64 + i;
    }
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    scene_close(&scene);
}

/* C29: sums were kept in bf16, and half a unit in the last place was lost at every addition. */
static void C29_equal_scores(void **state)
{
    (void)state;
    enum { K = 8192 };
    struct scene scene;
    const struct scene_spec spec = {.name = "C29", .topk = K, .heads = 1, .block_size = 64};
    scene_open_shared(&scene, &spec, 1, K);
    memset(scene.q, 0, 2 * REF_ROW);
    for (int32_t i = 0; i < K; i++) {
        scene.topk[i] = (i * 5 + 3) % K;
        for (int c = 0; c < REF_ROW; c++)
            scene_key(&scene, i)[c] = bf16_from(i % (c % 7 + 2) ? 1 : 1 + 0x1p-7f);
    }
    scene_expect(&scene);
    expect_everywhere(&scene);
    scene_close(&scene);
}

/* Scales at the edges of what is finite: with 0 every valid entry weighs the same, and padding still nothing. */
static void scales_at_the_edges(void **state)
{
    (void)state;
    static const double scales[] = {0, -0.0, 1e-45, -1e-45, 1e-30, 1e4, -1e4};
    for (size_t i = 0; i < ARRAY_LENGTH(scales); i++) {
        struct scene scene;
        const struct scene_spec spec = {.name = "scale", .topk = 75, .invalid = 0.2, .heads = 3};
        scene_open(&scene, &spec);
        scene.spec.scale = scales[i];
        scene.ref.scale = (double)(float)scales[i];
        scene_fill(&scene);
        scene_expect(&scene);
        expect_everywhere(&scene);
        scene_close(&scene);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(C21_poison_around),
    cmocka_unit_test(C21_nan_stays_in_its_row),
    cmocka_unit_test(C22_huge_scores),
    cmocka_unit_test(C22_huge_scores_uneven),
    cmocka_unit_test(C23_sinks),
    cmocka_unit_test(C24_fp16),
    cmocka_unit_test(C25_one_key),
    cmocka_unit_test(C26_merge_with_an_empty_part),
    cmocka_unit_test(C27_every_split_count),
    cmocka_unit_test(C28_lists_and_head_groups),
    cmocka_unit_test(C29_equal_scores),
    cmocka_unit_test(scales_at_the_edges),
};

HARNESS_MAIN(tests)
