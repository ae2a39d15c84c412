/* What reaches the driver: launches and their arguments, the step's metadata, the record of checked plans. */
#include <args.h>
#include <string.h>

#include "fake_gpu.h"

static const struct smla_decode_args *decode_arguments(void)
{
    return (const struct smla_decode_args *)last_launch()->arguments;
}

/* ---- Launches ---- */

static void launch_shapes(void)
{
    static const struct {
        int32_t heads, splits, topk;
        int64_t rows;
        unsigned grid, cluster;
        const char *entry;
    } cases[] = {
        {8, 1, 2048, 1, 1, 1, "smla_decode_h1_c1"},
        {8, 1, 2048, 140, 140, 1, "smla_decode_portable"},
        {8, 1, 2048, 300, 132, 1, "smla_decode_h1_c1"},
        {8, 4, 2048, 3, 12, 4, "smla_decode_h1_c4"},
        {8, 16, 2048, 2, 32, 16, "smla_decode_h1_c16"},
        {1, 5, 2048, 7, 28, 4, "smla_decode_h1_c4"},
        {8, 64, 2048, 1, 16, 16, "smla_decode_h1_c16"},
        {8, 2, 1, 5, 10, 2, "smla_decode_h1_c2"},
        {16, 0, 2048, 256, 256, 1, "smla_decode_portable"},
        {32, 0, 2048, 256, 132, 1, "smla_decode_h4_c1"},
        {32, 8, 2048, 3, 24, 8, NULL},
        {64, 0, 2048, 64, 128, 2, "smla_decode_h8_c2"},
        {64, 0, 2048, 16, 128, 8, "smla_decode_h8_c8"},
        {24, 0, 2048, 64, 128, 2, "smla_decode_h4_c2"},
    };
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct small small;
        small_init(&small);
        small.problem.heads = cases[i].heads;
        small.problem.topk = cases[i].topk;
        small.options.splits = cases[i].splits;
        small_open(&small, context, cases[i].rows);
        fake()->launch_count = 0;
        CHECK(small_run(&small, NULL) == SMLA_OK);
        CHECK(fake()->launch_count == 1);
        const struct fake_launch *launch = last_launch();
        CHECK(!cases[i].entry || strcmp(launch->entry, cases[i].entry) == 0);
        CHECK((!cases[i].entry || launch->grid == cases[i].grid) && launch->cluster == cases[i].cluster &&
              !launch->programmatic);
        CHECK(decode_arguments()->rows == cases[i].rows && decode_arguments()->heads == cases[i].heads);
        CHECK(!cases[i].entry || decode_arguments()->head_groups == 1);
        smla_plan_destroy(small.plan);
    }
    smla_context_destroy(context);
    check_undisturbed(0);
}

static void launches_by_shape(void **state)
{
    (void)state;
    in_process(launch_shapes);
}

/* Heads beyond a CTA's go to further ones of the row. */
static void head_groups(void)
{
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    for (int32_t heads = 1; heads <= 128; heads++) {
        struct small small;
        small_init(&small);
        small.problem.heads = heads;
        small.problem.topk = 2048;
        small.options.splits = 2;
        small_open(&small, context, 3);
        CHECK(small_run(&small, NULL) == SMLA_OK);
        int32_t groups = decode_arguments()->head_groups;
        bool narrow = strncmp(last_launch()->entry, "smla_decode_h1_", 15) == 0;
        CHECK(groups == (heads + (narrow ? 7 : 15)) / (narrow ? 8 : 16));
        CHECK(last_launch()->grid == 3u * 2 * (unsigned)groups);
        fake()->launch_count = 0;
        smla_plan_destroy(small.plan);
    }
    smla_context_destroy(context);
}

static void launches_by_heads(void **state)
{
    (void)state;
    in_process(head_groups);
}

static void arguments(void)
{
    struct small small;
    float sink = 0, lse[16];
    int32_t lengths[2] = {1, 2};
    static _Alignas(16) char rope[16];
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    small_init(&small);
    small.problem.scale = 0.5f;
    small.problem.lse_base = SMLA_LSE_BASE2;
    small.problem.empty_lse = SMLA_EMPTY_POS_INF;
    small.problem.out_dtype = SMLA_F32;
    small_open(&small, context, 2);
    small.tensors.sinks = &sink;
    small.tensors.lse = lse;
    small.tensors.topk_length = lengths;
    small.tensors.cache_block_stride = 16 * 1152 + 64;
    CHECK(small_run(&small, NULL) == SMLA_OK);
    const struct smla_decode_args *args = decode_arguments();
    CHECK(args->scale_log2 == 0.5f * 1.44269504f && args->lse_factor == 1 && args->empty_lse > 1e38f);
    CHECK(args->out_f32 == 1 && args->sinks == &sink && args->lse == lse && args->lse_row == 4);
    CHECK(args->q_latent == small.tensors.q && args->q_rope == (const char *)small.tensors.q + 1024);
    CHECK(args->q_rope_row == 1152 && args->lists.topk_length == lengths && args->lists.topk_row == 256);
    CHECK(args->lists.cache_blocks == 4 && args->lists.block.divisor == 16 && !args->lists.dense);
    CHECK(!args->lists.positions && !args->lists.step && args->lists.topk_width == 64);
    small.tensors.q_latent = small.tensors.q;
    small.tensors.q_rope = rope;
    small.tensors.q = NULL;
    small.tensors.cache_block_stride = 16 * 1152;
    CHECK(small_run(&small, NULL) == SMLA_OK);
    args = decode_arguments();
    CHECK(args->q_rope == rope && args->q_rope_row == 128 && args->q_latent_row == 1024 && args->lists.dense);
    smla_plan_destroy(small.plan);
    smla_context_destroy(context);
    check_undisturbed(0);
}

static void launch_arguments(void **state)
{
    (void)state;
    in_process(arguments);
}

/* C31: a run asks nothing of the driver but which context is current and the launch. No rows: nothing at all. */
static void run_calls(void)
{
    struct small small;
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    small_init(&small);
    small_open(&small, context, 4);
    int calls = fake()->calls, allocations = fake()->allocations, waits = fake()->waits;
    for (int i = 0; i < 10; i++)
        CHECK(small_run(&small, NULL) == SMLA_OK);
    CHECK(fake()->calls - calls == 20 && fake()->allocations == allocations && fake()->waits == waits);
    calls = fake()->calls;
    small.tensors.rows = 0;
    small.tensors.q = small.tensors.kv_cache = small.tensors.topk = small.tensors.out = NULL;
    CHECK(small_run(&small, NULL) == SMLA_OK && fake()->calls == calls);
    smla_plan_destroy(small.plan);
    smla_context_destroy(context);
}

static void run_only_launches(void **state)
{
    (void)state;
    in_process(run_calls);
}

static void dependent_launch(void)
{
    struct small small;
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    small_init(&small);
    small.options.cuda_pdl = 1;
    small_open(&small, context, 4);
    CHECK(small_run(&small, NULL) == SMLA_OK);
    CHECK(last_launch()->programmatic);
    smla_plan_destroy(small.plan);
    smla_context_destroy(context);
}

static void programmatic_launch(void **state)
{
    (void)state;
    in_process(dependent_launch);
}

/* Pointers and strides that are no multiples of 16 bytes are refused by name, before any launch. */
static void refuse_alignment(void)
{
    static const struct {
        size_t member;
        const char *name;
    } cases[] = {
        {offsetof(smla_tensors, q), "q = "},
        {offsetof(smla_tensors, q_row_stride), "q_row_stride = "},
        {offsetof(smla_tensors, kv_cache), "kv_cache = "},
        {offsetof(smla_tensors, cache_row_stride), "cache_row_stride = "},
        {offsetof(smla_tensors, cache_block_stride), "cache_block_stride = "},
        {offsetof(smla_tensors, out), "out = "},
        {offsetof(smla_tensors, out_row_stride), "out_row_stride = "},
    };
    struct small small;
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    small_init(&small);
    small_open(&small, context, 2);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const smla_tensors right = small.tensors;
        char *member = (char *)&small.tensors + cases[i].member;
        int64_t value;
        memcpy(&value, member, sizeof value);
        value += 8;
        small.tensors.cache_block_stride += 1024; /* so that a longer row still fits */
        memcpy(member, &value, sizeof value);
        CHECK(small_run(&small, NULL) == SMLA_ERROR_ALIGNMENT);
        check_text(context, cases[i].name);
        check_text(context, "a multiple of 16 is accepted by the cuda backend");
        char reason[256];
        CHECK(smla_support_query(&small.problem, SMLA_BACKEND_CUDA, 90, &small.tensors, reason,
                                 sizeof reason) == SMLA_ERROR_ALIGNMENT);
        CHECK(strcmp(reason, smla_context_error(context)) == 0);
        small.tensors = right;
    }
    CHECK(fake()->launch_count == 0);
    small.tensors.cache_blocks = (1LL << 31) / 16;
    CHECK(small_run(&small, NULL) == SMLA_ERROR_ARGUMENT);
    check_text(context, "cache_blocks = 134217728: at most 134217727");
    smla_plan_destroy(small.plan);
    smla_context_destroy(context);
}

static void alignment_is_refused_by_name(void **state)
{
    (void)state;
    in_process(refuse_alignment);
}

/* The kernels for any GPU, by wish and on a GPU that has no others. */
static void any_gpu(void)
{
    struct small small;
    fake()->devices = 2; /* the second is sm_80 */
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    small_init(&small);
    small.options.cuda_portable = 1;
    smla_plan_info info = {.struct_size = sizeof info};
    small.problem.heads = 24;
    small.problem.topk = 100;
    small_open(&small, context, 3);
    CHECK(smla_plan_get_info(small.plan, &info) == SMLA_OK && info.arch == 80);
    CHECK(small_run(&small, NULL) == SMLA_OK && fake()->launch_count == 2);
    const struct smla_decode_args *args = decode_arguments();
    CHECK(strcmp(last_launch()->entry, "smla_decode_portable_merge") == 0 && args->splits == 4);
    CHECK(fake()->launches[0].grid == 3 * 2 * 4 && fake()->launches[0].threads == SMLA_PORTABLE_THREADS);
    CHECK((uintptr_t)args->part_out % 16 == 0 && args->part_ml == args->part_out + 3 * 4 * 24 * 512);
    CHECK(smla_plan_workspace_bytes(small.plan) == 3 * 4 * 24 * 514 * 4 + 16);
    smla_plan_destroy(small.plan);
    fake_current_device(1);
    smla_context *other = open_gpu(-1);
    small.options.cuda_portable = 0;
    small_open(&small, other, 3);
    CHECK(smla_plan_get_info(small.plan, &info) == SMLA_OK && info.arch == 80);
    CHECK(small_run(&small, NULL) == SMLA_OK && last_launch()->device == 1);
    smla_plan_destroy(small.plan);
    smla_context_destroy(other);
    smla_context_destroy(context);
}

/* Never more parts than their room in the workspace, nor than pieces of a list; one where bits must not depend on the
 * batch; and the workspace grows with max_rows. */
static void portable_parts(void)
{
    static const int32_t heads[] = {1, 16, 17, 128}, topk[] = {1, 33, 2048}, splits[] = {0, 1, 5, 64};
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    for (size_t i = 0; i < 4 * 3 * 4 * 2; i++) {
        struct small small;
        size_t former = 0;
        small_init(&small);
        small.problem.heads = heads[i % 4];
        small.problem.topk = topk[i / 4 % 3];
        small.options.splits = splits[i / 12 % 4];
        small.problem.batch_invariant = (int32_t)(i / 48);
        small.options.cuda_portable = 1;
        for (int64_t rows = 1; rows < 5000; rows += 1 + rows / 3) {
            small_open(&small, context, rows);
            size_t bytes = smla_plan_workspace_bytes(small.plan);
            fake()->launch_count = 0;
            CHECK(bytes >= former && bytes < 100u << 20);
            CHECK(small_run(&small, NULL) == SMLA_OK);
            const struct smla_decode_args *args = decode_arguments();
            size_t parts = (size_t)rows * (size_t)args->splits * (size_t)args->heads;
            CHECK(args->splits == 1 || parts * 514 * 4 + 16 <= bytes);
            CHECK(args->splits <= (small.problem.topk + 31) / 32 && args->splits <= 64);
            CHECK(args->splits == 1 || !small.problem.batch_invariant);
            CHECK(fake()->launch_count == (args->splits > 1 ? 2 : 1));
            former = bytes;
            smla_plan_destroy(small.plan);
        }
    }
    smla_context_destroy(context);
}

/* A build without them says so, here and of GPUs that need them. */
static void without_portable(void)
{
    struct small small;
    char reason[256];
    fake()->devices = 2;
    fake_image_count--;
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    small_init(&small);
    small.options.cuda_portable = 1;
    CHECK(small_plan(&small, context, 3) == SMLA_UNSUPPORTED_BACKEND);
    check_text(context, "lacks kernels: decode_portable");
    CHECK(smla_support_query(&small.problem, SMLA_BACKEND_CUDA, 80, NULL, reason, sizeof reason) ==
          SMLA_ERROR_DEVICE_ARCH);
    CHECK(strstr(reason, "sm_80: sm_90 is accepted by this build"));
    smla_context_destroy(context);
    check_undisturbed(0);
}

static void portable_lane(void **state)
{
    (void)state;
    in_process(any_gpu);
    in_process(portable_parts);
    in_process(without_portable);
}

/* ---- Cache write and merge ---- */

static void small_kernels(void)
{
    static _Alignas(16) char memory[16];
    smla_problem problem;
    smla_cache_rows rows;
    smla_partials partials;
    int64_t slots[9];
    float lse[9];
    fake_current_device(0);
    smla_context *context = open_gpu(-1);
    smla_problem_init(&problem);
    smla_cache_rows_init(&rows, &problem);
    rows.latent = rows.rope = rows.kv_cache = memory;
    rows.slots = slots;
    rows.rows = 9;
    rows.cache_blocks = 7;
    CHECK(smla_cache_write(context, &problem, &rows, NULL) == SMLA_OK);
    const struct smla_cache_write_args *write =
        (const struct smla_cache_write_args *)last_launch()->arguments;
    CHECK(strcmp(last_launch()->entry, "smla_cache_write") == 0 && last_launch()->grid == 2);
    CHECK(write->rows == 9 && write->slots == slots && write->cache_blocks == 7 && write->block_size == 64);
    int calls = fake()->calls;
    CHECK(smla_cache_write(context, &problem, &rows, NULL) == SMLA_OK && fake()->calls - calls == 2);
    rows.rope_row_stride = 136;
    CHECK(smla_cache_write(context, &problem, &rows, NULL) == SMLA_ERROR_ALIGNMENT);
    check_text(context, "rope_row_stride = 136");
    smla_partials_init(&partials, 2, 3, 1);
    partials.part_out = partials.out = memory;
    partials.part_lse = lse;
    CHECK(smla_merge(context, &partials, NULL) == SMLA_OK);
    const struct smla_merge_args *merge = (const struct smla_merge_args *)last_launch()->arguments;
    CHECK(strcmp(last_launch()->entry, "smla_merge") == 0 && last_launch()->grid == 1);
    CHECK(merge->parts == 2 && merge->rows == 3 && merge->heads == 1 && merge->base_factor > 1.44f);
    partials.dim = 256;
    CHECK(smla_merge(context, &partials, NULL) == SMLA_UNSUPPORTED_HEAD_DIM);
    smla_context_destroy(context);
    check_undisturbed(0);
}

static void cache_write_and_merge(void **state)
{
    (void)state;
    in_process(small_kernels);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(launches_by_shape),   cmocka_unit_test(launches_by_heads),
    cmocka_unit_test(launch_arguments),    cmocka_unit_test(run_only_launches),
    cmocka_unit_test(programmatic_launch), cmocka_unit_test(alignment_is_refused_by_name),
    cmocka_unit_test(portable_lane),       cmocka_unit_test(cache_write_and_merge),
};

HARNESS_MAIN(tests)
