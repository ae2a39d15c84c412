/* Attention with AVX-512 and its bf16 dot product. */
#include "attn.h"

#include "vec_avx512.h"

#include "hooks_avx512_bf16.h"

#define ATTN_QUERY_STEP 1
#define ATTN_TABLE      smla__attn_avx512_bf16
#define ATTN_KERNEL     "sparse_attn_bf16__avx512_bf16"
#include "attn_tmpl.h"
