/* Checked plans: the verdict on a run's lists is the first offence that a plain scan finds, and results stay right. */
#include <stdio.h>
#include <string.h>

#include "gpu.h"
#include "harness.h"

struct verdict {
    smla_status status;
    char text[256];
};

/* Runs the scene on a checked plan, twice, and asks for the verdict. */
static struct verdict verdict_of(const struct scene *scene, const struct setting *setting,
                                 const struct stage *stage)
{
    struct verdict verdict = {0};
    smla_context *context;
    smla_plan *plan;
    smla_step *step;
    bool kept = true;
    smla_plan_options options = scene_maxima(scene, setting);
    smla_batch batch = scene_batch(scene);
    options.checked = 1;
    assert_int_equal(open_context(&context, setting), SMLA_OK);
    assert_int_equal(smla_plan_create(&plan, context, &stage->problem, &options), SMLA_OK);
    assert_int_equal(smla_step_create(&step, plan), SMLA_OK);
    assert_int_equal(smla_step_update(step, &batch, NULL), SMLA_OK);
    size_t bytes = smla_plan_workspace_bytes(plan);
    struct guard workspace = guard_open(bytes, 0xff);
    for (int i = 0; i < 2; i++)
        assert_int_equal(gpu_mode() ? gpu_run(plan, step, stage, &stage->tensors, &kept)
                                    : smla_run(plan, step, &stage->tensors, workspace.data, bytes, NULL),
                         SMLA_OK);
    assert_true(kept);
    verdict.status = smla_plan_verify(plan, NULL);
    if (verdict.status != SMLA_OK)
        snprintf(verdict.text, sizeof verdict.text, "%s", smla_context_error(context));
    assert_int_equal(smla_plan_verify(plan, NULL), SMLA_OK);
    guard_close(&workspace);
    smla_step_destroy(step);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
    return verdict;
}

/* Positions of other ranks are no offence. */
static bool foreign(const struct scene *scene, int64_t t, int32_t value)
{
    const struct ref_problem *ref = &scene->ref;
    int32_t seq_len = scene->seq_lens[scene->row_request[t]];
    return ref->dcp_world > 1 && value >= 0 && value < seq_len &&
           value / ref->dcp_interleave % ref->dcp_world != ref->dcp_rank;
}

static bool offends(const struct scene *scene, const struct setting *setting, int64_t t, int64_t i,
                    int32_t value)
{
    if (value == -1)
        return false;
    if (setting->slots)
        return value < 0 || value >= scene->ref.cache_blocks * scene->spec.block_size;
    return ref_slot(&scene->ref, t, i) < 0 && !foreign(scene, t, value);
}

/* What the text must begin with; "" for none. */
static void scan(const struct scene *scene, const struct setting *setting, const struct stage *stage,
                 char text[64])
{
    int32_t topk = scene->spec.topk;
    text[0] = '\0';
    for (int64_t t = 0; t < scene->rows; t++) {
        const char *row = (const char *)stage->tensors.topk + t * stage->tensors.topk_row_stride;
        int32_t length = scene->length ? scene->length[t] : topk;
        for (int64_t i = 0; i < topk && i < length; i++) {
            int32_t value = ((const int32_t *)(const void *)row)[i];
            if (!offends(scene, setting, t, i, value))
                continue;
            snprintf(text, 64, "topk[%d][%d] = %d: ", (int)t, (int)i, value);
            return;
        }
        if (length < 0 || length > topk) {
            snprintf(text, 64, "topk_length[%d] = %d: 0 .. %d is accepted", (int)t, length, topk);
            return;
        }
    }
}

/* Gives whether there was an offence. */
static bool expect_verdict(const struct scene *scene, const struct setting *setting)
{
    struct stage stage;
    char text[64];
    stage_open(&stage, scene, setting);
    scan(scene, setting, &stage, text);
    struct verdict verdict = verdict_of(scene, setting, &stage);
    struct result result = {.rows = stage.tensors.rows, .heads = scene->spec.heads};
    result_collect(&result, &stage);
    bool right = result_right(scene, setting, &result);
    result_close(&result);
    stage_close(&stage);
    bool same = verdict.status == (text[0] ? SMLA_ERROR_SLOT : SMLA_OK) &&
                strncmp(verdict.text, text, strlen(text)) == 0 && (text[0] || !verdict.text[0]);
    if (!same) {
        setting_print(scene, setting);
        fail_msg("'%s', expected '%s'", verdict.text, text);
    }
    assert_true(right);
    return text[0] != '\0';
}

static void checked_scenes(void **state)
{
    (void)state;
    int found[2] = {0};
    for (int i = 0; i < 96; i++) {
        struct scene scene;
        int32_t world = i % 4 == 3 ? 2 : 1;
        const struct scene_spec spec = {.name = "checked",
                                        .topk = (int32_t[]){1, 33, 64, 300}[i / 4 % 4],
                                        .q_lens = (int32_t[]){1, 4, 2},
                                        .invalid = (double[]){0, 0.0005, 0.02}[i % 3],
                                        .lengths = (enum scene_lengths)(i / 2 % 4),
                                        .block_size = i % 5 ? 16 : 20,
                                        .dcp_world = world,
                                        .dcp_interleave = 1 + i % 3,
                                        .seed = (uint64_t)i};
        const struct setting setting = {
            .threads = 2, .slots = world == 1 && i % 2, .padded_rows = i % 7 == 0 ? 3 : 0};
        scene_build(&scene, &spec);
        found[expect_verdict(&scene, &setting)]++;
        scene_close(&scene);
    }
    assert_true(found[false] > 10 && found[true] > 10);
}

/* The first of many rows and of long lists, however they are shared out. */
static void checked_first_of_many(void **state)
{
    (void)state;
    static const int32_t places[][2] = {{0, 0}, {0, 2047}, {299, 0}, {299, 2047}, {150, 1000}};
    const struct scene_spec spec = {.name = "checked", .heads = 1, .topk = 2048};
    for (size_t i = 0; i < ARRAY_LENGTH(places); i++) {
        struct scene scene;
        scene_open_shared(&scene, &spec, 300, 64);
        scene_list(&scene, places[i][0])[places[i][1]] = 64 + (int32_t)i;
        scene_list(&scene, 299)[2047] = 100;
        scene_fill(&scene);
        scene_expect(&scene);
        assert_true(expect_verdict(&scene, &(const struct setting){.threads = 2}));
        scene_close(&scene);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(checked_scenes),
    cmocka_unit_test(checked_first_of_many),
};

HARNESS_MAIN(tests)
