/* Attention with AVX2 and FMA. */
#include "attn.h"

#include "vec_avx2.h"

#include "hooks_f32.h"

#define ATTN_QUERY_STEP VEC_HEADS
#define ATTN_TABLE      smla__attn_avx2
#define ATTN_KERNEL     "sparse_attn_bf16__avx2"
#include "attn_tmpl.h"
