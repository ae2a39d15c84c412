/*
 * Thousands of launches of all kinds in a random order, while a second stream keeps the memory busy: what could
 * wait for ever, for a cluster that finds no room or a barrier that somebody misses, would do so here. A watchdog tells
 * what was in flight. With SMLA_GPU_QUICK=n in the environment there are n launches.
 */
#include "rig.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    LAUNCHES = 20000,
    SECONDS = 100,
    BETWEEN_CHECKS = 1000,
    QUEUED = 250,
    BUSY_BYTES = 100 << 20,
    CONFIGS = 28
};

enum { ROWS_MAX = 40, BLOCK = 16, COPIES = 16 };

struct config {
    struct rig rig;
    smla_plan *plan;
    struct result first;
};

static struct config configs[CONFIGS];
static int config_count;

/* What the watchdog reads: launches that were enqueued, those known to have ended, and which each was. */
static atomic_int enqueued, ended;
static unsigned char order[1 << 20];

static void describe(void)
{
    int last = atomic_load(&enqueued), done = atomic_load(&ended);
    fprintf(stderr, "launches %d .. %d are in flight, or some of them; the first and last of these:\n", done,
            last - 1);
    for (int i = done; i < last; i++)
        if (i < done + 4 || i >= last - 4) {
            fprintf(stderr, "  %d: ", i);
            rig_shape_print(&configs[order[i]].rig.shape);
        }
}

/* Long requests for few rows, so that lists are full there. */
static int32_t context_of(int64_t rows, uint64_t number)
{
    return rows <= 3 ? 1800 + (int32_t)(number % 300) : (int32_t)(number % 300);
}

static void open_config(smla_context *context, const struct rig_shape *shape, uint64_t seed)
{
    struct config *config = &configs[config_count];
    struct scene scene;
    bool padded = shape->rows > 4 && !shape->without_step;
    int32_t contexts[ROWS_MAX], requests = (int32_t)shape->rows - padded;
    for (int i = 0; i < requests; i++)
        contexts[i] = context_of(shape->rows, seed * 13 + (uint64_t)i * 37);
    config->plan = rig_plan(context, shape);
    rig_scene(&scene, shape,
              &(const struct rig_batch){
                  .requests = requests, .contexts = contexts, .invalid = seed % 3 ? 0.3 : 0, .seed = seed});
    rig_open(&config->rig, config->plan, shape, &scene);
    config_count++;
}

/* Lists that are longer than their valid part, of every split; H, T and the kind change from one to the next. */
static void open_configs(smla_context *context)
{
    static const int32_t heads[] = {1, 8, 12, 16, 32, 64, 128}, splits[] = {0, 1, 2, 3, 5, 8, 16};
    static const int64_t rows[] = {1, 2, 3, 7, 17, ROWS_MAX};
    static const int32_t topks[] = {300, 1000, 2048, 64};
    bool portable = rig_has_lane(context, 1);
    for (int i = 0; i < CONFIGS; i++) {
        int32_t h = heads[i % 7];
        int64_t t = rows[(i * 5 + i / 7) % (h > 32 ? 3 : 6)];
        const struct rig_shape shape = {.rows = t,
                                        .blocks = t * (t <= 3 ? 2112 / BLOCK : 320 / BLOCK) + 3,
                                        .block_size = BLOCK,
                                        .heads = h,
                                        .topk = topks[i % 4],
                                        .slots = i % 2,
                                        .without_step = i % 4 == 1,
                                        .lengths = i % 3 == 0,
                                        .split_query = i % 5 == 0,
                                        .out_dtype = i % 2 ? SMLA_F32 : SMLA_BF16,
                                        .splits = splits[(i + i / 7) % 7],
                                        .checked = i % 9 == 8,
                                        .pdl = i % 4 == 2,
                                        .portable = portable && i % 6 == 5};
        open_config(context, &shape, (uint64_t)i);
    }
}

static void launch(int which)
{
    int at = atomic_load(&enqueued);
    order[at] = (unsigned char)which;
    atomic_store(&enqueued, at + 1);
    rig_run(&configs[which].rig);
}

static void collect(int which, struct result *result)
{
    rig_collect(&configs[which].rig, result); /* waits for all */
    atomic_store(&ended, atomic_load(&enqueued));
}

/* Judges each by the oracle and keeps its bits. */
static void run_first(void)
{
    for (int i = 0; i < config_count; i++) {
        rig_poison(&configs[i].rig);
        launch(i);
        collect(i, &configs[i].first);
        rig_expect_right(&configs[i].rig, &configs[i].first, "first run");
    }
}

/* Afterwards each runs over poison, so that it has run when it is looked at next. */
static void check_all(const char *when)
{
    for (int i = 0; i < config_count; i++) {
        struct result now;
        collect(i, &now);
        rig_expect_same(&configs[i].rig, &configs[i].first, &now, when);
        result_close(&now);
    }
    for (int i = 0; i < config_count; i++) {
        rig_poison(&configs[i].rig);
        launch(i);
    }
}

static int wanted_launches(void)
{
    const char *quick = getenv("SMLA_GPU_QUICK");
    int launches = quick ? atoi(quick) : LAUNCHES;
    return launches >= 1 && launches <= LAUNCHES ? launches : LAUNCHES;
}

/* Copies are added as soon as the others are done, so that the stream is never idle for long. */
static int keep_busy(struct rig_busy *busy)
{
    if (!device_stream_idle(gpu_device(), busy->stream))
        return 0;
    rig_busy_add(busy, COPIES);
    return 1;
}

/* Gives how often the copies were started anew. */
static int launch_mix(int launches, struct rig_busy *busy)
{
    struct rng rng = {2024};
    int refills = 0;
    for (int i = 0; i < launches; i++) {
        int which = (int)rng_below(&rng, config_count);
        if (i % 16 == 3)
            rig_update(&configs[which].rig);
        launch(which);
        if (i % 8 == 0)
            refills += keep_busy(busy);
        if (i % QUEUED == QUEUED - 1) {
            for (int k = 0; k < config_count; k++)
                gpu_must(device_stream_wait(gpu_device(), configs[k].rig.stream));
            atomic_store(&ended, atomic_load(&enqueued));
        }
        if (i % BETWEEN_CHECKS == BETWEEN_CHECKS - 1)
            check_all("in the mix");
    }
    check_all("at the end of the mix");
    gpu_must(device_wait(gpu_device()));
    return refills;
}

static void close_configs(void)
{
    for (int i = 0; i < config_count; i++) {
        result_close(&configs[i].first);
        rig_close(&configs[i].rig);
        smla_plan_destroy(configs[i].plan);
    }
    config_count = 0;
}

static void mix(bool one_stream)
{
    struct rig_busy busy;
    int launches = wanted_launches();
    watchdog_start(SECONDS, describe);
    smla_context *context = rig_context();
    struct CUstream_st *stream = device_stream_new(gpu_device());
    gpu_must(stream != NULL);
    open_configs(context);
    for (int i = 0; i < config_count && one_stream; i++)
        rig_use_stream(&configs[i].rig, stream);
    run_first();
    rig_busy_open(&busy, BUSY_BYTES);
    time_t begin = time(NULL);
    int refills = launch_mix(launches, &busy);
    fprintf(stderr, "%d launches of %d kinds in %d s; %d copies of %d MB were started %d times\n", launches,
            config_count, (int)(time(NULL) - begin), COPIES, BUSY_BYTES >> 20, refills);
    assert_true(refills > launches / 1000);
    rig_busy_close(&busy);
    close_configs();
    device_stream_free(gpu_device(), stream);
    smla_context_destroy(context);
    watchdog_stop();
}

static void mixed_launches_beside_a_busy_stream(void **state)
{
    (void)state;
    mix(true);
}

/* As many streams as there are kinds of launches, which then run at once where they find room. */
static void mixed_launches_on_many_streams(void **state)
{
    (void)state;
    mix(false);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(mixed_launches_beside_a_busy_stream),
    cmocka_unit_test(mixed_launches_on_many_streams),
};

RIG_MAIN(tests)
