/* Attention with plain C. */
#include "attn.h"

#include "vec_scalar.h"

#include "hooks_f32.h"

#define ATTN_QUERY_STEP VEC_HEADS
#define ATTN_TABLE      smla__attn_scalar
#define ATTN_KERNEL     "sparse_attn_bf16__scalar"
#include "attn_tmpl.h"
