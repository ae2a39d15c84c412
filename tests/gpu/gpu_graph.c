/*
 * Graphs: a run is captured once and replayed over other lengths, lists, block tables, queries and caches. Every
 * capture is a strict one: while it goes on, an allocation or a wait anywhere in the process makes it fail (C31).
 */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8, BLOCKS = 180, BLOCK = 20, TOPK = 200, REPLAYS = 4 };

static struct CUgraphExec_st *end_capture(struct CUstream_st *stream)
{
    struct CUgraphExec_st *graph = device_capture_end(gpu_device(), stream);
    if (!graph)
        fail_msg("strict capture failed: %s", device_error(gpu_device()));
    return graph;
}

static struct CUgraphExec_st *capture_run(struct rig *rig)
{
    gpu_must(device_capture_begin(gpu_device(), rig->stream, DEVICE_CAPTURE_GLOBAL));
    rig_run(rig);
    return end_capture(rig->stream);
}

/* Requests of n rows, as many as leave `spare` rows of the run to padding. */
static void uniform_scene(struct scene *scene, const struct rig_shape *shape, int32_t n, int64_t spare,
                          uint64_t seed)
{
    int32_t q_lens[ROWS], requests = (int32_t)(shape->rows - spare) / n;
    for (int i = 0; i < ROWS; i++)
        q_lens[i] = n;
    rig_scene(scene, shape,
              &(const struct rig_batch){.requests = requests ? requests : 1,
                                        .q_lens = q_lens,
                                        .invalid = seed % 2 ? 0.1 : 0,
                                        .seed = seed});
}

/* One replay over the rig's scene, and the same inputs in a plain run. */
static void replay(struct rig *rig, struct CUgraphExec_st *graph, const char *when)
{
    struct result replayed, plain;
    gpu_must(device_graph_launch(gpu_device(), graph, rig->stream));
    rig_collect(rig, &replayed);
    rig_expect_right(rig, &replayed, when);
    rig_poison(rig);
    rig_run(rig);
    rig_collect(rig, &plain);
    rig_expect_same(rig, &replayed, &plain, when);
    result_close(&replayed);
    result_close(&plain);
}

/* The step grows and shrinks from replay to replay. */
static void graph_of(smla_context *context, const struct rig_shape *shape, int32_t n)
{
    static const int64_t spares[REPLAYS] = {0, 3, 7, 2};
    struct scene scene;
    struct rig rig;
    smla_plan *plan = rig_plan(context, shape);
    uint64_t seed = (uint64_t)(100 * n + shape->heads);
    uniform_scene(&scene, shape, n, shape->without_step ? 0 : 4, seed);
    rig_open(&rig, plan, shape, &scene);
    struct CUgraphExec_st *graph = capture_run(&rig);
    replay(&rig, graph, "first replay");
    for (int i = 0; i < REPLAYS; i++) {
        char when[64];
        snprintf(when, sizeof when, "%d rows a request, replay %d", (int)n, i);
        uniform_scene(&scene, shape, n, shape->without_step ? 0 : spares[i], seed + 10 + (uint64_t)i);
        rig_change(&rig, &scene);
        replay(&rig, graph, when);
    }
    device_graph_free(gpu_device(), graph);
    rig_close(&rig);
    smla_plan_destroy(plan);
}

static void graph_uniform(int32_t n)
{
    static const int32_t heads[] = {8, 16, 64};
    smla_context *context = rig_context();
    for (int lane = 0; lane < RIG_LANES; lane++)
        for (int i = 0; i < 9 && rig_has_lane(context, lane); i++) {
            const struct rig_shape shape = {.rows = ROWS,
                                            .blocks = BLOCKS,
                                            .block_size = BLOCK,
                                            .heads = heads[i / 3],
                                            .topk = TOPK,
                                            .slots = i % 3 != 0,
                                            .without_step = i % 3 == 2,
                                            .lengths = i % 2,
                                            .sinks = i % 4 == 1,
                                            .split_query = i % 4 == 2,
                                            .out_dtype = i % 2 ? SMLA_BF16 : SMLA_F32,
                                            .splits = i == 4 ? 3 : 0,
                                            .portable = lane == 1};
            graph_of(context, &shape, n);
        }
    smla_context_destroy(context);
}

static void graph_one_row_a_request(void **state)
{
    (void)state;
    graph_uniform(1);
}

static void graph_two_rows_a_request(void **state)
{
    (void)state;
    graph_uniform(2);
}

static void graph_four_rows_a_request(void **state)
{
    (void)state;
    graph_uniform(4);
}

/* Row g of a copy of all outputs against the same row where the whole batch stood, or zeros where it did not. */
static void expect_row(const struct rig *rig, const unsigned char *got, const unsigned char *full, int64_t g,
                       int turn)
{
    const smla_tensors *t = &rig->tensors;
    int64_t row = g / rig->shape.heads, head = g % rig->shape.heads, rows = 2 * (turn % 5);
    int64_t at = row * t->out_row_stride + head * t->out_head_stride;
    size_t bytes = sizeof(float) * REF_LATENT;
    if (row < rows ? memcmp(got + at, full + at, bytes) != 0 : !guard_filled(got + at, bytes, 0))
        fail_msg("turn %d: row %d, head %d is not that of a batch of %d rows", turn, (int)row, (int)head,
                 (int)rows);
}

/* Updates and replays follow each other on the stream without a wait between them; each replay's outputs are copied
 * away in turn. */
static void graph_updates_in_a_row(void **state)
{
    enum { TURNS = 65 };
    (void)state;
    struct device *gpu = gpu_device();
    struct scene scene;
    struct rig rig;
    const struct rig_shape shape = {.rows = ROWS,
                                    .blocks = BLOCKS,
                                    .block_size = BLOCK,
                                    .heads = 16,
                                    .topk = TOPK,
                                    .lengths = true,
                                    .batch_invariant = true};
    smla_context *context = rig_context();
    smla_plan *plan = rig_plan(context, &shape);
    uniform_scene(&scene, &shape, 2, 0, 7);
    rig_open(&rig, plan, &shape, &scene);
    struct CUgraphExec_st *graph = capture_run(&rig);
    size_t bytes = rig.stage.out.bytes;
    unsigned char *kept = device_alloc(gpu, TURNS * bytes), *host = must_malloc(TURNS * bytes);
    gpu_must(kept != NULL);
    smla_batch batch = scene_batch(&rig.scene);
    for (int i = 0; i < TURNS; i++) {
        batch.requests = i % 5; /* the first ones of the scene, or none */
        batch.rows = 2 * batch.requests;
        assert_int_equal(smla_step_update(rig.step, &batch, rig.stream), SMLA_OK);
        gpu_must(device_graph_launch(gpu, graph, rig.stream));
        gpu_must(device_copy(gpu, kept + (size_t)i * bytes, rig.tensors.out, bytes, rig.stream));
    }
    gpu_must(device_download(gpu, host, kept, TURNS * bytes, rig.stream));
    struct result last;
    rig_collect(&rig, &last); /* of all requests */
    rig_expect_right(&rig, &last, "last of many updates");
    const unsigned char *full = host + (TURNS - 1) * bytes;
    for (int i = 0; i < TURNS; i++)
        for (int64_t g = 0; g < ROWS * shape.heads; g++)
            expect_row(&rig, host + (size_t)i * bytes, full, g, i);
    result_close(&last);
    free(host);
    device_free(gpu, kept);
    device_graph_free(gpu, graph);
    rig_close(&rig);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
}

/* Two layers have the batch in common, but neither lists nor tensors: other order, other values. */
static void other_layer(struct scene *scene, const struct rig_shape *shape, uint64_t seed)
{
    uniform_scene(scene, shape, 2, 2, seed);
    scene->rng.state = seed ^ 0x1234567;
    for (int64_t t = 0; t < scene->rows; t++)
        for (int64_t i = scene->spec.topk - 1; i > 0; i--) {
            int64_t j = rng_below(&scene->rng, i + 1);
            int32_t *list = scene_list(scene, t), entry = list[i];
            list[i] = list[j];
            list[j] = entry;
        }
    for (int64_t i = 0; i < scene->rows * scene->spec.heads * REF_ROW; i++)
        scene->q[i] = bf16_from(rng_normal(&scene->rng));
    scene_fill(scene);
    scene_expect(scene);
}

/* The same scenes in two rigs, of which the second borrows step and workspace of the first for the capture. */
static struct CUgraphExec_st *capture_layers(struct rig *first, const struct rig *second)
{
    struct rig guest = *second;
    guest.step = first->step;
    guest.workspace = first->workspace;
    gpu_must(device_capture_begin(gpu_device(), first->stream, DEVICE_CAPTURE_GLOBAL));
    rig_run(first);
    rig_run_on(&guest, first->stream);
    return end_capture(first->stream);
}

static void replay_layers(struct rig *first, struct rig *second, struct CUgraphExec_st *graph)
{
    struct result one, two;
    gpu_must(device_wait(gpu_device())); /* for what was poisoned on the second's stream */
    gpu_must(device_graph_launch(gpu_device(), graph, first->stream));
    rig_collect(first, &one);
    rig_collect(second, &two);
    rig_expect_right(first, &one, "first layer");
    rig_expect_right(second, &two, "second layer");
    result_close(&one);
    result_close(&two);
}

static void layers_of(smla_context *context, const struct rig_shape *shape)
{
    struct scene scene, other;
    struct rig first, second;
    smla_plan *plan = rig_plan(context, shape);
    uniform_scene(&scene, shape, 2, 2, 50);
    other_layer(&other, shape, 50);
    rig_open(&first, plan, shape, &scene);
    rig_open(&second, plan, shape, &other);
    gpu_must(device_wait(gpu_device()));
    struct CUgraphExec_st *graph = capture_layers(&first, &second);
    replay_layers(&first, &second, graph);
    for (uint64_t seed = 51; seed < 54; seed++) {
        uniform_scene(&scene, shape, 2, 2, seed);
        other_layer(&other, shape, seed);
        rig_change(&first, &scene);
        rig_change(&second, &other);
        replay_layers(&first, &second, graph);
    }
    device_graph_free(gpu_device(), graph);
    rig_close(&second);
    rig_close(&first);
    smla_plan_destroy(plan);
}

static void graph_two_layers(void **state)
{
    (void)state;
    smla_context *context = rig_context();
    for (int lane = 0; lane < RIG_LANES && rig_has_lane(context, lane); lane++)
        layers_of(context, &(const struct rig_shape){.rows = ROWS,
                                                     .blocks = BLOCKS,
                                                     .block_size = BLOCK,
                                                     .heads = 32,
                                                     .topk = TOPK,
                                                     .lengths = true,
                                                     .portable = lane == 1});
    smla_context_destroy(context);
}

/* The free memory of the GPU is everybody's: among many short spells there must be one in which it stays. A run that
 * allocates, or a replay, would change it in every one of them. */
static bool memory_stays(void (*work)(struct rig *, struct CUgraphExec_st *), struct rig *rig,
                         struct CUgraphExec_st *graph)
{
    enum { SPELLS = 300, RUNS = 64 };
    size_t before, after, total;
    for (int i = 0; i < SPELLS; i++) {
        gpu_must(device_memory(gpu_device(), &before, &total));
        for (int j = 0; j < RUNS; j++)
            work(rig, graph);
        gpu_must(device_stream_wait(gpu_device(), rig->stream));
        gpu_must(device_memory(gpu_device(), &after, &total));
        if (before == after)
            return true;
    }
    fprintf(stderr, "free memory went from %zu to %zu over %d runs\n", before, after, RUNS);
    return false;
}

static void plain(struct rig *rig, struct CUgraphExec_st *graph)
{
    (void)graph;
    rig_run(rig);
}

static void replayed(struct rig *rig, struct CUgraphExec_st *graph)
{
    gpu_must(device_graph_launch(gpu_device(), graph, rig->stream));
}

static void updated(struct rig *rig, struct CUgraphExec_st *graph)
{
    rig_update(rig);
    replayed(rig, graph);
}

static void C31_memory_stays(void **state)
{
    (void)state;
    smla_context *context = rig_context();
    for (int lane = 0; lane < RIG_LANES && rig_has_lane(context, lane); lane++) {
        const struct rig_shape shape = {.rows = ROWS,
                                        .blocks = BLOCKS,
                                        .block_size = BLOCK,
                                        .heads = 16,
                                        .topk = TOPK,
                                        .portable = lane == 1};
        struct scene scene;
        struct rig rig;
        smla_plan *plan = rig_plan(context, &shape);
        uniform_scene(&scene, &shape, 1, 2, 3);
        rig_open(&rig, plan, &shape, &scene);
        rig_run(&rig);
        struct CUgraphExec_st *graph = capture_run(&rig);
        replayed(&rig, graph); /* the driver may set up a graph at its first launch */
        gpu_must(device_stream_wait(gpu_device(), rig.stream));
        assert_true(memory_stays(plain, &rig, NULL));
        assert_true(memory_stays(replayed, &rig, graph));
        assert_true(memory_stays(updated, &rig, graph));
        device_graph_free(gpu_device(), graph);
        rig_close(&rig);
        smla_plan_destroy(plan);
    }
    smla_context_destroy(context);
}

/* What cannot be captured says so, and the capture it met goes on. */
static void graph_refuses_updates(void **state)
{
    (void)state;
    struct device *gpu = gpu_device();
    struct scene scene;
    struct rig rig;
    const struct rig_shape shape = {
        .rows = ROWS, .blocks = BLOCKS, .block_size = BLOCK, .heads = 8, .topk = TOPK, .checked = true};
    smla_context *context = rig_context();
    smla_plan *plan = rig_plan(context, &shape);
    uniform_scene(&scene, &shape, 1, 0, 4);
    rig_open(&rig, plan, &shape, &scene);
    const smla_batch batch = scene_batch(&rig.scene);
    gpu_must(device_wait(gpu));
    gpu_must(device_capture_begin(gpu, rig.stream, DEVICE_CAPTURE_GLOBAL));
    assert_int_equal(smla_step_update(rig.step, &batch, rig.stream), SMLA_ERROR_ARGUMENT);
    assert_ptr_equal(strstr(smla_context_error(context), "stream"), smla_context_error(context));
    assert_int_equal(smla_plan_verify(plan, rig.stream), SMLA_ERROR_ARGUMENT);
    assert_ptr_equal(strstr(smla_context_error(context), "stream"), smla_context_error(context));
    rig_run(&rig); /* the step holds its former batch */
    struct CUgraphExec_st *graph = end_capture(rig.stream);
    replay(&rig, graph, "replay of a capture that met refusals");
    assert_int_equal(smla_plan_verify(plan, rig.stream), SMLA_OK);
    device_graph_free(gpu, graph);
    rig_close(&rig);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
}

/* A checked plan's graph checks the lists of every replay. */
static void graph_checked(void **state)
{
    (void)state;
    struct device *gpu = gpu_device();
    struct scene scene;
    struct rig rig;
    const int32_t bad = INT32_MAX;
    const struct rig_shape shape = {
        .rows = ROWS, .blocks = BLOCKS, .block_size = BLOCK, .heads = 16, .topk = TOPK, .checked = true};
    smla_context *context = rig_context();
    smla_plan *plan = rig_plan(context, &shape);
    uniform_scene(&scene, &shape, 2, 2, 6);
    rig_open(&rig, plan, &shape, &scene);
    struct CUgraphExec_st *graph = capture_run(&rig);
    replay(&rig, graph, "checked");
    assert_int_equal(smla_plan_verify(plan, rig.stream), SMLA_OK);
    unsigned char *entry = (unsigned char *)rig.tensors.topk;
    entry += 3 * rig.tensors.topk_row_stride + 4 * 100;
    gpu_must(device_upload(gpu, entry, &bad, sizeof bad));
    replayed(&rig, graph);
    assert_int_equal(smla_plan_verify(plan, rig.stream), SMLA_ERROR_SLOT);
    const char *place = "topk[3][100] = 2147483647";
    if (strncmp(smla_context_error(context), place, strlen(place)) != 0)
        fail_msg("'%s' does not begin with '%s'", smla_context_error(context), place);
    gpu_must(device_upload(gpu, entry, &scene_list(&rig.scene, 3)[100], sizeof bad));
    replay(&rig, graph, "checked, put right again");
    assert_int_equal(smla_plan_verify(plan, rig.stream), SMLA_OK);
    device_graph_free(gpu, graph);
    rig_close(&rig);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(graph_one_row_a_request),   cmocka_unit_test(graph_two_rows_a_request),
    cmocka_unit_test(graph_four_rows_a_request), cmocka_unit_test(graph_updates_in_a_row),
    cmocka_unit_test(graph_two_layers),          cmocka_unit_test(C31_memory_stays),
    cmocka_unit_test(graph_refuses_updates),     cmocka_unit_test(graph_checked),
};

RIG_MAIN(tests)
