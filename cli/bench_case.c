#include "bench_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "command.h"
#include "report.h"
#include "rng.h"
#include "timing.h"

enum {
    ROW_BYTES = 2 * BENCH_ROW,
    ROW_FLOPS = 2 * (BENCH_ROW + 512),
    RANDOM_ROWS = 4096, /* rows of the pool that are drawn; the rest repeat them */
    SETS_MAX = 512,
    HUGE_PAGE = 2 << 20
};

int64_t bench_cache_bytes(void)
{
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? bytes : 64 << 20;
}

static int64_t default_rows(void)
{
    int64_t wanted = 4 * bench_cache_bytes();
    int64_t most = (int64_t)sysconf(_SC_AVPHYS_PAGES) / 4 * sysconf(_SC_PAGESIZE);
    return (wanted < most ? wanted : most) / ROW_BYTES;
}

bool bench_pool_make(struct bench_pool *pool, int64_t count)
{
    struct rng rng = {1};
    count = ((count ? count : default_rows()) + BENCH_BLOCK_SIZE - 1) / BENCH_BLOCK_SIZE * BENCH_BLOCK_SIZE;
    size_t bytes = (size_t)count * ROW_BYTES;
    pool->count = count;
    pool->rows = aligned_alloc(HUGE_PAGE, (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    if (!pool->rows)
        return false;
    /* an engine's cache is one large allocation too; small pages would measure the TLB */
    (void)madvise(pool->rows, bytes, MADV_HUGEPAGE);
    int64_t drawn = count < RANDOM_ROWS ? count : RANDOM_ROWS;
    for (int64_t i = 0; i < drawn * BENCH_ROW; i++)
        pool->rows[i] = rng_bf16(&rng);
    for (int64_t row = drawn; row < count; row += drawn) {
        int64_t n = count - row < drawn ? count - row : drawn;
        memcpy(pool->rows + row * BENCH_ROW, pool->rows, (size_t)n * ROW_BYTES);
    }
    return true;
}

void bench_pool_free(struct bench_pool *pool)
{
    free(pool->rows);
}

void bench_problem(smla_problem *problem, const struct bench_case *shape)
{
    smla_problem_init(problem);
    problem->heads = shape->heads;
    problem->topk = shape->topk;
    problem->block_size = BENCH_BLOCK_SIZE;
    problem->topk_kind = SMLA_TOPK_SLOTS;
}

/* What a case holds while it is measured. */
struct session {
    smla_context *context;
    smla_plan *plan;
    smla_tensors tensors;
    uint16_t *q, *out;
    float *lse;
    void *workspace;
    int32_t *lists; /* [sets, T, K] */
    int64_t set_size, sets, next;
};

static smla_status open_session(struct session *session, const struct bench_case *shape, char *error)
{
    smla_context_options options;
    smla_problem problem;
    smla_plan_options plan_options;
    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CPU;
    options.threads = shape->threads;
    options.detail = error;
    options.detail_size = BENCH_TEXT;
    if (shape->isa >= 0)
        options.isa_mask = 1u << shape->isa;
    smla_status status = smla_context_create(&session->context, &options);
    if (status != SMLA_OK)
        return status;
    bench_problem(&problem, shape);
    smla_plan_options_init(&plan_options);
    plan_options.max_rows = shape->tokens;
    status = smla_plan_create(&session->plan, session->context, &problem, &plan_options);
    if (status != SMLA_OK)
        snprintf(error, BENCH_TEXT, "%s", smla_context_error(session->context));
    smla_tensors_init(&session->tensors, &problem);
    return status;
}

static bool fill_session(struct session *session, const struct bench_case *shape,
                         const struct bench_pool *pool)
{
    struct rng rng = {2};
    int64_t queries = shape->tokens * shape->heads;
    size_t workspace = smla_plan_workspace_bytes(session->plan);
    session->set_size = shape->tokens * shape->topk;
    session->sets = 2 * bench_cache_bytes() / (session->set_size * ROW_BYTES) + 2;
    session->sets = session->sets < SETS_MAX ? session->sets : SETS_MAX;
    session->q = malloc((size_t)queries * BENCH_ROW * sizeof(uint16_t));
    session->out = calloc((size_t)queries * 512, sizeof(uint16_t));
    session->lse = calloc((size_t)queries, sizeof(float));
    session->workspace = malloc(workspace ? workspace : 1);
    session->lists = malloc((size_t)(session->sets * session->set_size) * sizeof(int32_t));
    if (!session->q || !session->out || !session->lse || !session->workspace || !session->lists)
        return false;
    for (int64_t i = 0; i < queries * BENCH_ROW; i++)
        session->q[i] = rng_bf16(&rng);
    for (int64_t i = 0; i < session->sets * session->set_size; i++)
        session->lists[i] = (int32_t)rng_below(&rng, pool->count);
    smla_tensors *tensors = &session->tensors;
    tensors->rows = shape->tokens;
    tensors->q = session->q;
    tensors->kv_cache = pool->rows;
    tensors->cache_blocks = pool->count / BENCH_BLOCK_SIZE;
    tensors->out = session->out;
    tensors->lse = session->lse;
    return true;
}

static void close_session(struct session *session)
{
    free(session->lists);
    free(session->workspace);
    free(session->lse);
    free(session->out);
    free(session->q);
    smla_plan_destroy(session->plan);
    smla_context_destroy(session->context);
}

static int run_next(void *cookie)
{
    struct session *session = cookie;
    session->tensors.topk = session->lists + session->next * session->set_size;
    session->next = (session->next + 1) % session->sets;
    return (int)smla_run(session->plan, NULL, &session->tensors, session->workspace,
                         smla_plan_workspace_bytes(session->plan), NULL);
}

static void fill_result(struct bench_result *result, const struct session *session,
                        const struct timing *timing)
{
    const struct bench_case *shape = &result->shape;
    smla_plan_info info = {.struct_size = sizeof info};
    if (smla_plan_get_info(session->plan, &info) == SMLA_OK) {
        snprintf(result->kernel, sizeof result->kernel, "%s", info.kernel);
        result->isa = info.isa;
        result->shape.threads = info.threads;
    }
    result->us = 1e6 * timing->median;
    result->us_best = 1e6 * timing->best;
    result->runs = timing->runs;
    double rows = (double)session->set_size;
    result->gbps = 1e-9 * rows * ROW_BYTES / timing->median;
    result->tflops = 1e-12 * rows * shape->heads * ROW_FLOPS / timing->median;
}

int bench_probe(int isa, smla_isa *used, char reason[BENCH_TEXT])
{
    const struct bench_case shape = {.isa = isa, .threads = 1, .heads = 1, .topk = 1, .tokens = 1};
    struct session session = {0};
    smla_plan_info info = {.struct_size = sizeof info};
    smla_status status = open_session(&session, &shape, reason);
    if (status == SMLA_OK)
        status = smla_plan_get_info(session.plan, &info);
    *used = (smla_isa)info.isa;
    close_session(&session);
    return status == SMLA_OK ? EXIT_RIGHT : report_exit_of(status);
}

int bench_measure(struct bench_result *result, const struct bench_case *shape, const struct bench_pool *pool,
                  double seconds)
{
    struct session session = {0};
    struct timing timing = {0};
    *result = (struct bench_result){
        .shape = *shape, .backend = SMLA_BACKEND_CPU, .floor_us = NAN, .ratio = NAN, .peer_us = NAN};
    smla_status status = open_session(&session, shape, result->error);
    if (status == SMLA_OK && !fill_session(&session, shape, pool)) {
        status = SMLA_ERROR_MEMORY;
        snprintf(result->error, sizeof result->error, "no memory for the tensors");
    } else if (status == SMLA_OK) {
        status = (smla_status)timing_measure(&timing, run_next, &session, seconds);
        snprintf(result->error, sizeof result->error, "%s", smla_context_error(session.context));
    }
    if (status == SMLA_OK)
        fill_result(result, &session, &timing);
    close_session(&session);
    return status == SMLA_OK ? EXIT_RIGHT : report_exit_of(status);
}
