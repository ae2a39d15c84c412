/* What the Hopper decode kernels share: their items of work, and the end of a row: normalising, combining, storing. */
#ifndef SMLA_DECODE_ROW_CUH
#define SMLA_DECODE_ROW_CUH

#include "lists.cuh"
#include "ptx/hopper.cuh"

enum { BLOCKS = 32 /* 16-column blocks of the output */ };

/* Position in a ring of slots: index, and how often the ring has turned (parity). */
struct cursor {
    uint32_t slot, turn;
};

SMLA_DEVICE void advance(struct cursor *c, uint32_t slots)
{
    c->slot = c->slot == slots - 1 ? 0 : c->slot + 1;
    c->turn ^= c->slot == 0;
}

SMLA_DEVICE int first_block(int rank, int ranks)
{
    return rank * BLOCKS / ranks;
}

/* The rank that combines an output block. */
template <int RANKS> SMLA_DEVICE int owner_of(int block)
{
    int rank = block * RANKS / BLOCKS;
    return first_block(rank + 1, RANKS) <= block ? rank + 1 : rank;
}

/* What a chain, or a rank, knows of a head: its reference, the sum of P, and the sum of P as rounded to bf16. The
 * output is divided by the latter, so that the rounding of a dominant weight cancels; lse is taken of the former. */
struct __align__(16) sums
{
    float m, l, rounded, unused;
};

/* The part of a batch that a CTA works on. */
struct item {
    int64_t row;
    int first_head, heads;
};

SMLA_DEVICE struct item open_item(const struct smla_decode_args *args, uint32_t index)
{
    if (args->head_groups == 1) {
        struct item whole = {index, 0, args->heads};
        return whole;
    }
    uint32_t row = index / (uint32_t)args->head_groups;
    int per_group = (args->heads + args->head_groups - 1) / args->head_groups;
    int first = (int)(index - row * (uint32_t)args->head_groups) * per_group;
    struct item item = {row, first, min(per_group, args->heads - first)};
    return item;
}

SMLA_DEVICE int32_t read_entry(const struct smla_lists *lists, const int32_t *list, uint32_t place)
{
    return place < lists->topk_width ? __ldg(list + place) : -1;
}

/* What to subtract from scores under the maximum m: 0 as long as there is no finite score. */
SMLA_DEVICE float reference(float m)
{
    return m == -INFINITY ? 0.0f : m;
}

/* Brings sums under the reference m to the reference of `all` and adds them. */
SMLA_DEVICE void add_sums(struct sums *all, struct sums part)
{
    float weight = ptx_ex2(part.m - reference(all->m));
    all->l += part.l * weight;
    all->rounded += part.rounded * weight;
}

SMLA_DEVICE void store_lse(const struct smla_decode_args *args, const struct item *item, int h, float m,
                           float l)
{
    if (!args->lse || h >= item->heads)
        return;
    char *to = (char *)args->lse + item->row * args->lse_row + (item->first_head + h) * args->lse_head;
    /* m may be large, and is exact: its product with the factor is rounded once, with the sum. */
    float lse = fmaf(m, args->lse_factor, fmaf(m, args->lse_rest, ptx_lg2(l) * args->lse_factor));
    *(float *)to = l == 0 ? args->empty_lse : lse;
}

/* What turns sums of P V under the reference m into the output: with a sink, the part of the weight that is not its. */
SMLA_DEVICE float normaliser(const struct smla_decode_args *args, const struct item *item, int h,
                             struct sums all)
{
    if (all.l == 0)
        return 0;
    float factor = ptx_rcp(all.rounded);
    if (args->sinks && h < item->heads)
        factor *=
            all.l *
            ptx_rcp(all.l + ptx_ex2(__ldg(args->sinks + item->first_head + h) * 1.4426950408889634f - all.m));
    return factor;
}

#endif
