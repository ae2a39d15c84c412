/* Lays a scene's dense arrays out in memory as a setting says. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "runner.h"

enum { POISON = 0xff };

smla_problem scene_problem(const struct scene *scene, const struct setting *setting)
{
    const struct scene_spec *s = &scene->spec;
    smla_problem problem;
    smla_problem_init(&problem);
    problem.heads = s->heads / s->dcp_world;
    problem.topk = s->topk;
    problem.block_size = s->block_size;
    problem.out_dtype = setting->out_dtype ? setting->out_dtype : SMLA_F32;
    problem.topk_kind = setting->slots ? SMLA_TOPK_SLOTS : SMLA_TOPK_POSITIONS;
    problem.lse_base = s->lse_base;
    problem.empty_lse = s->empty_lse;
    problem.scale = (float)s->scale;
    problem.batch_invariant = setting->batch_invariant;
    problem.dcp_world_size = s->dcp_world;
    problem.dcp_rank = s->dcp_rank;
    problem.dcp_interleave = s->dcp_interleave;
    return problem;
}

static struct guard must_guard(size_t bytes, int fill)
{
    struct guard guard = guard_open(bytes, fill);
    if (!guard.data) {
        fprintf(stderr, "no memory for a guarded buffer of %zu bytes\n", bytes);
        exit(1);
    }
    return guard;
}

/* A buffer for outer x inner items whose end is the last item's; gaps are filled with poison. */
static struct guard strided(const struct setting *setting, int64_t outer, int64_t outer_stride, int64_t inner,
                            int64_t inner_stride, int64_t item)
{
    if (outer == 0 || inner == 0)
        return must_guard(0, POISON);
    size_t bytes = (size_t)((outer - 1) * outer_stride + (inner - 1) * inner_stride + item);
    return setting->huge_row_stride ? guard_sparse(bytes) : must_guard(bytes, POISON);
}

static int64_t row_stride(const struct setting *setting, int64_t usual)
{
    return setting->huge_row_stride ? setting->huge_row_stride : usual;
}

static void scatter(const struct guard *guard, int64_t outer, int64_t outer_stride, int64_t inner,
                    int64_t inner_stride, int64_t item, const void *from, int64_t from_stride)
{
    for (int64_t i = 0; i < outer * inner; i++)
        memcpy(guard->data + i / inner * outer_stride + i % inner * inner_stride,
               (const char *)from + i * from_stride, (size_t)item);
}

/* Rows past those of the scene hold NaN. */
static void stage_query(struct stage *stage, const struct scene *scene, const struct setting *setting)
{
    smla_tensors *t = &stage->tensors;
    int64_t heads = scene->spec.heads, gap = setting->dense ? 0 : gpu_gap(6);
    int64_t row_gap = gpu_gap(setting->q_row_gap);
    if (!setting->split_query) {
        t->q_head_stride += gap;
        t->q_row_stride = row_stride(setting, heads * t->q_head_stride + gap + row_gap);
        stage->q = strided(setting, t->rows, t->q_row_stride, heads, t->q_head_stride, 2 * REF_ROW);
        scatter(&stage->q, scene->rows, t->q_row_stride, heads, t->q_head_stride, 2 * REF_ROW, scene->q,
                2 * REF_ROW);
        t->q = stage->q.data;
        return;
    }
    t->q_latent_head_stride += gap;
    t->q_latent_row_stride = row_stride(setting, heads * t->q_latent_head_stride + 2 * gap + row_gap);
    t->q_rope_head_stride += 2 * gap;
    t->q_rope_row_stride = row_stride(setting, heads * t->q_rope_head_stride + gap + row_gap);
    stage->q =
        strided(setting, t->rows, t->q_latent_row_stride, heads, t->q_latent_head_stride, 2 * REF_LATENT);
    stage->q_rope =
        strided(setting, t->rows, t->q_rope_row_stride, heads, t->q_rope_head_stride, 2 * REF_ROPE);
    scatter(&stage->q, scene->rows, t->q_latent_row_stride, heads, t->q_latent_head_stride, 2 * REF_LATENT,
            scene->q, 2 * REF_ROW);
    scatter(&stage->q_rope, scene->rows, t->q_rope_row_stride, heads, t->q_rope_head_stride, 2 * REF_ROPE,
            scene->q + REF_LATENT, 2 * REF_ROW);
    t->q_latent = stage->q.data;
    t->q_rope = stage->q_rope.data;
}

static void stage_cache(struct stage *stage, const struct scene *scene, const struct setting *setting)
{
    smla_tensors *t = &stage->tensors;
    int64_t blocks = scene->ref.cache_blocks, block = scene->spec.block_size;
    t->cache_blocks = blocks;
    t->cache_row_stride += gpu_gap((setting->dense ? 0 : 14) + setting->kv_row_gap);
    t->cache_block_stride =
        block * t->cache_row_stride + gpu_gap((setting->dense ? 0 : 34) + setting->kv_block_gap);
    stage->kv = strided(setting, blocks, t->cache_block_stride, block, t->cache_row_stride, 2 * REF_ROW);
    scatter(&stage->kv, blocks, t->cache_block_stride, block, t->cache_row_stride, 2 * REF_ROW, scene->kv,
            2 * REF_ROW);
    t->kv_cache = stage->kv.data;
}

/* As a slot; what is not valid becomes one of the many values that are not. */
static int32_t slot_entry(const struct scene *scene, int64_t t, int64_t i)
{
    int64_t slots = scene->ref.cache_blocks * scene->spec.block_size;
    const int32_t invalid[] = {-1, (int32_t)slots, -2, INT32_MIN, (int32_t)slots + 1, INT32_MAX};
    if (scene->length && i >= scene->length[t])
        return (int32_t)((t * 31 + i * 17) % slots);
    int64_t slot = ref_slot(&scene->ref, t, i);
    return slot >= 0 ? (int32_t)slot : invalid[(t + i) % 6];
}

/* Gaps and padded rows hold in-range entries, which must not be attended. */
static void stage_lists(struct stage *stage, const struct scene *scene, const struct setting *setting)
{
    smla_tensors *t = &stage->tensors;
    int64_t topk = scene->spec.topk;
    t->topk_row_stride =
        row_stride(setting, t->topk_row_stride + (setting->dense ? 0 : 12) + setting->topk_row_gap);
    stage->topk = strided(setting, t->rows, t->topk_row_stride, topk, 4, 4);
    if (!setting->huge_row_stride)
        memset(stage->topk.data, 0, stage->topk.bytes);
    for (int64_t row = 0; row < scene->rows; row++) {
        int32_t *list = (int32_t *)(void *)(stage->topk.data + row * t->topk_row_stride);
        memcpy(list, scene_list(scene, row), 4 * (size_t)topk);
        for (int64_t i = 0; i < topk && setting->slots; i++)
            list[i] = slot_entry(scene, row, i);
    }
    t->topk = (const int32_t *)(const void *)stage->topk.data;
    if (!scene->length)
        return;
    stage->length = must_guard(4 * (size_t)t->rows, 0x7f);
    memcpy(stage->length.data, scene->length, 4 * (size_t)scene->rows);
    t->topk_length = (const int32_t *)(const void *)stage->length.data;
}

static void stage_outputs(struct stage *stage, const struct scene *scene, const struct setting *setting)
{
    smla_tensors *t = &stage->tensors;
    int64_t heads = scene->spec.heads, item = stage->problem.out_dtype == SMLA_BF16 ? 2 : 4;
    t->out_head_stride += setting->dense ? 0 : gpu_gap(3 * item);
    t->out_row_stride =
        row_stride(setting, heads * t->out_head_stride + (setting->dense ? 0 : gpu_gap(item)));
    stage->out = strided(setting, t->rows, t->out_row_stride, heads, t->out_head_stride, item * REF_LATENT);
    t->out = stage->out.data;
    if (setting->no_lse)
        return;
    t->lse_head_stride += setting->dense ? 0 : 4;
    t->lse_row_stride = row_stride(setting, heads * t->lse_head_stride + (setting->dense ? 0 : 8));
    stage->lse = strided(setting, t->rows, t->lse_row_stride, heads, t->lse_head_stride, 4);
    t->lse = (float *)(void *)stage->lse.data;
}

void stage_open(struct stage *stage, const struct scene *scene, const struct setting *setting)
{
    *stage =
        (struct stage){.problem = scene_problem(scene, setting), .sparse = setting->huge_row_stride != 0};
    smla_tensors_init(&stage->tensors, &stage->problem);
    stage->tensors.rows = scene->rows + setting->padded_rows;
    stage_query(stage, scene, setting);
    if (setting->place_cache)
        setting->place_cache(stage, scene);
    else
        stage_cache(stage, scene, setting);
    stage_lists(stage, scene, setting);
    stage_outputs(stage, scene, setting);
    if (scene->sinks) {
        stage->sinks = must_guard(sizeof(float) * (size_t)scene->spec.heads, 0);
        memcpy(stage->sinks.data, scene->sinks, stage->sinks.bytes);
        stage->tensors.sinks = (const float *)(const void *)stage->sinks.data;
    }
}

void stage_close(struct stage *stage)
{
    struct guard *guards[] = {&stage->q,      &stage->q_rope, &stage->kv,  &stage->topk,
                              &stage->length, &stage->sinks,  &stage->out, &stage->lse};
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++)
        guard_close(guards[i]);
}
