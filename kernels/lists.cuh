/* Reading a row's list: which entries are valid, and which cache row each one names. */
#ifndef SMLA_LISTS_CUH
#define SMLA_LISTS_CUH

#include "args.h"
#include "ptx/ampere.cuh"

#define SMLA_NO_SLOT 0xffffffffu

/* What a row's entries are judged by. */
struct smla_row {
    const int32_t *topk;
    const int32_t *table; /* block table of the row's request */
    uint32_t length;      /* active length: entries from here on are not valid */
    uint32_t limit;       /* entries are below it: seq_len, or rows of the cache */
    uint32_t table_width;
};

SMLA_DEVICE uint32_t divide(uint32_t n, struct smla_divisor by)
{
    return (uint32_t)(((uint64_t)n * by.multiplier) >> (31 + by.shift));
}

SMLA_DEVICE const int32_t *list_of(const struct smla_lists *lists, int64_t row)
{
    return (const int32_t *)((const char *)lists->topk + row * lists->topk_row);
}

SMLA_DEVICE uint32_t active_length(const struct smla_lists *lists, int64_t row)
{
    int32_t length = lists->topk_length ? __ldg(lists->topk_length + row) : (int32_t)lists->topk_width;
    return length < 0 ? 0 : min((uint32_t)length, lists->topk_width);
}

/* Padded rows, those beyond the step's, have no entries: their lists, lengths and requests may hold anything. */
SMLA_DEVICE struct smla_row open_row(const struct smla_lists *lists, int64_t row)
{
    struct smla_row r = {list_of(lists, row), 0, 0, 0, 0};
    if (lists->step && row >= lists->step->rows)
        return r;
    r.length = active_length(lists, row);
    if (lists->positions) {
        int32_t request = lists->row_request[row];
        r.limit = (uint32_t)max(lists->seq_lens[request], 0);
        r.table = lists->block_table + request * lists->table_stride;
        r.table_width = (uint32_t)lists->step->table_width;
    } else {
        r.limit = lists->cache_blocks * lists->block.divisor;
    }
    return r;
}

/* Where this rank keeps a position of its own, else SMLA_NO_SLOT. */
SMLA_DEVICE uint32_t local_position(const struct smla_lists *lists, uint32_t position)
{
    if (lists->turn.divisor == (uint32_t)lists->dcp_interleave)
        return position; /* one rank */
    uint32_t turn = divide(position, lists->turn);
    uint32_t rest = position - turn * lists->turn.divisor - (uint32_t)lists->dcp_first;
    return rest < (uint32_t)lists->dcp_interleave ? turn * (uint32_t)lists->dcp_interleave + rest
                                                  : SMLA_NO_SLOT;
}

/* An entry on its way to a slot: the block that the table names is still being read. */
struct smla_lookup {
    uint32_t block, within;
};

/* Starts with an entry's value. Negative values exceed every limit. */
SMLA_DEVICE struct smla_lookup look_up(const struct smla_lists *lists, const struct smla_row *row,
                                       int32_t entry)
{
    struct smla_lookup none = {SMLA_NO_SLOT, 0};
    if ((uint32_t)entry >= row->limit)
        return none;
    struct smla_lookup found = {(uint32_t)entry, 0};
    if (!lists->positions)
        return found;
    uint32_t local = local_position(lists, (uint32_t)entry);
    uint32_t logical = divide(local, lists->block);
    if (local == SMLA_NO_SLOT || logical >= row->table_width)
        return none;
    found.block = (uint32_t)__ldg(row->table + logical);
    found.within = local - logical * lists->block.divisor;
    return found;
}

/* The slot of the entry; SMLA_NO_SLOT if it names no cache row. */
SMLA_DEVICE uint32_t found_slot(const struct smla_lists *lists, struct smla_lookup found)
{
    if (!lists->positions)
        return found.block;
    return found.block < lists->cache_blocks ? found.block * lists->block.divisor + found.within
                                             : SMLA_NO_SLOT;
}

SMLA_DEVICE uint32_t slot_of(const struct smla_lists *lists, const struct smla_row *row, int32_t entry)
{
    return found_slot(lists, look_up(lists, row, entry));
}

/* First byte of a cache row; slots are below 2^31. */
SMLA_DEVICE const char *cache_row_of(const struct smla_lists *lists, uint32_t slot)
{
    const char *cache = (const char *)lists->cache;
    if (lists->dense)
        return cache + (int64_t)slot * lists->cache_row;
    uint32_t block = divide(slot, lists->block);
    return cache + (int64_t)block * lists->cache_block +
           (int64_t)(slot - block * lists->block.divisor) * lists->cache_row;
}

#endif
