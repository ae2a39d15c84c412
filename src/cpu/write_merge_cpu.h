/* The two smaller operations of the CPU backend. */
#ifndef SMLA_WRITE_MERGE_CPU_H
#define SMLA_WRITE_MERGE_CPU_H

#include "internal.h"

smla_status smla__cpu_cache_write(smla_context *context, const smla_problem *problem,
                                  const smla_cache_rows *rows, struct CUstream_st *stream);
smla_status smla__cpu_merge(smla_context *context, const smla_partials *partials, struct CUstream_st *stream);

#endif
