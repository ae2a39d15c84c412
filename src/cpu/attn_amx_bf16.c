/* Attention with AMX tiles and bf16 products. */

/* Sums of o go through memory once per tile: with 64 keys that takes longer than the products. */
#define SMLA__TILE 256
#include "attn.h"

#include "vec_avx512.h"

#include "hooks_amx_bf16.h"

#define ATTN_QUERY_STEP GROUP
#define ATTN_TABLE      smla__attn_amx_bf16
#define ATTN_KERNEL     "sparse_attn_bf16__amx_bf16"
#include "attn_tmpl.h"
