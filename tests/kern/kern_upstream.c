/* The situations that vLLM's own tests of its sparse MLA backends put a kernel into, as far as they fit a CPU. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static void ragged_counts(void **state)
{
    (void)state;
    static const int32_t counts[] = {2048, 0, 1, 128, 129, 2047, 777, 0};
    struct scene scene;
    const struct scene_spec spec = {
        .name = "ragged", .topk = 2048, .heads = 2, .block_size = 64, .lengths = LENGTHS_EXACT};
    scene_open_shared(&scene, &spec, 8, 3000);
    for (int64_t t = 0; t < 8; t++) {
        scene.length[t] = counts[t];
        for (int32_t i = 0; i < 2048; i++)
            scene_list(&scene, t)[i] = (int32_t)((i * 7 + t) % 3000);
    }
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    scene_close(&scene);
}

/* Selection of upstream's decode tests: n = min(64, position + 1) entries (i + 7 token) mod (position + 1). */
static void batch(const char *name, int32_t requests, const int32_t *seq_lens, const int32_t *q_lens,
                  float gain)
{
    struct scene scene;
    int32_t contexts[16];
    for (int32_t r = 0; r < requests; r++)
        contexts[r] = seq_lens[r] - q_lens[r];
    const struct scene_spec spec = {.name = name,
                                    .requests = requests,
                                    .q_lens = q_lens,
                                    .contexts = contexts,
                                    .topk = 128,
                                    .block_size = gain > 1 ? 32 : 64,
                                    .heads = 2,
                                    .q_gain = gain};
    scene_open(&scene, &spec);
    for (int64_t t = 0; t < scene.rows; t++) {
        int32_t r = scene.row_request[t];
        int64_t reach = scene.seq_lens[r] - (scene.query_start_loc[r + 1] - 1 - t);
        for (int64_t i = 0; i < 128; i++)
            scene_list(&scene, t)[i] = i < (reach < 64 ? reach : 64) ? (int32_t)((i + 7 * t) % reach) : -1;
    }
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    scene_close(&scene);
}

static void upstream_batches(void **state)
{
    (void)state;
    for (float gain = 1; gain <= 2; gain++) {
        batch("mixed small", 4, (int32_t[]){32, 40, 48, 56}, (int32_t[]){1, 1, 5, 5}, gain);
        batch("mixed medium", 6, (int32_t[]){512, 1024, 2048, 512, 1024, 2048}, (int32_t[]){1, 1, 1, 7, 7, 7},
              gain);
        batch("small prefill", 2, (int32_t[]){32, 40}, (int32_t[]){8, 8}, gain);
        batch("medium prefill", 4, (int32_t[]){256, 512, 1024, 2048}, (int32_t[]){16, 16, 16, 16}, gain);
        batch("single prefill", 1, (int32_t[]){1024}, (int32_t[]){64}, gain);
        batch("pure prefill", 2, (int32_t[]){64, 128}, (int32_t[]){64, 128}, gain);
    }
}

static void query_length_mixes(void **state)
{
    (void)state;
    const struct scene_spec one = {.name = "q_lens 1 5 17 2 33 1 8 64",
                                   .requests = 8,
                                   .q_lens = (int32_t[]){1, 5, 17, 2, 33, 1, 8, 64},
                                   .topk = 48,
                                   .heads = 2};
    const struct scene_spec two = {.name = "q_lens 1 5 2 8 1 3 16 4",
                                   .requests = 8,
                                   .q_lens = (int32_t[]){1, 5, 2, 8, 1, 3, 16, 4},
                                   .topk = 130,
                                   .heads = 2,
                                   .invalid = 0.35};
    expect_spec(&one);
    expect_spec(&two);
}

/* Full lists with their lengths given and not given are the same call. */
static void full_lists_with_and_without_lengths(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {
        .name = "full", .topk = 192, .contexts = (int32_t[]){300, 400, 500}, .lengths = LENGTHS_EXACT};
    scene_build(&scene, &spec);
    int32_t *length = scene.length;
    FOR_EACH_ISA(isa)
    {
        struct setting setting = {.isa = isa, .threads = 2};
        struct result with, without;
        scene.length = length;
        scene_run(&scene, &setting, &with);
        scene.length = NULL;
        scene_run(&scene, &setting, &without);
        assert_true(result_right(&scene, &setting, &with));
        assert_true(results_same(&with, &without));
        result_close(&with);
        result_close(&without);
    }
    scene.length = length;
    scene_close(&scene);
}

static void pad_sentinels(void **state)
{
    (void)state;
    static const int32_t sentinels[] = {-1, INT32_MIN, 1 << 20};
    for (size_t s = 0; s < ARRAY_LENGTH(sentinels); s++) {
        struct scene scene;
        const struct scene_spec spec = {.name = "sentinels", .topk = 256};
        scene_open_shared(&scene, &spec, 3, 300);
        for (int64_t i = 0; i < 3 * 256; i++)
            scene.topk[i] = i % 256 < 100 + i / 256 ? (int32_t)(i * 11 % 300) : sentinels[s];
        scene_fill(&scene);
        scene_expect(&scene);
        expect_everywhere(&scene);
        scene_close(&scene);
    }
}

/* Scores are set by one column: keys hold s in the last rope column and the query 1 there, scale 1. */
static void set_scores(struct scene *scene, int64_t t, float (*score)(int64_t slot, float delta), float delta)
{
    int64_t slots = scene->ref.cache_blocks * scene->spec.block_size;
    for (int64_t h = 0; h < scene->spec.heads; h++) {
        memset(scene_query(scene, t, h), 0, 2 * REF_ROW);
        scene_query(scene, t, h)[REF_ROW - 1] = bf16_from(1);
    }
    for (int64_t slot = 0; slot < slots; slot++)
        scene_key(scene, slot)[REF_ROW - 1] = bf16_from(score(slot, delta));
}

static void list_all(struct scene *scene)
{
    for (int64_t t = 0; t < scene->rows; t++)
        for (int32_t i = 0; i < scene->spec.topk; i++)
            scene_list(scene, t)[i] = i;
}

static float late_growth(int64_t slot, float delta)
{
    return slot >= 900 ? delta : slot >= 500 ? delta / 2 : 0;
}

/* A kernel that rescales only when the maximum grows by 2^6 or so has its edge here. */
static void late_growth_of_the_maximum(void **state)
{
    (void)state;
    static const float deltas[] = {5.9f, 6, 6.1f, 12, 60, -60};
    for (size_t i = 0; i < ARRAY_LENGTH(deltas); i++) {
        struct scene scene;
        const struct scene_spec spec = {.name = "late growth", .topk = 1000, .scale = 1, .heads = 2};
        scene_open_shared(&scene, &spec, 1, 1000);
        list_all(&scene);
        scene_fill(&scene);
        set_scores(&scene, 0, late_growth, deltas[i]);
        scene_expect(&scene);
        expect_everywhere(&scene);
        scene_close(&scene);
    }
}

static float sunken(int64_t slot, float top)
{
    return slot / 128 == 2 ? top : -1e4f;
}

static float sunken_but_last(int64_t slot, float top)
{
    return slot == 639 ? top : -1e4f;
}

/* Leading tiles whose scores are so low that their weights vanish, or that are invalid altogether. */
static void leading_tiles_without_weight(void **state)
{
    (void)state;
    float (*const scores[])(int64_t, float) = {sunken, sunken_but_last};
    for (int i = 0; i < 4; i++) {
        struct scene scene;
        const struct scene_spec spec = {.name = "leading tiles", .topk = 640, .scale = 1, .heads = 3};
        scene_open_shared(&scene, &spec, 1, 640);
        list_all(&scene);
        for (int32_t entry = 0; entry < 640 && i >= 2; entry++)
            scene.topk[entry] = i == 2 ? (entry / 128 == 2 ? entry : -1) : (entry == 639 ? entry : INT32_MIN);
        scene_fill(&scene);
        set_scores(&scene, 0, scores[i % 2], i >= 2 ? -2e4f : -8e3f);
        scene_expect(&scene);
        expect_everywhere(&scene);
        scene_close(&scene);
    }
}

static void scattered_invalid_entries(void **state)
{
    (void)state;
    const struct scene_spec spec = {.name = "scattered",
                                    .requests = 6,
                                    .q_lens = (int32_t[]){1, 2, 0, 3, 1, 1},
                                    .contexts = (int32_t[]){700, 300, 0, 500, 0, 64},
                                    .topk = 512,
                                    .invalid = 0.35,
                                    .heads = 3};
    expect_spec(&spec);
}

static void repeat_on_each_isa(const struct scene *scene, int32_t turn)
{
    FOR_EACH_ISA(isa)
    {
        struct setting setting = {.isa = isa, .threads = 1 + turn % 3, .splits = turn % 4};
        struct result first, again;
        if (isa == SMLA_ISA_SCALAR && turn % 5)
            continue;
        scene_run(scene, &setting, &first);
        scene_run(scene, &setting, &again);
        assert_true(result_right(scene, &setting, &first));
        assert_true(results_same(&first, &again));
        result_close(&first);
        result_close(&again);
    }
}

/* 1 .. 32 tiles of 64 keys, and a remainder. */
static void every_tile_count(void **state)
{
    (void)state;
    static const int32_t remainders[] = {0, 1, 31, 63};
    for (int32_t tiles = 1; tiles <= 32; tiles++)
        for (size_t i = 0; i < ARRAY_LENGTH(remainders); i++) {
            struct scene scene;
            int32_t topk = 64 * tiles + remainders[i];
            const struct scene_spec spec = {.name = "tiles", .topk = topk, .heads = 2, .block_size = 64};
            scene_open_shared(&scene, &spec, 1, topk);
            list_all(&scene);
            scene_fill(&scene);
            scene_expect(&scene);
            repeat_on_each_isa(&scene, tiles);
            scene_close(&scene);
        }
}

static void peaky_scores(void **state)
{
    (void)state;
    const struct scene_spec spec = {.name = "peaky", .q_gain = 30, .topk = 600, .heads = 16, .requests = 2};
    expect_spec(&spec);
}

static void forced_splits(void **state)
{
    (void)state;
    static const int32_t splits[] = {1, 2, 3, 4, 8, 16, 63};
    struct scene scene;
    const struct scene_spec spec = {.name = "forced splits",
                                    .topk = 500,
                                    .requests = 3,
                                    .contexts = (int32_t[]){900, 100, 3},
                                    .invalid = 0.2,
                                    .lengths = LENGTHS_RANDOM};
    scene_build(&scene, &spec);
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LENGTH(splits); i++)
        for (int32_t threads = 1; threads <= 4; threads++)
            expect_right(&scene,
                         &(const struct setting){.isa = isa, .threads = threads, .splits = splits[i]});
    scene_close(&scene);
}

static void padded_batches(void **state)
{
    (void)state;
    static const int32_t sizes[][2] = {{2, 4}, {8, 16}, {32, 40}, {64, 74}, {256, 272}};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        struct scene scene;
        const struct scene_spec spec = {.name = "padded", .requests = sizes[i][0], .topk = 33, .heads = 1};
        scene_build(&scene, &spec);
        FOR_EACH_ISA(isa)
        for (int slots = 0; slots < 2; slots++)
            expect_right(&scene, &(const struct setting){.isa = isa,
                                                         .threads = 2,
                                                         .slots = slots,
                                                         .padded_rows = sizes[i][1] - sizes[i][0]});
        scene_close(&scene);
    }
}

static void all_rows_empty(void **state)
{
    (void)state;
    for (int empty = SMLA_EMPTY_NEG_INF; empty <= SMLA_EMPTY_POS_INF; empty++) {
        const struct scene_spec spec = {.name = "all empty",
                                        .requests = 9,
                                        .topk = 300,
                                        .invalid = 1,
                                        .empty_lse = (smla_empty_lse)empty};
        expect_spec(&spec);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ragged_counts),
    cmocka_unit_test(upstream_batches),
    cmocka_unit_test(query_length_mixes),
    cmocka_unit_test(full_lists_with_and_without_lengths),
    cmocka_unit_test(pad_sentinels),
    cmocka_unit_test(late_growth_of_the_maximum),
    cmocka_unit_test(leading_tiles_without_weight),
    cmocka_unit_test(scattered_invalid_entries),
    cmocka_unit_test(every_tile_count),
    cmocka_unit_test(peaky_scores),
    cmocka_unit_test(forced_splits),
    cmocka_unit_test(padded_batches),
    cmocka_unit_test(all_rows_empty),
};

HARNESS_MAIN(tests)
