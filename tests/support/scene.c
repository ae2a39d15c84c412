#include "scene.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *must_malloc(size_t bytes)
{
    void *data = malloc(bytes ? bytes : 1);
    if (!data) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return data;
}

uint16_t bf16_from(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rest = bits & 0xffffu, odd = bits >> 16 & 1u;
    return (uint16_t)((bits >> 16) + (rest > 0x8000u || (rest == 0x8000u && odd)));
}

float bf16_to(uint16_t bits16)
{
    uint32_t bits = (uint32_t)bits16 << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

int32_t *scene_list(const struct scene *scene, int64_t t)
{
    return scene->topk + t * scene->spec.topk;
}

uint16_t *scene_key(const struct scene *scene, int64_t slot)
{
    return scene->kv + slot * REF_ROW;
}

uint16_t *scene_query(const struct scene *scene, int64_t t, int64_t head)
{
    return scene->q + (t * scene->spec.heads + head) * REF_ROW;
}

static struct scene_spec with_defaults(const struct scene_spec *spec)
{
    struct scene_spec s = *spec;
    s.name = s.name ? s.name : "scene";
    s.heads = s.heads ? s.heads : 4;
    s.topk = s.topk ? s.topk : 64;
    s.block_size = s.block_size ? s.block_size : 16;
    s.requests = s.requests ? s.requests : 3;
    s.picks = s.picks ? s.picks : s.topk;
    s.lse_base = s.lse_base ? s.lse_base : SMLA_LSE_NATURAL;
    s.empty_lse = s.empty_lse ? s.empty_lse : SMLA_EMPTY_NEG_INF;
    s.dcp_world = s.dcp_world ? s.dcp_world : 1;
    s.dcp_interleave = s.dcp_interleave ? s.dcp_interleave : 1;
    s.q_gain = s.q_gain != 0 ? s.q_gain : 1;
    s.scale = s.scale != 0 ? s.scale : 1.0 / 24;
    return s;
}

/* The library takes the scale as a float: the oracle must work with the same number. */
static void describe(struct scene *scene)
{
    const struct scene_spec *s = &scene->spec;
    scene->ref = (struct ref_problem){
        .rows = scene->rows,
        .heads = s->heads,
        .topk = s->topk,
        .cache_blocks = scene->ref.cache_blocks,
        .block_size = s->block_size,
        .requests = s->requests,
        .block_table_width = scene->ref.block_table_width,
        .scale = (double)(float)s->scale,
        .positions = 1,
        .lse_base2 = s->lse_base == SMLA_LSE_BASE2,
        .empty_pos_inf = s->empty_lse == SMLA_EMPTY_POS_INF,
        .dcp_world = s->dcp_world,
        .dcp_rank = s->dcp_rank,
        .dcp_interleave = s->dcp_interleave,
        .q = scene->q,
        .kv = scene->kv,
        .topk_list = scene->topk,
        .topk_length = scene->length,
        .row_request = scene->row_request,
        .seq_lens = scene->seq_lens,
        .block_table = scene->block_table,
        .sinks = scene->sinks,
    };
}

/* Counted one by one, so that it does not repeat a formula of the library. */
static int64_t local_tokens(const struct scene_spec *s, int64_t seq_len)
{
    int64_t count = 0;
    for (int64_t p = 0; p < seq_len; p++)
        count += p / s->dcp_interleave % s->dcp_world == s->dcp_rank;
    return count;
}

static void open_requests(struct scene *scene)
{
    const struct scene_spec *s = &scene->spec;
    scene->query_start_loc = must_malloc(sizeof(int32_t) * (size_t)(s->requests + 1));
    scene->seq_lens = must_malloc(sizeof(int32_t) * (size_t)s->requests);
    scene->query_start_loc[0] = 0;
    for (int32_t r = 0; r < s->requests; r++) {
        int32_t rows = s->q_lens ? s->q_lens[r] : 1;
        int32_t context = s->contexts ? s->contexts[r] : (int32_t)rng_below(&scene->rng, 2 * s->topk);
        scene->query_start_loc[r + 1] = scene->query_start_loc[r] + rows;
        scene->seq_lens[r] = context + rows;
    }
    scene->rows = scene->query_start_loc[s->requests];
    scene->row_request = must_malloc(sizeof(int32_t) * (size_t)scene->rows);
    for (int32_t r = 0; r < s->requests; r++)
        for (int32_t t = scene->query_start_loc[r]; t < scene->query_start_loc[r + 1]; t++)
            scene->row_request[t] = r;
}

/* Every request gets its own blocks, in random order; three blocks belong to none. */
static void open_blocks(struct scene *scene)
{
    const struct scene_spec *s = &scene->spec;
    int64_t total = 3, width = 0;
    for (int32_t r = 0; r < s->requests; r++) {
        int64_t need = (local_tokens(s, scene->seq_lens[r]) + s->block_size - 1) / s->block_size;
        total += need;
        width = need > width ? need : width;
    }
    width += s->width_spare;
    int32_t *order = must_malloc(sizeof(int32_t) * (size_t)total);
    for (int64_t b = 0; b < total; b++) {
        int64_t other = rng_below(&scene->rng, b + 1);
        order[b] = order[other];
        order[other] = (int32_t)b;
    }
    scene->block_table = must_malloc(sizeof(int32_t) * (size_t)(s->requests * width));
    int64_t next = 0;
    for (int32_t r = 0; r < s->requests; r++) {
        int64_t need = (local_tokens(s, scene->seq_lens[r]) + s->block_size - 1) / s->block_size;
        for (int64_t b = 0; b < width; b++)
            scene->block_table[r * width + b] = b < need ? order[next++] : -1;
    }
    free(order);
    scene->ref.cache_blocks = total;
    scene->ref.block_table_width = width;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

/* `picks` different positions of 0 .. reach - 1, in an order that jumps about. */
static void pick_list(struct rng *rng, int32_t *list, int64_t picks, int64_t reach)
{
    int64_t step = 1 + rng_below(rng, reach), at = rng_below(rng, reach);
    while (common_divisor(step, reach) != 1)
        step++;
    for (int64_t i = 0; i < picks; i++, at = (at + step) % reach)
        list[i] = (int32_t)at;
}

static int32_t spoilt_entry(struct rng *rng, int32_t seq_len)
{
    const int32_t kinds[] = {-1, -1, -1, -7, INT32_MIN, INT32_MAX, seq_len, seq_len + 1};
    return kinds[rng_below(rng, (int64_t)(sizeof kinds / sizeof *kinds))];
}

static int32_t active_length(struct scene *scene, int64_t picks)
{
    int32_t topk = scene->spec.topk;
    const int32_t wild[] = {-5, INT32_MIN, 0, topk, topk + 1, INT32_MAX, topk / 2, topk - 1, 1, (int)picks};
    switch (scene->spec.lengths) {
    case LENGTHS_EXACT:
        return (int32_t)picks;
    case LENGTHS_RANDOM:
        return (int32_t)rng_below(&scene->rng, topk + 1);
    default:
        return wild[rng_below(&scene->rng, (int64_t)(sizeof wild / sizeof *wild))];
    }
}

/* Entries past the active length get in-range positions, which must not be attended. */
static void open_list(struct scene *scene, int64_t t)
{
    const struct scene_spec *s = &scene->spec;
    int32_t r = scene->row_request[t], *list = scene_list(scene, t);
    int64_t reach = scene->seq_lens[r] - (scene->query_start_loc[r + 1] - 1 - t);
    int64_t picks = s->picks < reach ? s->picks : reach;
    pick_list(&scene->rng, list, picks, reach);
    for (int64_t i = 0; i < s->topk; i++)
        if (i >= picks)
            list[i] = -1;
        else if (rng_unit(&scene->rng) < s->invalid)
            list[i] = spoilt_entry(&scene->rng, scene->seq_lens[r]);
    if (!scene->length)
        return;
    scene->length[t] = active_length(scene, picks);
    for (int64_t i = scene->length[t] < 0 ? 0 : scene->length[t]; i < s->topk; i++)
        list[i] = (int32_t)rng_below(&scene->rng, reach);
}

static void open_sinks(struct scene *scene)
{
    const float extreme[] = {-INFINITY, INFINITY, 100.0f, -100.0f, 0.0f};
    if (scene->spec.sinks == SINKS_NONE)
        return;
    scene->sinks = must_malloc(sizeof(float) * (size_t)scene->spec.heads);
    for (int32_t h = 0; h < scene->spec.heads; h++)
        scene->sinks[h] = scene->spec.sinks == SINKS_EXTREME ? extreme[h % 5] : 4 * rng_normal(&scene->rng);
}

/* Values that would show in any result: NaN of both signs, Inf, and some that only poison a sum. */
static void open_values(struct scene *scene)
{
    const uint16_t poison[] = {0x7fc0, 0x7f80, 0xffff, 0xff80};
    int64_t cache = scene->ref.cache_blocks * scene->spec.block_size * REF_ROW;
    int64_t queries = scene->rows * scene->spec.heads * REF_ROW;
    scene->kv = must_malloc(sizeof(uint16_t) * (size_t)cache);
    for (int64_t i = 0; i < cache; i++)
        scene->kv[i] = poison[i / REF_ROW % 4];
    scene->q = must_malloc(sizeof(uint16_t) * (size_t)queries);
    for (int64_t i = 0; i < queries; i++)
        scene->q[i] = bf16_from(rng_normal(&scene->rng) * scene->spec.q_gain);
    scene->want_out = must_malloc(sizeof(double) * (size_t)(scene->rows * scene->spec.heads * REF_LATENT));
    scene->want_lse = must_malloc(sizeof(double) * (size_t)(scene->rows * scene->spec.heads));
}

static void open_lists(struct scene *scene)
{
    size_t rows = (size_t)scene->rows;
    scene->topk = must_malloc(sizeof(int32_t) * rows * (size_t)scene->spec.topk);
    scene->length = scene->spec.lengths == LENGTHS_NONE ? NULL : must_malloc(sizeof(int32_t) * rows);
    for (int64_t t = 0; t < scene->rows; t++)
        open_list(scene, t);
}

void scene_open(struct scene *scene, const struct scene_spec *spec)
{
    *scene = (struct scene){.spec = with_defaults(spec), .rng = {spec->seed + 1}};
    open_requests(scene);
    open_blocks(scene);
    open_lists(scene);
    open_sinks(scene);
    open_values(scene);
    describe(scene);
}

void scene_open_shared(struct scene *scene, const struct scene_spec *spec, int64_t rows, int64_t cache_rows)
{
    *scene = (struct scene){.spec = with_defaults(spec), .rng = {spec->seed + 1}, .rows = rows};
    struct scene_spec *s = &scene->spec;
    s->requests = (int32_t)rows;
    int64_t width = (cache_rows + s->block_size - 1) / s->block_size;
    size_t list_items = (size_t)rows * (size_t)s->topk;
    scene->query_start_loc = must_malloc(sizeof(int32_t) * (size_t)(rows + 1));
    scene->seq_lens = must_malloc(sizeof(int32_t) * (size_t)rows);
    scene->row_request = must_malloc(sizeof(int32_t) * (size_t)rows);
    scene->block_table = must_malloc(sizeof(int32_t) * (size_t)(rows * width));
    scene->topk = must_malloc(sizeof(int32_t) * list_items);
    scene->query_start_loc[0] = 0;
    for (int64_t r = 0; r < rows; r++) {
        scene->query_start_loc[r + 1] = (int32_t)(r + 1);
        scene->seq_lens[r] = (int32_t)cache_rows;
        scene->row_request[r] = (int32_t)r;
        for (int64_t b = 0; b < width; b++)
            scene->block_table[r * width + b] = (int32_t)b;
    }
    memset(scene->topk, 0xff, sizeof(int32_t) * list_items);
    if (s->lengths != LENGTHS_NONE) {
        scene->length = must_malloc(sizeof(int32_t) * (size_t)rows);
        for (int64_t t = 0; t < rows; t++)
            scene->length[t] = s->topk;
    }
    scene->ref.cache_blocks = scene->ref.block_table_width = width;
    open_sinks(scene);
    open_values(scene);
    describe(scene);
}

void scene_fill_key(struct scene *scene, int64_t slot)
{
    uint16_t *key = scene_key(scene, slot);
    for (int c = 0; c < REF_ROW; c++)
        key[c] = bf16_from(rng_normal(&scene->rng));
}

void scene_fill(struct scene *scene)
{
    int64_t slots = scene->ref.cache_blocks * scene->spec.block_size;
    unsigned char *filled = must_malloc((size_t)slots);
    memset(filled, 0, (size_t)slots);
    for (int64_t t = 0; t < scene->rows; t++)
        for (int64_t i = 0; i < scene->spec.topk; i++) {
            int64_t slot = ref_slot(&scene->ref, t, i);
            if (slot >= 0 && !filled[slot]) {
                scene_fill_key(scene, slot);
                filled[slot] = 1;
            }
        }
    free(filled);
}

/* Of vectors of 576; those with NaN or Inf do not count. */
static double largest_norm(const uint16_t *vectors, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int c = 0; c < REF_ROW; c++) {
            double value = (double)bf16_to(vectors[i * REF_ROW + c]);
            sum += value * value;
        }
        if (isfinite(sum))
            largest = fmax(largest, sqrt(sum));
    }
    return largest;
}

void scene_expect(struct scene *scene)
{
    if (ref_attend(&scene->ref, scene->want_out, scene->want_lse) != 0) {
        fprintf(stderr, "no memory for the oracle\n");
        exit(1);
    }
    double query = largest_norm(scene->q, scene->rows * scene->spec.heads);
    double key = largest_norm(scene->kv, scene->ref.cache_blocks * scene->spec.block_size);
    scene->score_size = fabs(scene->ref.scale) * query * key;
}

void scene_build(struct scene *scene, const struct scene_spec *spec)
{
    scene_open(scene, spec);
    scene_fill(scene);
    scene_expect(scene);
}

void scene_single(struct scene *single, const struct scene *scene, int64_t t)
{
    *single = *scene;
    int32_t r = scene->row_request[t];
    single->rows = 1;
    single->spec.requests = 1;
    single->single_start[0] = 0;
    single->single_start[1] = 1;
    single->single_request = 0;
    single->query_start_loc = single->single_start;
    single->row_request = &single->single_request;
    single->seq_lens = scene->seq_lens + r;
    single->block_table = scene->block_table + r * scene->ref.block_table_width;
    single->topk = scene_list(scene, t);
    single->length = scene->length ? scene->length + t : NULL;
    single->q = scene_query(scene, t, 0);
    single->want_out = scene->want_out + t * scene->spec.heads * REF_LATENT;
    single->want_lse = scene->want_lse + t * scene->spec.heads;
    describe(single);
}

void scene_close(struct scene *scene)
{
    free(scene->query_start_loc);
    free(scene->seq_lens);
    free(scene->block_table);
    free(scene->row_request);
    free(scene->topk);
    free(scene->length);
    free(scene->q);
    free(scene->kv);
    free(scene->sinks);
    free(scene->want_out);
    free(scene->want_lse);
    *scene = (struct scene){0};
}
