/* The case table: every case on every instruction set, with every number of threads and splits. */
#include <stdio.h>

#include "harness.h"

static const struct scene_spec regular[] = {
    {.name = "one row", .requests = 1, .topk = 100, .heads = 16, .contexts = (int32_t[]){900}},
    {.name = "decode", .requests = 4, .heads = 8, .block_size = 64, .invalid = 0.2},
    {.name = "spec decode", .requests = 3, .q_lens = (int32_t[]){3, 3, 3}, .heads = 5, .topk = 130},
    {.name = "prefill from nothing",
     .requests = 2,
     .q_lens = (int32_t[]){9, 5},
     .contexts = (int32_t[]){0, 0}},
    {.name = "mixed lanes", .requests = 4, .q_lens = (int32_t[]){1, 0, 6, 2}, .lengths = LENGTHS_EXACT},
    {.name = "glm heads", .requests = 2, .heads = 8, .topk = 256, .contexts = (int32_t[]){300, 20}},
    {.name = "v3.2 heads", .requests = 2, .heads = 128, .topk = 65, .block_size = 64},
};

static const struct scene_spec corners[] = {
    {.name = "one key", .topk = 1, .heads = 1, .requests = 1, .contexts = (int32_t[]){0}, .block_size = 1},
    {.name = "list longer than cache", .topk = 300, .contexts = (int32_t[]){5, 0, 17}, .picks = 300},
    {.name = "block size 1", .block_size = 1, .topk = 70, .invalid = 0.1},
    {.name = "block size 7", .block_size = 7, .topk = 129, .invalid = 0.5, .lengths = LENGTHS_WILD},
    {.name = "almost all invalid", .topk = 257, .invalid = 0.98, .heads = 3},
    {.name = "all invalid", .topk = 64, .invalid = 1.0, .empty_lse = SMLA_EMPTY_POS_INF},
    {.name = "wild lengths", .requests = 11, .lengths = LENGTHS_WILD, .sinks = SINKS_EXTREME, .heads = 6},
    {.name = "wide table", .width_spare = 9, .topk = 63, .invalid = 0.3},
    {.name = "peaky", .q_gain = 30, .topk = 200, .heads = 7},
    {.name = "flat", .scale = 1e-6, .topk = 128, .heads = 9},
    {.name = "negative scale", .scale = -0.5, .topk = 67, .heads = 2},
    {.name = "odd heads", .heads = 127, .topk = 33, .requests = 2},
};

static void run_table(const struct scene_spec *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct scene scene;
        struct scene_spec spec = table[i];
        spec.seed = 100 + 7 * i;
        scene_build(&scene, &spec);
        expect_full(&scene);
        scene_close(&scene);
    }
}

static void attn_regular(void **state)
{
    (void)state;
    run_table(regular, ARRAY_LENGTH(regular));
}

static void attn_corners(void **state)
{
    (void)state;
    run_table(corners, ARRAY_LENGTH(corners));
}

/* Every feature beside every other: lengths x sinks x both lse conventions x decode context parallelism. */
static void attn_features(void **state)
{
    (void)state;
    static const int32_t q_lens[] = {1, 3, 1};
    for (unsigned i = 0; i < 4u * 3 * 2 * 2 * 2; i++) {
        struct scene scene;
        char name[32];
        snprintf(name, sizeof name, "features %u", i);
        const struct scene_spec spec = {.name = name,
                                        .heads = 4,
                                        .topk = 37,
                                        .block_size = 8,
                                        .q_lens = q_lens,
                                        .invalid = 0.15,
                                        .lengths = (enum scene_lengths)(i % 4),
                                        .sinks = (enum scene_sinks)(i / 4 % 3),
                                        .lse_base = i / 12 % 2 ? SMLA_LSE_BASE2 : SMLA_LSE_NATURAL,
                                        .empty_lse = i / 24 % 2 ? SMLA_EMPTY_POS_INF : SMLA_EMPTY_NEG_INF,
                                        .dcp_world = i / 48 ? 2 : 1,
                                        .dcp_rank = i / 48 ? (int32_t)(i % 2) : 0,
                                        .dcp_interleave = (int32_t)(1 + i % 3),
                                        .seed = i};
        scene_build(&scene, &spec);
        expect_everywhere(&scene);
        scene_close(&scene);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(attn_regular),
    cmocka_unit_test(attn_corners),
    cmocka_unit_test(attn_features),
};

HARNESS_MAIN(tests)
