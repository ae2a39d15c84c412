/*
 * Programmatic dependent launch: a run may begin before the work in front of it has ended. Chains in which each run
 * reads, as its query, what the one before wrote, and overwrites what that one read, with cache writes and copies in
 * between, give the same bits as the same chain with a wait after each step.
 */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINKS = 12, FRESH = 6, ROWS = 6, HEADS = 16, BLOCKS = 140, BLOCK = 16, TOPK = 256, REPEATS = 30 };

enum { LINK_BYTES = ROWS * HEADS * REF_LATENT * 2, LSE_BYTES = ROWS * HEADS * 4 };

/* All in device memory, but for the host's copy of what each link writes into the cache. */
struct chain {
    struct rig rig;
    unsigned char *links; /* [LINKS + 1] queries and outputs */
    unsigned char *lse;   /* [LINKS] */
    unsigned char *start; /* the first query */
    uint16_t *latent, *rope;
    int64_t *slots;
    uint16_t host_latent[LINKS][FRESH][REF_LATENT], host_rope[LINKS][FRESH][REF_ROPE];
    int64_t host_slots[FRESH];
    smla_context *context;
    smla_problem problem;
};

struct outcome {
    unsigned char last[LINK_BYTES], lse[LINKS][LSE_BYTES];
};

static void *device_copy_of(const void *from, size_t bytes)
{
    void *memory = device_alloc(gpu_device(), bytes);
    gpu_must(memory && device_upload(gpu_device(), memory, from, bytes));
    return memory;
}

/* A slot that row t's list selects, and that none of the first `count` is. */
static int64_t selected_slot(const struct chain *c, int64_t t, int count)
{
    for (int64_t entry = 0; entry < TOPK; entry++) {
        int64_t slot = ref_slot(&c->rig.scene.ref, t, entry);
        bool taken = slot < 0;
        for (int i = 0; i < count; i++)
            taken |= c->host_slots[i] == slot;
        if (!taken)
            return slot;
    }
    fail_msg("row %d selects nothing of its own", (int)t);
    return -1;
}

/* New values for some cache rows that the lists select, others at each link. */
static void open_fresh(struct chain *c)
{
    struct scene *scene = &c->rig.scene;
    for (int i = 0; i < FRESH; i++)
        c->host_slots[i] = selected_slot(c, i % ROWS, i);
    for (int link = 0; link < LINKS; link++)
        for (int i = 0; i < FRESH; i++) {
            for (int k = 0; k < REF_LATENT; k++)
                c->host_latent[link][i][k] = bf16_from(rng_normal(&scene->rng));
            for (int k = 0; k < REF_ROPE; k++)
                c->host_rope[link][i][k] = bf16_from(rng_normal(&scene->rng));
        }
    c->latent = device_copy_of(c->host_latent, sizeof c->host_latent);
    c->rope = device_copy_of(c->host_rope, sizeof c->host_rope);
    c->slots = device_copy_of(c->host_slots, sizeof c->host_slots);
}

static void chain_open(struct chain *c, smla_context *context, const smla_plan *plan,
                       const struct rig_shape *shape)
{
    struct scene scene;
    static const int32_t q_lens[] = {2, 1, 3};
    rig_scene(&scene, shape, &(const struct rig_batch){.requests = 3, .q_lens = q_lens, .seed = 31});
    rig_open(&c->rig, plan, shape, &scene);
    c->context = context;
    smla_problem_init(&c->problem);
    c->problem.heads = HEADS;
    c->problem.topk = TOPK;
    c->problem.block_size = BLOCK;
    c->links = device_alloc(gpu_device(), (LINKS + 1) * LINK_BYTES);
    c->lse = device_alloc(gpu_device(), LINKS * LSE_BYTES);
    gpu_must(c->links && c->lse);
    uint16_t *start = must_malloc(LINK_BYTES);
    for (int64_t g = 0; g < ROWS * HEADS; g++)
        memcpy(start + g * REF_LATENT, c->rig.scene.q + g * REF_ROW, 2 * REF_LATENT);
    c->start = device_copy_of(start, LINK_BYTES);
    free(start);
    open_fresh(c);
}

static void chain_close(struct chain *c)
{
    void *const memory[] = {c->links, c->lse, c->start, c->latent, c->rope, c->slots};
    for (size_t i = 0; i < ARRAY_LENGTH(memory); i++)
        device_free(gpu_device(), memory[i]);
    rig_close(&c->rig);
}

/* A copy from elsewhere, a cache write, and the run behind them, of link `link` from buffer `from` to buffer `to`. */
static void enqueue_link(struct chain *c, int link, int from, int to)
{
    struct rig *rig = &c->rig;
    const smla_tensors own = rig->tensors;
    smla_cache_rows rows;
    smla_cache_rows_init(&rows, &c->problem);
    rows.rows = FRESH;
    rows.latent = c->latent + (size_t)link * FRESH * REF_LATENT;
    rows.rope = c->rope + (size_t)link * FRESH * REF_ROPE;
    rows.slots = c->slots;
    rows.kv_cache = (void *)(uintptr_t)own.kv_cache;
    rows.cache_blocks = own.cache_blocks;
    rows.cache_block_stride = own.cache_block_stride;
    rows.cache_row_stride = own.cache_row_stride;
    if (link == 0)
        gpu_must(device_copy(gpu_device(), c->links + (size_t)from * LINK_BYTES, c->start, LINK_BYTES,
                             rig->stream));
    if (link % 3 != 2) /* every third run follows another run directly */
        assert_int_equal(smla_cache_write(c->context, &c->problem, &rows, rig->stream), SMLA_OK);
    rig->tensors.q_latent = c->links + (size_t)from * LINK_BYTES;
    rig->tensors.out = c->links + (size_t)to * LINK_BYTES;
    rig->tensors.q_latent_row_stride = rig->tensors.out_row_stride = HEADS * REF_LATENT * 2;
    rig->tensors.q_latent_head_stride = rig->tensors.out_head_stride = REF_LATENT * 2;
    rig->tensors.lse = (float *)(void *)(c->lse + (size_t)link * LSE_BYTES);
    rig->tensors.lse_row_stride = HEADS * 4;
    rig->tensors.lse_head_stride = 4;
    rig_run(rig);
    rig->tensors = own;
}

/* The scene's cache as a link's write leaves it. */
static void write_fresh(struct chain *c, int link)
{
    for (int i = 0; i < FRESH && link % 3 != 2; i++) {
        uint16_t *key = scene_key(&c->rig.scene, c->host_slots[i]);
        memcpy(key, c->host_latent[link][i], 2 * REF_LATENT);
        memcpy(key + REF_LATENT, c->host_rope[link][i], 2 * REF_ROPE);
    }
}

static void poison_links(struct chain *c)
{
    struct rig *rig = &c->rig;
    gpu_must(device_fill(gpu_device(), c->links, 0xff, (LINKS + 1) * LINK_BYTES, rig->stream));
    gpu_must(device_fill(gpu_device(), c->lse, 0xff, LINKS * LSE_BYTES, rig->stream));
    gpu_must(device_fill(gpu_device(), rig->workspace, 0xff, rig->workspace_bytes, rig->stream));
}

static void fetch(struct chain *c, int last, struct outcome *outcome)
{
    struct device *gpu = gpu_device();
    gpu_must(device_download(gpu, outcome->lse, c->lse, sizeof outcome->lse, c->rig.stream));
    gpu_must(
        device_download(gpu, outcome->last, c->links + (size_t)last * LINK_BYTES, LINK_BYTES, c->rig.stream));
}

/* One link against the oracle, its query being what the GPU itself wrote. */
static void expect_link(struct chain *c, int link, const uint16_t *query, const uint16_t *got,
                        const float *lse)
{
    struct scene *scene = &c->rig.scene;
    int64_t groups = ROWS * HEADS;
    double *out = must_malloc(sizeof(double) * LINK_BYTES / 2), lse_got[ROWS * HEADS];
    write_fresh(c, link);
    for (int64_t g = 0; g < groups; g++)
        memcpy(scene->q + g * REF_ROW, query + g * REF_LATENT, 2 * REF_LATENT);
    for (int64_t i = 0; i < groups * REF_LATENT; i++)
        out[i] = (double)bf16_to(got[i]);
    for (int64_t g = 0; g < groups; g++)
        lse_got[g] = (double)lse[g];
    scene_expect(scene);
    struct bound bound = bound_out(SMLA_ISA_SCALAR, SMLA_BF16, scene->score_size);
    struct comparison of_out = compare(out, scene->want_out, groups * REF_LATENT, REF_LATENT, bound);
    struct bound lse_bound = bound_lse(scene->score_size);
    struct comparison of_lse = compare(lse_got, scene->want_lse, groups, 1, lse_bound);
    if (!of_out.right)
        comparison_print("out", &of_out, out, scene->want_out, bound);
    if (!of_lse.right)
        comparison_print("lse", &of_lse, lse_got, scene->want_lse, lse_bound);
    free(out);
    if (!of_out.right || !of_lse.right)
        fail_msg("link %d of the chain that waits is wrong", link);
}

/* Buffers of their own for all links, and a wait after each. */
static void run_patiently(struct chain *c, struct outcome *outcome)
{
    struct device *gpu = gpu_device();
    unsigned char *links = must_malloc((LINKS + 1) * LINK_BYTES);
    poison_links(c);
    for (int i = 0; i < LINKS; i++) {
        enqueue_link(c, i, i, i + 1);
        gpu_must(device_wait(gpu));
    }
    fetch(c, LINKS, outcome);
    gpu_must(device_download(gpu, links, c->links, (LINKS + 1) * LINK_BYTES, NULL));
    for (int i = 0; i < LINKS; i++)
        expect_link(c, i, (const uint16_t *)(void *)(links + i * LINK_BYTES),
                    (const uint16_t *)(void *)(links + (i + 1) * LINK_BYTES),
                    (const float *)(void *)outcome->lse[i]);
    free(links);
}

static void expect_outcome(const struct rig_shape *shape, const struct outcome *want,
                           const struct outcome *got, const char *how, int repeat)
{
    if (memcmp(want, got, sizeof *want) == 0)
        return;
    rig_shape_print(shape);
    for (int i = 0; i < LINKS; i++)
        for (int g = 0; g < ROWS * HEADS; g++) {
            float a, b;
            memcpy(&a, want->lse[i] + 4 * g, 4);
            memcpy(&b, got->lse[i] + 4 * g, 4);
            if (memcmp(&a, &b, 4) != 0)
                fail_msg("%s, repeat %d: link %d, row %d, head %d: lse %.9g, but %.9g with waits", how,
                         repeat, i, g / HEADS, g % HEADS, (double)b, (double)a);
        }
    fail_msg("%s, repeat %d: the last output differs from that with waits", how, repeat);
}

/* Two buffers take turns. */
static void enqueue_chain(struct chain *c)
{
    for (int i = 0; i < LINKS; i++)
        enqueue_link(c, i, i % 2, (i + 1) % 2);
}

static void run_eagerly(struct chain *c, const struct rig_shape *shape, const struct outcome *want)
{
    struct device *gpu = gpu_device();
    struct outcome *got = must_malloc(sizeof *got);
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        poison_links(c);
        enqueue_chain(c);
        fetch(c, LINKS % 2, got);
        expect_outcome(shape, want, got, "stream", repeat);
    }
    gpu_must(device_capture_begin(gpu, c->rig.stream, DEVICE_CAPTURE_GLOBAL));
    enqueue_chain(c);
    struct CUgraphExec_st *graph = device_capture_end(gpu, c->rig.stream);
    if (!graph)
        fail_msg("strict capture failed: %s", device_error(gpu));
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        poison_links(c);
        for (int i = 0; i <= repeat % 3; i++) /* graphs follow each other as well */
            gpu_must(device_graph_launch(gpu, graph, c->rig.stream));
        fetch(c, LINKS % 2, got);
        expect_outcome(shape, want, got, "graph", repeat);
    }
    device_graph_free(gpu, graph);
    free(got);
}

static void chains_of(bool slots, bool checked)
{
    smla_context *context = rig_context();
    struct chain *c = must_malloc(sizeof *c);
    struct outcome *want = must_malloc(sizeof *want);
    for (int lane = 0; lane < RIG_LANES && rig_has_lane(context, lane); lane++)
        for (int pdl = 0; pdl < 2; pdl++) {
            const struct rig_shape shape = {.rows = ROWS,
                                            .blocks = BLOCKS,
                                            .block_size = BLOCK,
                                            .heads = HEADS,
                                            .topk = TOPK,
                                            .slots = slots,
                                            .without_step = slots,
                                            .split_query = true,
                                            .out_dtype = SMLA_BF16,
                                            .checked = checked,
                                            .pdl = pdl,
                                            .portable = lane == 1};
            struct rig_shape plain = shape;
            plain.pdl = false;
            smla_plan *patient = rig_plan(context, &plain), *eager = rig_plan(context, &shape);
            chain_open(c, context, patient, &plain);
            run_patiently(c, want);
            chain_close(c);
            chain_open(c, context, eager, &shape);
            run_eagerly(c, &shape, want);
            if (checked)
                assert_int_equal(smla_plan_verify(eager, c->rig.stream), SMLA_OK);
            chain_close(c);
            smla_plan_destroy(eager);
            smla_plan_destroy(patient);
        }
    free(want);
    free(c);
    smla_context_destroy(context);
}

static void pdl_chain_of_slots(void **state)
{
    (void)state;
    chains_of(true, false);
}

static void pdl_chain_of_positions(void **state)
{
    (void)state;
    chains_of(false, false);
}

static void pdl_chain_checked(void **state)
{
    (void)state;
    chains_of(false, true);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(pdl_chain_of_slots),
    cmocka_unit_test(pdl_chain_of_positions),
    cmocka_unit_test(pdl_chain_checked),
};

RIG_MAIN(tests)
