#include "ref_attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double bf16_value(uint16_t bits16)
{
    uint32_t bits = (uint32_t)bits16 << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* Position within this rank's part of the sequence, or -1 if another rank keeps it. */
static int64_t local_position(const struct ref_problem *problem, int64_t position)
{
    if (problem->dcp_world <= 1)
        return position;
    int64_t world = problem->dcp_world, run = problem->dcp_interleave;
    if (position / run % world != problem->dcp_rank)
        return -1;
    return position / (world * run) * run + position % run;
}

static int64_t slot_of_position(const struct ref_problem *problem, int64_t t, int64_t position)
{
    int64_t request = problem->row_request ? problem->row_request[t] : t;
    if (request < 0 || request >= problem->requests)
        return -1;
    if (position < 0 || position >= problem->seq_lens[request])
        return -1;
    int64_t local = local_position(problem, position);
    if (local < 0)
        return -1;
    int64_t column = local / problem->block_size;
    if (column >= problem->block_table_width)
        return -1;
    int64_t block = problem->block_table[request * problem->block_table_width + column];
    return block < 0 ? -1 : block * problem->block_size + local % problem->block_size;
}

int64_t ref_slot(const struct ref_problem *problem, int64_t t, int64_t entry)
{
    if (entry < 0 || entry >= problem->topk)
        return -1;
    if (problem->topk_length && entry >= problem->topk_length[t])
        return -1;
    int64_t slot = problem->topk_list[t * problem->topk + entry];
    if (problem->positions)
        slot = slot_of_position(problem, t, slot);
    return slot >= 0 && slot < problem->cache_blocks * problem->block_size ? slot : -1;
}

static int64_t valid_slots(const struct ref_problem *problem, int64_t t, int64_t *slots)
{
    int64_t count = 0;
    for (int64_t entry = 0; entry < problem->topk; entry++) {
        int64_t slot = ref_slot(problem, t, entry);
        if (slot >= 0)
            slots[count++] = slot;
    }
    return count;
}

static double score(const double *q, const uint16_t *key)
{
    double sum = 0;
    for (int c = 0; c < REF_ROW; c++)
        sum += q[c] * bf16_value(key[c]);
    return sum;
}

/* One row and head over its valid slots; gives the natural lse. */
static double attend_head(const struct ref_problem *problem, const uint16_t *q_bits, const int64_t *slots,
                          int64_t count, double *weights, double *out)
{
    double q[REF_ROW];
    for (int c = 0; c < REF_ROW; c++)
        q[c] = bf16_value(q_bits[c]);
    double top = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        weights[i] = problem->scale * score(q, problem->kv + slots[i] * REF_ROW);
        top = fmax(top, weights[i]);
    }
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        weights[i] = exp(weights[i] - top);
        sum += weights[i];
    }
    for (int64_t i = 0; i < count; i++) {
        const uint16_t *value = problem->kv + slots[i] * REF_ROW;
        for (int c = 0; c < REF_LATENT; c++)
            out[c] += weights[i] / sum * bf16_value(value[c]);
    }
    return top + log(sum);
}

/* exp(lse) / (exp(lse) + exp(sink)), written so that neither infinity nor size matters. */
static double sink_factor(double lse, double sink)
{
    return 1 / (1 + exp(sink - lse));
}

static void attend_row(const struct ref_problem *problem, int64_t t, const int64_t *slots, int64_t count,
                       double *weights, double *out, double *lse)
{
    for (int64_t h = 0; h < problem->heads; h++) {
        double *out_head = out + (t * problem->heads + h) * REF_LATENT;
        double lse_head = problem->empty_pos_inf ? INFINITY : -INFINITY;
        memset(out_head, 0, REF_LATENT * sizeof *out_head);
        if (count) {
            const uint16_t *q = problem->q + (t * problem->heads + h) * REF_ROW;
            lse_head = attend_head(problem, q, slots, count, weights, out_head);
            double factor = problem->sinks ? sink_factor(lse_head, (double)problem->sinks[h]) : 1;
            for (int c = 0; c < REF_LATENT; c++)
                out_head[c] *= factor;
            lse_head = problem->lse_base2 ? lse_head / log(2.0) : lse_head;
        }
        if (lse)
            lse[t * problem->heads + h] = lse_head;
    }
}

int ref_attend(const struct ref_problem *problem, double *out, double *lse)
{
    size_t room = problem->topk > 0 ? (size_t)problem->topk : 1;
    int64_t *slots = malloc(room * sizeof *slots);
    double *weights = malloc(room * sizeof *weights);
    if (!slots || !weights) {
        free(slots);
        free(weights);
        return -1;
    }
    for (int64_t t = 0; t < problem->rows; t++)
        attend_row(problem, t, slots, valid_slots(problem, t, slots), weights, out, lse);
    free(slots);
    free(weights);
    return 0;
}
