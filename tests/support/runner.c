#include "runner.h"
#include "gpu.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xff }; /* NaN as bf16 and as f32 */

void setting_print(const struct scene *scene, const struct setting *s)
{
    static const char *const entries[] = {"run", "slices", "slices backwards", "slices at once"};
    fprintf(stderr, "%s: %s, %d threads, %d splits, %s%s%s%s%s%s, %s", scene->spec.name,
            gpu_mode() ? getenv("SMLA_TEST_BACKEND") : smla_isa_name(s->isa), (int)s->threads, (int)s->splits,
            s->out_dtype == SMLA_BF16 ? "bf16" : "f32", s->no_lse ? ", no lse" : "",
            s->split_query ? ", q in two" : "", s->slots ? ", slots" : "", s->dense ? ", dense" : "",
            s->batch_invariant ? ", batch-invariant" : "", entries[s->entry]);
    if (s->entry != ENTRY_RUN)
        fprintf(stderr, " %d", (int)s->slices);
    if (s->padded_rows)
        fprintf(stderr, ", %d padded rows", (int)s->padded_rows);
    fputc('\n', stderr);
}

smla_batch scene_batch(const struct scene *scene)
{
    smla_batch batch;
    smla_batch_init(&batch);
    batch.requests = scene->spec.requests;
    batch.rows = scene->rows;
    batch.query_start_loc = scene->query_start_loc;
    batch.seq_lens = scene->seq_lens;
    batch.block_table = scene->block_table;
    batch.block_table_width = scene->ref.block_table_width;
    batch.block_table_stride = (int64_t)sizeof(int32_t) * scene->ref.block_table_width;
    batch.cache_blocks = scene->ref.cache_blocks;
    return batch;
}

smla_status open_context(smla_context **context, const struct setting *setting)
{
    smla_context_options options;
    smla_context_options_init(&options);
    options.backend = gpu_mode() ? SMLA_BACKEND_CUDA : SMLA_BACKEND_CPU;
    options.isa_mask = gpu_mode() ? UINT32_MAX : 1u << setting->isa;
    options.threads = setting->threads;
    return smla_context_create(context, &options);
}

void maxima_init(smla_plan_options *options)
{
    smla_plan_options_init(options);
    options->cuda_portable = gpu_portable();
}

smla_plan_options scene_maxima(const struct scene *scene, const struct setting *setting)
{
    smla_plan_options options;
    maxima_init(&options);
    options.max_rows = scene->rows + setting->padded_rows + setting->spare_rows;
    options.max_requests = scene->spec.requests + setting->spare_rows % 3;
    options.max_blocks = scene->ref.block_table_width + setting->spare_rows % 5;
    options.splits = setting->splits;
    return options;
}

/* The calls of one run, in order, up to the first that fails. */
struct session {
    smla_context *context;
    smla_plan *plan;
    smla_step *step;
    struct guard workspace;
    size_t workspace_bytes;
};

/* The block table has a row stride of its own, and it is gone when the run begins. */
static smla_status update_step(smla_step *step, const struct scene *scene, const struct setting *setting)
{
    smla_batch batch = scene_batch(scene);
    int64_t width = batch.block_table_width, stride = width + (setting->dense ? 0 : 3);
    int64_t items = batch.requests ? (batch.requests - 1) * stride + width : 0;
    struct guard table = guard_open(sizeof(int32_t) * (size_t)items, 0x7f);
    int32_t *ids = (int32_t *)(void *)table.data;
    for (int64_t i = 0; i < batch.requests * width; i++)
        ids[i / width * stride + i % width] = scene->block_table[i];
    batch.block_table = ids;
    batch.block_table_stride = (int64_t)sizeof(int32_t) * stride;
    smla_status status = smla_step_update(step, &batch, NULL);
    guard_close(&table);
    return status;
}

static smla_status session_open(struct session *session, const struct scene *scene,
                                const struct setting *setting, const smla_problem *problem)
{
    smla_plan_options maxima = scene_maxima(scene, setting);
    smla_status status = open_context(&session->context, setting);
    if (status == SMLA_OK)
        status = smla_plan_create(&session->plan, session->context, problem, &maxima);
    if (status != SMLA_OK)
        return status;
    session->workspace_bytes = smla_plan_workspace_bytes(session->plan);
    session->workspace = guard_open(session->workspace_bytes + (size_t)setting->workspace_shift, POISON);
    if (setting->slots && !setting->with_step && !setting->padded_rows)
        return SMLA_OK;
    status = smla_step_create(&session->step, session->plan);
    return status == SMLA_OK ? update_step(session->step, scene, setting) : status;
}

static void session_close(struct session *session)
{
    guard_close(&session->workspace);
    smla_step_destroy(session->step);
    smla_plan_destroy(session->plan);
    smla_context_destroy(session->context);
}

struct slice {
    const smla_plan *plan;
    void *workspace;
    int32_t index;
    smla_status status;
    pthread_t thread;
};

static void *slice_main(void *argument)
{
    struct slice *slice = argument;
    slice->status = smla_slice_run(slice->plan, slice->workspace, slice->index);
    return NULL;
}

static smla_status run_slices(const struct session *session, const struct setting *setting)
{
    int32_t n = setting->slices;
    struct slice *slices = must_malloc(sizeof *slices * (size_t)n);
    smla_status status = SMLA_OK;
    for (int32_t i = 0; i < n; i++) {
        slices[i] = (struct slice){.plan = session->plan,
                                   .workspace = session->workspace.data,
                                   .index = setting->entry == ENTRY_SLICES_BACKWARDS ? n - 1 - i : i};
        if (setting->entry != ENTRY_SLICES_AT_ONCE)
            slice_main(&slices[i]);
        else if (pthread_create(&slices[i].thread, NULL, slice_main, &slices[i]) != 0)
            abort();
    }
    for (int32_t i = 0; i < n; i++) {
        if (setting->entry == ENTRY_SLICES_AT_ONCE)
            pthread_join(slices[i].thread, NULL);
        status = status == SMLA_OK ? slices[i].status : status;
    }
    free(slices);
    return status;
}

static smla_status session_run(const struct session *session, const struct setting *setting,
                               const struct stage *stage, const smla_tensors *tensors, bool *kept)
{
    void *workspace = session->workspace.data;
    size_t bytes = session->workspace_bytes;
    if (gpu_mode()) /* which has no slices */
        return gpu_run(session->plan, session->step, stage, tensors, kept);
    if (setting->entry == ENTRY_RUN)
        return smla_run(session->plan, session->step, tensors, workspace, bytes, NULL);
    smla_status status =
        smla_slices_begin(session->plan, session->step, tensors, workspace, bytes, setting->slices);
    return status == SMLA_OK ? run_slices(session, setting) : status;
}

/* Takes one output row out of the strided buffer, leaving poison behind. */
static void take(void *to, unsigned char *from, size_t bytes)
{
    memcpy(to, from, bytes);
    memset(from, POISON, bytes);
}

static void collect_out(struct result *result, const struct stage *stage)
{
    const smla_tensors *t = &stage->tensors;
    size_t item = stage->problem.out_dtype == SMLA_BF16 ? 2 : 4, row = item * REF_LATENT;
    int64_t groups = result->rows * result->heads;
    result->out_bytes = (size_t)groups * row;
    result->out_bits = must_malloc(result->out_bytes);
    result->out = must_malloc(sizeof(double) * (size_t)groups * REF_LATENT);
    for (int64_t g = 0; g < groups; g++)
        take((char *)result->out_bits + (size_t)g * row,
             stage->out.data + g / result->heads * t->out_row_stride + g % result->heads * t->out_head_stride,
             row);
    for (int64_t i = 0; i < groups * REF_LATENT; i++)
        result->out[i] = item == 2 ? (double)bf16_to(((uint16_t *)result->out_bits)[i])
                                   : (double)((float *)result->out_bits)[i];
}

static void collect_lse(struct result *result, const struct stage *stage)
{
    const smla_tensors *t = &stage->tensors;
    int64_t groups = result->rows * result->heads;
    if (!t->lse)
        return;
    result->lse_bytes = sizeof(float) * (size_t)groups;
    result->lse_bits = must_malloc(result->lse_bytes);
    result->lse = must_malloc(sizeof(double) * (size_t)groups);
    for (int64_t g = 0; g < groups; g++) {
        take(&result->lse_bits[g],
             stage->lse.data + g / result->heads * t->lse_row_stride + g % result->heads * t->lse_head_stride,
             sizeof(float));
        result->lse[g] = (double)result->lse_bits[g];
    }
}

void result_collect(struct result *result, const struct stage *stage)
{
    collect_out(result, stage);
    collect_lse(result, stage);
    result->gaps_kept = stage->sparse || (guard_filled(stage->out.data, stage->out.bytes, POISON) &&
                                          guard_filled(stage->lse.data, stage->lse.bytes, POISON));
}

void scene_run(const struct scene *scene, const struct setting *setting, struct result *result)
{
    struct stage stage;
    struct session session = {0};
    bool kept = true;
    stage_open(&stage, scene, setting);
    *result = (struct result){.rows = stage.tensors.rows, .heads = scene->spec.heads};
    result->status = session_open(&session, scene, setting, &stage.problem);
    smla_tensors tensors = stage.tensors;
    if (setting->edit)
        setting->edit(&tensors, scene);
    if (result->status == SMLA_OK)
        result->status = session_run(&session, setting, &stage, &tensors, &kept);
    if (session.context)
        snprintf(result->error, sizeof result->error, "%s", smla_context_error(session.context));
    result_collect(result, &stage);
    result->gaps_kept = kept && result->gaps_kept &&
                        guard_filled(session.workspace.data + session.workspace_bytes,
                                     session.workspace.bytes - session.workspace_bytes, POISON);
    session_close(&session);
    stage_close(&stage);
}

void result_close(struct result *result)
{
    free(result->out);
    free(result->lse);
    free(result->out_bits);
    free(result->lse_bits);
    *result = (struct result){0};
}

/* Padded rows come out as empty rows. */
static bool padding_right(const struct scene *scene, const struct result *result)
{
    double empty = scene->ref.empty_pos_inf ? INFINITY : -INFINITY;
    for (int64_t g = scene->rows * result->heads; g < result->rows * result->heads; g++) {
        for (int c = 0; c < REF_LATENT; c++)
            if (result->out[g * REF_LATENT + c] != 0)
                return false;
        if (result->lse && result->lse[g] != empty)
            return false;
    }
    return true;
}

static bool say(bool right, const struct scene *scene, const struct setting *setting, const char *what)
{
    if (!right) {
        setting_print(scene, setting);
        fprintf(stderr, "    %s\n", what);
    }
    return right;
}

static bool values_right(const struct scene *scene, const struct setting *setting, const char *what,
                         const double *got, const double *want, int64_t group, struct bound bound)
{
    int64_t count = scene->rows * scene->spec.heads * group;
    struct comparison c = compare(got, want, count, group, bound);
    if (!c.right) {
        setting_print(scene, setting);
        comparison_print(what, &c, got, want, bound);
    }
    return c.right;
}

bool result_right(const struct scene *scene, const struct setting *setting, const struct result *result)
{
    if (result->status != SMLA_OK) {
        setting_print(scene, setting);
        fprintf(stderr, "    %s: %s\n", smla_status_name(result->status), result->error);
        return false;
    }
    smla_dtype dtype = setting->out_dtype ? setting->out_dtype : SMLA_F32;
    bool right = values_right(scene, setting, "    out", result->out, scene->want_out, REF_LATENT,
                              bound_out(setting->isa, dtype, scene->score_size));
    if (result->lse)
        right &= values_right(scene, setting, "    lse", result->lse, scene->want_lse, 1,
                              bound_lse(scene->score_size));
    right &= say(result->gaps_kept, scene, setting, "wrote between or past the outputs");
    return right & say(padding_right(scene, result), scene, setting, "a padded row is not an empty row");
}

bool rows_same(const struct result *one, int64_t a, const struct result *other, int64_t b)
{
    size_t out_row = one->out_bytes / (size_t)one->rows, lse_row = one->lse_bytes / (size_t)one->rows;
    if (one->status != SMLA_OK || other->status != SMLA_OK ||
        out_row != other->out_bytes / (size_t)other->rows)
        return false;
    if (memcmp((char *)one->out_bits + (size_t)a * out_row, (char *)other->out_bits + (size_t)b * out_row,
               out_row) != 0)
        return false;
    return !one->lse || !other->lse ||
           memcmp((char *)one->lse_bits + (size_t)a * lse_row, (char *)other->lse_bits + (size_t)b * lse_row,
                  lse_row) == 0;
}

bool results_same(const struct result *one, const struct result *other)
{
    for (int64_t t = 0; t < one->rows; t++)
        if (!rows_same(one, t, other, t)) {
            fprintf(stderr, "row %lld differs in its bits\n", (long long)t);
            return false;
        }
    return one->rows == other->rows;
}
