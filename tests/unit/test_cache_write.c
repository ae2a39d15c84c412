#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { BLOCKS = 6, BLOCK = 5, SLOTS = BLOCKS * BLOCK, NEW = 12 };

/* A cache with gaps, and new rows with gaps; every buffer ends at a hole. */
struct bench {
    smla_context *context;
    smla_problem problem;
    smla_cache_rows rows;
    struct guard cache, latent, rope;
    int64_t slots[NEW];
};

static void bench_open(struct bench *b, int64_t gap)
{
    *b = (struct bench){0};
    assert_int_equal(open_context(&b->context, &(const struct setting){.threads = 2}), SMLA_OK);
    smla_problem_init(&b->problem);
    b->problem.block_size = BLOCK;
    smla_cache_rows_init(&b->rows, &b->problem);
    b->rows.latent_row_stride += gap;
    b->rows.rope_row_stride += 3 * gap;
    b->rows.cache_row_stride += gap;
    b->rows.cache_block_stride = BLOCK * b->rows.cache_row_stride + 5 * gap;
    b->cache = guard_open((size_t)((BLOCKS - 1) * b->rows.cache_block_stride +
                                   (BLOCK - 1) * b->rows.cache_row_stride + 2 * REF_ROW),
                          0xee);
    b->latent = guard_open((size_t)((NEW - 1) * b->rows.latent_row_stride + 2 * REF_LATENT), 0);
    b->rope = guard_open((size_t)((NEW - 1) * b->rows.rope_row_stride + 2 * REF_ROPE), 0);
    struct rng rng = {9};
    for (size_t i = 0; i < b->latent.bytes; i++)
        b->latent.data[i] = (unsigned char)rng_next(&rng);
    for (size_t i = 0; i < b->rope.bytes; i++)
        b->rope.data[i] = (unsigned char)rng_next(&rng);
    for (int64_t i = 0; i < NEW; i++)
        b->slots[i] = (i * 7 + 3) % SLOTS;
    b->rows.rows = NEW;
    b->rows.latent = b->latent.data;
    b->rows.rope = b->rope.data;
    b->rows.slots = b->slots;
    b->rows.kv_cache = b->cache.data;
    b->rows.cache_blocks = BLOCKS;
}

static void bench_close(struct bench *b)
{
    smla_context_destroy(b->context);
    guard_close(&b->cache);
    guard_close(&b->latent);
    guard_close(&b->rope);
}

static smla_status write_rows(const struct bench *b)
{
    return smla_cache_write(b->context, &b->problem, &b->rows, NULL);
}

/* Takes the new rows out of the cache and finds nothing else changed. */
static void expect_written(const struct bench *b)
{
    for (int64_t i = 0; i < b->rows.rows; i++) {
        if (b->slots[i] < 0)
            continue;
        unsigned char *row = b->cache.data + b->slots[i] / BLOCK * b->rows.cache_block_stride +
                             b->slots[i] % BLOCK * b->rows.cache_row_stride;
        assert_memory_equal(row, b->latent.data + i * b->rows.latent_row_stride, 2 * REF_LATENT);
        assert_memory_equal(row + 2 * REF_LATENT, b->rope.data + i * b->rows.rope_row_stride, 2 * REF_ROPE);
        memset(row, 0xee, 2 * REF_ROW);
    }
    assert_true(guard_filled(b->cache.data, b->cache.bytes, 0xee));
}

static void cache_write_scatters(void **state)
{
    (void)state;
    for (int64_t gap = 0; gap <= 6; gap += 2) {
        struct bench b;
        bench_open(&b, gap);
        assert_int_equal(write_rows(&b), SMLA_OK);
        expect_written(&b);
        bench_close(&b);
    }
}

static void cache_write_skips_negative_slots(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 2);
    b.slots[0] = -1;
    b.slots[5] = INT64_MIN;
    b.slots[NEW - 1] = -77;
    assert_int_equal(write_rows(&b), SMLA_OK);
    expect_written(&b);
    for (int64_t i = 0; i < NEW; i++)
        b.slots[i] = -1 - i;
    assert_int_equal(write_rows(&b), SMLA_OK);
    expect_written(&b);
    bench_close(&b);
}

static void cache_write_slot_beyond(void **state)
{
    (void)state;
    static const int64_t beyond[] = {SLOTS, SLOTS + 1, INT32_MAX, 1LL << 32, INT64_MAX};
    for (size_t i = 0; i < ARRAY_LENGTH(beyond); i++) {
        struct bench b;
        bench_open(&b, 0);
        b.slots[NEW - 1] = beyond[i];
        assert_int_equal(write_rows(&b), SMLA_ERROR_SLOT);
        assert_non_null(strstr(smla_context_error(b.context), "slots[11] = "));
        assert_true(guard_filled(b.cache.data, b.cache.bytes, 0xee));
        bench_close(&b);
    }
}

static void no_latent(struct bench *b)
{
    b->rows.latent = NULL;
}
static void no_rope(struct bench *b)
{
    b->rows.rope = NULL;
}
static void no_slots(struct bench *b)
{
    b->rows.slots = NULL;
}
static void no_cache(struct bench *b)
{
    b->rows.kv_cache = NULL;
}
static void no_size(struct bench *b)
{
    b->rows.struct_size = 0;
}
static void no_problem_size(struct bench *b)
{
    b->problem.struct_size = 0;
}
static void negative_rows(struct bench *b)
{
    b->rows.rows = -1;
}
static void negative_blocks(struct bench *b)
{
    b->rows.cache_blocks = -1;
}
static void odd_latent(struct bench *b)
{
    b->rows.latent = b->latent.data + 1;
}
static void odd_cache_stride(struct bench *b)
{
    b->rows.cache_row_stride++;
}
static void odd_rope_stride(struct bench *b)
{
    b->rows.rope_row_stride++;
}
static void negative_stride(struct bench *b)
{
    b->rows.latent_row_stride = -2;
}
static void overlapping_rows(struct bench *b)
{
    b->rows.cache_row_stride = 2 * REF_ROW - 2;
}
static void f16_cache(struct bench *b)
{
    b->problem.cache_format = SMLA_CACHE_F16;
}
static void fp8_cache(struct bench *b)
{
    b->problem.cache_format = SMLA_CACHE_FP8_DS_MLA;
}

static const struct {
    const char *name;
    void (*spoil)(struct bench *);
    smla_status status;
    const char *fact;
} wrong[] = {
    {"no_latent", no_latent, SMLA_ERROR_NULL, "latent"},
    {"no_rope", no_rope, SMLA_ERROR_NULL, "rope"},
    {"no_slots", no_slots, SMLA_ERROR_NULL, "slots"},
    {"no_cache", no_cache, SMLA_ERROR_NULL, "kv_cache"},
    {"no_size", no_size, SMLA_ERROR_STRUCT_SIZE, "struct_size"},
    {"no_problem_size", no_problem_size, SMLA_ERROR_STRUCT_SIZE, "struct_size"},
    {"negative_rows", negative_rows, SMLA_ERROR_ARGUMENT, "rows = -1"},
    {"negative_blocks", negative_blocks, SMLA_ERROR_ARGUMENT, "cache_blocks = -1"},
    {"odd_latent", odd_latent, SMLA_ERROR_ALIGNMENT, "latent = "},
    {"odd_cache_stride", odd_cache_stride, SMLA_ERROR_ALIGNMENT, "cache_row_stride = 1153"},
    {"odd_rope_stride", odd_rope_stride, SMLA_ERROR_ALIGNMENT, "rope_row_stride = 129"},
    {"negative_stride", negative_stride, SMLA_ERROR_STRIDE, "latent_row_stride = -2"},
    {"overlapping_rows", overlapping_rows, SMLA_ERROR_STRIDE, "cache_row_stride = 1150"},
    {"f16_cache", f16_cache, SMLA_UNSUPPORTED_CACHE_FORMAT, "cache_format = 2"},
    {"fp8_cache", fp8_cache, SMLA_UNSUPPORTED_CACHE_FORMAT, "cache_format = 4"},
};

static void cache_write_wrong_arguments(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        struct bench b;
        bench_open(&b, 0);
        wrong[i].spoil(&b);
        smla_status status = write_rows(&b);
        if (status != wrong[i].status || !strstr(smla_context_error(b.context), wrong[i].fact))
            fail_msg("%s: %s: %s", wrong[i].name, smla_status_name(status), smla_context_error(b.context));
        assert_true(guard_filled(b.cache.data, b.cache.bytes, 0xee));
        bench_close(&b);
    }
}

static void cache_write_null_handles(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 0);
    assert_int_equal(smla_cache_write(NULL, &b.problem, &b.rows, NULL), SMLA_ERROR_NULL);
    assert_int_equal(smla_cache_write(b.context, NULL, &b.rows, NULL), SMLA_ERROR_NULL);
    assert_int_equal(smla_cache_write(b.context, &b.problem, NULL, NULL), SMLA_ERROR_NULL);
    smla_cache_rows_init(&b.rows, &b.problem);
    assert_int_equal(write_rows(&b), SMLA_OK); /* no rows, no pointers */
    bench_close(&b);
}

/* A block far beyond 32-bit offsets. */
static void cache_write_far_block(void **state)
{
    (void)state;
    struct bench b;
    const int64_t block = 6547206, stride = 32 * 2 * REF_ROW;
    bench_open(&b, 0);
    struct guard far = guard_sparse((size_t)((block + 1) * stride));
    if (!far.data)
        harness_skip("no 242 GB of address space");
    b.problem.block_size = 32;
    b.rows.rows = 1;
    b.rows.cache_block_stride = stride;
    b.rows.kv_cache = far.data;
    b.rows.cache_blocks = block + 1;
    b.slots[0] = block * 32 + 31;
    assert_int_equal(write_rows(&b), SMLA_OK);
    assert_memory_equal(far.data + block * stride + 31 * 2 * REF_ROW, b.latent.data, 2 * REF_LATENT);
    guard_close(&far);
    bench_close(&b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(cache_write_scatters),     cmocka_unit_test(cache_write_skips_negative_slots),
    cmocka_unit_test(cache_write_slot_beyond),  cmocka_unit_test(cache_write_wrong_arguments),
    cmocka_unit_test(cache_write_null_handles), cmocka_unit_test(cache_write_far_block),
};

HARNESS_MAIN(tests)
