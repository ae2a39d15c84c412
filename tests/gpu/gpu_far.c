/* C14: a cache far larger than 4 GB, of which a few blocks, scattered over all of it, are read. */
#include "rig.h"

#include <stdlib.h>

/* 20 GB where the GPU has them, else half of that. */
enum { BLOCK = 64, BLOCKS = 260, FAR_BLOCKS = 271000, ROW_BYTES = 2 * REF_ROW };

/* Block b of the small cache lies here in the large one: around byte 2^31, 2^32 and 2^33, and up to the end. */
static int32_t far_block(int32_t b, int32_t blocks)
{
    static const int64_t edges[] = {(int64_t)1 << 31, (int64_t)1 << 32, (int64_t)1 << 33};
    if (b < 30)
        return (int32_t)(edges[b % 3] / (BLOCK * ROW_BYTES)) + b / 3 - 5;
    return blocks - 1 - 97 * (b - 30);
}

static unsigned char *large_cache(int32_t *blocks)
{
    unsigned char *cache = NULL;
    for (*blocks = FAR_BLOCKS; !cache && *blocks >= FAR_BLOCKS / 2; *blocks /= 2)
        if ((cache = device_alloc(gpu_device(), (size_t)*blocks * BLOCK * ROW_BYTES)) != NULL)
            return cache;
    harness_skip("no 10 GB of GPU memory are free");
    return NULL;
}

static void read_far_blocks(smla_context *context, const struct rig_shape *shape, unsigned char *cache,
                            int32_t blocks)
{
    static const int32_t q_lens[] = {1, 2, 1}, contexts[] = {4000, 2500, 90};
    struct scene scene;
    struct rig rig;
    struct result result;
    smla_plan *plan = rig_plan(context, shape);
    if (!plan)
        return;
    rig_scene(&scene, shape,
              &(const struct rig_batch){.requests = 3, .q_lens = q_lens, .contexts = contexts, .seed = 14});
    rig_open(&rig, plan, shape, &scene);
    int64_t stride = rig.tensors.cache_block_stride;
    for (int32_t b = 0; b < BLOCKS; b++)
        for (int64_t r = 0; r < BLOCK; r++)
            gpu_must(device_copy(gpu_device(),
                                 cache + ((int64_t)far_block(b, blocks) * BLOCK + r) * ROW_BYTES,
                                 (unsigned char *)(uintptr_t)rig.tensors.kv_cache + b * stride +
                                     r * rig.tensors.cache_row_stride,
                                 ROW_BYTES, rig.stream));
    for (int64_t i = 0; i < 3 * rig.scene.ref.block_table_width; i++)
        if (rig.scene.block_table[i] >= 0)
            rig.scene.block_table[i] = far_block(rig.scene.block_table[i], blocks);
    rig.scene.ref.cache_blocks = blocks;
    rig_update(&rig);
    rig.tensors.kv_cache = cache;
    rig.tensors.cache_blocks = blocks;
    rig.tensors.cache_row_stride = ROW_BYTES;
    rig.tensors.cache_block_stride = BLOCK * ROW_BYTES;
    rig_run(&rig);
    rig_collect(&rig, &result);
    rig_expect_right(&rig, &result, "in a cache of many GB");
    result_close(&result);
    rig_close(&rig);
    smla_plan_destroy(plan);
}

static void C14_far_blocks(void **state)
{
    (void)state;
    static const int32_t heads[] = {8, 16, 32, 64};
    int32_t blocks;
    unsigned char *cache = large_cache(&blocks);
    gpu_must(device_fill(gpu_device(), cache, 0xff, (size_t)blocks * BLOCK * ROW_BYTES, NULL)); /* NaN */
    smla_context *context = rig_context();
    for (int lane = 0; lane < RIG_LANES; lane++)
        for (int h = 0; h < 4; h++)
            read_far_blocks(context,
                            &(const struct rig_shape){.rows = 4,
                                                      .blocks = BLOCKS,
                                                      .heads = heads[h],
                                                      .topk = 700,
                                                      .block_size = BLOCK,
                                                      .splits = h < 2 ? 0 : 4,
                                                      .portable = lane == 1},
                            cache, blocks);
    smla_context_destroy(context);
    device_free(gpu_device(), cache);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(C14_far_blocks)};

RIG_MAIN(tests)
