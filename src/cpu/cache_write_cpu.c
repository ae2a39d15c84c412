#include <inttypes.h>
#include <string.h>

#include "write_merge_cpu.h"

/* One after another, so that the last of several rows for one slot stays. */
smla_status smla__cpu_cache_write(smla_context *context, const smla_problem *problem,
                                  const smla_cache_rows *rows, struct CUstream_st *stream)
{
    (void)stream;
    int64_t slots = rows->cache_blocks * problem->block_size;
    for (int64_t i = 0; i < rows->rows; i++)
        if (rows->slots[i] >= slots)
            return smla__fail(&context->detail, SMLA_ERROR_SLOT,
                              "slots[%" PRId64 "] = %" PRId64 ": a slot below %" PRId64
                              " (or negative) is accepted",
                              i, rows->slots[i], slots);
    for (int64_t i = 0; i < rows->rows; i++) {
        int64_t slot = rows->slots[i];
        if (slot < 0)
            continue;
        char *to = (char *)rows->kv_cache + slot / problem->block_size * rows->cache_block_stride +
                   slot % problem->block_size * rows->cache_row_stride;
        memcpy(to, (const char *)rows->latent + i * rows->latent_row_stride, 2 * SMLA__LATENT);
        memcpy(to + 2 * SMLA__LATENT, (const char *)rows->rope + i * rows->rope_row_stride, 2 * SMLA__ROPE);
    }
    return SMLA_OK;
}
