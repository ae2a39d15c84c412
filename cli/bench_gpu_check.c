/* Rows of a GPU run against float64, from the cache rows that they list alone. */
#include <math.h>
#include <ref_attn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_gpu.h"
#include "command.h"
#include "compare.h"

/* The weights and out are rounded to bf16, each by 2^-9 at most; scores of this data are below 10. */
static const double out_bound = 5e-3, lse_bound = 2e-5;

/* Host copies of a row: its queries, its list's cache rows packed, and what the GPU made of them. */
struct row {
    int64_t t, heads, topk;
    uint16_t *q, *kv, *out;
    int32_t *list;
    float *lse, *out_float;
    double *wanted_out, *wanted_lse;
};

static bool make_row(struct row *row, int64_t heads, int64_t topk)
{
    size_t h = (size_t)heads, k = (size_t)topk;
    *row = (struct row){.heads = heads, .topk = topk};
    row->q = malloc(h * REF_ROW * sizeof(uint16_t));
    row->kv = calloc(k * REF_ROW, sizeof(uint16_t));
    row->list = malloc(k * sizeof(int32_t));
    row->out = malloc(h * REF_LATENT * sizeof(uint16_t));
    row->lse = malloc(h * sizeof(float));
    row->out_float = malloc(h * REF_LATENT * sizeof(float));
    row->wanted_out = malloc(h * REF_LATENT * sizeof(double));
    row->wanted_lse = malloc(h * sizeof(double));
    return row->q && row->kv && row->list && row->out && row->lse && row->out_float && row->wanted_out &&
           row->wanted_lse;
}

static void free_row(struct row *row)
{
    free(row->q);
    free(row->kv);
    free(row->list);
    free(row->out);
    free(row->lse);
    free(row->out_float);
    free(row->wanted_out);
    free(row->wanted_lse);
}

static float from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Brings a row's data here; the i-th entry's cache row becomes row i of a small cache. */
static bool fetch_row(struct row *row, const struct bench_gpu_case *open, int64_t t)
{
    const struct bench_gpu *gpu = open->gpu;
    const int32_t *slots = gpu->lists.first + t * row->topk;
    size_t q_bytes = (size_t)row->heads * REF_ROW * 2, out_bytes = (size_t)row->heads * REF_LATENT * 2,
           lse_bytes = (size_t)row->heads * sizeof(float);
    bool good = true;
    row->t = t;
    for (int64_t i = 0; good && i < row->topk; i++) {
        row->list[i] = slots[i] < 0 ? -1 : (int32_t)i;
        if (slots[i] >= 0)
            good = device_download_async(gpu->device, row->kv + i * REF_ROW,
                                         (const uint16_t *)gpu->pool + (int64_t)slots[i] * REF_ROW,
                                         REF_ROW * 2, gpu->stream);
    }
    good = good &&
           device_download(gpu->device, row->q, (const char *)open->q + (size_t)t * q_bytes, q_bytes,
                           gpu->stream) &&
           device_download(gpu->device, row->out, (const char *)open->out + (size_t)t * out_bytes, out_bytes,
                           gpu->stream) &&
           device_download(gpu->device, row->lse, open->lse + t * row->heads, lse_bytes, gpu->stream);
    for (int64_t i = 0; good && i < row->heads * REF_LATENT; i++)
        row->out_float[i] = from_bf16(row->out[i]);
    return good;
}

static int judge_row(const struct row *row, double scale, char error[BENCH_TEXT])
{
    const struct ref_problem problem = {.rows = 1,
                                        .heads = row->heads,
                                        .topk = row->topk,
                                        .cache_blocks = row->topk,
                                        .block_size = 1,
                                        .scale = scale,
                                        .dcp_world = 1,
                                        .dcp_interleave = 1,
                                        .q = row->q,
                                        .kv = row->kv,
                                        .topk_list = row->list};
    struct compare out = {0}, lse = {0};
    if (ref_attend(&problem, row->wanted_out, row->wanted_lse)) {
        snprintf(error, BENCH_TEXT, "no memory for the oracle");
        return EXIT_FAILED;
    }
    compare_add(&out, row->out_float, row->wanted_out, row->heads * REF_LATENT, 0);
    compare_add(&lse, row->lse, row->wanted_lse, row->heads, 0);
    if (compare_out_within(&out, out_bound) && compare_lse_within(&lse, lse_bound))
        return EXIT_RIGHT;
    snprintf(
        error, BENCH_TEXT,
        "WRONG: row %lld: out: %lld mismatched, relative norm %.2e (bound %.2e), worst at head %lld column "
        "%lld; lse: %lld mismatched, error %.2e at head %lld (bound %.2e)",
        (long long)row->t, (long long)out.mismatches, compare_relative_norm(&out), out_bound,
        (long long)(out.worst / REF_LATENT), (long long)(out.worst % REF_LATENT), (long long)lse.mismatches,
        lse.max_error, (long long)lse.worst, lse_bound);
    return EXIT_WRONG;
}

/* Every number of out must have been written, and none of this data gives NaN or Inf. */
static int check_written(const struct bench_gpu_case *open, int64_t row_elements, char error[BENCH_TEXT])
{
    const struct bench_gpu *gpu = open->gpu;
    int64_t count = (int64_t)(open->out_bytes / sizeof(uint16_t)), i = 0;
    uint16_t *out = malloc(open->out_bytes + 1);
    int code = out && device_download(gpu->device, out, open->out, open->out_bytes, gpu->stream)
                   ? EXIT_RIGHT
                   : EXIT_FAILED;
    if (code != EXIT_RIGHT)
        snprintf(error, BENCH_TEXT, "check: %s", out ? device_error(gpu->device) : "out of memory");
    while (code == EXIT_RIGHT && i < count && (out[i] & 0x7f80) != 0x7f80)
        i++;
    if (code == EXIT_RIGHT && i < count) {
        snprintf(error, BENCH_TEXT, "WRONG: out[%lld] of row %lld is not finite or was not written",
                 (long long)(i % row_elements), (long long)(i / row_elements));
        code = EXIT_WRONG;
    }
    free(out);
    return code;
}

int bench_gpu_check(struct bench_gpu_case *open, char error[BENCH_TEXT])
{
    const struct bench_lists *lists = &open->gpu->lists;
    int64_t heads = open->tensors.out_row_stride / open->tensors.out_head_stride;
    const int64_t rows[] = {0, lists->tokens / 2, lists->tokens - 1};
    smla_problem defaults;
    struct row row;
    smla_problem_init(&defaults);
    bool room = make_row(&row, heads, lists->topk);
    int code = room ? check_written(open, heads * REF_LATENT, error) : EXIT_FAILED;
    if (!room)
        snprintf(error, BENCH_TEXT, "no memory for the oracle");
    for (int i = 0; code == EXIT_RIGHT && i < 3; i++) {
        if (i && rows[i] == rows[i - 1])
            continue;
        if (fetch_row(&row, open, rows[i])) {
            code = judge_row(&row, (double)defaults.scale, error);
        } else {
            snprintf(error, BENCH_TEXT, "check: %s", device_error(open->gpu->device));
            code = EXIT_FAILED;
        }
    }
    free_row(&row);
    return code;
}
