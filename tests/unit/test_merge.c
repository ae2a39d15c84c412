#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { PARTS = 5, ROWS = 3, HEADS = 4, GROUPS = ROWS * HEADS, DIM = REF_LATENT };

/* P partials with gaps in every stride; out and lse with gaps that must stay. */
struct bench {
    smla_partials p;
    struct guard parts, lses, out, lse;
    double *part[PARTS]; /* [GROUPS, DIM] as the library will read them */
    double part_lse[PARTS][GROUPS];
    double *want, want_lse[GROUPS];
};

static void put(unsigned char *to, smla_dtype dtype, float value)
{
    uint16_t bits = bf16_from(value);
    memcpy(to, dtype == SMLA_BF16 ? (void *)&bits : (void *)&value, dtype == SMLA_BF16 ? 2 : 4);
}

static double get(const unsigned char *from, smla_dtype dtype)
{
    uint16_t bits;
    float value;
    memcpy(&bits, from, sizeof bits);
    if (dtype == SMLA_BF16)
        return (double)bf16_to(bits);
    memcpy(&value, from, sizeof value);
    return (double)value;
}

static void bench_shape(struct bench *b, int parts, smla_dtype part, smla_dtype out, smla_lse_base base)
{
    int64_t item = part == SMLA_BF16 ? 2 : 4, out_item = out == SMLA_BF16 ? 2 : 4;
    smla_partials *p = &b->p;
    smla_partials_init(p, parts, ROWS, HEADS);
    p->part_dtype = part;
    p->out_dtype = out;
    p->lse_base = base;
    p->part_out_head_stride = (DIM + 1) * item;
    p->part_out_row_stride = HEADS * p->part_out_head_stride + item;
    p->part_out_part_stride = ROWS * p->part_out_row_stride + 3 * item;
    p->part_lse_head_stride = 8;
    p->part_lse_row_stride = HEADS * 8 + 4;
    p->part_lse_part_stride = ROWS * p->part_lse_row_stride + 12;
    p->out_head_stride = (DIM + 2) * out_item;
    p->out_row_stride = HEADS * p->out_head_stride + out_item;
    p->lse_head_stride = 12;
    p->lse_row_stride = HEADS * 12 + 4;
    b->parts =
        guard_open((size_t)((parts - 1) * p->part_out_part_stride + (ROWS - 1) * p->part_out_row_stride +
                            (HEADS - 1) * p->part_out_head_stride + DIM * item),
                   0xff);
    b->lses =
        guard_open((size_t)((parts - 1) * p->part_lse_part_stride + (ROWS - 1) * p->part_lse_row_stride +
                            (HEADS - 1) * p->part_lse_head_stride + 4),
                   0xff);
    b->out = guard_open(
        (size_t)((ROWS - 1) * p->out_row_stride + (HEADS - 1) * p->out_head_stride + DIM * out_item), 0xff);
    b->lse =
        guard_open((size_t)((ROWS - 1) * p->lse_row_stride + (HEADS - 1) * p->lse_head_stride + 4), 0xff);
    p->part_out = b->parts.data;
    p->part_lse = (const float *)(const void *)b->lses.data;
    p->out = b->out.data;
    p->lse = (float *)(void *)b->lse.data;
}

/* lse of part i, group g: random, or one of the three empty ones, whose out stays NaN. */
static void bench_fill(struct bench *b, struct rng *rng, double spread, double empty)
{
    static const float empties[] = {-INFINITY, INFINITY, NAN};
    for (int i = 0; i < b->p.parts; i++) {
        b->part[i] = must_malloc(sizeof(double) * GROUPS * DIM);
        for (int g = 0; g < GROUPS; g++) {
            bool is_empty = rng_unit(rng) < empty;
            float lse = is_empty ? empties[rng_below(rng, 3)] : (float)spread * rng_normal(rng);
            unsigned char *out = b->parts.data + i * b->p.part_out_part_stride +
                                 g / HEADS * b->p.part_out_row_stride + g % HEADS * b->p.part_out_head_stride;
            memcpy(b->lses.data + i * b->p.part_lse_part_stride + g / HEADS * b->p.part_lse_row_stride +
                       g % HEADS * b->p.part_lse_head_stride,
                   &lse, sizeof lse);
            b->part_lse[i][g] = (double)lse;
            int64_t item = b->p.part_dtype == SMLA_BF16 ? 2 : 4;
            for (int c = 0; c < DIM; c++) {
                if (!is_empty)
                    put(out + c * item, (smla_dtype)b->p.part_dtype, rng_normal(rng));
                b->part[i][g * DIM + c] = get(out + c * item, (smla_dtype)b->p.part_dtype);
            }
        }
    }
}

/* The header's formula in float64. */
static void bench_expect(struct bench *b)
{
    double unit = b->p.lse_base == SMLA_LSE_BASE2 ? log(2.0) : 1;
    b->want = must_malloc(sizeof(double) * GROUPS * DIM);
    for (int g = 0; g < GROUPS; g++) {
        double top = -INFINITY, sum = 0;
        for (int i = 0; i < b->p.parts; i++)
            if (isfinite(b->part_lse[i][g]))
                top = fmax(top, b->part_lse[i][g] * unit);
        for (int i = 0; i < b->p.parts; i++)
            if (isfinite(b->part_lse[i][g]))
                sum += exp(b->part_lse[i][g] * unit - top);
        for (int c = 0; c < DIM; c++)
            b->want[g * DIM + c] = 0;
        for (int i = 0; i < b->p.parts; i++)
            for (int c = 0; c < DIM && isfinite(b->part_lse[i][g]); c++)
                b->want[g * DIM + c] += exp(b->part_lse[i][g] * unit - top) / sum * b->part[i][g * DIM + c];
        b->want_lse[g] = sum > 0                                ? (top + log(sum)) / unit
                         : b->p.empty_lse == SMLA_EMPTY_POS_INF ? INFINITY
                                                                : -INFINITY;
    }
}

static void bench_close(struct bench *b)
{
    for (int i = 0; i < b->p.parts; i++)
        free(b->part[i]);
    free(b->want);
    guard_close(&b->parts);
    guard_close(&b->lses);
    guard_close(&b->out);
    guard_close(&b->lse);
}

/* Takes results out, leaving poison, which must then be everywhere. */
static void bench_judge(struct bench *b)
{
    double got[GROUPS * DIM], got_lse[GROUPS];
    int64_t item = b->p.out_dtype == SMLA_BF16 ? 2 : 4;
    for (int g = 0; g < GROUPS; g++) {
        unsigned char *out = b->out.data + g / HEADS * b->p.out_row_stride + g % HEADS * b->p.out_head_stride;
        unsigned char *lse = b->lse.data + g / HEADS * b->p.lse_row_stride + g % HEADS * b->p.lse_head_stride;
        for (int c = 0; c < DIM; c++)
            got[g * DIM + c] = get(out + c * item, (smla_dtype)b->p.out_dtype);
        got_lse[g] = get(lse, SMLA_F32);
        memset(out, 0xff, DIM * (size_t)item);
        memset(lse, 0xff, 4);
    }
    struct bound bound = {
        .element = 1e-6, .relative = item == 2 ? 0x1p-8 : 0, .norm = item == 2 ? 0x1p-8 : 1e-6};
    struct bound lse_bound = {.absolute = 1e-6, .relative = 3e-7, .norm = INFINITY};
    struct comparison out = compare(got, b->want, GROUPS * DIM, DIM, bound);
    struct comparison lse = compare(got_lse, b->want_lse, GROUPS, 1, lse_bound);
    if (!out.right)
        comparison_print("out", &out, got, b->want, bound);
    if (!lse.right)
        comparison_print("lse", &lse, got_lse, b->want_lse, lse_bound);
    assert_true(out.right && lse.right);
    assert_true(guard_filled(b->out.data, b->out.bytes, 0xff) &&
                guard_filled(b->lse.data, b->lse.bytes, 0xff));
}

/* The detail text of the last merge. */
static char text[256];

static smla_status merge(const smla_partials *partials)
{
    smla_context *context;
    assert_int_equal(open_context(&context, &(const struct setting){.threads = 2}), SMLA_OK);
    smla_status status = smla_merge(context, partials, NULL);
    snprintf(text, sizeof text, "%s", smla_context_error(context));
    smla_context_destroy(context);
    return status;
}

static void merge_random_parts(void **state)
{
    (void)state;
    struct rng rng = {4};
    for (int i = 0; i < 5 * 2 * 2 * 2 * 2 * 4; i++) {
        struct bench b = {0};
        bench_shape(&b, 1 + i % 5, i / 5 % 2 ? SMLA_BF16 : SMLA_F32, i / 10 % 2 ? SMLA_BF16 : SMLA_F32,
                    i / 20 % 2 ? SMLA_LSE_BASE2 : SMLA_LSE_NATURAL);
        b.p.empty_lse = i / 40 % 2 ? SMLA_EMPTY_POS_INF : SMLA_EMPTY_NEG_INF;
        bench_fill(&b, &rng, (double[]){1, 1, 40, 3e4}[i / 80], (double[]){0, 0.4, 0.2, 0.7}[i / 80]);
        bench_expect(&b);
        assert_int_equal(merge(&b.p), SMLA_OK);
        bench_judge(&b);
        bench_close(&b);
    }
}

static void merge_without_lse(void **state)
{
    (void)state;
    struct rng rng = {5};
    struct bench b = {0};
    bench_shape(&b, 3, SMLA_F32, SMLA_F32, SMLA_LSE_NATURAL);
    bench_fill(&b, &rng, 1, 0.3);
    b.p.lse = NULL;
    assert_int_equal(merge(&b.p), SMLA_OK);
    assert_true(guard_filled(b.lse.data, b.lse.bytes, 0xff));
    bench_close(&b);
}

/* The result may stand where one of the partials stood, lse too. */
static void merge_in_place(void **state)
{
    (void)state;
    for (int dtype = SMLA_BF16; dtype <= SMLA_F32; dtype++)
        for (int target = 0; target < 3; target++) {
            struct rng rng = {6};
            struct bench apart = {0}, in_place = {0};
            struct bench *both[] = {&apart, &in_place};
            for (int i = 0; i < 2; i++) {
                rng.state = 6;
                bench_shape(both[i], 3, (smla_dtype)dtype, (smla_dtype)dtype, SMLA_LSE_NATURAL);
                bench_fill(both[i], &rng, 2, 0.2);
                both[i]->p.out_row_stride = both[i]->p.part_out_row_stride;
                both[i]->p.out_head_stride = both[i]->p.part_out_head_stride;
            }
            in_place.p.out = in_place.parts.data + target * in_place.p.part_out_part_stride;
            assert_int_equal(merge(&apart.p), SMLA_OK);
            assert_int_equal(merge(&in_place.p), SMLA_OK);
            size_t row = (size_t)DIM * (dtype == SMLA_BF16 ? 2 : 4);
            for (int g = 0; g < GROUPS; g++) {
                int64_t at = g / HEADS * apart.p.out_row_stride + g % HEADS * apart.p.out_head_stride;
                assert_memory_equal(apart.out.data + at, (unsigned char *)in_place.p.out + at, row);
            }
            assert_memory_equal(apart.lse.data, in_place.lse.data, apart.lse.bytes);
            bench_close(&apart);
            bench_close(&in_place);
        }
}

/* A single partial that is not empty passes bit for bit, where it stands in whichever company. */
static void merge_single_partial_is_passed_on(void **state)
{
    (void)state;
    for (int dtype = SMLA_BF16; dtype <= SMLA_F32; dtype++)
        for (int i = 0; i < 12; i++) {
            float lses[4] = {-INFINITY, INFINITY, NAN, -INFINITY}, lse = 0;
            unsigned char parts[4][4 * DIM], out[4 * DIM];
            size_t row = (size_t)DIM * (dtype == SMLA_BF16 ? 2 : 4);
            smla_partials p;
            struct rng rng = {(uint64_t)i};
            smla_partials_init(&p, 4, 1, 1);
            p.part_dtype = p.out_dtype = dtype;
            p.lse_base = 1 + i / 4 % 2;
            p.part_out_part_stride = 4 * DIM;
            p.part_out_row_stride = p.part_out_head_stride = p.out_row_stride = p.out_head_stride = 4 * DIM;
            memset(parts, 0xff, sizeof parts);
            for (int c = 0; c < DIM; c++)
                put(parts[i % 4] + c * (dtype == SMLA_BF16 ? 2 : 4), (smla_dtype)dtype,
                    rng_normal(&rng) * 1e-39f);
            put(parts[i % 4], (smla_dtype)dtype, -0.0f);
            lses[i % 4] = i < 4 ? -1234.567f : i < 8 ? 0.1f : 3e38f;
            p.part_out = parts;
            p.part_lse = lses;
            p.out = out;
            p.lse = &lse;
            assert_int_equal(merge(&p), SMLA_OK);
            assert_memory_equal(out, parts[i % 4], row);
            assert_memory_equal(&lse, &lses[i % 4], sizeof lse);
        }
}

static void no_parts_pointer(struct bench *b)
{
    b->p.part_out = NULL;
}
static void no_part_lse(struct bench *b)
{
    b->p.part_lse = NULL;
}
static void no_out(struct bench *b)
{
    b->p.out = NULL;
}
static void no_size(struct bench *b)
{
    b->p.struct_size = 0;
}
static void no_parts(struct bench *b)
{
    b->p.parts = 0;
}
static void negative_rows(struct bench *b)
{
    b->p.rows = -1;
}
static void no_heads(struct bench *b)
{
    b->p.heads = 0;
}
static void no_dim(struct bench *b)
{
    b->p.dim = 0;
}
static void no_base(struct bench *b)
{
    b->p.lse_base = 0;
}
static void no_empty(struct bench *b)
{
    b->p.empty_lse = 3;
}
static void f16_parts(struct bench *b)
{
    b->p.part_dtype = SMLA_F16;
}
static void f16_out(struct bench *b)
{
    b->p.out_dtype = SMLA_F16;
}
static void negative_part_stride(struct bench *b)
{
    b->p.part_out_part_stride = -4;
}
static void negative_lse_stride(struct bench *b)
{
    b->p.part_lse_row_stride = -4;
}
static void odd_part_stride(struct bench *b)
{
    b->p.part_lse_part_stride += 1;
}
static void odd_out(struct bench *b)
{
    b->p.out = b->out.data + 2;
}
static void overlapping_out(struct bench *b)
{
    b->p.out_head_stride = 4;
}
static void overlapping_lse(struct bench *b)
{
    b->p.lse_head_stride = 0;
}
static void huge_stride(struct bench *b)
{
    b->p.part_out_row_stride = INT64_MAX - 3;
}

static const struct {
    const char *name;
    void (*spoil)(struct bench *);
    smla_status status;
    const char *fact;
} wrong[] = {
    {"no_parts_pointer", no_parts_pointer, SMLA_ERROR_NULL, "part_out"},
    {"no_part_lse", no_part_lse, SMLA_ERROR_NULL, "part_lse"},
    {"no_out", no_out, SMLA_ERROR_NULL, "out"},
    {"no_size", no_size, SMLA_ERROR_STRUCT_SIZE, "struct_size"},
    {"no_parts", no_parts, SMLA_ERROR_ARGUMENT, "parts = 0"},
    {"negative_rows", negative_rows, SMLA_ERROR_ARGUMENT, "rows = -1"},
    {"no_heads", no_heads, SMLA_ERROR_ARGUMENT, "heads = 0"},
    {"no_dim", no_dim, SMLA_ERROR_ARGUMENT, "dim = 0"},
    {"no_base", no_base, SMLA_ERROR_ARGUMENT, "lse_base = 0"},
    {"no_empty", no_empty, SMLA_ERROR_ARGUMENT, "empty_lse = 3"},
    {"f16_parts", f16_parts, SMLA_UNSUPPORTED_DTYPE, "part_dtype = 3"},
    {"f16_out", f16_out, SMLA_UNSUPPORTED_DTYPE, "out_dtype = 3"},
    {"negative_part_stride", negative_part_stride, SMLA_ERROR_STRIDE, "part_out_part_stride = -4"},
    {"negative_lse_stride", negative_lse_stride, SMLA_ERROR_STRIDE, "part_lse_row_stride = -4"},
    {"odd_part_stride", odd_part_stride, SMLA_ERROR_ALIGNMENT, "part_lse_part_stride"},
    {"odd_out", odd_out, SMLA_ERROR_ALIGNMENT, "out = "},
    {"overlapping_out", overlapping_out, SMLA_ERROR_STRIDE, "out_head_stride = 4"},
    {"overlapping_lse", overlapping_lse, SMLA_ERROR_STRIDE, "lse_head_stride = 0"},
    {"huge_stride", huge_stride, SMLA_ERROR_STRIDE, "part_out_row_stride"},
};

static void merge_wrong_arguments(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        struct rng rng = {7};
        struct bench b = {0};
        bench_shape(&b, 2, SMLA_F32, SMLA_F32, SMLA_LSE_NATURAL);
        bench_fill(&b, &rng, 1, 0);
        wrong[i].spoil(&b);
        smla_status status = merge(&b.p);
        if (status != wrong[i].status || !strstr(text, wrong[i].fact))
            fail_msg("%s: %s: %s", wrong[i].name, smla_status_name(status), text);
        assert_true(guard_filled(b.out.data, b.out.bytes, 0xff) &&
                    guard_filled(b.lse.data, b.lse.bytes, 0xff));
        b.p.parts = 2;
        bench_close(&b);
    }
}

static void merge_null_handles_and_no_rows(void **state)
{
    (void)state;
    smla_partials p;
    smla_partials_init(&p, 2, 0, 8);
    assert_int_equal(smla_merge(NULL, &p, NULL), SMLA_ERROR_NULL);
    assert_int_equal(merge(NULL), SMLA_ERROR_NULL);
    assert_int_equal(merge(&p), SMLA_OK);
}

static void merge_defaults(void **state)
{
    (void)state;
    smla_partials p;
    memset(&p, 0x55, sizeof p);
    smla_partials_init(&p, 3, 5, 7);
    assert_true(p.struct_size == sizeof p && p.parts == 3 && p.rows == 5 && p.heads == 7 && p.dim == 512);
    assert_true(p.part_dtype == SMLA_BF16 && p.out_dtype == SMLA_BF16);
    assert_true(p.lse_base == SMLA_LSE_NATURAL && p.empty_lse == SMLA_EMPTY_NEG_INF);
    assert_true(p.part_out_head_stride == 1024 && p.part_out_row_stride == 7 * 1024);
    assert_true(p.part_out_part_stride == 5 * 7 * 1024);
    assert_true(p.part_lse_head_stride == 4 && p.part_lse_row_stride == 28 && p.part_lse_part_stride == 140);
    assert_true(p.out_head_stride == 1024 && p.out_row_stride == 7 * 1024);
    assert_true(p.lse_head_stride == 4 && p.lse_row_stride == 28);
    assert_true(!p.part_out && !p.part_lse && !p.out && !p.lse);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(merge_random_parts),    cmocka_unit_test(merge_without_lse),
    cmocka_unit_test(merge_in_place),        cmocka_unit_test(merge_single_partial_is_passed_on),
    cmocka_unit_test(merge_wrong_arguments), cmocka_unit_test(merge_null_handles_and_no_rows),
    cmocka_unit_test(merge_defaults),
};

HARNESS_MAIN(tests)
