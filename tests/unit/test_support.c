#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "harness.h"

/* One int32 member set to one value, and what the library says to it. */
struct refusal {
    size_t member;
    int32_t value;
    smla_status status;
    const char *fact; /* must stand in the reason, with the accepted values after it */
};

#define MEMBER(name) offsetof(smla_problem, name)

static const struct refusal refusals[] = {
    {MEMBER(heads), 0, SMLA_UNSUPPORTED_HEADS, "heads = 0: 1 .. 128"},
    {MEMBER(heads), -1, SMLA_UNSUPPORTED_HEADS, "heads = -1"},
    {MEMBER(heads), 129, SMLA_UNSUPPORTED_HEADS, "heads = 129"},
    {MEMBER(heads), INT32_MAX, SMLA_UNSUPPORTED_HEADS, "heads = 2147483647"},
    {MEMBER(heads), INT32_MIN, SMLA_UNSUPPORTED_HEADS, "heads = -2147483648"},
    {MEMBER(kv_lora_rank), 0, SMLA_UNSUPPORTED_HEAD_DIM, "kv_lora_rank = 0: 512"},
    {MEMBER(kv_lora_rank), 256, SMLA_UNSUPPORTED_HEAD_DIM, "kv_lora_rank = 256: 512"},
    {MEMBER(qk_rope_head_dim), 63, SMLA_UNSUPPORTED_HEAD_DIM, "qk_rope_head_dim = 63: 64"},
    {MEMBER(qk_rope_head_dim), -64, SMLA_UNSUPPORTED_HEAD_DIM, "qk_rope_head_dim = -64: 64"},
    {MEMBER(topk), 0, SMLA_ERROR_ARGUMENT, "topk = 0: 1 or more"},
    {MEMBER(topk), INT32_MIN, SMLA_ERROR_ARGUMENT, "topk = -2147483648"},
    {MEMBER(block_size), 0, SMLA_ERROR_ARGUMENT, "block_size = 0: 1 or more"},
    {MEMBER(block_size), -64, SMLA_ERROR_ARGUMENT, "block_size = -64"},
    {MEMBER(query_dtype), SMLA_F16, SMLA_UNSUPPORTED_DTYPE, "query_dtype = 3: SMLA_BF16"},
    {MEMBER(query_dtype), SMLA_F32, SMLA_UNSUPPORTED_DTYPE, "query_dtype = 2"},
    {MEMBER(query_dtype), 0, SMLA_UNSUPPORTED_DTYPE, "query_dtype = 0"},
    {MEMBER(query_dtype), -1, SMLA_UNSUPPORTED_DTYPE, "query_dtype = -1"},
    {MEMBER(out_dtype), SMLA_F16, SMLA_UNSUPPORTED_DTYPE, "out_dtype = 3: SMLA_BF16"},
    {MEMBER(out_dtype), 99, SMLA_UNSUPPORTED_DTYPE, "out_dtype = 99"},
    {MEMBER(cache_format), SMLA_CACHE_F16, SMLA_UNSUPPORTED_CACHE_FORMAT,
     "cache_format = 2 (fp16): 1 (bf16)"},
    {MEMBER(cache_format), SMLA_CACHE_FP8_E4M3, SMLA_UNSUPPORTED_CACHE_FORMAT, "cache_format = 3"},
    {MEMBER(cache_format), SMLA_CACHE_FP8_DS_MLA, SMLA_UNSUPPORTED_CACHE_FORMAT, "cache_format = 4"},
    {MEMBER(cache_format), 5, SMLA_UNSUPPORTED_CACHE_FORMAT, "cache_format = 5 (unknown)"},
    {MEMBER(cache_format), 0, SMLA_UNSUPPORTED_CACHE_FORMAT, "cache_format = 0"},
    {MEMBER(topk_kind), 0, SMLA_ERROR_ARGUMENT, "topk_kind = 0"},
    {MEMBER(topk_kind), 3, SMLA_ERROR_ARGUMENT, "topk_kind = 3"},
    {MEMBER(lse_base), 0, SMLA_ERROR_ARGUMENT, "lse_base = 0"},
    {MEMBER(lse_base), 3, SMLA_ERROR_ARGUMENT, "lse_base = 3"},
    {MEMBER(empty_lse), 0, SMLA_ERROR_ARGUMENT, "empty_lse = 0"},
    {MEMBER(empty_lse), 3, SMLA_ERROR_ARGUMENT, "empty_lse = 3"},
    {MEMBER(batch_invariant), 2, SMLA_ERROR_ARGUMENT, "batch_invariant = 2"},
    {MEMBER(batch_invariant), -1, SMLA_ERROR_ARGUMENT, "batch_invariant = -1"},
    {MEMBER(dcp_world_size), 0, SMLA_UNSUPPORTED_DCP, "dcp_world_size = 0: 1 or more"},
    {MEMBER(dcp_world_size), -2, SMLA_UNSUPPORTED_DCP, "dcp_world_size = -2"},
    {MEMBER(dcp_rank), 1, SMLA_UNSUPPORTED_DCP, "dcp_rank = 1: 0 .. 0"},
    {MEMBER(dcp_rank), -1, SMLA_UNSUPPORTED_DCP, "dcp_rank = -1"},
    {MEMBER(dcp_interleave), 0, SMLA_UNSUPPORTED_DCP, "dcp_interleave = 0: 1 or more"},
    /* 128 heads on each of two ranks */
    {MEMBER(dcp_world_size), 2, SMLA_UNSUPPORTED_HEADS, "heads * dcp_world_size = 256: 1 .. 128"},
    {MEMBER(dcp_world_size), INT32_MAX, SMLA_UNSUPPORTED_HEADS, "heads * dcp_world_size = 274877906816"},
};

/* The query and plan creation must say the same, in the same words. */
static void expect_answer(const smla_problem *problem, smla_status status, const char *fact)
{
    smla_context *context;
    smla_plan *plan = (smla_plan *)(uintptr_t)8;
    smla_plan_options maxima;
    char reason[256];
    memset(reason, 'x', sizeof reason);
    smla_plan_options_init(&maxima);
    assert_int_equal(open_context(&context, &(const struct setting){.threads = 1}), SMLA_OK);
    assert_int_equal(smla_support_query(problem, SMLA_BACKEND_CPU, 0, NULL, reason, sizeof reason), status);
    assert_int_equal(smla_plan_create(&plan, context, problem, &maxima), status);
    if (status == SMLA_OK) {
        assert_string_equal(reason, "");
        smla_plan_destroy(plan);
    } else {
        assert_string_equal(reason, smla_context_error(context));
        assert_non_null(strstr(reason, fact));
        assert_null(strchr(reason, '\n'));
    }
    smla_context_destroy(context);
}

static void support_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(refusals); i++) {
        smla_problem problem;
        smla_problem_init(&problem);
        memcpy((char *)&problem + refusals[i].member, &refusals[i].value, sizeof(int32_t));
        expect_answer(&problem, refusals[i].status, refusals[i].fact);
    }
}

/* The init functions ask nothing of a problem; a sanitizer would see an overflow. */
static void support_init_of_absurd(void **state)
{
    (void)state;
    smla_problem problem;
    smla_tensors tensors;
    smla_cache_rows rows;
    smla_partials partials;
    smla_problem_init(&problem);
    problem.heads = problem.dcp_world_size = 65537;
    problem.topk = problem.block_size = INT32_MAX;
    smla_tensors_init(&tensors, &problem);
    smla_cache_rows_init(&rows, &problem);
    smla_partials_init(&partials, 2, INT64_MAX / 4, INT32_MAX);
    expect_answer(&problem, SMLA_UNSUPPORTED_HEADS, "heads = 65537");
}

static void support_scale(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 1.1e38f, -3e38f}, good[] = {0, -1, 1e-38f, -1e38f};
    smla_problem problem;
    smla_problem_init(&problem);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        problem.scale = bad[i];
        expect_answer(&problem, SMLA_ERROR_ARGUMENT, "scale = ");
    }
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        problem.scale = good[i];
        expect_answer(&problem, SMLA_OK, "");
    }
}

/* Any block size, any K, any head count up to 128, any world whose heads fit. */
static void support_wide_range(void **state)
{
    (void)state;
    static const int32_t sizes[] = {1, 2, 7, 63, 64, 100, 2047, 2048, 1 << 20, INT32_MAX};
    smla_problem problem;
    smla_problem_init(&problem);
    for (int32_t heads = 1; heads <= 128; heads++)
        for (int32_t world = 1; world <= 130; world += 3) {
            problem.heads = heads;
            problem.dcp_world_size = world;
            problem.dcp_rank = world - 1;
            problem.dcp_interleave = heads * 5;
            assert_int_equal(smla_support_query(&problem, SMLA_BACKEND_CPU, 0, NULL, NULL, 0),
                             heads * world <= 128 ? SMLA_OK : SMLA_UNSUPPORTED_HEADS);
        }
    smla_problem_init(&problem);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        problem.block_size = sizes[i];
        assert_int_equal(smla_support_query(&problem, SMLA_BACKEND_CPU, 0, NULL, NULL, 0), SMLA_OK);
        problem.topk = sizes[i];
        assert_int_equal(smla_support_query(&problem, SMLA_BACKEND_CPU, 0, NULL, NULL, 0), SMLA_OK);
    }
}

static void support_struct_sizes(void **state)
{
    (void)state;
    smla_problem problem;
    smla_tensors tensors;
    char reason[200];
    assert_int_equal(smla_support_query(NULL, SMLA_BACKEND_CPU, 0, NULL, reason, sizeof reason),
                     SMLA_ERROR_NULL);
    assert_non_null(strstr(reason, "problem"));
    memset(&problem, 0, sizeof problem);
    expect_answer(&problem, SMLA_ERROR_STRUCT_SIZE, "struct_size = 0");
    smla_problem_init(&problem);
    smla_tensors_init(&tensors, &problem);
    problem.struct_size++;
    expect_answer(&problem, SMLA_ERROR_STRUCT_SIZE, "struct_size");
    problem.struct_size--;
    tensors.struct_size = 0;
    assert_int_equal(smla_support_query(&problem, SMLA_BACKEND_CPU, 0, &tensors, reason, sizeof reason),
                     SMLA_ERROR_STRUCT_SIZE);
}

static void support_reason_is_cut(void **state)
{
    (void)state;
    smla_problem problem;
    char reason[12];
    memset(reason, 'x', sizeof reason);
    smla_problem_init(&problem);
    problem.topk = 0;
    assert_int_equal(smla_support_query(&problem, SMLA_BACKEND_CPU, 0, NULL, reason, 9), SMLA_ERROR_ARGUMENT);
    assert_memory_equal(reason, "topk = 0\0xxx", 12);
    assert_int_equal(smla_support_query(&problem, SMLA_BACKEND_CPU, 0, NULL, reason, 0), SMLA_ERROR_ARGUMENT);
    assert_int_equal(smla_support_query(&problem, SMLA_BACKEND_CPU, 0, NULL, NULL, 99), SMLA_ERROR_ARGUMENT);
}

static void support_backends(void **state)
{
    (void)state;
    smla_problem problem;
    char reason[200];
    int count = 0;
    bool cpu = false;
    smla_problem_init(&problem);
    for (smla_backend id; (id = smla_backend_at(count)) != SMLA_BACKEND_AUTO; count++) {
        cpu |= id == SMLA_BACKEND_CPU;
        assert_non_null(smla_backend_name(id));
        smla_status status = smla_support_query(&problem, id, 0, NULL, reason, sizeof reason);
        assert_int_equal(status == SMLA_OK, reason[0] == '\0');
    }
    assert_true(cpu && count == 2);
    assert_int_equal(smla_backend_at(-1), SMLA_BACKEND_AUTO);
    assert_int_equal(smla_backend_at(99), SMLA_BACKEND_AUTO);
    assert_string_equal(smla_backend_name(SMLA_BACKEND_CPU), "cpu");
    assert_string_equal(smla_backend_name(SMLA_BACKEND_CUDA), "cuda");
    assert_string_equal(smla_backend_name(SMLA_BACKEND_AUTO), "auto");
    assert_null(smla_backend_name((smla_backend)7));
    assert_null(smla_backend_name((smla_backend)-1));
    assert_int_equal(smla_support_query(&problem, SMLA_BACKEND_AUTO, 0, NULL, reason, sizeof reason),
                     SMLA_OK);
    assert_string_equal(reason, "");
    assert_int_equal(smla_support_query(&problem, (smla_backend)7, 0, NULL, reason, sizeof reason),
                     SMLA_ERROR_ARGUMENT);
    assert_int_equal(smla_support_query(&problem, SMLA_BACKEND_CPU, -1, NULL, reason, sizeof reason),
                     SMLA_ERROR_ARGUMENT);
}

/* Strides and alignment of tensors, none of which is read: the addresses are made up. */
static void support_tensors(void **state)
{
    (void)state;
    static const struct {
        size_t member;
        int64_t value;
        smla_status status;
        const char *fact;
    } cases[] = {
        {offsetof(smla_tensors, q), 0x1001, SMLA_ERROR_ALIGNMENT, "q = "},
        {offsetof(smla_tensors, q_elem_stride), 4, SMLA_ERROR_STRIDE, "q_elem_stride = 4: 2"},
        {offsetof(smla_tensors, q_latent_elem_stride), 0, SMLA_ERROR_STRIDE, "q_latent_elem_stride = 0: 2"},
        {offsetof(smla_tensors, q_rope_elem_stride), -2, SMLA_ERROR_STRIDE, "q_rope_elem_stride = -2: 2"},
        {offsetof(smla_tensors, q_row_stride), -2, SMLA_ERROR_STRIDE, "q_row_stride = -2"},
        {offsetof(smla_tensors, q_head_stride), 1153, SMLA_ERROR_ALIGNMENT, "q_head_stride = 1153"},
        {offsetof(smla_tensors, q_row_stride), INT64_MAX - 1, SMLA_ERROR_STRIDE, "q_row_stride"},
        {offsetof(smla_tensors, kv_cache), 0x1001, SMLA_ERROR_ALIGNMENT, "kv_cache = "},
        {offsetof(smla_tensors, cache_elem_stride), 1, SMLA_ERROR_STRIDE, "cache_elem_stride = 1: 2"},
        {offsetof(smla_tensors, cache_row_stride), -1152, SMLA_ERROR_STRIDE, "cache_row_stride = -1152"},
        {offsetof(smla_tensors, cache_block_stride), 73729, SMLA_ERROR_ALIGNMENT,
         "cache_block_stride = 73729"},
        {offsetof(smla_tensors, cache_block_stride), INT64_MAX - 1, SMLA_ERROR_STRIDE, "cache_block_stride"},
        {offsetof(smla_tensors, cache_blocks), -1, SMLA_ERROR_ARGUMENT, "cache_blocks = -1"},
        {offsetof(smla_tensors, cache_blocks), INT64_MAX, SMLA_ERROR_ARGUMENT, "cache_blocks = "},
        {offsetof(smla_tensors, topk), 0x1002, SMLA_ERROR_ALIGNMENT, "topk = "},
        {offsetof(smla_tensors, topk_elem_stride), 8, SMLA_ERROR_STRIDE, "topk_elem_stride = 8: 4"},
        {offsetof(smla_tensors, topk_row_stride), 8194, SMLA_ERROR_ALIGNMENT, "topk_row_stride = 8194"},
        {offsetof(smla_tensors, topk_length), 0x1002, SMLA_ERROR_ALIGNMENT, "topk_length = "},
        {offsetof(smla_tensors, sinks), 0x1001, SMLA_ERROR_ALIGNMENT, "sinks = "},
        {offsetof(smla_tensors, out), 0x1001, SMLA_ERROR_ALIGNMENT, "out = "},
        {offsetof(smla_tensors, out_elem_stride), 4, SMLA_ERROR_STRIDE, "out_elem_stride = 4: 2"},
        {offsetof(smla_tensors, out_head_stride), 1022, SMLA_ERROR_STRIDE, "out_head_stride = 1022"},
        {offsetof(smla_tensors, out_row_stride), 0, SMLA_ERROR_STRIDE, "out_row_stride = 0"},
        {offsetof(smla_tensors, out_row_stride), 131070, SMLA_ERROR_STRIDE, "out_row_stride = 131070"},
        {offsetof(smla_tensors, lse), 0x1002, SMLA_ERROR_ALIGNMENT, "lse = "},
        {offsetof(smla_tensors, lse_head_stride), 2, SMLA_ERROR_ALIGNMENT, "lse_head_stride = 2"},
        {offsetof(smla_tensors, lse_row_stride), 508, SMLA_ERROR_STRIDE, "lse_row_stride = 508"},
        {offsetof(smla_tensors, rows), -1, SMLA_ERROR_ARGUMENT, "rows = -1"},
        /* and what is fine */
        {offsetof(smla_tensors, q), 0x1002, SMLA_OK, ""},
        {offsetof(smla_tensors, kv_cache), 0x1002, SMLA_OK, ""},
        {offsetof(smla_tensors, out), 0x1002, SMLA_OK, ""},
        {offsetof(smla_tensors, q_row_stride), 0, SMLA_OK, ""},
        {offsetof(smla_tensors, topk_row_stride), 0, SMLA_OK, ""},
        {offsetof(smla_tensors, out_row_stride), 1 << 20, SMLA_OK, ""},
        {offsetof(smla_tensors, cache_block_stride), 73730, SMLA_OK, ""},
        {offsetof(smla_tensors, lse), 0, SMLA_OK, ""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        smla_problem problem;
        smla_tensors tensors;
        char reason[256];
        smla_problem_init(&problem);
        smla_tensors_init(&tensors, &problem);
        tensors.rows = 3;
        tensors.cache_blocks = 5;
        tensors.q = tensors.kv_cache = tensors.out = (void *)0x1000;
        tensors.topk = (int32_t *)0x1000;
        tensors.lse = (float *)0x1000;
        memcpy((char *)&tensors + cases[i].member, &cases[i].value, sizeof(int64_t));
        smla_status status =
            smla_support_query(&problem, SMLA_BACKEND_CPU, 0, &tensors, reason, sizeof reason);
        if (status != cases[i].status || !strstr(reason, cases[i].fact))
            fail_msg("case %zu: %s, %s", i, smla_status_name(status), reason);
    }
}

/* No GPU here: the query still answers for one, and for architectures by name. */
static void support_cuda(void **state)
{
    (void)state;
    smla_problem problem;
    smla_context *context = NULL;
    smla_context_options options;
    char reason[200], detail[200];
    smla_machine machine = {.struct_size = sizeof machine};
    smla_problem_init(&problem);
    assert_int_equal(smla_machine_query(&machine), SMLA_OK);
    if (machine.cuda_status == SMLA_OK)
        harness_skip("this machine has a GPU");
    smla_status status = smla_support_query(&problem, SMLA_BACKEND_CUDA, 0, NULL, reason, sizeof reason);
    assert_true(status >= SMLA_ERROR_NO_KERNELS && status <= SMLA_ERROR_DEVICE_ARCH);
    assert_string_not_equal(reason, "");
    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CUDA;
    options.detail = detail;
    options.detail_size = sizeof detail;
    assert_int_equal(smla_context_create(&context, &options), status);
    assert_null(context);
    assert_string_not_equal(detail, "");
    problem.heads = 500;
    assert_int_equal(smla_support_query(&problem, SMLA_BACKEND_CUDA, 90, NULL, reason, sizeof reason),
                     SMLA_UNSUPPORTED_HEADS);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(support_refusals),       cmocka_unit_test(support_scale),
    cmocka_unit_test(support_init_of_absurd), cmocka_unit_test(support_wide_range),
    cmocka_unit_test(support_struct_sizes),   cmocka_unit_test(support_reason_is_cut),
    cmocka_unit_test(support_backends),       cmocka_unit_test(support_tensors),
    cmocka_unit_test(support_cuda),
};

HARNESS_MAIN(tests)
