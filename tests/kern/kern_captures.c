/* The committed captures, made by Hugging Face's own models, on every instruction set. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <capture.h>

#include "harness.h"

/* A scene that borrows the capture's arrays; all but want_out and want_lse. */
static struct scene scene_of(const struct capture *c)
{
    struct scene scene = {.rows = c->rows,
                          .query_start_loc = (int32_t *)(uintptr_t)c->query_start_loc,
                          .seq_lens = (int32_t *)(uintptr_t)c->seq_lens,
                          .block_table = (int32_t *)(uintptr_t)c->block_table,
                          .topk = (int32_t *)(uintptr_t)c->topk_indices,
                          .length = (int32_t *)(uintptr_t)c->topk_length,
                          .q = (uint16_t *)(uintptr_t)c->q,
                          .kv = (uint16_t *)(uintptr_t)c->kv_cache,
                          .sinks = (float *)(uintptr_t)c->sinks};
    scene.spec = (struct scene_spec){.name = c->model,
                                     .heads = (int32_t)c->heads,
                                     .topk = (int32_t)c->topk,
                                     .block_size = (int32_t)c->block_size,
                                     .requests = (int32_t)c->requests,
                                     .scale = c->scale,
                                     .lse_base = SMLA_LSE_NATURAL,
                                     .empty_lse = SMLA_EMPTY_NEG_INF,
                                     .dcp_world = 1,
                                     .dcp_interleave = 1};
    scene.row_request = must_malloc(sizeof(int32_t) * (size_t)c->rows);
    for (int32_t r = 0; r < c->requests; r++)
        for (int32_t t = c->query_start_loc[r]; t < c->query_start_loc[r + 1]; t++)
            scene.row_request[t] = r;
    scene.ref = (struct ref_problem){.rows = c->rows,
                                     .heads = c->heads,
                                     .topk = c->topk,
                                     .cache_blocks = c->cache_blocks,
                                     .block_size = c->block_size,
                                     .requests = c->requests,
                                     .block_table_width = c->block_table_width,
                                     .scale = (double)(float)c->scale,
                                     .positions = 1,
                                     .q = c->q,
                                     .kv = c->kv_cache,
                                     .topk_list = c->topk_indices,
                                     .topk_length = c->topk_length,
                                     .row_request = scene.row_request,
                                     .seq_lens = c->seq_lens,
                                     .block_table = c->block_table,
                                     .sinks = c->sinks};
    scene.want_out = must_malloc(sizeof(double) * (size_t)(c->rows * c->heads * REF_LATENT));
    scene.want_lse = must_malloc(sizeof(double) * (size_t)(c->rows * c->heads));
    return scene;
}

/* The oracle and the capture's own float64 results are the same numbers, but for their rounding to f32. */
static void expect_oracle_agrees(const struct capture *c, const struct scene *scene)
{
    assert_non_null(c->expected_out);
    assert_non_null(c->expected_lse);
    for (int64_t i = 0; i < c->rows * c->heads * REF_LATENT; i++)
        assert_true(fabs((double)c->expected_out[i] - scene->want_out[i]) <=
                    1e-6 * fabs(scene->want_out[i]) + 1e-8);
    for (int64_t i = 0; i < c->rows * c->heads; i++)
        assert_true(fabs((double)c->expected_lse[i] - scene->want_lse[i]) <=
                    1e-6 * fabs(scene->want_lse[i]) + 1e-7);
}

static void run_capture(const char *name)
{
    char path[512];
    struct capture capture;
    struct io_error error;
    snprintf(path, sizeof path, "%s/%s", TEST_DATA, name);
    if (!capture_open(&capture, path, &error))
        fail_msg("%s", error.text);
    struct scene scene = scene_of(&capture);
    scene.ref.scale = capture.scale; /* the capture's results know nothing of the library's float scale */
    scene_expect(&scene);
    expect_oracle_agrees(&capture, &scene);
    scene.ref.scale = (double)(float)capture.scale;
    scene_expect(&scene);
    expect_full(&scene);
    free(scene.row_request);
    free(scene.want_out);
    free(scene.want_lse);
    capture_close(&capture);
}

static void capture_dsv32(void **state)
{
    (void)state;
    run_capture("dsv32_h16_topk128_mixed.safetensors");
}

static void capture_glm(void **state)
{
    (void)state;
    run_capture("glm_h8_topk256_decode.safetensors");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(capture_dsv32),
    cmocka_unit_test(capture_glm),
};

HARNESS_MAIN(tests)
