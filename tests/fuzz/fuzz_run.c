/* Random tiny problems. The support query and plan creation agree on every one, word for word; those that are
 * supported run and equal the oracle. */
#include <runner.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth)
        abort();
}

/* A problem of any numbers at all. */
static void try_problem(struct bytes *bytes)
{
    smla_problem problem;
    smla_plan_options maxima;
    smla_context *context;
    smla_plan *plan = NULL;
    char reason[256];
    smla_problem_init(&problem);
    smla_plan_options_init(&maxima);
    int32_t *const members[] = {&problem.heads,          &problem.kv_lora_rank, &problem.qk_rope_head_dim,
                                &problem.topk,           &problem.block_size,   &problem.query_dtype,
                                &problem.out_dtype,      &problem.cache_format, &problem.topk_kind,
                                &problem.lse_base,       &problem.empty_lse,    &problem.batch_invariant,
                                &problem.dcp_world_size, &problem.dcp_rank,     &problem.dcp_interleave};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        *members[i] = take_odd(bytes, *members[i]);
    uint32_t scale = (uint32_t)take_byte(bytes) << 24 | (uint32_t)take_byte(bytes) << 16;
    if (take_byte(bytes) > 200)
        memcpy(&problem.scale, &scale, sizeof scale);
    require(open_context(&context, &(const struct setting){.threads = 1}) == SMLA_OK);
    smla_status asked = smla_support_query(&problem, SMLA_BACKEND_CPU, 0, NULL, reason, sizeof reason);
    smla_status planned = smla_plan_create(&plan, context, &problem, &maxima);
    require(asked == planned);
    require((asked == SMLA_OK) == (reason[0] == '\0') && (asked == SMLA_OK) == (plan != NULL));
    require(asked == SMLA_OK || strcmp(reason, smla_context_error(context)) == 0);
    smla_plan_destroy(plan);
    smla_context_destroy(context);
}

static struct scene_spec take_spec(struct bytes *bytes, int32_t *q_lens, int32_t *contexts)
{
    struct scene_spec spec = {.name = "fuzz",
                              .heads = 1 + take_below(bytes, 9),
                              .topk = 1 + take_below(bytes, 90),
                              .block_size = 1 + take_below(bytes, 20),
                              .requests = 1 + take_below(bytes, 4),
                              .q_lens = q_lens,
                              .contexts = contexts,
                              .width_spare = take_below(bytes, 2),
                              .invalid = take_below(bytes, 5) * 0.25,
                              .lengths = (enum scene_lengths)take_below(bytes, 4),
                              .sinks = (enum scene_sinks)take_below(bytes, 3),
                              .lse_base = (smla_lse_base)(1 + take_below(bytes, 2)),
                              .empty_lse = (smla_empty_lse)(1 + take_below(bytes, 2)),
                              .dcp_interleave = 1 + take_below(bytes, 3),
                              .q_gain = (float)(1 + take_below(bytes, 3) * 10)};
    spec.dcp_world = spec.heads % 2 ? 1 : 1 + take_below(bytes, 2);
    spec.dcp_rank = take_below(bytes, spec.dcp_world);
    for (int32_t r = 0; r < spec.requests; r++) {
        q_lens[r] = take_below(bytes, 4);
        contexts[r] = take_below(bytes, 130);
    }
    q_lens[0] += q_lens[0] == 0;
    spec.seed = take_byte(bytes);
    return spec;
}

static struct setting take_setting(struct bytes *bytes)
{
    struct setting setting = {.threads = 1 + take_below(bytes, 3), .splits = take_below(bytes, 65)};
    smla_machine machine = {.struct_size = sizeof machine};
    require(smla_machine_query(&machine) == SMLA_OK);
    do
        setting.isa = (smla_isa)take_below(bytes, SMLA_ISA_COUNT);
    while (!(machine.isa_mask & 1u << setting.isa) && bytes->left);
    if (!(machine.isa_mask & 1u << setting.isa))
        setting.isa = SMLA_ISA_SCALAR;
    uint8_t flags = take_byte(bytes);
    setting.out_dtype = flags & 1 ? SMLA_BF16 : SMLA_F32;
    setting.no_lse = flags >> 1 & 1;
    setting.split_query = flags >> 2 & 1;
    setting.slots = flags >> 3 & 1;
    setting.with_step = flags >> 4 & 1;
    setting.dense = flags >> 5 & 1;
    setting.batch_invariant = flags >> 6 & 1;
    setting.entry = flags >> 7 ? ENTRY_SLICES : ENTRY_RUN;
    setting.slices = 1 + take_below(bytes, setting.threads);
    setting.padded_rows = take_below(bytes, 3);
    setting.workspace_shift = take_below(bytes, 64);
    return setting;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {data, size};
    struct scene scene;
    struct result result;
    int32_t q_lens[4] = {0}, contexts[4] = {0};
    try_problem(&bytes);
    struct scene_spec spec = take_spec(&bytes, q_lens, contexts);
    struct setting setting = take_setting(&bytes);
    scene_build(&scene, &spec);
    scene_run(&scene, &setting, &result);
    require(result_right(&scene, &setting, &result));
    result_close(&result);
    scene_close(&scene);
    return 0;
}
