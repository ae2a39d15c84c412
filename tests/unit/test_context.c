#include <string.h>

#include "harness.h"

static void context_defaults(void **state)
{
    (void)state;
    smla_context_options options;
    memset(&options, 0x55, sizeof options);
    smla_context_options_init(&options);
    assert_int_equal(options.struct_size, sizeof options);
    assert_int_equal(options.backend, SMLA_BACKEND_AUTO);
    assert_int_equal(options.cuda_device, -1);
    for (int isa = 0; isa < SMLA_ISA_COUNT; isa++)
        assert_true(options.isa_mask & 1u << isa);
    assert_int_equal(options.threads, 0);
    assert_null(options.detail);
    assert_null(options.log);
}

static void context_create_and_destroy(void **state)
{
    (void)state;
    smla_context *context = NULL;
    assert_int_equal(smla_context_create(&context, NULL), SMLA_OK);
    assert_non_null(context);
    assert_string_equal(smla_context_error(context), "");
    smla_context_destroy(context);
    smla_context_destroy(NULL);
    assert_int_equal(smla_context_create(NULL, NULL), SMLA_ERROR_NULL);
}

/* Member, value, status and fact of an option that is refused. */
static void context_refusals(void **state)
{
    (void)state;
    static const struct {
        size_t member;
        int32_t value;
        smla_status status;
        const char *fact;
    } cases[] = {
        {offsetof(smla_context_options, backend), 3, SMLA_ERROR_ARGUMENT, "backend = 3"},
        {offsetof(smla_context_options, backend), -1, SMLA_ERROR_ARGUMENT, "backend = -1"},
        {offsetof(smla_context_options, cuda_device), -2, SMLA_ERROR_ARGUMENT, "cuda_device = -2"},
        {offsetof(smla_context_options, threads), -1, SMLA_ERROR_ARGUMENT, "threads = -1"},
        {offsetof(smla_context_options, threads), 1025, SMLA_ERROR_ARGUMENT, "threads = 1025"},
        {offsetof(smla_context_options, isa_mask), 0, SMLA_UNSUPPORTED_ISA, ""},
        {offsetof(smla_context_options, isa_mask), 1 << 20, SMLA_UNSUPPORTED_ISA, ""},
        {offsetof(smla_context_options, struct_size), 0, SMLA_ERROR_STRUCT_SIZE, ""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        smla_context *context = NULL;
        smla_context_options options;
        char detail[256] = "";
        smla_context_options_init(&options);
        options.backend = SMLA_BACKEND_CPU;
        options.detail = detail;
        options.detail_size = sizeof detail;
        memcpy((char *)&options + cases[i].member, &cases[i].value, sizeof(int32_t));
        assert_int_equal(smla_context_create(&context, &options), cases[i].status);
        assert_null(context);
        assert_non_null(strstr(detail, cases[i].fact));
        if (cases[i].status != SMLA_ERROR_STRUCT_SIZE)
            assert_string_not_equal(detail, "");
    }
}

static void context_threads(void **state)
{
    (void)state;
    static const int32_t threads[] = {0, 1, 2, 7, 1024};
    smla_machine machine = {.struct_size = sizeof machine};
    assert_int_equal(smla_machine_query(&machine), SMLA_OK);
    for (size_t i = 0; i < ARRAY_LENGTH(threads); i++) {
        smla_context *context;
        smla_plan *plan;
        smla_problem problem;
        smla_plan_options maxima;
        smla_plan_info info = {.struct_size = sizeof info};
        smla_problem_init(&problem);
        smla_plan_options_init(&maxima);
        assert_int_equal(open_context(&context, &(const struct setting){.threads = threads[i]}), SMLA_OK);
        assert_int_equal(smla_plan_create(&plan, context, &problem, &maxima), SMLA_OK);
        assert_int_equal(smla_plan_get_info(plan, &info), SMLA_OK);
        assert_int_equal(info.threads, threads[i] ? threads[i] : machine.cpus);
        smla_plan_destroy(plan);
        smla_context_destroy(context);
    }
}

/* The text is that of the last failed call; a success leaves it. */
static void context_error_text(void **state)
{
    (void)state;
    smla_context *context, *other;
    smla_plan *plan;
    smla_problem problem;
    smla_plan_options maxima;
    smla_problem_init(&problem);
    smla_plan_options_init(&maxima);
    assert_int_equal(smla_context_create(&context, NULL), SMLA_OK);
    assert_int_equal(smla_context_create(&other, NULL), SMLA_OK);
    problem.topk = 0;
    assert_int_equal(smla_plan_create(&plan, context, &problem, &maxima), SMLA_ERROR_ARGUMENT);
    assert_non_null(strstr(smla_context_error(context), "topk = 0"));
    assert_string_equal(smla_context_error(other), "");
    problem.topk = 5;
    assert_int_equal(smla_plan_create(&plan, context, &problem, &maxima), SMLA_OK);
    assert_non_null(strstr(smla_context_error(context), "topk = 0"));
    smla_plan_destroy(plan);
    smla_context_destroy(context);
    smla_context_destroy(other);
}

struct lines {
    int count;
    int worst_level;
    bool whole; /* every line without a line break */
};

static void count_line(void *cookie, int level, const char *text)
{
    struct lines *lines = cookie;
    lines->count++;
    lines->worst_level = level < lines->worst_level ? level : lines->worst_level;
    lines->whole &= text[0] && !strchr(text, '\n');
}

/* Choosing a backend by itself says why the better ones were passed over. */
static void context_log(void **state)
{
    (void)state;
    smla_context *context;
    smla_context_options options;
    struct lines lines = {.worst_level = 1, .whole = true};
    smla_machine machine = {.struct_size = sizeof machine};
    assert_int_equal(smla_machine_query(&machine), SMLA_OK);
    smla_context_options_init(&options);
    options.log = count_line;
    options.log_cookie = &lines;
    assert_int_equal(smla_context_create(&context, &options), SMLA_OK);
    assert_true(lines.whole && lines.worst_level >= 0);
    if (machine.cuda_status != SMLA_OK)
        assert_true(lines.count >= 1);
    smla_context_destroy(context);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(context_defaults),   cmocka_unit_test(context_create_and_destroy),
    cmocka_unit_test(context_refusals),   cmocka_unit_test(context_threads),
    cmocka_unit_test(context_error_text), cmocka_unit_test(context_log),
};

HARNESS_MAIN(tests)
