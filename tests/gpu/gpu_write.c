/* The cache write on a GPU: the CPU's bytes, and no other byte changed. */
#include "mirror.h"
#include "rig.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct site {
    smla_context *gpu, *cpu;
    smla_problem problem;
    smla_cache_rows rows; /* strides and counts; pointers are set for either side */
    struct mirror latent, rope, slots, cache;
    int64_t skipped[3]; /* written, negative, beyond the cache */
};

static void fill_random(struct mirror *mirror, struct rng *rng)
{
    for (size_t i = 0; i + 8 <= mirror->bytes; i += 8) {
        uint64_t value = rng_next(rng);
        memcpy(mirror->host + i, &value, 8);
    }
}

/* Different slots all over the cache, with some that name none; 2^32 and a slot is one of those. */
static void fill_slots(struct site *site, struct rng *rng)
{
    int64_t n = site->rows.rows, total = site->rows.cache_blocks * site->problem.block_size;
    const int64_t negative[] = {-1, INT64_MIN, -7, -total};
    const int64_t beyond[] = {total,         INT64_MAX, total + 1, ((int64_t)1 << 32) + 1, ((int64_t)1 << 33),
                              INT64_MAX - 63};
    int64_t *slots = (int64_t *)(void *)site->slots.host, at = rng_below(rng, total),
            step = total % 7919 ? 7919 : 7907; /* primes: no slot comes twice */
    for (int64_t i = 0; i < n; i++, at = (at + step) % total) {
        int kind = n < 3 ? 0 : i % 5 == 2 ? 1 : i % 11 == 4 ? 2 : 0;
        site->skipped[kind]++;
        slots[i] = kind == 0 ? at : kind == 1 ? negative[i % 4] : beyond[i / 11 % 6];
    }
}

static void site_open(struct site *site, int64_t rows, int32_t block, int64_t gap)
{
    struct rng rng = {(uint64_t)(rows + block + gap)};
    *site = (struct site){.gpu = rig_context()};
    smla_context_options options;
    smla_context_options_init(&options);
    options.backend = SMLA_BACKEND_CPU;
    options.threads = 2;
    assert_int_equal(smla_context_create(&site->cpu, &options), SMLA_OK);
    smla_problem_init(&site->problem);
    site->problem.block_size = block;
    smla_cache_rows_init(&site->rows, &site->problem);
    smla_cache_rows *r = &site->rows;
    r->rows = rows;
    r->cache_blocks = (rows + rows / 8) / block + 3;
    r->latent_row_stride += gap;
    r->rope_row_stride += 3 * gap;
    r->cache_row_stride += 2 * gap;
    r->cache_block_stride = block * r->cache_row_stride + 5 * gap;
    mirror_open(&site->latent, (size_t)(rows * r->latent_row_stride), 0);
    mirror_open(&site->rope, (size_t)(rows * r->rope_row_stride), 0);
    mirror_open(&site->slots, sizeof(int64_t) * (size_t)rows, 0);
    mirror_open(&site->cache, (size_t)(r->cache_blocks * r->cache_block_stride), 0);
    fill_random(&site->latent, &rng);
    fill_random(&site->rope, &rng);
    fill_random(&site->cache, &rng);
    fill_slots(site, &rng);
    mirror_load(&site->latent);
    mirror_load(&site->rope);
    mirror_load(&site->slots);
    mirror_load(&site->cache);
}

static void site_close(struct site *site)
{
    mirror_close(&site->latent);
    mirror_close(&site->rope);
    mirror_close(&site->slots);
    mirror_close(&site->cache);
    smla_context_destroy(site->gpu);
    smla_context_destroy(site->cpu);
}

static smla_cache_rows on_gpu(const struct site *site)
{
    smla_cache_rows rows = site->rows;
    rows.latent = site->latent.device;
    rows.rope = site->rope.device;
    rows.slots = (const int64_t *)(const void *)site->slots.device;
    rows.kv_cache = site->cache.device;
    return rows;
}

/* Into the cache's host image. The CPU refuses slots beyond the cache, which a GPU skips. */
static void write_on_cpu(struct site *site)
{
    smla_cache_rows rows = site->rows;
    int64_t total = rows.cache_blocks * site->problem.block_size;
    int64_t *slots = must_malloc(sizeof *slots * (size_t)(rows.rows + 1));
    for (int64_t i = 0; i < rows.rows; i++) {
        int64_t slot = ((const int64_t *)(const void *)site->slots.host)[i];
        slots[i] = slot < total ? slot : -1;
    }
    rows.latent = site->latent.host;
    rows.rope = site->rope.host;
    rows.slots = slots;
    rows.kv_cache = site->cache.host;
    assert_int_equal(smla_cache_write(site->cpu, &site->problem, &rows, NULL), SMLA_OK);
    free(slots);
}

static void expect_write(int64_t rows, int32_t block, int64_t gap)
{
    struct site site;
    site_open(&site, rows, block, gap);
    const smla_cache_rows gpu = on_gpu(&site);
    struct CUstream_st *stream = rows % 2 ? device_stream_new(gpu_device()) : NULL;
    smla_status status = smla_cache_write(site.gpu, &site.problem, &gpu, stream);
    if (status != SMLA_OK)
        fail_msg("%s: %s", smla_status_name(status), smla_context_error(site.gpu));
    gpu_must(device_stream_wait(gpu_device(), stream));
    write_on_cpu(&site);
    bool same = mirror_same(&site.cache, "cache");
    same &= mirror_same(&site.latent, "latent");
    same &= mirror_same(&site.rope, "rope");
    same &= mirror_same(&site.slots, "slots");
    if (!same)
        fail_msg("%d rows (%d negative, %d beyond), blocks of %d rows of %d bytes, %d bytes apart", (int)rows,
                 (int)site.skipped[1], (int)site.skipped[2], (int)block, (int)site.rows.cache_row_stride,
                 (int)site.rows.cache_block_stride);
    device_stream_free(gpu_device(), stream);
    site_close(&site);
}

static void write_counts_and_blocks(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 3, 8, 9, 1000};
    static const int32_t blocks[] = {1, 20, 64};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        for (size_t k = 0; k < ARRAY_LENGTH(blocks); k++)
            for (int64_t gap = 0; gap <= 48; gap += 16)
                expect_write(rows[i], blocks[k], gap);
}

static void write_many_rows(void **state)
{
    (void)state;
    expect_write(65537, 1, 16);
    expect_write(65537, 20, 0);
    expect_write(65537, 64, 32);
}

/* No rows: success, whatever the pointers. No cache: every slot is beyond it. */
static void write_nothing(void **state)
{
    (void)state;
    struct site site;
    site_open(&site, 5, 16, 0);
    smla_cache_rows rows = on_gpu(&site);
    rows.rows = 0;
    assert_int_equal(smla_cache_write(site.gpu, &site.problem, &rows, NULL), SMLA_OK);
    rows.latent = rows.rope = rows.kv_cache = NULL;
    rows.slots = NULL;
    assert_int_equal(smla_cache_write(site.gpu, &site.problem, &rows, NULL), SMLA_OK);
    rows = on_gpu(&site);
    rows.cache_blocks = 0;
    assert_int_equal(smla_cache_write(site.gpu, &site.problem, &rows, NULL), SMLA_OK);
    assert_true(mirror_same(&site.cache, "cache"));
    site_close(&site);
}

/* Other alignments than 16 bytes are refused by name, and nothing is written. */
static void write_refuses_odd_alignment(void **state)
{
    (void)state;
    struct site site;
    site_open(&site, 9, 16, 16);
    const smla_cache_rows good = on_gpu(&site);
    smla_cache_rows bad[7];
    static const char *const names[] = {"latent",          "latent_row_stride", "rope",
                                        "rope_row_stride", "kv_cache",          "cache_block_stride",
                                        "cache_row_stride"};
    for (int i = 0; i < 7; i++)
        bad[i] = good;
    bad[0].latent = (const char *)good.latent + 8;
    bad[1].latent_row_stride += 8;
    bad[2].rope = (const char *)good.rope + 2;
    bad[3].rope_row_stride += 4;
    bad[4].kv_cache = (char *)good.kv_cache + 8;
    bad[5].cache_block_stride += 2;
    bad[6].cache_row_stride -= 8;
    for (int i = 0; i < 7; i++) {
        smla_status status = smla_cache_write(site.gpu, &site.problem, &bad[i], NULL);
        const char *text = smla_context_error(site.gpu);
        size_t length = strlen(names[i]);
        if (status != SMLA_ERROR_ALIGNMENT || strncmp(text, names[i], length) != 0 || text[length] != ' ')
            fail_msg("%s: %s, '%s'", names[i], smla_status_name(status), text);
    }
    assert_true(mirror_same(&site.cache, "cache"));
    site_close(&site);
}

/* Beyond 4 GB: C14's page ids, in one buffer of which only some rows are looked at. */
static void C14_write_far_slots(void **state)
{
    (void)state;
    enum { BLOCK = 64, BLOCKS = 65000, FAR = 40 };
    struct device *gpu = gpu_device();
    smla_context *context = rig_context();
    smla_problem problem;
    smla_cache_rows rows;
    struct mirror latent, rope, slots;
    struct rng rng = {14};
    smla_problem_init(&problem);
    problem.block_size = BLOCK;
    smla_cache_rows_init(&rows, &problem);
    size_t bytes = (size_t)BLOCKS * (size_t)rows.cache_block_stride;
    unsigned char *cache = device_alloc(gpu, bytes);
    if (!cache)
        harness_skip("no 4.8 GB of GPU memory are free");
    gpu_must(device_fill(gpu, cache, 0xee, bytes, NULL));
    mirror_open(&latent, FAR * 2 * REF_LATENT, 0);
    mirror_open(&rope, FAR * 2 * REF_ROPE, 0);
    mirror_open(&slots, FAR * sizeof(int64_t), 0);
    fill_random(&latent, &rng);
    fill_random(&rope, &rng);
    for (int64_t i = 0; i < FAR; i++) /* around byte 2^32, and at the end */
        ((int64_t *)(void *)slots.host)[i] = i < 20 ? ((int64_t)1 << 32) / rows.cache_row_stride - 10 + i
                                                    : (int64_t)BLOCKS * BLOCK - 1 - 97 * (i - 20);
    mirror_load(&latent);
    mirror_load(&rope);
    mirror_load(&slots);
    rows.rows = FAR;
    rows.latent = latent.device;
    rows.rope = rope.device;
    rows.slots = (const int64_t *)(const void *)slots.device;
    rows.kv_cache = cache;
    rows.cache_blocks = BLOCKS;
    assert_int_equal(smla_cache_write(context, &problem, &rows, NULL), SMLA_OK);
    gpu_must(device_wait(gpu));
    for (int64_t i = 0; i < FAR; i++) {
        unsigned char got[2 * REF_ROW];
        int64_t slot = ((const int64_t *)(const void *)slots.host)[i];
        gpu_must(device_download(gpu, got, cache + slot * rows.cache_row_stride, sizeof got, NULL));
        if (memcmp(got, latent.host + i * 2 * REF_LATENT, 2 * REF_LATENT) != 0 ||
            memcmp(got + 2 * REF_LATENT, rope.host + i * 2 * REF_ROPE, 2 * REF_ROPE) != 0)
            fail_msg("slot %lld, %lld bytes into the cache, does not hold row %d", (long long)slot,
                     (long long)(slot * rows.cache_row_stride), (int)i);
    }
    mirror_close(&latent);
    mirror_close(&rope);
    mirror_close(&slots);
    device_free(gpu, cache);
    smla_context_destroy(context);
}

/* More rows than a launch has warps, nearly all of them skipped. */
static void C36_write_of_many_rows(void **state)
{
    enum { ROWS = (1 << 23) + 5000, APART = 99991 };
    (void)state;
    struct site site;
    site_open(&site, 1000, 20, 0);
    smla_cache_rows rows = on_gpu(&site);
    struct mirror slots;
    mirror_open(&slots, ROWS * sizeof(int64_t), 0xff);
    int64_t count = 0;
    for (int64_t row = ROWS - 1; row >= 0; row -= APART, count++) {
        ((int64_t *)(void *)slots.host)[row] = 3 + 7 * count;
        unsigned char *key = site.cache.host + (3 + 7 * count) * rows.cache_row_stride;
        memcpy(key, site.latent.host, 2 * REF_LATENT);
        memcpy(key + 2 * REF_LATENT, site.rope.host, 2 * REF_ROPE);
    }
    mirror_load(&slots);
    rows.rows = ROWS;
    rows.latent_row_stride = rows.rope_row_stride = 0; /* they all bring the same */
    rows.slots = (const int64_t *)(const void *)slots.device;
    assert_int_equal(smla_cache_write(site.gpu, &site.problem, &rows, NULL), SMLA_OK);
    assert_true(mirror_same(&site.cache, "cache"));
    mirror_close(&slots);
    site_close(&site);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(write_counts_and_blocks), cmocka_unit_test(write_many_rows),
    cmocka_unit_test(write_nothing),           cmocka_unit_test(write_refuses_odd_alignment),
    cmocka_unit_test(C14_write_far_slots),     cmocka_unit_test(C36_write_of_many_rows),
};

RIG_MAIN(tests)
