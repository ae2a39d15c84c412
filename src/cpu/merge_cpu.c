#include <math.h>
#include <string.h>

#include "half.h"
#include "parallel.h"
#include "write_merge_cpu.h"

enum { COLUMNS = 256 }; /* merged at a time */

struct job {
    const smla_partials *p;
    int32_t workers;
};

static float part_lse(const smla_partials *p, int64_t part, int64_t row, int64_t head)
{
    float lse = *(const float *)((const char *)p->part_lse + part * p->part_lse_part_stride +
                                 row * p->part_lse_row_stride + head * p->part_lse_head_stride);
    return isinf(lse) || isnan(lse) ? -INFINITY : lse;
}

static const char *part_out(const smla_partials *p, int64_t part, int64_t row, int64_t head)
{
    return (const char *)p->part_out + part * p->part_out_part_stride + row * p->part_out_row_stride +
           head * p->part_out_head_stride;
}

static double power(const smla_partials *p, double x)
{
    return p->lse_base == SMLA_LSE_BASE2 ? exp2(x) : exp(x);
}

/* lse of all parts; the only part that is not empty if there is just one, else -1. */
static double total_lse(const smla_partials *p, int64_t row, int64_t head, int64_t *only)
{
    double most = -INFINITY, sum = 0.0;
    int64_t filled = 0;
    *only = -1;
    for (int64_t i = 0; i < p->parts; i++)
        most = fmax(most, part_lse(p, i, row, head));
    if (most == -INFINITY)
        return most;
    for (int64_t i = 0; i < p->parts; i++) {
        float lse = part_lse(p, i, row, head);
        if (lse == -INFINITY)
            continue;
        sum += power(p, lse - most);
        *only = filled++ ? -1 : i;
    }
    return *only >= 0 ? most : most + (p->lse_base == SMLA_LSE_BASE2 ? log2(sum) : log(sum));
}

static void read_columns(float *to, const char *from, int32_t dtype, int n)
{
    if (dtype == SMLA_F32) {
        memcpy(to, from, (size_t)n * sizeof *to);
        return;
    }
    for (int c = 0; c < n; c++)
        to[c] = smla__bf16_to_f32(((const uint16_t *)(const void *)from)[c]);
}

static void write_columns(char *to, const float *from, int32_t dtype, int n)
{
    if (dtype == SMLA_F32) {
        memcpy(to, from, (size_t)n * sizeof *from);
        return;
    }
    for (int c = 0; c < n; c++)
        ((uint16_t *)(void *)to)[c] = smla__f32_to_bf16(from[c]);
}

static int64_t bytes_of(int32_t dtype)
{
    return dtype == SMLA_F32 ? 4 : 2;
}

/* Every part is read before its place may be overwritten. */
static void merge_columns(const smla_partials *p, int64_t row, int64_t head, int column, int n, double lse,
                          int64_t only, char *to)
{
    float sum[COLUMNS] = {0.0f}, part[COLUMNS];
    for (int64_t i = 0; i < p->parts; i++) {
        float own = part_lse(p, i, row, head);
        if (own == -INFINITY)
            continue;
        const char *from = part_out(p, i, row, head) + column * bytes_of(p->part_dtype);
        if (i == only && p->part_dtype == p->out_dtype) { /* every bit, which a conversion may not keep */
            memmove(to + column * bytes_of(p->out_dtype), from, (size_t)(n * bytes_of(p->out_dtype)));
            return;
        }
        float weight = i == only ? 1.0f : (float)power(p, own - lse);
        read_columns(part, from, p->part_dtype, n);
        for (int c = 0; c < n; c++)
            sum[c] += weight * part[c];
    }
    write_columns(to + column * bytes_of(p->out_dtype), sum, p->out_dtype, n);
}

static void merge_head(const smla_partials *p, int64_t row, int64_t head)
{
    int64_t only;
    double lse = total_lse(p, row, head, &only);
    char *to = (char *)p->out + row * p->out_row_stride + head * p->out_head_stride;
    for (int column = 0; column < p->dim; column += COLUMNS) {
        int n = p->dim - column < COLUMNS ? p->dim - column : COLUMNS;
        merge_columns(p, row, head, column, n, lse, only, to);
    }
    if (lse == -INFINITY && p->empty_lse == SMLA_EMPTY_POS_INF)
        lse = INFINITY;
    if (p->lse)
        *(float *)((char *)p->lse + row * p->lse_row_stride + head * p->lse_head_stride) = (float)lse;
}

static void merge_share(void *cookie, int32_t worker)
{
    const struct job *job = cookie;
    int64_t share = (job->p->rows + job->workers - 1) / job->workers, begin = share * worker;
    int64_t end = begin + share < job->p->rows ? begin + share : job->p->rows;
    for (int64_t row = begin; row < end; row++)
        for (int64_t head = 0; head < job->p->heads; head++)
            merge_head(job->p, row, head);
}

smla_status smla__cpu_merge(smla_context *context, const smla_partials *partials, struct CUstream_st *stream)
{
    (void)stream;
    struct job job = {partials, context->threads};
    if (partials->rows < job.workers)
        job.workers = (int32_t)partials->rows;
    smla__parallel(job.workers, merge_share, &job);
    return SMLA_OK;
}
