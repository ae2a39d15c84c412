#include "keys.h"

#include <string.h>

static struct smla__divisor divisor(int64_t value)
{
    bool power = (value & (value - 1)) == 0;
    return (struct smla__divisor){value, power ? __builtin_ctzll((unsigned long long)value) : -1};
}

static inline int64_t quotient(int64_t a, struct smla__divisor by)
{
    return by.shift >= 0 ? a >> by.shift : a / by.value;
}

void smla__lists_init(struct smla__lists *lists, const smla_plan *plan, const struct smla__lanes *lanes,
                      const smla_tensors *tensors)
{
    const smla_problem *problem = &plan->problem;
    *lists = (struct smla__lists){
        .problem = problem,
        .tensors = tensors,
        .lanes = lanes,
        .table_stride = plan->info.max_blocks,
        .block = divisor(problem->block_size),
        .turn = divisor((int64_t)problem->dcp_interleave * problem->dcp_world_size),
    };
}

static inline const uint16_t *cache_row(const struct smla__lists *lists, int64_t block, int64_t offset)
{
    const smla_tensors *t = lists->tensors;
    return (const uint16_t *)((const char *)t->kv_cache + block * t->cache_block_stride +
                              offset * t->cache_row_stride);
}

static int64_t convert_slots(const struct smla__lists *lists, const int32_t *list, int64_t length,
                             const uint16_t **keys)
{
    struct smla__divisor by = lists->block;
    int64_t blocks = lists->tensors->cache_blocks, count = 0;
    for (int64_t i = 0; i < length; i++) {
        int64_t slot = list[i];
        int64_t block = quotient(slot, by);
        if (slot < 0 || block >= blocks)
            continue;
        keys[count++] = cache_row(lists, block, slot - block * by.value);
    }
    return count;
}

/* Where this rank keeps a position; -1 if another rank does. */
static inline int64_t local_position(const struct smla__lists *lists, int64_t position)
{
    const smla_problem *p = lists->problem;
    if (p->dcp_world_size == 1)
        return position;
    int64_t turn = quotient(position, lists->turn);
    int64_t rest = position - turn * lists->turn.value - (int64_t)p->dcp_rank * p->dcp_interleave;
    return rest >= 0 && rest < p->dcp_interleave ? turn * p->dcp_interleave + rest : -1;
}

static int64_t convert_positions(const struct smla__lists *lists, int32_t request, const int32_t *list,
                                 int64_t length, const uint16_t **keys)
{
    const struct smla__lanes *lanes = lists->lanes;
    const int32_t *table = lanes->block_table + request * lists->table_stride;
    struct smla__divisor by = lists->block;
    int64_t seq_len = lanes->seq_lens[request], width = lanes->block_table_width;
    int64_t blocks = lists->tensors->cache_blocks, count = 0;
    for (int64_t i = 0; i < length; i++) {
        if (list[i] < 0 || list[i] >= seq_len)
            continue;
        int64_t local = local_position(lists, list[i]);
        int64_t logical = quotient(local, by);
        if (local < 0 || logical >= width)
            continue;
        int64_t block = table[logical];
        if (block < 0 || block >= blocks)
            continue;
        keys[count++] = cache_row(lists, block, local - logical * by.value);
    }
    return count;
}

static const int32_t *list_of(const struct smla__lists *lists, int64_t row)
{
    return (const int32_t *)((const char *)lists->tensors->topk + row * lists->tensors->topk_row_stride);
}

/* Active length; 0 for rows that the step does not have. */
static int64_t length_of(const struct smla__lists *lists, int64_t row)
{
    const int32_t *lengths = lists->tensors->topk_length;
    int64_t topk = lists->problem->topk;
    if (lists->lanes && row >= lists->lanes->info.rows)
        return 0;
    return !lengths || lengths[row] > topk ? topk : lengths[row] < 0 ? 0 : lengths[row];
}

/* Converts `length` entries of a list from entry `begin` on. */
static int64_t convert(const struct smla__lists *lists, int64_t row, int64_t begin, int64_t length,
                       const uint16_t **keys)
{
    const int32_t *list = list_of(lists, row) + begin;
    if (lists->problem->topk_kind == SMLA_TOPK_SLOTS)
        return convert_slots(lists, list, length, keys);
    return convert_positions(lists, lists->lanes->row_request[row], list, length, keys);
}

int64_t smla__lists_row(const struct smla__lists *lists, int64_t row, const uint16_t **keys)
{
    int64_t length = length_of(lists, row);
    return length ? convert(lists, row, 0, length, keys) : 0;
}

/* Positions that another rank keeps are as good as those of this one. */
static bool offends(const struct smla__lists *lists, int64_t row, int64_t entry, int64_t limit)
{
    const uint16_t *key;
    int32_t value = list_of(lists, row)[entry];
    bool positions = lists->problem->topk_kind == SMLA_TOPK_POSITIONS;
    if (value == -1 || convert(lists, row, entry, 1, &key))
        return false;
    return !(positions && value >= 0 && value < limit && local_position(lists, value) < 0);
}

bool smla__lists_offence(const struct smla__lists *lists, int64_t row, struct smla__offence *offence)
{
    const int32_t *lengths = lists->tensors->topk_length;
    int64_t length = length_of(lists, row), topk = lists->problem->topk;
    if (lists->lanes && row >= lists->lanes->info.rows)
        return false;
    int64_t limit = lists->problem->topk_kind == SMLA_TOPK_POSITIONS
                        ? lists->lanes->seq_lens[lists->lanes->row_request[row]]
                        : lists->tensors->cache_blocks * lists->block.value;
    *offence = (struct smla__offence){.found = true, .row = row, .known = true, .limit = limit};
    for (int64_t i = 0; i < length; i++)
        if (offends(lists, row, i, limit)) {
            offence->entry = i;
            offence->value = list_of(lists, row)[i];
            return true;
        }
    if (!lengths || (lengths[row] >= 0 && lengths[row] <= topk))
        return false;
    offence->entry = topk;
    offence->value = lengths[row];
    return true;
}

enum { GLANCE = 8 };

/* The first valid keys of a row, at most GLANCE; `keys` has room for twice as many. */
static int64_t first_keys(const struct smla__lists *lists, int64_t row, const uint16_t **keys)
{
    int64_t length = length_of(lists, row), count = 0;
    for (int64_t i = 0; i < length && count < GLANCE; i += GLANCE)
        count += convert(lists, row, i, length - i < GLANCE ? length - i : GLANCE, keys + count);
    return count < GLANCE ? count : GLANCE;
}

bool smla__lists_begin_alike(const struct smla__lists *lists, int64_t a, int64_t b)
{
    const uint16_t *keys[2 * GLANCE], *others[2 * GLANCE];
    int64_t count = first_keys(lists, a, keys), other = first_keys(lists, b, others);
    count = count < other ? count : other;
    return count > 0 && memcmp(keys, others, (size_t)count * sizeof *keys) == 0;
}
