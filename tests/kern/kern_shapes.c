/* Field cases: shapes and instruction sets. */
#include <stdio.h>
#include <string.h>

#include "harness.h"

/* C38: only some head counts and list widths worked; others were padded wrongly or refused. */
static void C38_heads_and_widths(void **state)
{
    (void)state;
    static const int32_t pairs[][2] = {{32, 256},  {16, 512},   {64, 192}, {64, 1152}, {16, 640},
                                       {16, 2176}, {128, 1024}, {4, 1},    {4, 3},     {4, 63},
                                       {4, 65},    {4, 100},    {1, 77},   {3, 40},    {12, 40},
                                       {24, 40},   {96, 40},    {127, 40}, {128, 40}};
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LENGTH(pairs); i++) {
        struct scene scene;
        char name[40];
        snprintf(name, sizeof name, "C38 H %d K %d", (int)pairs[i][0], (int)pairs[i][1]);
        const struct scene_spec spec = {.name = name,
                                        .heads = pairs[i][0],
                                        .topk = pairs[i][1],
                                        .requests = 2,
                                        .block_size = 64,
                                        .seed = i};
        scene_build(&scene, &spec);
        expect_right(&scene, &(const struct setting){.isa = isa, .threads = 1});
        expect_right(&scene,
                     &(const struct setting){
                         .isa = isa, .threads = 2, .splits = 4, .slots = true, .out_dtype = SMLA_BF16});
        scene_close(&scene);
    }
}

/* Every head count once, so that no remainder of a register tile is left out. */
static void C38_every_head_count(void **state)
{
    (void)state;
    FOR_EACH_ISA(isa)
    for (int32_t heads = 1; heads <= 128; heads++) {
        struct scene scene;
        const struct scene_spec spec = {.name = "C38 heads",
                                        .heads = heads,
                                        .topk = 5 + heads % 17,
                                        .requests = 1,
                                        .contexts = (int32_t[]){60}};
        scene_build(&scene, &spec);
        expect_right(&scene, &(const struct setting){.isa = isa, .threads = 1 + heads % 2});
        scene_close(&scene);
    }
}

/* Every list length up to a few tiles, with few heads. */
static void C38_every_list_length(void **state)
{
    (void)state;
    FOR_EACH_ISA(isa)
    for (int32_t topk = 1; topk <= 200; topk += topk < 70 ? 1 : 13) {
        struct scene scene;
        const struct scene_spec spec = {
            .name = "C38 lengths", .heads = 3, .topk = topk, .requests = 1, .contexts = (int32_t[]){250}};
        scene_build(&scene, &spec);
        expect_right(&scene, &(const struct setting){.isa = isa, .threads = 1, .splits = topk % 3});
        scene_close(&scene);
    }
}

static void refuse(const smla_problem *problem, smla_status status, const char *fact)
{
    smla_context *context;
    smla_plan *plan = (smla_plan *)(uintptr_t)1;
    smla_plan_options maxima;
    char reason[200];
    maxima_init(&maxima);
    assert_int_equal(open_context(&context, &(const struct setting){.threads = 1}), SMLA_OK);
    assert_int_equal(smla_support_query(problem, SMLA_BACKEND_CPU, 0, NULL, reason, sizeof reason), status);
    assert_int_equal(smla_plan_create(&plan, context, problem, &maxima), status);
    assert_string_equal(reason, smla_context_error(context));
    assert_non_null(strstr(reason, fact));
    smla_context_destroy(context);
}

/* C39: unsupported shapes failed inside a launch, after the query had said yes. */
static void C39_unsupported_shapes(void **state)
{
    (void)state;
    smla_problem problem, init;
    smla_problem_init(&init);
    problem = init;
    problem.kv_lora_rank = 256;
    refuse(&problem, SMLA_UNSUPPORTED_HEAD_DIM, "kv_lora_rank = 256: 512");
    problem = init;
    problem.qk_rope_head_dim = 128;
    refuse(&problem, SMLA_UNSUPPORTED_HEAD_DIM, "qk_rope_head_dim = 128: 64");
    problem = init;
    problem.heads = 129;
    refuse(&problem, SMLA_UNSUPPORTED_HEADS, "heads = 129: 1 .. 128");
    problem = init;
    problem.cache_format = 77;
    refuse(&problem, SMLA_UNSUPPORTED_CACHE_FORMAT, "cache_format = 77");
    problem.cache_format = SMLA_CACHE_FP8_DS_MLA;
    refuse(&problem, SMLA_UNSUPPORTED_CACHE_FORMAT, "cache_format = 4");
}

/* C41: each instruction set against scalar on a thousand keys; the best one is chosen unasked. */
static void C41_instruction_sets(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {
        .name = "C41", .heads = 19, .topk = 1000, .requests = 2, .contexts = (int32_t[]){1200, 999}};
    scene_build(&scene, &spec);
    FOR_EACH_ISA(isa)
    {
        fprintf(stderr, "instruction set %s\n", smla_isa_name(isa));
        expect_right(&scene, &(const struct setting){.isa = isa, .threads = 2});
    }
    scene_close(&scene);
}

static void C41_best_set_is_chosen(void **state)
{
    (void)state;
    smla_problem problem;
    smla_plan_options maxima;
    smla_problem_init(&problem);
    maxima_init(&maxima);
    assert_true(machine_isas() & 1u << SMLA_ISA_SCALAR);
    for (uint32_t mask = 0; mask < 64; mask++) {
        smla_context *context;
        smla_plan *plan;
        smla_plan_info info = {.struct_size = sizeof info};
        smla_context_options options;
        char detail[200] = "";
        smla_context_options_init(&options);
        options.backend = SMLA_BACKEND_CPU;
        options.isa_mask = mask;
        options.detail = detail;
        options.detail_size = sizeof detail;
        smla_status status = smla_context_create(&context, &options);
        if (!(mask & machine_isas())) {
            assert_int_equal(status, SMLA_UNSUPPORTED_ISA);
            assert_string_not_equal(detail, "");
            continue;
        }
        assert_int_equal(status, SMLA_OK);
        assert_int_equal(smla_plan_create(&plan, context, &problem, &maxima), SMLA_OK);
        assert_int_equal(smla_plan_get_info(plan, &info), SMLA_OK);
        int best = 31 - __builtin_clz(mask & machine_isas());
        /* The bf16 dot product is passed over where fp32 products are faster (Intel). */
        if (best == SMLA_ISA_AVX512_BF16 && mask & 1u << SMLA_ISA_AVX512)
            assert_in_range(info.isa, SMLA_ISA_AVX512, SMLA_ISA_AVX512_BF16);
        else
            assert_int_equal(info.isa, best);
        smla_plan_destroy(plan);
        smla_context_destroy(context);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(C38_heads_and_widths),  cmocka_unit_test(C38_every_head_count),
    cmocka_unit_test(C38_every_list_length), cmocka_unit_test(C39_unsupported_shapes),
    cmocka_unit_test(C41_instruction_sets),  cmocka_unit_test(C41_best_set_is_chosen),
};

HARNESS_MAIN(tests)
