/* Checked plans: the first offence in the lists of a run. */
#include "lists.cuh"

/* -1 is padding and always accepted. Of a DCP rank's positions only its own can lack a block. */
SMLA_DEVICE bool offends(const struct smla_lists *lists, const struct smla_row *row, int32_t entry)
{
    if (entry == -1)
        return false;
    if ((uint32_t)entry >= row->limit)
        return true;
    bool foreign = lists->positions && local_position(lists, (uint32_t)entry) == SMLA_NO_SLOT;
    return !foreign && slot_of(lists, row, entry) == SMLA_NO_SLOT;
}

/* Rows behind the step's are padded ones, which nobody judges. */
SMLA_DEVICE bool padded(const struct smla_lists *lists, int64_t row)
{
    return lists->step && row >= lists->step->rows;
}

SMLA_DEVICE bool length_offends(const struct smla_lists *lists, int64_t row)
{
    int32_t length = lists->topk_length ? lists->topk_length[row] : 0;
    return length < 0 || length > (int32_t)lists->topk_width;
}

SMLA_DEVICE void report(const struct smla_check_args *args, int64_t row, uint32_t entry)
{
    atomicMin(&args->offence->place, (unsigned long long)row << 32 | entry);
}

/* Finds it. A warp a row, rows in turn; any grid of full warps. */
extern "C" __global__ void __launch_bounds__(256)
    smla_check_lists(const __grid_constant__ struct smla_check_args args)
{
    ptx_grid_wait();
    const struct smla_lists *lists = &args.lists;
    int64_t warps = (int64_t)gridDim.x * (blockDim.x / 32);
    int lane = threadIdx.x % 32;
    for (int64_t t = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; t < args.rows; t += warps) {
        if (padded(lists, t))
            return; /* and only such behind it */
        struct smla_row row = open_row(lists, t);
        if (lane == 0 && length_offends(lists, t))
            report(&args, t, lists->topk_width);
        for (uint32_t i = lane; i < row.length; i += 32)
            if (offends(lists, &row, row.topk[i]))
                report(&args, t, i);
    }
}

/* Does this run have the offence? The record may be of an earlier run, or of one on another stream. */
SMLA_DEVICE bool has_offence(const struct smla_check_args *args, int64_t t, uint32_t entry)
{
    const struct smla_lists *lists = &args->lists;
    if (t >= args->rows || padded(lists, t))
        return false;
    if (entry == lists->topk_width)
        return length_offends(lists, t);
    struct smla_row row = open_row(lists, t);
    return entry < row.length && offends(lists, &row, row.topk[entry]);
}

/* Takes down what the offence was, while the lists are still there. One thread. */
extern "C" __global__ void __launch_bounds__(32)
    smla_check_note(const __grid_constant__ struct smla_check_args args)
{
    ptx_grid_wait();
    const struct smla_lists *lists = &args.lists;
    struct smla_offence *offence = args.offence;
    unsigned long long place = offence->place;
    int64_t row = (int64_t)(place >> 32);
    uint32_t entry = (uint32_t)place;
    if (place == offence->noted || !has_offence(&args, row, entry))
        return;
    offence->value = entry == lists->topk_width ? lists->topk_length[row] : list_of(lists, row)[entry];
    offence->limit = open_row(lists, row).limit;
    offence->noted = place;
}
