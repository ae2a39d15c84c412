/* Field cases: addresses, strides and layouts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu.h"
#include "harness.h"

/*
 * A cache spread over terabytes of address space, of which only the scene's blocks exist. The scene is
 * built near; then its block table is moved to far ids, and place_far puts each block's rows there.
 */
static struct {
    uint16_t *near;    /* the scene's own cache */
    const int32_t *id; /* far id of each near block, ascending */
    int64_t blocks;    /* near */
    int64_t stride, row_stride;
} far;

static void place_far(struct stage *stage, const struct scene *scene)
{
    int64_t last = far.id[far.blocks - 1], block = scene->spec.block_size;
    stage->tensors.cache_blocks = last + 1;
    stage->tensors.cache_block_stride = far.stride;
    stage->tensors.cache_row_stride = far.row_stride;
    stage->kv = guard_sparse((size_t)(last * far.stride + (block - 1) * far.row_stride + 2 * REF_ROW));
    assert_non_null(stage->kv.data);
    for (int64_t row = 0; row < far.blocks * block; row++)
        memcpy(stage->kv.data + far.id[row / block] * far.stride + row % block * far.row_stride,
               far.near + row * REF_ROW, 2 * REF_ROW);
    stage->tensors.kv_cache = stage->kv.data;
}

static bool sparse_works(int64_t bytes)
{
    struct guard guard = guard_sparse((size_t)bytes);
    bool works = guard.data != NULL;
    guard_close(&guard);
    return works;
}

static void far_cache(const char *name, int32_t block_size, const int32_t *ids, int64_t stride,
                      int64_t row_stride)
{
    struct scene scene;
    /* 2 blocks for each of 2 requests, and 3 spare ones: seven ids. */
    const struct scene_spec spec = {.name = name,
                                    .requests = 2,
                                    .contexts = (int32_t[]){2 * block_size - 1, 2 * block_size - 9},
                                    .block_size = block_size,
                                    .topk = 70,
                                    .invalid = 0.1};
    scene_build(&scene, &spec);
    assert_int_equal(scene.ref.cache_blocks, 7);
    far.near = scene.kv;
    far.id = ids;
    far.blocks = 7;
    far.stride = stride;
    far.row_stride = row_stride;
    for (int64_t b = 0; b < 2 * scene.ref.block_table_width; b++)
        scene.block_table[b] = ids[scene.block_table[b]];
    scene.ref.cache_blocks = ids[6] + 1;
    expect_everywhere_with(&scene, &(const struct setting){.place_cache = place_far});
    scene_close(&scene);
}

/* C14: offsets in 32 bits wrapped at 2^31 bytes, at 2^32, at 2^31 elements, and read another page. */
static void C14_pages_beyond_32_bits(void **state)
{
    (void)state;
    enum { ROW = 2 * REF_ROW, BLOCK = 32 * ROW };
    static const int32_t far_ids[] = {0, 58254, 58255, 116508, 233017, 262144, 300000};
    static const int32_t farther[] = {1, 3273602, 3273603, 3273604, 6547205, 6547206, 6547207};
    if (!sparse_works(6547208LL * BLOCK))
        harness_skip("no 242 GB of address space");
    far_cache("C14", 32, far_ids, BLOCK, ROW);
    far_cache("C14", 32, farther, BLOCK, ROW);
}

/* The last slots that an int32 can name. */
static void C14_last_slots(void **state)
{
    (void)state;
    enum { ROW = 2 * REF_ROW, LAST = INT32_MAX / 64 };
    static const int32_t ids[] = {7, LAST - 6, LAST - 5, LAST - 4, LAST - 3, LAST - 2, LAST - 1};
    if (!sparse_works((int64_t)LAST * 64 * ROW))
        harness_skip("no 2.5 TB of address space");
    far_cache("C14 last slots", 64, ids, 64 * ROW, ROW);
}

/* C15: block * stride passed 2^31 between blocks 2142 and 2143. */
static void C15_all_layers_in_one_allocation(void **state)
{
    (void)state;
    static const int32_t ids[] = {2, 2140, 2141, 2142, 2143, 2144, 2145};
    far_cache("C15", 64, ids, 1002240, 2 * REF_ROW);
}

static void misalign_blocks(smla_tensors *tensors, const struct scene *scene)
{
    (void)scene;
    tensors->cache_block_stride += 1;
}

/* C16: the block stride was taken for a whole number of rows, or ignored. */
static void C16_block_strides(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C16", .block_size = 64, .contexts = (int32_t[]){200, 100, 63}};
    scene_build(&scene, &spec);
    expect_everywhere_with(&scene, &(const struct setting){.kv_block_gap = 2 * 64 * 2 * REF_ROW});
    expect_everywhere_with(&scene, &(const struct setting){.kv_block_gap = 2 * REF_ROW / 2 + 2});
    FOR_EACH_ISA(isa)
    expect_refused(&scene, &(const struct setting){.isa = isa, .edit = misalign_blocks},
                   SMLA_ERROR_ALIGNMENT);
    scene_close(&scene);
}

static void q_stride_2(smla_tensors *tensors, const struct scene *scene)
{
    (void)scene;
    tensors->q_elem_stride *= 2;
}

static void cache_stride_2(smla_tensors *tensors, const struct scene *scene)
{
    (void)scene;
    tensors->cache_elem_stride *= 2;
}

static void out_stride_2(smla_tensors *tensors, const struct scene *scene)
{
    (void)scene;
    tensors->out_elem_stride *= 2;
}

/* C17: an inner stride of 2 was silently read as 1. */
static void C17_inner_strides(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void (*edit)(smla_tensors *, const struct scene *);
    } cases[] = {{"q_elem_stride", q_stride_2},
                 {"cache_elem_stride", cache_stride_2},
                 {"out_elem_stride", out_stride_2}};
    struct scene scene;
    const struct scene_spec spec = {.name = "C17"};
    scene_build(&scene, &spec);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct setting setting = {.threads = 1, .edit = cases[i].edit};
        struct stage stage;
        struct result result;
        char reason[200];
        scene_run(&scene, &setting, &result);
        assert_int_equal(result.status, SMLA_ERROR_STRIDE);
        assert_non_null(strstr(result.error, cases[i].name));
        expect_refused(&scene, &setting, SMLA_ERROR_STRIDE);
        stage_open(&stage, &scene, &setting);
        cases[i].edit(&stage.tensors, &scene);
        assert_int_equal(
            smla_support_query(&stage.problem, SMLA_BACKEND_CPU, 0, &stage.tensors, reason, sizeof reason),
            SMLA_ERROR_STRIDE);
        assert_string_equal(reason, result.error);
        result_close(&result);
        stage_close(&stage);
    }
    scene_close(&scene);
}

/* The packed query given as its two slices. */
static void slice_query(smla_tensors *tensors, const struct scene *scene)
{
    (void)scene;
    if (!tensors->q)
        return;
    tensors->q_latent = tensors->q;
    tensors->q_rope = (const char *)tensors->q + 2 * REF_LATENT;
    tensors->q_latent_row_stride = tensors->q_rope_row_stride = tensors->q_row_stride;
    tensors->q_latent_head_stride = tensors->q_rope_head_stride = tensors->q_head_stride;
    tensors->q = NULL;
}

/* C18: slices were taken for dense arrays, or copied. */
static void C18_query_slices(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C18", .heads = 8, .q_lens = (int32_t[]){2, 1, 3}};
    scene_build(&scene, &spec);
    FOR_EACH_ISA(isa)
    expect_right(&scene, &(const struct setting){
                             .isa = isa, .threads = 1, .dense = true, .q_row_gap = 2 * (9216 - 8 * REF_ROW)});
    expect_everywhere_with(&scene, &(const struct setting){.q_row_gap = 2 * (9216 - 8 * REF_ROW)});
    expect_everywhere_with(&scene, &(const struct setting){.edit = slice_query});
    scene_close(&scene);
}

/* C19, one half: row strides of gigabytes in every tensor; only the rows themselves exist. */
static void C19_huge_row_strides(void **state)
{
    (void)state;
    const int64_t stride = 2500000000; /* beyond 2^31, and a multiple of 4 */
    struct scene scene;
    const struct scene_spec spec = {.name = "C19", .heads = 3, .topk = 33};
    if (!sparse_works(6 * stride))
        harness_skip("no 15 GB of address space");
    scene_open_shared(&scene, &spec, 4, 40);
    for (int64_t i = 0; i < 4 * 33; i++)
        scene.topk[i] = (int32_t)(i * 7 % 40);
    scene_fill(&scene);
    scene_expect(&scene);
    expect_everywhere_with(&scene, &(const struct setting){.huge_row_stride = stride});
    scene_close(&scene);
}

/* C19, other half: 2^31 query and output elements. Rows are 128 KiB of out; one window of memory stands in
 * for all rows but those that are looked at. */
enum {
    MANY = 32768,
    HEADS = 128,
    OUT_ROW = HEADS * REF_LATENT * 2,
    Q_ROW = HEADS * 2 * REF_ROW,
    WINDOW = 1 << 26
};
static const int32_t looked_at[] = {0, 16383, 16384, 32767};

static bool window_out(unsigned char *out)
{
    int file = memfd_create("rows", 0);
    bool right = file >= 0 && ftruncate(file, WINDOW) == 0;
    for (int64_t at = 0; at < (int64_t)MANY * OUT_ROW && right; at += WINDOW)
        right = mmap(out + at, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
    for (size_t i = 0; i < ARRAY_LENGTH(looked_at) && right; i++)
        right = mmap(out + (int64_t)looked_at[i] * OUT_ROW, OUT_ROW, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    if (file >= 0)
        close(file);
    return right;
}

/* Each row looked at attends one key, so that its output is that key in every head. */
static void run_many_rows(const smla_tensors *tensors, const smla_problem *problem, smla_isa isa)
{
    smla_context *context;
    smla_plan *plan;
    smla_plan_options maxima;
    maxima_init(&maxima);
    maxima.max_rows = MANY;
    assert_int_equal(open_context(&context, &(const struct setting){.isa = isa, .threads = 2}), SMLA_OK);
    assert_int_equal(smla_plan_create(&plan, context, problem, &maxima), SMLA_OK);
    size_t bytes = smla_plan_workspace_bytes(plan);
    void *workspace = gpu_mode() ? device_alloc(gpu_device(), bytes) : must_malloc(bytes);
    assert_int_equal(smla_run(plan, NULL, tensors, workspace, bytes, NULL), SMLA_OK);
    if (gpu_mode())
        device_free(gpu_device(), workspace);
    else
        free(workspace);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
}

/* The same in device memory, all rows of it; those looked at come back. */
static void run_many_rows_on_gpu(const smla_tensors *tensors, const smla_problem *problem)
{
    struct device *gpu = gpu_device();
    smla_tensors t = *tensors;
    unsigned char *q = device_alloc(gpu, (size_t)MANY * Q_ROW),
                  *out = device_alloc(gpu, (size_t)MANY * OUT_ROW);
    if (!q || !out) {
        device_free(gpu, q);
        device_free(gpu, out);
        harness_skip("no 9 GB of GPU memory are free");
    }
    void *kv = gpu_copy_of(t.kv_cache, sizeof(uint16_t) * 4 * REF_ROW);
    void *topk = gpu_copy_of(t.topk, sizeof(int32_t) * MANY);
    gpu_must(device_fill(gpu, q, 0, (size_t)MANY * Q_ROW, NULL) &&
             device_fill(gpu, out, 0xff, (size_t)MANY * OUT_ROW, NULL));
    t.q = q;
    t.kv_cache = kv;
    t.topk = topk;
    t.out = out;
    run_many_rows(&t, problem, SMLA_ISA_SCALAR);
    gpu_must(device_wait(gpu));
    for (size_t i = 0; i < ARRAY_LENGTH(looked_at); i++) {
        int64_t at = (int64_t)looked_at[i] * OUT_ROW;
        gpu_must(device_download(gpu, (unsigned char *)tensors->out + at, out + at, OUT_ROW, NULL));
    }
    device_free(gpu, topk);
    device_free(gpu, kv);
    device_free(gpu, out);
    device_free(gpu, q);
}

static void C19_many_rows_and_heads(void **state)
{
    (void)state;
    struct guard q = guard_sparse((size_t)MANY * Q_ROW), out = guard_sparse((size_t)MANY * OUT_ROW);
    uint16_t kv[4 * REF_ROW];
    int32_t *lists = must_malloc(sizeof(int32_t) * MANY);
    smla_problem problem;
    smla_tensors tensors;
    if (!q.data || !out.data || !window_out(out.data))
        harness_skip("no 9 GB of address space");
    smla_problem_init(&problem);
    problem.topk = 1;
    problem.block_size = 1;
    problem.topk_kind = SMLA_TOPK_SLOTS;
    smla_tensors_init(&tensors, &problem);
    for (int i = 0; i < 4 * REF_ROW; i++)
        kv[i] = bf16_from((float)(i % 251) - 100);
    memset(lists, 0xff, sizeof(int32_t) * MANY);
    for (int i = 0; i < 4; i++)
        lists[looked_at[i]] = i;
    tensors.rows = MANY;
    tensors.q = q.data;
    tensors.kv_cache = kv;
    tensors.cache_blocks = 4;
    tensors.topk = lists;
    tensors.out = out.data;
    if (gpu_mode())
        run_many_rows_on_gpu(&tensors, &problem);
    else
        run_many_rows(&tensors, &problem, SMLA_ISA_SCALAR);
    for (int i = 0; i < 4; i++)
        for (int h = 0; h < HEADS; h++)
            assert_memory_equal(out.data + (int64_t)looked_at[i] * OUT_ROW + h * 2 * REF_LATENT,
                                kv + i * REF_ROW, 2 * REF_LATENT);
    guard_close(&q);
    guard_close(&out);
    free(lists);
}

/* C20: a block size was rounded to what a kernel liked. Same positions, same keys, other blocks. */
static void blocks_of(struct scene *scene, int32_t block_size, const uint16_t *keys, int64_t count)
{
    const struct scene_spec spec = {.name = "C20", .block_size = block_size, .topk = 200, .heads = 5};
    scene_open_shared(scene, &spec, 3, count);
    int64_t width = scene->ref.block_table_width;
    for (int64_t i = 0; i < 3 * width; i++)
        scene->block_table[i] = (int32_t)(width - 1 - i % width);
    for (int64_t p = 0; p < count; p++) {
        int64_t slot = (width - 1 - p / block_size) * block_size + p % block_size;
        memcpy(scene_key(scene, slot), keys + p * REF_ROW, 2 * REF_ROW);
    }
    for (int64_t i = 0; i < 3 * 200; i++)
        scene->topk[i] = (int32_t)(i * 37 % count);
    scene_expect(scene);
}

static void C20_same_data_in_other_blocks(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    static const int32_t sizes[] = {16, 1, 32, 64, 128, 256, 7, 1000};
    uint16_t *keys = must_malloc(sizeof(uint16_t) * COUNT * REF_ROW);
    struct rng rng = {20};
    for (int i = 0; i < COUNT * REF_ROW; i++)
        keys[i] = bf16_from(rng_normal(&rng));
    FOR_EACH_ISA(isa)
    {
        struct result first, other;
        for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
            struct scene scene;
            struct setting setting = {.isa = isa, .threads = 2};
            blocks_of(&scene, sizes[i], keys, COUNT);
            scene_run(&scene, &setting, i ? &other : &first);
            assert_true(result_right(&scene, &setting, i ? &other : &first));
            if (i) {
                assert_true(results_same(&first, &other));
                result_close(&other);
            }
            scene_close(&scene);
        }
        result_close(&first);
    }
    free(keys);
}

/* C40: a row's unused tail was summed into the score. Tails are 0xFF: NaN. */
static void C40_row_tails(void **state)
{
    (void)state;
    struct scene scene;
    const struct scene_spec spec = {.name = "C40", .topk = 90};
    scene_build(&scene, &spec);
    expect_everywhere_with(&scene, &(const struct setting){.kv_row_gap = 128});
    expect_everywhere_with(&scene, &(const struct setting){.kv_row_gap = 2});
    scene_close(&scene);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(C14_pages_beyond_32_bits),
    cmocka_unit_test(C14_last_slots),
    cmocka_unit_test(C15_all_layers_in_one_allocation),
    cmocka_unit_test(C16_block_strides),
    cmocka_unit_test(C17_inner_strides),
    cmocka_unit_test(C18_query_slices),
    cmocka_unit_test(C19_huge_row_strides),
    cmocka_unit_test(C19_many_rows_and_heads),
    cmocka_unit_test(C20_same_data_in_other_blocks),
    cmocka_unit_test(C40_row_tails),
};

HARNESS_MAIN(tests)
