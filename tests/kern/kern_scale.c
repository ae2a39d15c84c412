/* Field cases: memory, launch scale and batches. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"
#include "harness.h"

/* One plan, with what a run of it needs. */
struct bench {
    smla_context *context;
    smla_plan *plan;
    size_t bytes;
};

static struct bench bench_open(const smla_problem *problem, const smla_plan_options *maxima, smla_isa isa,
                               int32_t threads)
{
    struct bench bench;
    assert_int_equal(open_context(&bench.context, &(const struct setting){.isa = isa, .threads = threads}),
                     SMLA_OK);
    assert_int_equal(smla_plan_create(&bench.plan, bench.context, problem, maxima), SMLA_OK);
    bench.bytes = smla_plan_workspace_bytes(bench.plan);
    return bench;
}

static void bench_close(struct bench *bench)
{
    smla_plan_destroy(bench->plan);
    smla_context_destroy(bench->context);
}

/* C32: a workspace in proportion to the rows asked for gigabytes. */
static void C32_workspace_of_a_large_prefill(void **state)
{
    (void)state;
    smla_problem problem;
    smla_plan_options maxima;
    smla_problem_init(&problem);
    maxima_init(&maxima);
    problem.heads = 64;
    FOR_EACH_ISA(isa)
    {
        size_t former = 0;
        for (int64_t rows = 128; rows <= 32768; rows *= 4) {
            maxima.max_rows = maxima.max_requests = rows;
            struct bench bench = bench_open(&problem, &maxima, isa, 2);
            assert_true(bench.bytes >= former);
            assert_true(bench.bytes < 16u << 20);
            former = bench.bytes;
            bench_close(&bench);
        }
        maxima.max_rows = gpu_mode() ? 1 << 22 : INT32_MAX; /* a grid has fewer than 2^31 CTAs */
        struct bench bench = bench_open(&problem, &maxima, isa, 2);
        assert_int_equal(bench.bytes, former);
        bench_close(&bench);
    }
}

static int64_t line(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The formula of docs/numerics.md, letter by letter. */
static int64_t documented_bytes(smla_isa isa, int64_t heads, int64_t topk, int64_t rows, int64_t threads,
                                int64_t splits, bool invariant)
{
    const int64_t step = isa == SMLA_ISA_AVX512 ? 8 : 4;
    const int64_t tile = isa == SMLA_ISA_SCALAR ? 2624 : isa == SMLA_ISA_AVX2 ? 25152 : 16960;
    if (rows == 0)
        return 63 + 640;
    int64_t g = least(least(4, 128 / heads), rows), groups = (rows + g - 1) / g, m = g * heads;
    int64_t parts = most(1, heads / 32), range_keys = most(256, ((topk + 63) / 64 + 31) / 32 * 32);
    int64_t fixed = splits ? splits : invariant ? (topk + range_keys - 1) / range_keys : 0;
    int64_t ranges = fixed ? fixed : least(64, (topk + 63) / 64);
    int64_t workers = least(threads, rows * parts * ranges);
    bool alone = threads == 1 || ranges == 1;
    int64_t waiting = alone ? 0 : m * least(groups * ranges, most(fixed, (fixed ? 16 : 8) * threads));
    int64_t units = alone ? 0 : least(8 * threads, rows * parts), c = fixed > 1 ? 2 : 1;
    int64_t scratch =
        line(tile) + line(4 * m * 64) + line(2304 * m) + (g > 1 && heads % step ? g * line(2304 * heads) : 0);
    int64_t worker = g * line(8 * topk) + c * (2 * line(4 * m) + 2048 * m) + scratch;
    return 63 + 640 + line(4 * units) + 2 * line(4 * waiting) + 2048 * waiting + workers * worker;
}

static void C32_workspace_formula(void **state)
{
    (void)state;
    struct rng rng = {32};
    for (int i = 0; i < 3000; i++) {
        smla_isa isa = (smla_isa)(i % 3);
        smla_problem problem;
        smla_plan_options maxima;
        if (!(machine_isas() & 1u << isa))
            continue;
        smla_problem_init(&problem);
        maxima_init(&maxima);
        problem.heads = (int32_t)(1 + rng_below(&rng, 128));
        problem.topk = (int32_t)(1 + rng_below(&rng, i % 2 ? 100 : 5000));
        problem.batch_invariant = (int32_t)rng_below(&rng, 2);
        maxima.max_rows = rng_below(&rng, i % 5 ? 40 : 40000);
        maxima.splits = (int32_t)(i % 4 ? 0 : rng_below(&rng, 65));
        int32_t threads = (int32_t)(1 + rng_below(&rng, 9));
        struct bench bench = bench_open(&problem, &maxima, isa, threads);
        assert_int_equal(bench.bytes, documented_bytes(isa, problem.heads, problem.topk, maxima.max_rows,
                                                       threads, maxima.splits, problem.batch_invariant));
        bench_close(&bench);
    }
}

/* Device memory of which `bytes` lie at an odd address, and the rest must stay as it is. */
static void exact_workspace_on_gpu(const struct scene *scene, const struct setting *setting)
{
    enum { BEFORE = 257, AFTER = 255, FILL = 0x77 };
    struct stage stage;
    smla_plan_options maxima = scene_maxima(scene, setting);
    smla_batch batch = scene_batch(scene);
    smla_step *step;
    stage_open(&stage, scene, setting);
    struct bench bench = bench_open(&stage.problem, &maxima, setting->isa, 1);
    size_t bytes = bench.bytes, all = BEFORE + bytes + AFTER;
    struct gpu_site *site = gpu_site_open(&stage);
    gpu_site_load(site, &stage);
    smla_tensors t = gpu_site_tensors(site, &stage.tensors);
    unsigned char *now = must_malloc(all), *memory;
    memset(now, FILL, all);
    memory = gpu_copy_of(now, all);
    assert_int_equal(smla_step_create(&step, bench.plan), SMLA_OK);
    assert_int_equal(smla_step_update(step, &batch, NULL), SMLA_OK);
    assert_true(bytes > 0 || !gpu_portable());
    if (bytes) {
        assert_int_equal(smla_run(bench.plan, step, &t, memory + BEFORE, bytes - 1, NULL),
                         SMLA_ERROR_WORKSPACE);
        assert_int_equal(smla_run(bench.plan, step, &t, NULL, bytes, NULL), SMLA_ERROR_NULL);
    }
    assert_true(gpu_site_fetch(site));
    assert_true(guard_filled(stage.out.data, stage.out.bytes, 0xff));
    assert_true(guard_filled(stage.lse.data, stage.lse.bytes, 0xff));
    assert_int_equal(smla_run(bench.plan, step, &t, memory + BEFORE, bytes, NULL), SMLA_OK);
    struct result result = {.status = SMLA_OK, .rows = scene->rows, .heads = scene->spec.heads};
    assert_true(gpu_site_fetch(site));
    result_collect(&result, &stage);
    assert_true(result_right(scene, setting, &result));
    gpu_must(device_download(gpu_device(), now, memory, all, NULL));
    assert_true(guard_filled(now, BEFORE, FILL));
    assert_true(guard_filled(now + BEFORE + bytes, AFTER, FILL));
    result_close(&result);
    device_free(gpu_device(), memory);
    free(now);
    gpu_site_close(site);
    smla_step_destroy(step);
    bench_close(&bench);
    stage_close(&stage);
}

/* C33: a byte too few was found out by writing past the end. */
static void C33_workspace_size(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {
        .name = "C33", .requests = 2, .topk = 300, .contexts = (int32_t[]){400, 300}};
    scene_build(&scene, &spec);
    FOR_EACH_ISA(isa)
    for (int32_t i = 0; i < 12; i++) {
        struct setting setting = {.isa = isa, .threads = 2, .splits = i / 2 % 3 * 2, .no_lse = i & 1};
        if (gpu_mode()) {
            exact_workspace_on_gpu(&scene, &setting);
            continue;
        }
        struct stage stage;
        smla_plan_options maxima = scene_maxima(&scene, &setting);
        smla_batch batch = scene_batch(&scene);
        smla_step *step;
        stage_open(&stage, &scene, &setting);
        struct bench bench = bench_open(&stage.problem, &maxima, isa, 2);
        struct guard exact = guard_open(bench.bytes, 0xff);
        assert_int_equal(smla_step_create(&step, bench.plan), SMLA_OK);
        assert_int_equal(smla_step_update(step, &batch, NULL), SMLA_OK);
        assert_true(bench.bytes > 0);
        assert_int_equal(smla_run(bench.plan, step, &stage.tensors, exact.data + 1, bench.bytes - 1, NULL),
                         SMLA_ERROR_WORKSPACE);
        assert_int_equal(smla_run(bench.plan, step, &stage.tensors, NULL, bench.bytes, NULL),
                         SMLA_ERROR_NULL);
        assert_true(guard_filled(stage.out.data, stage.out.bytes, 0xff));
        assert_true(guard_filled(stage.lse.data, stage.lse.bytes, 0xff));
        assert_true(guard_filled(exact.data, exact.bytes, 0xff));
        assert_int_equal(smla_run(bench.plan, step, &stage.tensors, exact.data, bench.bytes, NULL), SMLA_OK);
        smla_step_destroy(step);
        guard_close(&exact);
        bench_close(&bench);
        stage_close(&stage);
        expect_right(&scene, &setting);
    }
    scene_close(&scene);
}

static void stale_lengths(smla_tensors *tensors, const struct scene *scene)
{
    static const int32_t stale[] = {-3, INT32_MAX, 4, INT32_MIN, 1 << 20};
    int32_t *length = (int32_t *)(uintptr_t)tensors->topk_length;
    for (int64_t t = scene->rows; t < tensors->rows; t++)
        length[t] = stale[t % 5];
}

/* C34: padded rows of a replayed graph held stale ids and lengths, and the kernel did not return. */
static void C34_stale_padded_rows(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C34", .requests = 6, .lengths = LENGTHS_RANDOM};
    scene_build(&scene, &spec);
    FOR_EACH_ISA(isa)
    for (int32_t i = 0; i < 8; i++)
        expect_right(&scene, &(const struct setting){.isa = isa,
                                                     .threads = 2,
                                                     .splits = i / 2,
                                                     .slots = i & 1,
                                                     .padded_rows = 2,
                                                     .edit = stale_lengths});
    scene_close(&scene);
}

/* Every row of a scene against the same row run alone. */
static void rows_against_single_runs(const struct scene *scene, smla_isa isa)
{
    struct setting batch = {.isa = isa, .threads = 2, .batch_invariant = true}, alone = batch;
    struct result all, one;
    expect_right(scene, &(const struct setting){.isa = isa, .threads = 3});
    scene_run(scene, &batch, &all);
    assert_true(result_right(scene, &batch, &all));
    for (int64_t t = 0; t < scene->rows; t++) {
        struct scene single;
        alone.threads = (int32_t)(1 + t % 3);
        scene_single(&single, scene, t);
        scene_run(&single, &alone, &one);
        assert_true(rows_same(&all, t, &one, 0));
        result_close(&one);
        expect_right(&single, &(const struct setting){.isa = isa, .threads = 2});
    }
    result_close(&all);
}

/* C35: results changed with the number of rows in the batch. */
static void C35_rows_alone_and_together(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 129};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct scene scene;
        const struct scene_spec spec = {.name = "C35", .topk = 70, .heads = 2};
        scene_open_shared(&scene, &spec, rows[i], 100);
        for (int64_t j = 0; j < rows[i] * 70; j++)
            scene.topk[j] = (int32_t)(rng_below(&scene.rng, 110));
        scene_fill(&scene);
        scene_expect(&scene);
        FOR_EACH_ISA(isa)
        rows_against_single_runs(&scene, isa);
        scene_close(&scene);
    }
}

enum { KEYS = 1021 };

/* Dense tensors of one head, lists of one entry and KEYS cache rows. */
static void run_many(const struct bench *bench, const smla_step *step, const smla_tensors *tensors)
{
    size_t rows = (size_t)tensors->rows, out_bytes = rows * 2 * REF_LATENT;
    if (!gpu_mode()) {
        void *workspace = must_malloc(bench->bytes);
        assert_int_equal(smla_run(bench->plan, step, tensors, workspace, bench->bytes, NULL), SMLA_OK);
        free(workspace);
        return;
    }
    smla_tensors t = *tensors;
    void *q = gpu_copy_of(t.q, rows * 2 * REF_ROW), *kv = gpu_copy_of(t.kv_cache, KEYS * 2 * REF_ROW);
    void *topk = gpu_copy_of(t.topk, rows * sizeof(int32_t)), *out = gpu_copy_of(t.out, out_bytes);
    void *workspace = device_alloc(gpu_device(), bench->bytes);
    t.q = q;
    t.kv_cache = kv;
    t.topk = topk;
    t.out = out;
    assert_int_equal(smla_run(bench->plan, step, &t, workspace, bench->bytes, NULL), SMLA_OK);
    gpu_must(device_wait(gpu_device()) && device_download(gpu_device(), tensors->out, out, out_bytes, NULL));
    device_free(gpu_device(), workspace);
    device_free(gpu_device(), out);
    device_free(gpu_device(), topk);
    device_free(gpu_device(), kv);
    device_free(gpu_device(), q);
}

/* C36: a 16-bit grid dimension overflowed; the call succeeded and the output was the old one. */
static void many_requests(int64_t rows, smla_isa isa)
{
    smla_problem problem;
    smla_plan_options maxima;
    smla_tensors tensors;
    smla_batch batch;
    smla_step *step;
    smla_problem_init(&problem);
    maxima_init(&maxima);
    smla_batch_init(&batch);
    problem.heads = 1;
    problem.topk = 1;
    problem.block_size = KEYS;
    maxima.max_rows = maxima.max_requests = rows;
    maxima.max_blocks = 1;
    smla_tensors_init(&tensors, &problem);
    struct bench bench = bench_open(&problem, &maxima, isa, 2);
    struct guard q = guard_sparse((size_t)rows * 2 * REF_ROW),
                 out = guard_open((size_t)rows * 2 * REF_LATENT, 0xff);
    uint16_t *kv = must_malloc(sizeof(uint16_t) * KEYS * REF_ROW);
    int32_t *numbers = must_malloc(sizeof(int32_t) * (size_t)(4 * rows + 4));
    int32_t *start = numbers, *seq_lens = start + rows + 1, *table = seq_lens + rows, *lists = table + rows;
    for (int64_t i = 0; i < (int64_t)KEYS * REF_ROW; i++)
        kv[i] = (uint16_t)(0x3f80 + i % REF_ROW / 8 + i / REF_ROW % 7 * 128 + i / REF_ROW);
    for (int64_t r = 0; r < rows; r++) {
        start[r] = (int32_t)r;
        seq_lens[r] = KEYS;
        table[r] = 0;
        lists[r] = (int32_t)(r * 31 % KEYS);
    }
    start[rows] = (int32_t)rows;
    batch = (smla_batch){sizeof batch, rows, rows, start, seq_lens, table, 1, 4, 1};
    tensors.rows = rows;
    tensors.q = q.data;
    tensors.kv_cache = kv;
    tensors.cache_blocks = 1;
    tensors.topk = lists;
    tensors.out = out.data;
    assert_int_equal(smla_step_create(&step, bench.plan), SMLA_OK);
    assert_int_equal(smla_step_update(step, &batch, NULL), SMLA_OK);
    run_many(&bench, step, &tensors);
    for (int64_t r = 0; r < rows; r++)
        assert_memory_equal(out.data + r * 2 * REF_LATENT, kv + (int64_t)lists[r] * REF_ROW, 2 * REF_LATENT);
    smla_step_destroy(step);
    bench_close(&bench);
    guard_close(&q);
    guard_close(&out);
    free(kv);
    free(numbers);
}

static void C36_many_requests(void **state)
{
    (void)state;
    FOR_EACH_ISA(isa)
    {
        many_requests(65535, isa);
        many_requests(65536, isa);
        many_requests(70000, isa);
    }
}

/* C37: several rows per decode request were attended with one list, or one length. */
static void C37_rows_per_request(void **state)
{
    (void)state;
    static const int32_t uniform[] = {1, 2, 5, 64, 1024};
    for (size_t i = 0; i < ARRAY_LENGTH(uniform); i++) {
        int32_t q_lens[] = {uniform[i], uniform[i]};
        const struct scene_spec spec = {.name = "C37",
                                        .requests = uniform[i] > 100 ? 1 : 2,
                                        .q_lens = q_lens,
                                        .topk = 17,
                                        .heads = 1,
                                        .contexts = (int32_t[]){50, 3}};
        expect_spec(&spec);
    }
    const struct scene_spec mixed = {.name = "C37 mixed",
                                     .requests = 5,
                                     .q_lens = (int32_t[]){1, 2, 4, 4, 1},
                                     .topk = 90,
                                     .lengths = LENGTHS_EXACT};
    expect_spec(&mixed);
}

static void run_with_step(const struct scene *scene, const struct setting *setting, const struct bench *bench,
                          smla_step *step, void *workspace)
{
    struct stage stage;
    smla_batch batch = scene_batch(scene);
    stage_open(&stage, scene, setting);
    assert_int_equal(smla_step_update(step, &batch, NULL), SMLA_OK);
    assert_int_equal(smla_run(bench->plan, step, &stage.tensors, workspace, bench->bytes, NULL), SMLA_OK);
    struct result result = {.status = SMLA_OK, .rows = scene->rows, .heads = scene->spec.heads};
    result_collect(&result, &stage);
    assert_true(result_right(scene, setting, &result));
    result_close(&result);
    stage_close(&stage);
}

/* One plan and step serve batches of changing size, as in an engine's loop; nothing of a former batch stays. */
static void C37_one_step_after_another(void **state)
{
    (void)state;
    static const int32_t q_lens[] = {1, 4, 2, 0, 3, 1};
    static const int32_t requests[] = {6, 2, 1, 5, 3, 6};
    struct scene scenes[ARRAY_LENGTH(requests)];
    for (size_t i = 0; i < ARRAY_LENGTH(requests); i++) {
        const struct scene_spec spec = {.name = "one step after another",
                                        .requests = requests[i],
                                        .q_lens = q_lens,
                                        .width_spare = (int32_t)(i % 3),
                                        .seed = i};
        scene_build(&scenes[i], &spec);
    }
    FOR_EACH_ISA(isa)
    {
        struct setting setting = {.isa = isa};
        smla_problem problem = scene_problem(&scenes[0], &setting);
        smla_plan_options maxima;
        smla_step *step;
        maxima_init(&maxima);
        maxima.max_rows = maxima.max_requests = 20;
        maxima.max_blocks = 100;
        struct bench bench = bench_open(&problem, &maxima, isa, 2);
        void *workspace = must_malloc(bench.bytes);
        assert_int_equal(smla_step_create(&step, bench.plan), SMLA_OK);
        for (size_t i = 0; i < ARRAY_LENGTH(requests); i++)
            run_with_step(&scenes[i], &setting, &bench, step, workspace);
        free(workspace);
        smla_step_destroy(step);
        bench_close(&bench);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(requests); i++)
        scene_close(&scenes[i]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(C32_workspace_of_a_large_prefill),
    cmocka_unit_test(C32_workspace_formula),
    cmocka_unit_test(C33_workspace_size),
    cmocka_unit_test(C34_stale_padded_rows),
    cmocka_unit_test(C35_rows_alone_and_together),
    cmocka_unit_test(C36_many_requests),
    cmocka_unit_test(C37_rows_per_request),
    cmocka_unit_test(C37_one_step_after_another),
};

HARNESS_MAIN(tests)
