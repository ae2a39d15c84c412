/* The merge of partial results on a GPU, against float64 and against the CPU backend. */
#include "mirror.h"
#include "rig.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = REF_LATENT };

static const double u16 = 0x1p-8, u23 = 0x1p-23;

struct kind {
    int parts;
    int64_t rows;
    int32_t heads;
    smla_dtype part, out;
    smla_lse_base base;
    smla_empty_lse empty;
    double spread;  /* standard deviation of the lse */
    double empties; /* part of the partials that is empty */
    int64_t gap;    /* further bytes in every stride, a multiple of 16 */
    int alias;      /* the partial that out is, or -1 */
    bool no_lse;
};

struct site {
    struct kind kind;
    smla_context *gpu, *cpu;
    smla_partials p; /* strides and counts; pointers are set for either side */
    struct mirror parts, lses, out, lse;
    double *want, *want_lse;
    int64_t *only; /* the only partial that is not empty, -1 for several, -2 for none */
};

static void kind_print(const struct kind *k)
{
    fprintf(stderr,
            "P %d, T %d, H %d, %s to %s, base %s, empty %sinf, spread %g, empties %g, gap %d, alias %d%s\n",
            k->parts, (int)k->rows, (int)k->heads, k->part == SMLA_F32 ? "f32" : "bf16",
            k->out == SMLA_F32 ? "f32" : "bf16", k->base == SMLA_LSE_BASE2 ? "2" : "e",
            k->empty == SMLA_EMPTY_POS_INF ? "+" : "-", k->spread, k->empties, (int)k->gap, k->alias,
            k->no_lse ? ", no lse" : "");
}

static double value_at(const unsigned char *row, smla_dtype dtype, int64_t column)
{
    return dtype == SMLA_F32 ? (double)((const float *)(const void *)row)[column]
                             : (double)bf16_to(((const uint16_t *)(const void *)row)[column]);
}

static unsigned char *part_row(const struct site *s, int64_t part, int64_t t, int64_t h)
{
    return s->parts.host + part * s->p.part_out_part_stride + t * s->p.part_out_row_stride +
           h * s->p.part_out_head_stride;
}

static float *part_lse(const struct site *s, int64_t part, int64_t t, int64_t h)
{
    return (float *)(void *)(s->lses.host + part * s->p.part_lse_part_stride + t * s->p.part_lse_row_stride +
                             h * s->p.part_lse_head_stride);
}

static void lay_out(struct site *s)
{
    const struct kind *k = &s->kind;
    int64_t item = k->part == SMLA_F32 ? 4 : 2, out_item = k->out == SMLA_F32 ? 4 : 2;
    smla_partials *p = &s->p;
    smla_partials_init(p, k->parts, k->rows, k->heads);
    p->part_dtype = k->part;
    p->out_dtype = k->out;
    p->lse_base = k->base;
    p->empty_lse = k->empty;
    p->part_out_head_stride = DIM * item + k->gap;
    p->part_out_row_stride = k->heads * p->part_out_head_stride + k->gap;
    p->part_out_part_stride = k->rows * p->part_out_row_stride + 2 * k->gap;
    p->part_lse_head_stride = 4 + k->gap / 4;
    p->part_lse_row_stride = k->heads * p->part_lse_head_stride + k->gap / 4;
    p->part_lse_part_stride = k->rows * p->part_lse_row_stride + k->gap / 2;
    p->out_head_stride = DIM * out_item + 3 * k->gap;
    p->out_row_stride = k->heads * p->out_head_stride + k->gap;
    p->lse_head_stride = 4 + k->gap / 4;
    p->lse_row_stride = k->heads * p->lse_head_stride + k->gap / 2;
    if (k->alias >= 0) {
        p->out_head_stride = p->part_out_head_stride;
        p->out_row_stride = p->part_out_row_stride;
    }
}

/* The out of an empty partial is NaN, its lse one of the three kinds of nothing. */
static void fill_partial(struct site *s, struct rng *rng, int64_t part, int64_t t, int64_t h)
{
    static const float nothing[] = {-INFINITY, INFINITY, NAN};
    bool empty = rng_unit(rng) < s->kind.empties;
    unsigned char *row = part_row(s, part, t, h);
    *part_lse(s, part, t, h) =
        empty ? nothing[rng_below(rng, 3)] : (float)(s->kind.spread * (double)rng_normal(rng));
    for (int c = 0; c < DIM && !empty; c++) {
        float value = rng_normal(rng);
        uint16_t half = bf16_from(value);
        if (s->kind.part == SMLA_F32)
            memcpy(row + 4 * c, &value, 4);
        else
            memcpy(row + 2 * c, &half, 2);
    }
}

/* One row and head in float64. */
static void expect_head(struct site *s, int64_t t, int64_t h)
{
    int64_t g = t * s->kind.heads + h, filled = 0;
    double top = -INFINITY, sum = 0, unit = s->kind.base == SMLA_LSE_BASE2 ? log(2.0) : 1;
    for (int64_t i = 0; i < s->kind.parts; i++)
        if (isfinite(*part_lse(s, i, t, h))) {
            top = fmax(top, (double)*part_lse(s, i, t, h));
            s->only[g] = filled++ ? -1 : i;
        }
    for (int c = 0; c < DIM; c++)
        s->want[g * DIM + c] = 0;
    s->want_lse[g] = s->kind.empty == SMLA_EMPTY_POS_INF ? INFINITY : -INFINITY;
    if (filled == 0) {
        s->only[g] = -2;
        return;
    }
    for (int64_t i = 0; i < s->kind.parts; i++)
        if (isfinite(*part_lse(s, i, t, h)))
            sum += exp(unit * ((double)*part_lse(s, i, t, h) - top));
    s->want_lse[g] = top + log(sum) / unit;
    for (int64_t i = 0; i < s->kind.parts; i++)
        if (isfinite(*part_lse(s, i, t, h))) {
            double weight = exp(unit * ((double)*part_lse(s, i, t, h) - top)) / sum;
            for (int c = 0; c < DIM; c++)
                s->want[g * DIM + c] += weight * value_at(part_row(s, i, t, h), s->kind.part, c);
        }
}

static void site_open(struct site *s, const struct kind *kind)
{
    const int64_t groups = kind->rows * kind->heads;
    struct rng rng = {(uint64_t)(kind->parts * 1000 + kind->rows + kind->heads)};
    smla_context_options options;
    *s = (struct site){.kind = *kind, .gpu = rig_context()};
    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CPU;
    options.threads = 2;
    assert_int_equal(smla_context_create(&s->cpu, &options), SMLA_OK);
    lay_out(s);
    mirror_open(&s->parts, (size_t)(kind->parts * s->p.part_out_part_stride), 0xff);
    mirror_open(&s->lses, (size_t)(kind->parts * s->p.part_lse_part_stride), 0xff);
    mirror_open(&s->out, (size_t)(kind->rows * s->p.out_row_stride), 0xff);
    mirror_open(&s->lse, (size_t)(kind->rows * s->p.lse_row_stride), 0xff);
    s->want = must_malloc(sizeof(double) * (size_t)groups * DIM);
    s->want_lse = must_malloc(sizeof(double) * (size_t)groups);
    s->only = must_malloc(sizeof(int64_t) * (size_t)groups);
    for (int64_t g = 0; g < groups; g++) {
        for (int64_t i = 0; i < kind->parts; i++)
            fill_partial(s, &rng, i, g / kind->heads, g % kind->heads);
        expect_head(s, g / kind->heads, g % kind->heads);
    }
    mirror_load(&s->parts);
    mirror_load(&s->lses);
    mirror_load(&s->out);
    mirror_load(&s->lse);
}

static void site_close(struct site *s)
{
    mirror_close(&s->parts);
    mirror_close(&s->lses);
    mirror_close(&s->out);
    mirror_close(&s->lse);
    free(s->want);
    free(s->want_lse);
    free(s->only);
    smla_context_destroy(s->gpu);
    smla_context_destroy(s->cpu);
}

static smla_partials on_gpu(const struct site *s)
{
    smla_partials p = s->p;
    p.part_out = s->parts.device;
    p.part_lse = (const float *)(const void *)s->lses.device;
    p.out = s->kind.alias < 0 ? s->out.device : s->parts.device + s->kind.alias * p.part_out_part_stride;
    p.lse = s->kind.no_lse ? NULL : (float *)(void *)s->lse.device;
    return p;
}

/* out [T, H, 512] and lse [T, H] of strided buffers as float64, dense; what was taken is poisoned again. */
static void take(const struct site *s, unsigned char *out, unsigned char *lse, double *to, double *to_lse)
{
    int64_t item = s->kind.out == SMLA_F32 ? 4 : 2;
    for (int64_t g = 0; g < s->kind.rows * s->kind.heads; g++) {
        int64_t t = g / s->kind.heads, h = g % s->kind.heads;
        unsigned char *row = out + t * s->p.out_row_stride + h * s->p.out_head_stride;
        unsigned char *value = lse + t * s->p.lse_row_stride + h * s->p.lse_head_stride;
        for (int c = 0; c < DIM; c++)
            to[g * DIM + c] = value_at(row, s->kind.out, c);
        to_lse[g] = value_at(value, SMLA_F32, 0);
        memset(row, 0xff, (size_t)(DIM * item));
        memset(value, 0xff, 4);
    }
}

/* Weights are good to some units of fp32, of which the exponent's size makes more. */
static struct bound merge_bound(const struct site *s, double roundings)
{
    struct bound bound = {.element = 2e-6, .absolute = 0x1p-134, .norm = 2e-6};
    if (s->kind.out == SMLA_BF16) {
        bound.relative = roundings * u16;
        bound.norm += roundings * u16;
    }
    return bound;
}

static bool agrees(const struct site *s, const char *what, const double *got, const double *got_lse,
                   const double *want, const double *want_lse, double roundings)
{
    int64_t groups = s->kind.rows * s->kind.heads;
    struct bound bound = merge_bound(s, roundings);
    struct bound lse_bound = {.absolute = 2e-6, .relative = u23, .norm = INFINITY};
    struct comparison out = compare(got, want, groups * DIM, DIM, bound);
    struct comparison lse = {.right = true};
    if (!s->kind.no_lse)
        lse = compare(got_lse, want_lse, groups, 1, lse_bound);
    if (!out.right) {
        fprintf(stderr, "out against %s, worst in row %d, head %d, column %d\n", what,
                (int)(out.worst_at / DIM / s->kind.heads), (int)(out.worst_at / DIM % s->kind.heads),
                (int)(out.worst_at % DIM));
        comparison_print("out", &out, got, want, bound);
    }
    if (!lse.right) {
        fprintf(stderr, "lse against %s\n", what);
        comparison_print("lse", &lse, got_lse, want_lse, lse_bound);
    }
    return out.right && lse.right;
}

/* C26: a single partial passes through bit for bit, its lse too; no partial gives zeros and the empty lse. */
static bool exact_rows(const struct site *s, const unsigned char *parts, const double *got,
                       const double *got_lse)
{
    bool same_type = s->kind.part == s->kind.out;
    for (int64_t g = 0; g < s->kind.rows * s->kind.heads; g++) {
        int64_t only = s->only[g], t = g / s->kind.heads, h = g % s->kind.heads;
        if (only == -1 || (only >= 0 && !same_type))
            continue;
        for (int c = 0; c < DIM; c++) {
            const unsigned char *row = only < 0 ? NULL : parts + (part_row(s, only, t, h) - s->parts.host);
            double want = row ? value_at(row, s->kind.part, c) : 0;
            if (memcmp(&got[g * DIM + c], &want, sizeof want) != 0) {
                fprintf(stderr, "row %d, head %d, column %d: %.9g, but the only partial (%d) has %.9g\n",
                        (int)t, (int)h, c, got[g * DIM + c], (int)only, want);
                return false;
            }
        }
        double lse = only < 0 ? s->want_lse[g] : (double)*part_lse(s, only, t, h);
        if (!s->kind.no_lse && got_lse[g] != lse) {
            fprintf(stderr, "row %d, head %d: lse %.9g, but the only partial (%d) has %.9g\n", (int)t, (int)h,
                    got_lse[g], (int)only, lse);
            return false;
        }
    }
    return true;
}

static void run_on_cpu(struct site *s, unsigned char *parts, double *out, double *lse)
{
    smla_partials p = s->p;
    p.part_out = parts;
    p.part_lse = (const float *)(const void *)s->lses.host;
    p.out = s->out.host; /* not in place, whatever the GPU did */
    p.lse = (float *)(void *)s->lse.host;
    assert_int_equal(smla_merge(s->cpu, &p, NULL), SMLA_OK);
    take(s, s->out.host, s->lse.host, out, lse);
}

/* Brings the outputs in, and finds all else as it was: true if so. */
static bool collect(struct site *s, double *out, double *lse)
{
    int alias = s->kind.alias;
    struct mirror *target = alias < 0 ? &s->out : &s->parts;
    size_t bytes = s->parts.bytes;
    unsigned char *before = must_malloc(bytes);
    memcpy(before, s->parts.host, bytes);
    bool kept = mirror_fetch(target, "out");
    kept &= mirror_fetch(&s->lse, "lse");
    kept &= mirror_same(&s->lses, "part_lse");
    if (alias < 0) {
        kept &= mirror_same(&s->parts, "part_out");
        take(s, s->out.host, s->lse.host, out, lse);
        kept &= guard_filled(s->out.host, s->out.bytes, 0xff);
    } else {
        int64_t at = alias * s->p.part_out_part_stride, item = s->kind.out == SMLA_F32 ? 4 : 2;
        take(s, s->parts.host + at, s->lse.host, out, lse);
        for (int64_t g = 0; g < s->kind.rows * s->kind.heads; g++)
            memcpy(part_row(s, alias, g / s->kind.heads, g % s->kind.heads),
                   before + (part_row(s, alias, g / s->kind.heads, g % s->kind.heads) - s->parts.host),
                   (size_t)(DIM * item));
        kept &= memcmp(before, s->parts.host, bytes) == 0; /* the other partials and all gaps */
    }
    kept &= guard_filled(s->lse.host, s->lse.bytes, 0xff);
    free(before);
    if (!kept)
        fprintf(stderr, "something other than out and lse has changed\n");
    return kept;
}

static void expect_merge(const struct kind *kind)
{
    struct site s;
    site_open(&s, kind);
    size_t groups = (size_t)(kind->rows * kind->heads);
    double *out = must_malloc(sizeof(double) * groups * DIM), *lse = must_malloc(sizeof(double) * groups);
    double *cpu = must_malloc(sizeof(double) * groups * DIM), *cpu_lse = must_malloc(sizeof(double) * groups);
    const smla_partials p = on_gpu(&s);
    smla_status status = smla_merge(s.gpu, &p, NULL);
    if (status != SMLA_OK)
        fail_msg("%s: %s", smla_status_name(status), smla_context_error(s.gpu));
    bool right = collect(&s, out, lse);
    run_on_cpu(&s, s.parts.host, cpu, cpu_lse);
    right &= agrees(&s, "float64", out, lse, s.want, s.want_lse, 1);
    right &= agrees(&s, "the CPU", out, lse, cpu, cpu_lse, 2);
    right &= exact_rows(&s, s.parts.host, out, lse);
    if (!right) {
        kind_print(kind);
        fail_msg("the merge is wrong");
    }
    free(out);
    free(lse);
    free(cpu);
    free(cpu_lse);
    site_close(&s);
}

/* A running number chooses what is not looped over, so that the options meet in ever new company. */
static struct kind kind_of(int parts, int64_t rows, int32_t heads, unsigned turn)
{
    static const double spreads[] = {1, 12, 400, 0.01}, empties[] = {0, 0.3, 0.85};
    return (struct kind){.parts = parts,
                         .rows = rows,
                         .heads = heads,
                         .part = turn & 1 ? SMLA_F32 : SMLA_BF16,
                         .out = turn >> 1 & 1 ? SMLA_F32 : SMLA_BF16,
                         .base = turn % 3 ? SMLA_LSE_NATURAL : SMLA_LSE_BASE2,
                         .empty = turn % 5 > 2 ? SMLA_EMPTY_POS_INF : SMLA_EMPTY_NEG_INF,
                         .spread = spreads[turn / 3 % 4],
                         .empties = empties[turn / 2 % 3],
                         .gap = turn % 4 == 1 ? 0 : 16 * (turn % 4),
                         .alias = -1,
                         .no_lse = turn % 7 == 6};
}

static void merge_parts_and_heads(void **state)
{
    (void)state;
    static const int32_t heads[] = {1, 3, 8, 16, 66, 128};
    unsigned turn = 0;
    for (int parts = 1; parts <= 9; parts++)
        for (size_t i = 0; i < ARRAY_LENGTH(heads); i++)
            for (int64_t rows = 1; rows <= 5; rows += 4) {
                struct kind kind = kind_of(parts, rows, heads[i], turn++);
                expect_merge(&kind);
            }
}

static void merge_every_option(void **state)
{
    (void)state;
    for (unsigned turn = 0; turn < 420; turn++) {
        struct kind kind = kind_of(2 + (int)(turn % 11), 2, 5, turn);
        expect_merge(&kind);
    }
}

static void merge_many_rows(void **state)
{
    (void)state;
    for (unsigned turn = 0; turn < 8; turn++) {
        struct kind kind = kind_of((int[]){2, 9, 3, 5}[turn % 4], 300, turn < 4 ? 8 : 16, turn + turn / 4);
        expect_merge(&kind);
    }
}

/* More pairs of row and head than a launch has warps. All read the same two partials; each result is looked at in lse, and
 * some in out. */
static void C36_merge_of_many_pairs(void **state)
{
    enum { ROWS = 70000, HEADS = 128, PAIRS = ROWS * HEADS, GRID = 1 << 23, LOOKED_AT = 200 };
    (void)state;
    struct site s;
    struct rng rng = {36};
    const struct kind kind = {2, 1, 1, SMLA_BF16, SMLA_BF16, SMLA_LSE_NATURAL, SMLA_EMPTY_NEG_INF,
                              1, 0, 0, -1,        false};
    site_open(&s, &kind);
    smla_partials p = on_gpu(&s);
    const size_t row_bytes = 2 * DIM;
    unsigned char *out = device_alloc(gpu_device(), PAIRS * row_bytes), got[2 * DIM];
    float *lse = device_alloc(gpu_device(), PAIRS * sizeof *lse), *host = must_malloc(PAIRS * sizeof *lse);
    if (!out || !lse)
        harness_skip("no 9.2 GB of GPU memory are free");
    gpu_must(device_fill(gpu_device(), out, 0xee, PAIRS * row_bytes, NULL));
    gpu_must(device_fill(gpu_device(), lse, 0xee, PAIRS * sizeof *lse, NULL));
    assert_int_equal(smla_merge(s.gpu, &p, NULL), SMLA_OK); /* the pair alone */
    assert_true(mirror_fetch(&s.out, "out") && mirror_fetch(&s.lse, "lse"));
    p.rows = ROWS;
    p.heads = HEADS;
    p.part_out_row_stride = p.part_out_head_stride = p.part_lse_row_stride = p.part_lse_head_stride = 0;
    p.out = out;
    p.lse = lse;
    p.out_head_stride = (int64_t)row_bytes;
    p.out_row_stride = HEADS * (int64_t)row_bytes;
    p.lse_head_stride = 4;
    p.lse_row_stride = 4 * HEADS;
    assert_int_equal(smla_merge(s.gpu, &p, NULL), SMLA_OK);
    gpu_must(device_download(gpu_device(), host, lse, PAIRS * sizeof *lse, NULL));
    for (int64_t g = 0; g < PAIRS; g++)
        if (memcmp(&host[g], s.lse.host, 4) != 0)
            fail_msg("row %d, head %d: lse is not that of the pair alone", (int)(g / HEADS),
                     (int)(g % HEADS));
    for (int i = 0; i < LOOKED_AT; i++) {
        int64_t g = i < 50    ? i
                    : i < 100 ? PAIRS - 1 - i + 50
                    : i < 150 ? GRID - 125 + i
                              : rng_below(&rng, PAIRS);
        gpu_must(device_download(gpu_device(), got, out + (size_t)g * row_bytes, row_bytes, NULL));
        if (memcmp(got, s.out.host, row_bytes) != 0)
            fail_msg("row %d, head %d: out is not that of the pair alone", (int)(g / HEADS),
                     (int)(g % HEADS));
    }
    free(host);
    device_free(gpu_device(), out);
    device_free(gpu_device(), lse);
    site_close(&s);
}

static void C26_merge_in_place(void **state)
{
    (void)state;
    for (unsigned turn = 0; turn < 72; turn++) {
        struct kind kind = kind_of(1 + (int)(turn % 9), turn % 2 ? 5 : 40, turn % 4 < 2 ? 8 : 31, turn * 5);
        kind.out = kind.part;
        kind.alias = (int)(turn / 9) % kind.parts;
        expect_merge(&kind);
    }
}

/* Two partials of which one is empty, in every way; its out is NaN. */
static void C26_one_of_two_is_empty(void **state)
{
    (void)state;
    for (unsigned turn = 0; turn < 32; turn++) {
        struct kind kind = kind_of(2, 30, 16, turn);
        kind.empties = 0.5;
        kind.part = turn & 4 ? SMLA_F32 : SMLA_BF16;
        kind.out = turn & 8 ? SMLA_F32 : SMLA_BF16;
        kind.no_lse = false;
        expect_merge(&kind);
    }
}

static void merge_nothing(void **state)
{
    (void)state;
    smla_partials p;
    smla_context *context = rig_context();
    smla_partials_init(&p, 3, 0, 16);
    assert_int_equal(smla_merge(context, &p, NULL), SMLA_OK);
    gpu_must(device_wait(gpu_device()));
    smla_context_destroy(context);
}

/* Alignments and widths that the kernel has no code for are refused by name, and nothing is written. */
static void merge_refuses(void **state)
{
    (void)state;
    struct site s;
    const struct kind kind = kind_of(3, 4, 8, 2);
    site_open(&s, &kind);
    const smla_partials good = on_gpu(&s);
    smla_partials bad[8];
    static const char *const names[] = {
        "part_out", "part_out_part_stride", "part_out_row_stride", "part_out_head_stride",
        "out",      "out_row_stride",       "out_head_stride",     "dim"};
    for (int i = 0; i < 8; i++)
        bad[i] = good;
    bad[0].part_out = (const char *)good.part_out + 8;
    bad[1].part_out_part_stride += 4;
    bad[2].part_out_row_stride += 8;
    bad[3].part_out_head_stride += 8;
    bad[4].out = (char *)good.out + 8;
    bad[5].out_row_stride += 8;
    bad[6].out_head_stride += 4;
    bad[7].dim = 256;
    for (int i = 0; i < 8; i++) {
        smla_status status = smla_merge(s.gpu, &bad[i], NULL);
        const char *text = smla_context_error(s.gpu);
        size_t length = strlen(names[i]);
        if (status != (i == 7 ? SMLA_UNSUPPORTED_HEAD_DIM : SMLA_ERROR_ALIGNMENT) ||
            strncmp(text, names[i], length) != 0 || text[length] != ' ')
            fail_msg("%s: %s, '%s'", names[i], smla_status_name(status), text);
    }
    assert_true(mirror_same(&s.out, "out") && mirror_same(&s.lse, "lse") &&
                mirror_same(&s.parts, "part_out"));
    site_close(&s);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(merge_parts_and_heads), cmocka_unit_test(merge_every_option),
    cmocka_unit_test(merge_many_rows),       cmocka_unit_test(C36_merge_of_many_pairs),
    cmocka_unit_test(C26_merge_in_place),    cmocka_unit_test(C26_one_of_two_is_empty),
    cmocka_unit_test(merge_nothing),         cmocka_unit_test(merge_refuses),
};

RIG_MAIN(tests)
