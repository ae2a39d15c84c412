/* A user's program: attends one row with one key, whose result is known: out is the value, lse the score. */
#include <math.h>
#include <smla/smla.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { COLUMNS = 576, LATENT = 512, BF16_ONE = 0x3f80 };

static int attend(smla_context *context, float *out, float *lse)
{
    smla_problem problem;
    smla_plan_options options;
    smla_tensors tensors;
    smla_plan *plan = NULL;
    uint16_t ones[COLUMNS];
    int32_t list = 0;

    for (int i = 0; i < COLUMNS; i++)
        ones[i] = BF16_ONE;
    smla_problem_init(&problem);
    problem.heads = 1;
    problem.topk = 1;
    problem.block_size = 1;
    problem.scale = 0.5f;
    problem.out_dtype = SMLA_F32;
    problem.topk_kind = SMLA_TOPK_SLOTS;
    smla_plan_options_init(&options);
    options.max_rows = 1;
    if (smla_plan_create(&plan, context, &problem, &options) != SMLA_OK)
        return 0;

    size_t bytes = smla_plan_workspace_bytes(plan);
    void *workspace = malloc(bytes + 1);
    smla_tensors_init(&tensors, &problem);
    tensors.rows = 1;
    tensors.q = ones;
    tensors.kv_cache = ones;
    tensors.cache_blocks = 1;
    tensors.topk = &list;
    tensors.out = out;
    tensors.lse = lse;
    smla_status status = smla_run(plan, NULL, &tensors, workspace, bytes, NULL);
    free(workspace);
    smla_plan_destroy(plan);
    return status == SMLA_OK;
}

int main(void)
{
    smla_context_options options;
    smla_context *context = NULL;
    float out[LATENT] = {0};
    float lse = 0;

    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CPU;
    options.threads = 2;
    if (smla_context_create(&context, &options) != SMLA_OK || !attend(context, out, &lse)) {
        fprintf(stderr, "failed: %s\n", context ? smla_context_error(context) : "no context");
        return 1;
    }
    smla_context_destroy(context);

    int wrong = fabsf(lse - 0.5f * COLUMNS) > 1e-3f;
    for (int i = 0; i < LATENT; i++)
        wrong += fabsf(out[i] - 1.0f) > 1e-3f;
    printf("smla %d: %s\n", smla_version(), wrong ? "wrong result" : "right");
    return wrong != 0;
}
