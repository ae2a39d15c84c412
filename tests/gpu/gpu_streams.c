/*
 * Runs on two streams at once, each with its own step, workspace and outputs, fed by one thread: plans are immutable,
 * so that both may share one. And threads at once, each with a context of its own.
 */
#include "rig.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 12, RUNS = 24 /* of a round and stream */, BLOCKS = 330, BLOCK = 16, TOPK = 512 };

/* Long enough for lists without an invalid entry. */
static const int32_t full_lists[] = {520, 600, 700, TOPK, 900};

/* A rig with two batches: the whole scene, and its first rows alone, where the lists are of positions as rows of other
 * requests; and the outputs of both. */
struct lane {
    struct rig rig;
    smla_batch batches[2];
    int32_t other_lens[3];
    unsigned char *want[2], *got; /* [bytes], [RUNS, bytes] of pinned memory */
    size_t out_bytes, bytes;      /* out, and out and lse */
};

static void download(struct lane *lane, unsigned char *to)
{
    const smla_tensors *t = &lane->rig.tensors;
    struct CUstream_st *stream = lane->rig.stream;
    gpu_must(device_download_async(gpu_device(), to, t->out, lane->out_bytes, stream));
    gpu_must(device_download_async(gpu_device(), to + lane->out_bytes, t->lse, lane->bytes - lane->out_bytes,
                                   stream));
}

/* What the oracle says of the second batch. */
static void expect_part(struct lane *lane, const struct result *part)
{
    struct rig *rig = &lane->rig;
    const struct scene whole = rig->scene;
    rig->scene.rows = rig->scene.ref.rows = lane->batches[1].rows;
    rig->scene.ref.requests = lane->batches[1].requests;
    rig->scene.ref.seq_lens = lane->batches[1].seq_lens;
    rig->scene.ref.block_table = lane->batches[1].block_table;
    scene_expect(&rig->scene);
    rig_expect_right(rig, part, "second batch alone");
    rig->scene = whole;
}

/* Both batches alone and in turn. */
static void expect_serial(struct lane *lane)
{
    struct rig *rig = &lane->rig;
    struct result full, part;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(smla_step_update(rig->step, &lane->batches[i], rig->stream), SMLA_OK);
        rig_poison(rig);
        rig_run(rig);
        download(lane, lane->want[i]);
        rig_collect(rig, i ? &part : &full);
    }
    rig_expect_right(rig, &full, "alone");
    expect_part(lane, &part);
    result_close(&full);
    result_close(&part);
}

/* Values for the cache rows that no list of the scene selects. */
static void fill_rest(struct scene *scene)
{
    for (int64_t slot = 0; slot < scene->ref.cache_blocks * scene->spec.block_size; slot++)
        if ((scene_key(scene, slot)[0] & 0x7f80) == 0x7f80)
            scene_fill_key(scene, slot);
}

/* Three requests of 1, 2 and 4 rows; under positions the lengths and blocks are those of the last three of the scene. */
static void second_batch(struct lane *lane)
{
    const struct rig_shape *shape = &lane->rig.shape;
    const struct scene *scene = &lane->rig.scene;
    smla_batch *batch = &lane->batches[1];
    *batch = scene_batch(scene);
    batch->requests = 3;
    batch->rows = 7;
    if (shape->slots || shape->checked) /* a checked plan would find the lists too long */
        return;
    for (int r = 0; r < 3; r++)
        lane->other_lens[r] = scene->seq_lens[r + 2] < 4 ? 4 : scene->seq_lens[r + 2];
    batch->seq_lens = lane->other_lens;
    batch->block_table = scene->block_table + 2 * scene->ref.block_table_width;
}

static void lane_open(struct lane *lane, const smla_plan *plan, const struct rig_shape *shape, uint64_t seed)
{
    static const int32_t q_lens[] = {1, 2, 4, 1, 2};
    struct scene scene;
    rig_scene(&scene, shape,
              &(const struct rig_batch){.requests = 5,
                                        .q_lens = q_lens,
                                        .contexts = shape->checked ? full_lists : NULL,
                                        .invalid = shape->checked ? 0 : 0.05,
                                        .seed = seed});
    fill_rest(&scene);
    rig_open(&lane->rig, plan, shape, &scene);
    lane->batches[0] = scene_batch(&lane->rig.scene);
    second_batch(lane);
    lane->out_bytes = lane->rig.stage.out.bytes;
    lane->bytes = lane->out_bytes + lane->rig.stage.lse.bytes;
    for (int i = 0; i < 2; i++) {
        lane->want[i] = device_host_alloc(gpu_device(), lane->bytes);
        gpu_must(lane->want[i] != NULL);
    }
    lane->got = device_host_alloc(gpu_device(), RUNS * lane->bytes);
    gpu_must(lane->got != NULL);
    expect_serial(lane);
}

static void lane_close(struct lane *lane)
{
    device_host_free(gpu_device(), lane->want[0]);
    device_host_free(gpu_device(), lane->want[1]);
    device_host_free(gpu_device(), lane->got);
    rig_close(&lane->rig);
}

static int batch_of(int round, int run)
{
    return (round + run / 3) % 2;
}

/* The update comes while the other stream's runs, and often this one's, are in flight. */
static void enqueue(struct lane *lane, int round, int run)
{
    struct rig *rig = &lane->rig;
    if (run == 0 || batch_of(round, run) != batch_of(round, run - 1))
        assert_int_equal(smla_step_update(rig->step, &lane->batches[batch_of(round, run)], rig->stream),
                         SMLA_OK);
    rig_poison(rig);
    rig_run(rig);
    download(lane, lane->got + (size_t)run * lane->bytes);
}

static void expect_round(struct lane *lane, int index, int round)
{
    gpu_must(device_stream_wait(gpu_device(), lane->rig.stream));
    for (int run = 0; run < RUNS; run++) {
        const unsigned char *got = lane->got + (size_t)run * lane->bytes,
                            *want = lane->want[batch_of(round, run)];
        if (memcmp(got, want, lane->bytes) == 0)
            continue;
        size_t at = 0;
        while (got[at] == want[at])
            at++;
        rig_shape_print(&lane->rig.shape);
        fail_msg(
            "stream %d, round %d, run %d, batch of %d rows: byte %d of %s (row %d) differs from the run "
            "alone",
            index, round, run, (int)lane->batches[batch_of(round, run)].rows,
            (int)(at < lane->out_bytes ? at : at - lane->out_bytes), at < lane->out_bytes ? "out" : "lse",
            (int)(at < lane->out_bytes ? (int64_t)at / lane->rig.tensors.out_row_stride
                                       : (int64_t)(at - lane->out_bytes) / lane->rig.tensors.lse_row_stride));
    }
}

/* Two streams whose plans are the same or differ in what `other` says. */
static void streams_of(smla_context *context, const struct rig_shape *one, const struct rig_shape *other)
{
    struct lane lanes[2];
    smla_plan *plan = rig_plan(context, one), *second = other ? rig_plan(context, other) : plan;
    lane_open(&lanes[0], plan, one, 1);
    lane_open(&lanes[1], second, other ? other : one, 2);
    for (int round = 0; round < ROUNDS; round++) {
        for (int run = 0; run < RUNS; run++) {
            enqueue(&lanes[run % 2], round, run);
            enqueue(&lanes[1 - run % 2], round, run);
        }
        expect_round(&lanes[0], 0, round);
        expect_round(&lanes[1], 1, round);
        if (one->checked)
            assert_int_equal(smla_plan_verify(plan, lanes[round % 2].rig.stream), SMLA_OK);
    }
    lane_close(&lanes[0]);
    lane_close(&lanes[1]);
    if (other)
        smla_plan_destroy(second);
    smla_plan_destroy(plan);
}

static struct rig_shape shape_of(int32_t heads, bool slots, bool lengths, bool checked, int lane)
{
    return (struct rig_shape){.rows = 10,
                              .blocks = BLOCKS,
                              .block_size = BLOCK,
                              .heads = heads,
                              .topk = TOPK,
                              .slots = slots,
                              .lengths = lengths && !checked,
                              .out_dtype = SMLA_BF16,
                              .checked = checked,
                              .batch_invariant = true,
                              .portable = lane == 1};
}

static void streams_with(bool shared, bool checked)
{
    smla_context *context = rig_context();
    for (int lane = 0; lane < RIG_LANES && rig_has_lane(context, lane); lane++)
        for (int i = 0; i < 4; i++) {
            struct rig_shape one = shape_of(i < 2 ? 16 : 8, i % 2, i % 2 == 0, checked, lane), other = one;
            other.heads = 40;
            other.slots = !one.slots;
            other.lengths = !one.lengths && !checked;
            streams_of(context, &one, shared ? NULL : &other);
        }
    smla_context_destroy(context);
}

static void streams_share_a_plan(void **state)
{
    (void)state;
    streams_with(true, false);
}

static void streams_of_two_plans(void **state)
{
    (void)state;
    streams_with(false, false);
}

static void streams_share_a_checked_plan(void **state)
{
    (void)state;
    streams_with(true, true);
}

/* Splits as the planner likes them, for few rows and many, with and without programmatic launches. */
static void streams_split_freely(void **state)
{
    (void)state;
    smla_context *context = rig_context();
    for (int i = 0; i < 4; i++) {
        struct rig_shape shape = shape_of(i % 2 ? 128 : 16, true, false, false, 0);
        struct rig rigs[2];
        struct result want[2], got;
        struct scene scene;
        shape.batch_invariant = false;
        shape.pdl = i >= 2;
        shape.rows = 2;
        smla_plan *plan = rig_plan(context, &shape);
        for (int k = 0; k < 2; k++) {
            rig_scene(&scene, &shape, &(const struct rig_batch){.requests = 2, .seed = (uint64_t)(60 + k)});
            rig_open(&rigs[k], plan, &shape, &scene);
            rig_run(&rigs[k]);
            rig_collect(&rigs[k], &want[k]);
            rig_expect_right(&rigs[k], &want[k], "alone");
            rig_poison(&rigs[k]);
        }
        for (int run = 0; run < 500; run++) {
            rig_run(&rigs[run % 2]);
            rig_run(&rigs[1 - run % 2]);
        }
        for (int k = 0; k < 2; k++) {
            rig_collect(&rigs[k], &got);
            rig_expect_same(&rigs[k], &want[k], &got, "after 500 runs beside another stream's");
            result_close(&got);
            result_close(&want[k]);
            rig_close(&rigs[k]);
        }
        smla_plan_destroy(plan);
    }
    smla_context_destroy(context);
}

/* A checked plan's record on two streams: the offence of either is found, and named by the place at least. */
static void streams_offence_is_found(void **state)
{
    (void)state;
    smla_context *context = rig_context();
    const struct rig_shape shape = shape_of(16, true, false, true, 0);
    const int32_t bad = -7;
    struct rig rigs[2];
    struct scene scene;
    smla_plan *plan = rig_plan(context, &shape);
    for (int k = 0; k < 2; k++) {
        rig_scene(
            &scene, &shape,
            &(const struct rig_batch){.requests = 4, .contexts = full_lists, .seed = (uint64_t)(80 + k)});
        rig_open(&rigs[k], plan, &shape, &scene);
    }
    for (int turn = 0; turn < 60; turn++) {
        struct rig *rig = &rigs[turn % 2];
        int64_t row = turn % 4, entry = turn * 7 % TOPK;
        unsigned char *at = (unsigned char *)rig->tensors.topk;
        at += row * rig->tensors.topk_row_stride + 4 * entry;
        gpu_must(device_upload(gpu_device(), at, &bad, sizeof bad));
        for (int run = 0; run < 8; run++) {
            rig_run(&rigs[0]);
            rig_run(&rigs[1]);
        }
        gpu_must(device_stream_wait(gpu_device(), rigs[1].stream));
        smla_status status = smla_plan_verify(plan, rigs[0].stream);
        char place[64];
        int length = snprintf(place, sizeof place, "topk[%d][%d]", (int)row, (int)entry);
        if (status != SMLA_ERROR_SLOT || strncmp(smla_context_error(context), place, (size_t)length) != 0)
            fail_msg("turn %d: %s, '%s', expected %s", turn, smla_status_name(status),
                     smla_context_error(context), place);
        const int32_t good = -1;
        gpu_must(device_upload(gpu_device(), at, &good, sizeof good));
    }
    rig_close(&rigs[0]);
    rig_close(&rigs[1]);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
}

/* ---- Threads ---- */

enum { THREADS = 4 };

/* cmocka's checks belong to the main thread: a worker notes what went wrong. */
struct worker {
    pthread_t thread;
    pthread_barrier_t *start;
    const smla_plan *plan; /* of a context of its own */
    const smla_step *step;
    struct rig *rig;
    smla_status status;
};

/* A fresh thread without a current CUDA context, which the library neither needs nor leaves behind. */
static void *worker_main(void *argument)
{
    struct worker *w = argument;
    const struct rig *rig = w->rig;
    pthread_barrier_wait(w->start);
    for (int run = 0; run < 400 && w->status == SMLA_OK; run++)
        w->status =
            smla_run(w->plan, w->step, &rig->tensors, rig->workspace, rig->workspace_bytes, rig->stream);
    return NULL;
}

static void threads_with_contexts_of_their_own(void **state)
{
    (void)state;
    smla_context *contexts[THREADS];
    smla_plan *plans[THREADS];
    struct rig rigs[THREADS];
    struct result want[THREADS], got;
    struct worker workers[THREADS];
    struct scene scene;
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int k = 0; k < THREADS; k++) {
        struct rig_shape shape = shape_of(8 + 8 * k, k % 2, k < 2, false, 0);
        contexts[k] = rig_context();
        plans[k] = rig_plan(contexts[k], &shape);
        rig_scene(&scene, &shape, &(const struct rig_batch){.requests = 4, .seed = (uint64_t)(90 + k)});
        rig_open(&rigs[k], plans[k], &shape, &scene);
        rig_run(&rigs[k]);
        rig_collect(&rigs[k], &want[k]);
        rig_expect_right(&rigs[k], &want[k], "alone");
        rig_poison(&rigs[k]);
        gpu_must(device_wait(gpu_device()));
        workers[k] =
            (struct worker){.start = &start, .plan = plans[k], .step = rigs[k].step, .rig = &rigs[k]};
    }
    for (int k = 0; k < THREADS; k++)
        assert_int_equal(pthread_create(&workers[k].thread, NULL, worker_main, &workers[k]), 0);
    for (int k = 0; k < THREADS; k++)
        pthread_join(workers[k].thread, NULL);
    for (int k = 0; k < THREADS; k++) {
        if (workers[k].status != SMLA_OK)
            fail_msg("thread %d: %s, %s", k, smla_status_name(workers[k].status),
                     smla_context_error(contexts[k]));
        rig_collect(&rigs[k], &got);
        rig_expect_same(&rigs[k], &want[k], &got, "a thread's runs");
        result_close(&got);
        result_close(&want[k]);
        rig_close(&rigs[k]);
        smla_plan_destroy(plans[k]);
        smla_context_destroy(contexts[k]);
    }
    pthread_barrier_destroy(&start);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(streams_share_a_plan),         cmocka_unit_test(streams_of_two_plans),
    cmocka_unit_test(streams_share_a_checked_plan), cmocka_unit_test(streams_split_freely),
    cmocka_unit_test(streams_offence_is_found),     cmocka_unit_test(threads_with_contexts_of_their_own),
};

RIG_MAIN(tests)
