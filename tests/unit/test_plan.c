#include <limits.h>
#include <string.h>

#include "harness.h"

static smla_context *context;
static smla_problem problem;
static smla_plan_options maxima;

static int setup(smla_isa isa, int32_t threads)
{
    smla_problem_init(&problem);
    smla_plan_options_init(&maxima);
    return open_context(&context, &(const struct setting){.isa = isa, .threads = threads});
}

static size_t workspace(void)
{
    smla_plan *plan;
    assert_int_equal(smla_plan_create(&plan, context, &problem, &maxima), SMLA_OK);
    size_t bytes = smla_plan_workspace_bytes(plan);
    smla_plan_destroy(plan);
    return bytes;
}

static void plan_defaults(void **state)
{
    (void)state;
    memset(&problem, 0x55, sizeof problem);
    memset(&maxima, 0x55, sizeof maxima);
    assert_int_equal(setup(SMLA_ISA_SCALAR, 1), SMLA_OK);
    assert_int_equal(problem.struct_size, sizeof problem);
    assert_int_equal(problem.heads, 128);
    assert_int_equal(problem.kv_lora_rank, 512);
    assert_int_equal(problem.qk_rope_head_dim, 64);
    assert_int_equal(problem.topk, 2048);
    assert_int_equal(problem.block_size, 64);
    assert_int_equal(problem.query_dtype, SMLA_BF16);
    assert_int_equal(problem.out_dtype, SMLA_BF16);
    assert_int_equal(problem.cache_format, SMLA_CACHE_BF16);
    assert_int_equal(problem.topk_kind, SMLA_TOPK_POSITIONS);
    assert_int_equal(problem.lse_base, SMLA_LSE_NATURAL);
    assert_int_equal(problem.empty_lse, SMLA_EMPTY_NEG_INF);
    assert_true(problem.scale == 1.0f / 24);
    assert_int_equal(problem.batch_invariant, 0);
    assert_int_equal(problem.dcp_world_size, 1);
    assert_int_equal(problem.dcp_rank, 0);
    assert_true(maxima.struct_size == sizeof maxima && maxima.max_rows == 0 && maxima.max_requests == 0);
    assert_true(maxima.max_blocks == 0 && maxima.decode_rows_max == 0 && maxima.splits == 0);
    assert_true(maxima.checked == 0 && maxima.cuda_pdl == 0 && maxima.cuda_portable == 0);
    smla_context_destroy(context);
}

static void plan_null_arguments(void **state)
{
    (void)state;
    smla_plan *plan;
    smla_plan_info info = {.struct_size = sizeof info};
    assert_int_equal(setup(SMLA_ISA_SCALAR, 1), SMLA_OK);
    assert_int_equal(smla_plan_create(NULL, context, &problem, &maxima), SMLA_ERROR_NULL);
    assert_int_equal(smla_plan_create(&plan, NULL, &problem, &maxima), SMLA_ERROR_NULL);
    assert_int_equal(smla_plan_create(&plan, context, NULL, &maxima), SMLA_ERROR_NULL);
    assert_int_equal(smla_plan_create(&plan, context, &problem, NULL), SMLA_ERROR_NULL);
    assert_int_equal(smla_plan_workspace_bytes(NULL), 0);
    assert_int_equal(smla_plan_get_info(NULL, &info), SMLA_ERROR_NULL);
    smla_plan_destroy(NULL);
    smla_context_destroy(context);
}

static void plan_refusals(void **state)
{
    (void)state;
    static const struct {
        size_t member, size;
        int64_t value;
        const char *fact;
    } cases[] = {
        {offsetof(smla_plan_options, max_rows), 8, -1, "max_rows = -1: 0 .. 2147483647"},
        {offsetof(smla_plan_options, max_rows), 8, 1LL << 31, "max_rows = 2147483648"},
        {offsetof(smla_plan_options, max_requests), 8, -1, "max_requests = -1"},
        {offsetof(smla_plan_options, max_requests), 8, INT64_MAX, "max_requests = 9223372036854775807"},
        {offsetof(smla_plan_options, max_blocks), 8, INT64_MIN, "max_blocks = -9223372036854775808"},
        {offsetof(smla_plan_options, max_blocks), 8, 1LL << 31, "max_blocks = 2147483648"},
        {offsetof(smla_plan_options, decode_rows_max), 4, -1, "decode_rows_max = -1"},
        {offsetof(smla_plan_options, splits), 4, -1, "splits = -1: "},
        {offsetof(smla_plan_options, splits), 4, 65, "splits = 65: "},
        {offsetof(smla_plan_options, checked), 4, 2, "checked = 2: 0 and 1"},
        {offsetof(smla_plan_options, cuda_pdl), 4, -1, "cuda_pdl = -1: 0 and 1"},
        {offsetof(smla_plan_options, cuda_portable), 4, 7, "cuda_portable = 7: 0 and 1"},
    };
    assert_int_equal(setup(SMLA_ISA_SCALAR, 1), SMLA_OK);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        smla_plan *plan;
        smla_plan_options_init(&maxima);
        memcpy((char *)&maxima + cases[i].member, &cases[i].value, cases[i].size);
        assert_int_equal(smla_plan_create(&plan, context, &problem, &maxima), SMLA_ERROR_ARGUMENT);
        assert_non_null(strstr(smla_context_error(context), cases[i].fact));
    }
    smla_plan_options_init(&maxima);
    maxima.struct_size--;
    smla_plan *plan;
    assert_int_equal(smla_plan_create(&plan, context, &problem, &maxima), SMLA_ERROR_STRUCT_SIZE);
    smla_context_destroy(context);
}

static void plan_info_of_its_maxima(void **state)
{
    (void)state;
    smla_plan *plan;
    smla_plan_info info = {.struct_size = sizeof info};
    assert_int_equal(setup(SMLA_ISA_SCALAR, 3), SMLA_OK);
    maxima.max_rows = INT32_MAX;
    maxima.max_requests = 70000;
    maxima.max_blocks = 12345;
    maxima.decode_rows_max = 17;
    assert_int_equal(smla_plan_create(&plan, context, &problem, &maxima), SMLA_OK);
    assert_int_equal(smla_plan_get_info(plan, &info), SMLA_OK);
    assert_true(info.max_rows == INT32_MAX && info.max_requests == 70000 && info.max_blocks == 12345);
    assert_int_equal(info.decode_rows_max, 17);
    assert_int_equal(info.backend, SMLA_BACKEND_CPU);
    assert_int_equal(info.isa, SMLA_ISA_SCALAR);
    assert_int_equal(info.threads, 3);
    assert_int_equal(info.arch, 0);
    assert_non_null(info.kernel);
    assert_non_null(strstr(info.kernel, "scalar"));
    info.struct_size = 8;
    assert_int_equal(smla_plan_get_info(plan, &info), SMLA_ERROR_STRUCT_SIZE);
    assert_int_equal(smla_plan_get_info(plan, NULL), SMLA_ERROR_NULL);
    assert_non_null(strstr(smla_context_error(context), "info = NULL"));
    smla_plan_destroy(plan);
    smla_context_destroy(context);
}

/* The reorder threshold is upstream's, by heads of a rank. */
static void plan_decode_threshold(void **state)
{
    (void)state;
    assert_int_equal(setup(SMLA_ISA_SCALAR, 1), SMLA_OK);
    for (int32_t heads = 1; heads <= 128; heads++) {
        smla_plan *plan;
        smla_plan_info info = {.struct_size = sizeof info};
        int32_t want = heads == 8 || heads == 16 || heads == 32 ? 128 : heads == 64 ? 256 : 1024;
        problem.heads = heads;
        assert_int_equal(smla_plan_create(&plan, context, &problem, &maxima), SMLA_OK);
        assert_int_equal(smla_plan_get_info(plan, &info), SMLA_OK);
        assert_int_equal(info.decode_rows_max, want);
        smla_plan_destroy(plan);
    }
    smla_context_destroy(context);
}

/* More rows, requests or blocks never need less workspace; and there is an end to it. */
static void plan_workspace_is_monotone(void **state)
{
    (void)state;
    FOR_EACH_ISA(isa)
    for (int32_t threads = 1; threads <= 4; threads += 3)
        for (int i = 0; i < 24; i++) {
            size_t former = 0, last = 0;
            assert_int_equal(setup(isa, threads), SMLA_OK);
            problem.heads = (int32_t[]){1, 16, 128}[i % 3];
            problem.topk = i / 3 % 2 ? 2048 : 65;
            problem.batch_invariant = i / 6 % 2;
            maxima.splits = i / 12 ? 64 : 0;
            for (maxima.max_rows = 0; maxima.max_rows < 100; maxima.max_rows++) {
                size_t bytes = workspace();
                assert_true(bytes >= former);
                former = bytes;
            }
            for (int64_t rows = 100; rows <= INT32_MAX; rows = rows * 3 / 2) {
                maxima.max_rows = rows;
                last = workspace();
                assert_true(last >= former);
                former = last;
            }
            maxima.max_requests = maxima.max_blocks = INT32_MAX;
            assert_true(workspace() >= last);
            assert_true(workspace() < 1u << 30);
            smla_context_destroy(context);
        }
}

/* Plans keep copies: what they were made from may go. */
static void plan_keeps_copies(void **state)
{
    (void)state;
    smla_plan *plan;
    smla_plan_info info = {.struct_size = sizeof info};
    assert_int_equal(setup(SMLA_ISA_SCALAR, 1), SMLA_OK);
    maxima.max_rows = 5;
    assert_int_equal(smla_plan_create(&plan, context, &problem, &maxima), SMLA_OK);
    size_t bytes = smla_plan_workspace_bytes(plan);
    memset(&problem, 0xff, sizeof problem);
    memset(&maxima, 0xff, sizeof maxima);
    assert_int_equal(smla_plan_get_info(plan, &info), SMLA_OK);
    assert_true(info.max_rows == 5 && smla_plan_workspace_bytes(plan) == bytes);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(plan_defaults),         cmocka_unit_test(plan_null_arguments),
    cmocka_unit_test(plan_refusals),         cmocka_unit_test(plan_info_of_its_maxima),
    cmocka_unit_test(plan_decode_threshold), cmocka_unit_test(plan_workspace_is_monotone),
    cmocka_unit_test(plan_keeps_copies),
};

HARNESS_MAIN(tests)
