/* Decode context parallelism: every rank attends its own part of the cache, and the merge of all parts is
 * attention over the whole. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { HEADS = 8, TOPK = 90, REQUESTS = 4 };
static const int32_t q_lens[REQUESTS] = {1, 3, 1, 2};
static const int32_t contexts[REQUESTS] = {100, 37, 0, 300};

static struct scene_spec spec_of(int32_t world, int32_t rank, int32_t interleave, enum scene_sinks sinks)
{
    return (struct scene_spec){.name = "dcp",
                               .heads = HEADS,
                               .topk = TOPK,
                               .requests = REQUESTS,
                               .q_lens = q_lens,
                               .contexts = contexts,
                               .invalid = 0.1,
                               .sinks = sinks,
                               .dcp_world = world,
                               .dcp_rank = rank,
                               .dcp_interleave = interleave,
                               .seed = 5};
}

/* The slot of a request's position in a scene, found by counting the positions before it. */
static int64_t slot_of(const struct scene *scene, int32_t request, int64_t position)
{
    const struct scene_spec *s = &scene->spec;
    int64_t local = 0;
    for (int64_t p = 0; p < position; p++)
        local += p / s->dcp_interleave % s->dcp_world == s->dcp_rank;
    int64_t column = local / s->block_size;
    return scene->block_table[request * scene->ref.block_table_width + column] * s->block_size +
           local % s->block_size;
}

/* This rank's share of the whole scene: same lists, same queries, its own keys. */
static void open_rank(struct scene *part, const struct scene *whole, int32_t world, int32_t rank,
                      int32_t interleave)
{
    const struct scene_spec spec = spec_of(world, rank, interleave, SINKS_NONE);
    scene_open(part, &spec);
    memcpy(part->topk, whole->topk, sizeof(int32_t) * TOPK * (size_t)whole->rows);
    memcpy(part->q, whole->q, sizeof(uint16_t) * HEADS * REF_ROW * (size_t)whole->rows);
    for (int32_t r = 0; r < REQUESTS; r++)
        for (int64_t p = 0; p < whole->seq_lens[r]; p++)
            if (p / interleave % world == rank)
                memcpy(scene_key(part, slot_of(part, r, p)), scene_key(whole, slot_of(whole, r, p)),
                       2 * REF_ROW);
    scene_expect(part);
}

static void merge_parts(const struct scene *whole, const struct setting *setting, const void *outs,
                        const float *lses, int32_t world, struct result *merged)
{
    smla_context *context;
    smla_partials p;
    smla_partials_init(&p, world, whole->rows, HEADS);
    int64_t item = setting->out_dtype == SMLA_BF16 ? 2 : 4, groups = whole->rows * HEADS;
    p.part_dtype = setting->out_dtype;
    p.out_dtype = SMLA_F32;
    p.part_out_head_stride = item * REF_LATENT;
    p.part_out_row_stride = HEADS * p.part_out_head_stride;
    p.part_out_part_stride = whole->rows * p.part_out_row_stride;
    p.out_head_stride = 4 * REF_LATENT;
    p.out_row_stride = HEADS * p.out_head_stride;
    p.part_out = outs;
    p.part_lse = lses;
    float *out = must_malloc(sizeof(float) * (size_t)groups * REF_LATENT);
    float *lse = must_malloc(sizeof(float) * (size_t)groups);
    p.out = out;
    p.lse = lse;
    assert_int_equal(open_context(&context, setting), SMLA_OK);
    *merged = (struct result){.status = smla_merge(context, &p, NULL), .rows = whole->rows, .heads = HEADS};
    merged->out = must_malloc(sizeof(double) * (size_t)groups * REF_LATENT);
    merged->lse = must_malloc(sizeof(double) * (size_t)groups);
    for (int64_t i = 0; i < groups * REF_LATENT; i++)
        merged->out[i] = (double)out[i];
    for (int64_t i = 0; i < groups; i++)
        merged->lse[i] = (double)lse[i];
    smla_context_destroy(context);
    free(out);
    free(lse);
}

/* Parts in bf16 bring their rounding along, relative to themselves and not to the whole. */
static void expect_merged(const struct scene *whole, const struct setting *setting,
                          const struct result *merged)
{
    int64_t groups = whole->rows * HEADS;
    struct bound out_bound = bound_out(setting->isa, SMLA_F32, whole->score_size);
    struct bound lse_bound = bound_lse(whole->score_size);
    if (setting->out_dtype == SMLA_BF16) {
        out_bound.element += 0x1p-8;
        out_bound.norm += 0x1p-9;
    }
    struct comparison out = compare(merged->out, whole->want_out, groups * REF_LATENT, REF_LATENT, out_bound);
    struct comparison lse = compare(merged->lse, whole->want_lse, groups, 1, lse_bound);
    if (!out.right)
        comparison_print("merged out", &out, merged->out, whole->want_out, out_bound);
    if (!lse.right)
        comparison_print("merged lse", &lse, merged->lse, whole->want_lse, lse_bound);
    assert_true(out.right && lse.right);
}

static void ranks_make_the_whole(int32_t world, int32_t interleave, const struct setting *setting)
{
    struct scene whole;
    struct result merged;
    const struct scene_spec spec = spec_of(1, 0, 1, SINKS_NONE);
    scene_build(&whole, &spec);
    size_t item = setting->out_dtype == SMLA_BF16 ? 2 : 4, groups = (size_t)whole.rows * HEADS;
    unsigned char *outs = must_malloc((size_t)world * groups * REF_LATENT * item);
    float *lses = must_malloc(sizeof(float) * (size_t)world * groups);
    for (int32_t rank = 0; rank < world; rank++) {
        struct scene part;
        struct result result;
        open_rank(&part, &whole, world, rank, interleave);
        scene_run(&part, setting, &result);
        assert_true(result_right(&part, setting, &result));
        memcpy(outs + (size_t)rank * result.out_bytes, result.out_bits, result.out_bytes);
        memcpy(lses + (size_t)rank * groups, result.lse_bits, result.lse_bytes);
        result_close(&result);
        scene_close(&part);
    }
    merge_parts(&whole, setting, outs, lses, world, &merged);
    assert_int_equal(merged.status, SMLA_OK);
    expect_merged(&whole, setting, &merged);
    result_close(&merged);
    free(outs);
    free(lses);
    scene_close(&whole);
}

static void dcp_ranks_merge_to_the_whole(void **state)
{
    (void)state;
    FOR_EACH_ISA(isa)
    for (int32_t world = 1; world <= 4; world *= 2)
        for (int32_t interleave = 1; interleave <= 2; interleave++)
            for (int bf16 = 0; bf16 < 2; bf16++)
                ranks_make_the_whole(world, interleave,
                                     &(const struct setting){
                                         .isa = isa, .threads = 2, .out_dtype = bf16 ? SMLA_BF16 : SMLA_F32});
}

/* A rank that owns none of a row's entries gives an empty row. */
static void dcp_rank_without_entries(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = spec_of(4, 3, 1, SINKS_RANDOM);
    scene_open(&scene, &spec);
    for (int64_t i = 0; i < scene.rows * TOPK; i++)
        scene.topk[i] = i / TOPK % 2 ? (int32_t)(i % 30 * 4) : scene.topk[i];
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere(&scene);
    scene_close(&scene);
}

static void dcp_worlds_and_interleaves(void **state)
{
    (void)state;
    for (int32_t world = 1; world <= 4; world *= 2)
        for (int32_t interleave = 1; interleave <= 16; interleave *= 4)
            for (int32_t rank = 0; rank < world; rank++) {
                struct scene_spec spec = spec_of(world, rank, interleave, SINKS_NONE);
                spec.lengths = LENGTHS_WILD;
                spec.block_size = 5;
                expect_spec(&spec);
            }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(dcp_ranks_merge_to_the_whole),
    cmocka_unit_test(dcp_rank_without_entries),
    cmocka_unit_test(dcp_worlds_and_interleaves),
};

HARNESS_MAIN(tests)
