/* The attention step of a decode loop: every step, each request gets one token, whose cache row is written,
 * and its query attends to the rows that an indexer chose. Numbers stand in for model and indexer. */
#include <smla/smla.h>
#include <stdio.h>
#include <stdlib.h>

enum { REQUESTS = 3, HEADS = 16, TOPK = 32, BLOCK = 16, WIDTH = 4, BLOCKS = REQUESTS * WIDTH, STEPS = 5 };

static uint16_t kv[BLOCKS * BLOCK * 576], q[REQUESTS * HEADS * 576], latent[REQUESTS * 512],
    rope[REQUESTS * 64];
static int32_t lists[REQUESTS * TOPK], table[REQUESTS * WIDTH], starts[] = {0, 1, 2, 3};
static int32_t seq_lens[REQUESTS] = {0, 20, 59}; /* two requests have a past */
static int64_t slots[REQUESTS];
static float out[REQUESTS * HEADS * 512], lse[REQUESTS * HEADS];

static void fill(uint16_t *values, int count) /* bf16 numbers of magnitude 1/2 .. 1 */
{
    static uint32_t state = 1;
    for (int i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (uint16_t)(0x3f00u | (state >> 25) | (state >> 9 & 0x8000u));
    }
}

static void next_tokens(void) /* the model and the indexer: new rows and their slots, queries, lists */
{
    fill(q, REQUESTS * HEADS * 576);
    fill(latent, REQUESTS * 512);
    fill(rope, REQUESTS * 64);
    for (int r = 0; r < REQUESTS; r++) {
        int32_t position = seq_lens[r]++;
        slots[r] = (int64_t)table[r * WIDTH + position / BLOCK] * BLOCK + position % BLOCK;
        for (int i = 0; i < TOPK; i++)
            lists[r * TOPK + i] = i <= position ? position - i : -1;
    }
}

int main(void)
{
    smla_context *context;
    smla_plan *plan;
    smla_step *step;
    smla_problem problem;
    smla_plan_options maxima;
    smla_cache_rows fresh;
    smla_batch batch;
    smla_tensors tensors;

    /* Once: what is computed, the largest step there will be, and where everything lies. */
    smla_problem_init(&problem);
    problem.heads = HEADS, problem.topk = TOPK, problem.block_size = BLOCK, problem.out_dtype = SMLA_F32;
    smla_plan_options_init(&maxima);
    maxima.max_rows = maxima.max_requests = REQUESTS, maxima.max_blocks = WIDTH;
    if (smla_context_create(&context, NULL) || smla_plan_create(&plan, context, &problem, &maxima) ||
        smla_step_create(&step, plan))
        return EXIT_FAILURE;
    size_t work_bytes = smla_plan_workspace_bytes(plan);
    void *work = malloc(work_bytes);
    fill(kv, BLOCKS * BLOCK * 576);
    for (int i = 0; i < REQUESTS * WIDTH; i++)
        table[i] = (i * 7 + 3) % BLOCKS;
    smla_cache_rows_init(&fresh, &problem);
    fresh.rows = REQUESTS, fresh.latent = latent, fresh.rope = rope, fresh.slots = slots;
    fresh.kv_cache = kv, fresh.cache_blocks = BLOCKS;
    smla_batch_init(&batch);
    batch.requests = batch.rows = REQUESTS, batch.query_start_loc = starts, batch.seq_lens = seq_lens;
    batch.block_table = table, batch.block_table_width = WIDTH;
    batch.block_table_stride = sizeof(int32_t[WIDTH]), batch.cache_blocks = BLOCKS;
    smla_tensors_init(&tensors, &problem);
    tensors.rows = REQUESTS, tensors.q = q, tensors.kv_cache = kv, tensors.cache_blocks = BLOCKS;
    tensors.topk = lists, tensors.out = out, tensors.lse = lse;

    /* Every step, for each layer: write the new rows, say what the batch is, attend. */
    for (int s = 0; s < STEPS; s++) {
        double size = 0, lse_sum = 0;
        next_tokens();
        if (smla_cache_write(context, &problem, &fresh, NULL) || smla_step_update(step, &batch, NULL) ||
            smla_run(plan, step, &tensors, work, work_bytes, NULL)) {
            fprintf(stderr, "step %d: %s\n", s, smla_context_error(context));
            return EXIT_FAILURE;
        }
        for (int i = 0; i < REQUESTS * HEADS * 512; i++)
            size += out[i] < 0 ? -(double)out[i] : (double)out[i];
        for (int i = 0; i < REQUESTS * HEADS; i++)
            lse_sum += (double)lse[i];
        printf("step %d: lengths %d %d %d, mean size of out %.3f, mean lse %.3f\n", s, seq_lens[0],
               seq_lens[1], seq_lens[2], size / (REQUESTS * HEADS * 512), lse_sum / (REQUESTS * HEADS));
    }
    free(work);
    smla_step_destroy(step), smla_plan_destroy(plan), smla_context_destroy(context);
    return 0;
}
