/*
 * Merges partial results by their lse. A warp a (row, head), 16 columns of 512 a lane; pairs in turn; any grid of full
 * warps. Partials whose lse is not finite are empty: their out is not read. Parts are added in order.
 */
#include "args.h"
#include "ptx/ampere.cuh"

enum { COLUMNS = 16 /* of a lane */, UNIT = 8 /* columns of a 16-byte bf16 load */, AT_ONCE = 8 };

SMLA_DEVICE float part_lse(const struct smla_merge_args *args, int64_t part, int64_t row, int head)
{
    return *(const float *)((const char *)args->part_lse + part * args->part_lse_part +
                            row * args->part_lse_row + head * args->part_lse_head);
}

/* Largest finite lse, how many there are, and the last part that has one. */
struct survey {
    float largest;
    int64_t count, last;
};

SMLA_DEVICE struct survey look(const struct smla_merge_args *args, int64_t row, int head)
{
    struct survey s = {-INFINITY, 0, 0};
    for (int64_t p = 0; p < args->parts; p++) {
        float lse = part_lse(args, p, row, head);
        if (isfinite(lse)) {
            s.largest = fmaxf(s.largest, lse);
            s.count++;
            s.last = p;
        }
    }
    return s;
}

SMLA_DEVICE void store(const struct smla_merge_args *args, int64_t row, int head, int lane,
                       const float v[COLUMNS])
{
    char *out = (char *)args->out + row * args->out_row + head * args->out_head;
#pragma unroll
    for (int u = 0; u < COLUMNS / UNIT; u++) {
        int column = UNIT * (lane + 32 * u);
        const float *x = v + UNIT * u;
        if (args->out_f32) {
            *(float4 *)(out + 4 * column) = make_float4(x[0], x[1], x[2], x[3]);
            *(float4 *)(out + 4 * column + 16) = make_float4(x[4], x[5], x[6], x[7]);
        } else {
            *(uint4 *)(out + 2 * column) =
                make_uint4(ptx_pack_bf16x2(x[0], x[1]), ptx_pack_bf16x2(x[2], x[3]),
                           ptx_pack_bf16x2(x[4], x[5]), ptx_pack_bf16x2(x[6], x[7]));
        }
    }
}

SMLA_DEVICE void add_bf16(float v[UNIT], uint4 x, float weight)
{
    const uint32_t words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[2 * i] += weight * __uint_as_float(words[i] << 16);
        v[2 * i + 1] += weight * __uint_as_float(words[i] & 0xffff0000u);
    }
}

SMLA_DEVICE void add_f32(float v[UNIT], const float4 x[2], float weight)
{
    const float values[UNIT] = {x[0].x, x[0].y, x[0].z, x[0].w, x[1].x, x[1].y, x[1].z, x[1].w};
#pragma unroll
    for (int i = 0; i < UNIT; i++)
        v[i] += weight * values[i];
}

SMLA_DEVICE const char *part_out(const struct smla_merge_args *args, int64_t part, int64_t row, int head)
{
    return (const char *)args->part_out + part * args->part_out_part + row * args->part_out_row +
           head * args->part_out_head;
}

/* Adds parts first .. first + AT_ONCE - 1, all of their loads on the way at once. */
SMLA_DEVICE void add_bf16_parts(const struct smla_merge_args *args, int64_t first, int64_t row, int head,
                                int lane, float largest, float v[COLUMNS], float *total)
{
    uint4 data[AT_ONCE][COLUMNS / UNIT];
    float weight[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
        float lse = first + i < args->parts ? part_lse(args, first + i, row, head) : -INFINITY;
        weight[i] = isfinite(lse) ? ptx_ex2((lse - largest) * args->base_factor) : 0;
#pragma unroll
        for (int u = 0; u < COLUMNS / UNIT; u++)
            data[i][u] = isfinite(lse)
                             ? *((const uint4 *)part_out(args, first + i, row, head) + lane + 32 * u)
                             : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
        *total += weight[i];
#pragma unroll
        for (int u = 0; u < COLUMNS / UNIT; u++)
            add_bf16(v + UNIT * u, data[i][u], weight[i]);
    }
}

SMLA_DEVICE void add_f32_part(const struct smla_merge_args *args, int64_t part, int64_t row, int head,
                              int lane, float largest, float v[COLUMNS], float *total)
{
    float lse = part_lse(args, part, row, head);
    if (!isfinite(lse))
        return;
    float weight = ptx_ex2((lse - largest) * args->base_factor);
    const char *from = part_out(args, part, row, head);
    *total += weight;
#pragma unroll
    for (int u = 0; u < COLUMNS / UNIT; u++) {
        const float4 *x = (const float4 *)(from + 4 * UNIT * (lane + 32 * u));
        const float4 pair[2] = {x[0], x[1]};
        add_f32(v + UNIT * u, pair, weight);
    }
}

/* A single part keeps its bits where the types are equal. */
SMLA_DEVICE void pass_on(const struct smla_merge_args *args, int64_t part, int64_t row, int head, int lane)
{
    const char *from = part_out(args, part, row, head);
    if (args->part_f32 == args->out_f32) {
        uint4 *to = (uint4 *)((char *)args->out + row * args->out_row + head * args->out_head);
        for (int u = lane; u < (args->out_f32 ? 128 : 64); u += 32)
            to[u] = ((const uint4 *)from)[u];
        return;
    }
    float v[COLUMNS];
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        int column = UNIT * (lane + 32 * (i / UNIT)) + i % UNIT;
        v[i] = args->part_f32 ? ((const float *)from)[column]
                              : __uint_as_float((uint32_t)((const uint16_t *)from)[column] << 16);
    }
    store(args, row, head, lane, v);
}

SMLA_DEVICE void store_lse(const struct smla_merge_args *args, int64_t row, int head, int lane, float lse)
{
    if (args->lse && lane == 0)
        *(float *)((char *)args->lse + row * args->lse_row + head * args->lse_head) = lse;
}

SMLA_DEVICE void merge(const struct smla_merge_args *args, int64_t row, int head, int lane)
{
    struct survey s = look(args, row, head);
    if (s.count == 1) {
        pass_on(args, s.last, row, head, lane);
        store_lse(args, row, head, lane, s.largest);
        return;
    }
    float v[COLUMNS] = {}, total = 0, largest = s.largest;
    if (s.count && args->part_f32)
        for (int64_t p = 0; p < args->parts; p++)
            add_f32_part(args, p, row, head, lane, largest, v, &total);
    else if (s.count)
        for (int64_t p = 0; p < args->parts; p += AT_ONCE)
            add_bf16_parts(args, p, row, head, lane, largest, v, &total);
    float factor = s.count ? 1 / total : 1;
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        v[i] *= factor;
    __syncwarp(); /* out may be one of the partials */
    store(args, row, head, lane, v);
    store_lse(args, row, head, lane,
              s.count ? largest + ptx_lg2(total) / args->base_factor : args->empty_lse);
}

extern "C" __global__ void __launch_bounds__(256)
    smla_merge(const __grid_constant__ struct smla_merge_args args)
{
    ptx_grid_wait();
    int64_t warps = (int64_t)gridDim.x * (blockDim.x / 32), pairs = args.rows * args.heads;
    for (int64_t i = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; i < pairs; i += warps)
        merge(&args, i / args.heads, (int)(i % args.heads), threadIdx.x % 32);
}
