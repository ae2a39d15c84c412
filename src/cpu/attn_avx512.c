/* Attention with AVX-512 and fp32 products. */
#include "attn.h"

#include "vec_avx512.h"

#include "hooks_f32.h"

#define ATTN_QUERY_STEP VEC_HEADS
#define ATTN_TABLE      smla__attn_avx512
#define ATTN_KERNEL     "sparse_attn_bf16__avx512"
#include "attn_tmpl.h"
