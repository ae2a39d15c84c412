#include "rig.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xff };

static const int32_t extreme_lengths[] = {-1, INT32_MAX, INT32_MIN, 3, 1 << 20};

void rig_shape_print(const struct rig_shape *s)
{
    fprintf(stderr, "%s: T %d, H %d, K %d, blocks of %d, %s%s%s%s%s, %s, %d splits%s%s\n",
            s->portable ? "portable" : "hopper", (int)s->rows, (int)s->heads, (int)s->topk,
            (int)s->block_size, s->slots ? "slots" : "positions", s->without_step ? " without step" : "",
            s->lengths ? ", lengths" : "", s->sinks ? ", sinks" : "", s->split_query ? ", q in two" : "",
            s->out_dtype == SMLA_BF16 ? "bf16" : "f32", (int)s->splits, s->checked ? ", checked" : "",
            s->pdl ? ", pdl" : "");
}

smla_context *rig_context(void)
{
    smla_context *context;
    gpu_device();
    assert_int_equal(open_context(&context, &(const struct setting){0}), SMLA_OK);
    return context;
}

static smla_problem shape_problem(const struct rig_shape *shape)
{
    smla_problem problem;
    smla_problem_init(&problem);
    problem.heads = shape->heads;
    problem.topk = shape->topk;
    problem.block_size = shape->block_size;
    problem.scale = (float)(1.0 / 24);
    problem.topk_kind = shape->slots ? SMLA_TOPK_SLOTS : SMLA_TOPK_POSITIONS;
    problem.batch_invariant = shape->batch_invariant;
    problem.out_dtype = shape->out_dtype ? shape->out_dtype : SMLA_F32;
    return problem;
}

smla_plan *rig_plan(smla_context *context, const struct rig_shape *shape)
{
    const smla_problem problem = shape_problem(shape);
    smla_plan_options options;
    smla_plan *plan;
    smla_plan_options_init(&options);
    options.max_rows = options.max_requests = shape->rows;
    options.max_blocks = shape->blocks;
    options.splits = shape->splits;
    options.checked = shape->checked;
    options.cuda_pdl = shape->pdl;
    options.cuda_portable = shape->portable;
    smla_status status = smla_plan_create(&plan, context, &problem, &options);
    if (shape->portable && status == SMLA_UNSUPPORTED_BACKEND)
        return NULL;
    if (status != SMLA_OK) {
        rig_shape_print(shape);
        fail_msg("%s: %s", smla_status_name(status), smla_context_error(context));
    }
    return plan;
}

bool rig_has_lane(smla_context *context, int lane)
{
    const struct rig_shape shape = {
        .rows = 1, .blocks = 1, .heads = 1, .topk = 1, .block_size = 1, .portable = lane == 1};
    smla_plan *plan = rig_plan(context, &shape);
    smla_plan_destroy(plan);
    return plan != NULL;
}

/* Gives the cache `blocks` blocks and moves those of the scene to new places among them. */
static void spread(struct scene *scene, int64_t blocks)
{
    int64_t old = scene->ref.cache_blocks, items = blocks * scene->spec.block_size * REF_ROW;
    if (old > blocks)
        fail_msg("a scene of %d blocks does not fit %d", (int)old, (int)blocks);
    int32_t *place = must_malloc(sizeof(int32_t) * (size_t)blocks);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t other = rng_below(&scene->rng, b + 1);
        place[b] = place[other];
        place[other] = (int32_t)b;
    }
    for (int64_t i = 0; i < scene->spec.requests * scene->ref.block_table_width; i++)
        if (scene->block_table[i] >= 0)
            scene->block_table[i] = place[scene->block_table[i]];
    free(place);
    free(scene->kv);
    scene->kv = must_malloc(sizeof(uint16_t) * (size_t)items);
    for (int64_t i = 0; i < items; i++)
        scene->kv[i] = i / REF_ROW % 2 ? 0x7fc0 : 0xff80; /* NaN and -Inf where no list leads */
    scene->ref.kv = scene->kv;
    scene->ref.cache_blocks = blocks;
}

void rig_scene(struct scene *scene, const struct rig_shape *shape, const struct rig_batch *batch)
{
    const struct scene_spec spec = {.name = "rig",
                                    .heads = shape->heads,
                                    .topk = shape->topk,
                                    .block_size = shape->block_size,
                                    .requests = batch->requests,
                                    .q_lens = batch->q_lens,
                                    .contexts = batch->contexts,
                                    .invalid = batch->invalid,
                                    .lengths = shape->lengths ? LENGTHS_WILD : LENGTHS_NONE,
                                    .sinks = shape->sinks ? SINKS_RANDOM : SINKS_NONE,
                                    .seed = batch->seed};
    scene_open(scene, &spec);
    spread(scene, shape->blocks);
    scene_fill(scene);
    scene_expect(scene);
}

/* Padded rows hold what an earlier batch left: entries and lengths of any size. */
static void stale_rows(struct rig *rig)
{
    const smla_tensors *t = &rig->stage.tensors;
    const int32_t entries[] = {0, 1, INT32_MAX, INT32_MIN, -1, 77, (int32_t)(rig->shape.blocks << 8)};
    struct rng rng = {rig->scene.spec.seed + 99};
    for (int64_t row = rig->scene.rows; row < t->rows; row++) {
        int32_t *list = (int32_t *)(void *)(rig->stage.topk.data + row * t->topk_row_stride);
        for (int64_t i = 0; i < rig->shape.topk; i++)
            list[i] = entries[rng_below(&rng, (int64_t)ARRAY_LENGTH(entries))];
        if (rig->scene.length)
            ((int32_t *)(void *)rig->stage.length.data)[row] =
                extreme_lengths[rng_below(&rng, (int64_t)ARRAY_LENGTH(extreme_lengths))];
    }
}

static void lay_out(struct rig *rig)
{
    rig->setting = (struct setting){.slots = rig->shape.slots,
                                    .batch_invariant = rig->shape.batch_invariant,
                                    .with_step = !rig->shape.without_step,
                                    .split_query = rig->shape.split_query,
                                    .out_dtype = rig->shape.out_dtype,
                                    .splits = rig->shape.splits,
                                    .padded_rows = (int32_t)(rig->shape.rows - rig->scene.rows)};
    stage_open(&rig->stage, &rig->scene, &rig->setting);
    stale_rows(rig);
}

void rig_open(struct rig *rig, const smla_plan *plan, const struct rig_shape *shape, struct scene *scene)
{
    *rig = (struct rig){.shape = *shape, .plan = plan, .scene = *scene};
    *scene = (struct scene){0};
    lay_out(rig);
    rig->site = gpu_site_open(&rig->stage);
    gpu_site_load(rig->site, &rig->stage);
    rig->tensors = gpu_site_tensors(rig->site, &rig->stage.tensors);
    rig->stream = device_stream_new(gpu_device());
    rig->workspace_bytes = smla_plan_workspace_bytes(plan);
    rig->workspace = device_alloc(gpu_device(), rig->workspace_bytes);
    gpu_must(rig->stream && rig->workspace);
    if (!shape->without_step) {
        assert_int_equal(smla_step_create(&rig->step, plan), SMLA_OK);
        rig_update(rig);
    }
    rig_poison(rig);
}

void rig_close(struct rig *rig)
{
    smla_step_destroy(rig->step);
    device_free(gpu_device(), rig->workspace);
    if (!rig->guest)
        device_stream_free(gpu_device(), rig->stream);
    gpu_site_close(rig->site);
    stage_close(&rig->stage);
    scene_close(&rig->scene);
}

void rig_use_stream(struct rig *rig, struct CUstream_st *stream)
{
    gpu_must(device_stream_wait(gpu_device(), rig->stream));
    device_stream_free(gpu_device(), rig->stream);
    rig->stream = stream;
    rig->guest = true;
}

void rig_change(struct rig *rig, struct scene *scene)
{
    stage_close(&rig->stage);
    scene_close(&rig->scene);
    rig->scene = *scene;
    *scene = (struct scene){0};
    lay_out(rig);
    gpu_site_load(rig->site, &rig->stage);
    const smla_tensors t = gpu_site_tensors(rig->site, &rig->stage.tensors);
    assert_memory_equal(&t, &rig->tensors, sizeof t); /* as a graph knows them */
    rig_update(rig);
    rig_poison(rig);
}

void rig_update(struct rig *rig)
{
    if (rig->shape.without_step)
        return;
    const smla_batch batch = scene_batch(&rig->scene);
    assert_int_equal(smla_step_update(rig->step, &batch, rig->stream), SMLA_OK);
}

void rig_poison(struct rig *rig)
{
    struct device *gpu = gpu_device();
    gpu_must(device_fill(gpu, rig->tensors.out, POISON, rig->stage.out.bytes, rig->stream));
    if (rig->tensors.lse)
        gpu_must(device_fill(gpu, rig->tensors.lse, POISON, rig->stage.lse.bytes, rig->stream));
    gpu_must(device_fill(gpu, rig->workspace, POISON, rig->workspace_bytes, rig->stream));
}

void rig_run_on(struct rig *rig, struct CUstream_st *stream)
{
    smla_status status =
        smla_run(rig->plan, rig->step, &rig->tensors, rig->workspace, rig->workspace_bytes, stream);
    if (status != SMLA_OK) {
        rig_shape_print(&rig->shape);
        fail_msg("smla_run: %s (device: %s)", smla_status_name(status), device_error(gpu_device()));
    }
}

void rig_run(struct rig *rig)
{
    rig_run_on(rig, rig->stream);
}

void rig_collect(struct rig *rig, struct result *result)
{
    *result = (struct result){.rows = rig->shape.rows, .heads = rig->shape.heads};
    bool kept = gpu_site_fetch(rig->site);
    result_collect(result, &rig->stage);
    result->gaps_kept = kept && result->gaps_kept;
}

void rig_expect_right(struct rig *rig, const struct result *result, const char *when)
{
    if (result_right(&rig->scene, &rig->setting, result))
        return;
    rig_shape_print(&rig->shape);
    fail_msg("%s: wrong (scene of seed %d, %d rows)", when, (int)rig->scene.spec.seed, (int)rig->scene.rows);
}

static float value_at(const struct result *result, int64_t i)
{
    bool half = result->out_bytes == 2 * (size_t)(result->rows * result->heads) * REF_LATENT;
    return half ? bf16_to(((const uint16_t *)result->out_bits)[i]) : ((const float *)result->out_bits)[i];
}

void rig_expect_same(const struct rig *rig, const struct result *one, const struct result *other,
                     const char *when)
{
    if (results_same(one, other))
        return;
    int64_t heads = one->heads, count = one->rows * heads * REF_LATENT, different = 0, first = -1;
    size_t item = one->out_bytes / (size_t)count;
    for (int64_t i = 0; i < count; i++)
        if (memcmp((char *)one->out_bits + (size_t)i * item, (char *)other->out_bits + (size_t)i * item,
                   item)) {
            first = different++ ? first : i;
        }
    rig_shape_print(&rig->shape);
    if (first < 0)
        fail_msg("%s: bits of lse differ, those of out do not", when);
    fail_msg("%s: %d elements of out differ, first row %d, head %d, column %d: %.9g and %.9g", when,
             (int)different, (int)(first / REF_LATENT / heads), (int)(first / REF_LATENT % heads),
             (int)(first % REF_LATENT), (double)value_at(one, first), (double)value_at(other, first));
}

void rig_busy_open(struct rig_busy *busy, size_t bytes)
{
    *busy = (struct rig_busy){.stream = device_stream_new(gpu_device()), .bytes = bytes};
    busy->memory = device_alloc(gpu_device(), 2 * bytes);
    gpu_must(busy->stream && busy->memory);
    gpu_must(device_fill(gpu_device(), busy->memory, 0, 2 * bytes, busy->stream));
}

void rig_busy_close(struct rig_busy *busy)
{
    gpu_must(device_stream_wait(gpu_device(), busy->stream));
    device_free(gpu_device(), busy->memory);
    device_stream_free(gpu_device(), busy->stream);
}

void rig_busy_add(struct rig_busy *busy, int copies)
{
    for (int i = 0; i < copies; i++)
        gpu_must(device_copy(gpu_device(), busy->memory + (i % 2 ? 0 : busy->bytes),
                             busy->memory + (i % 2 ? busy->bytes : 0), busy->bytes, busy->stream));
}

int rig_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    setenv("SMLA_TEST_BACKEND", "cuda", 1);
    return harness_main(argc, argv, tests, count);
}
