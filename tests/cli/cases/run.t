# The captures are attended right, and everything is told. Nothing is masked but numbers.
% smla run data/dsv32_h16_topk128_mixed.safetensors --backend cpu --isa scalar --threads 1
> capture data/dsvN_hN_topkN_mixed.safetensors: DeepseekVNForCausalLM, random weights
> step N rows of N requests, N heads, top-k N, N blocks of N rows, scale N
> backend cpu: sparse_attn_bfN__scalar, N thread
>  not cuda: not asked for
> lanes decode N rows of N requests, prefill N rows of N requests
> time N us median of N, N us best; the first was done N ms after the start
> rate N cache rows gathered, N GB/s, N GFLOP/s
> oracle right, N of N rows
>  out: largest error N at row N head N column N (bound N), relative norm N (bound N)
>  lse: largest error N at row N head N (bound N)
> expected right, N of N rows
>  out: largest error N at row N head N column N (bound N), relative norm N (bound N)
>  lse: largest error N at row N head N (bound N)
> result right
= 0
% smla run data/glm_h8_topk256_decode.safetensors --backend cpu --isa scalar --threads 1
> capture data/glm_hN_topkN_decode.safetensors: GlmMoeDsaForCausalLM, random weights
> step N rows of N requests, N heads, top-k N, N blocks of N rows, scale N
> backend cpu: sparse_attn_bfN__scalar, N thread
>  not cuda: not asked for
> lanes decode N rows of N requests, prefill N rows of N requests
> time N us median of N, N us best; the first was done N ms after the start
> rate N cache rows gathered, N GB/s, N GFLOP/s
> oracle right, N of N rows
>  out: largest error N at row N head N column N (bound N), relative norm N (bound N)
>  lse: largest error N at row N head N (bound N)
> expected right, N of N rows
>  out: largest error N at row N head N column N (bound N), relative norm N (bound N)
>  lse: largest error N at row N head N (bound N)
> result right
= 0
# what does not depend on the machine, unmasked
$ for f in data/*; do smla run $f --threads 1 | grep -e ^step -e ^lanes -e ^rate | sed 's/ gathered.*//'; done
> step      16 rows of 3 requests, 16 heads, top-k 128, 13 blocks of 64 rows, scale 0.0721688
> lanes     decode 16 rows of 3 requests, prefill 0 rows of 0 requests
> rate      1931 cache rows
> step      6 rows of 5 requests, 8 heads, top-k 256, 24 blocks of 64 rows, scale 0.0625
> lanes     decode 6 rows of 5 requests, prefill 0 rows of 0 requests
> rate      836 cache rows
= 0
# every instruction set of this machine
$ for isa in $(smla info | sed -n 's/^isa *//p'); do for f in data/*; do smla run $f --isa $isa | tail -n 1; done; done | sort -u
> result    right
= 0
$ smla run data/glm_h8_topk256_decode.safetensors --oracle-rows 2 | grep -e oracle -e expected
> oracle    right, 2 of 6 rows
> expected  right, 6 of 6 rows
= 0
# auto says why it did not choose others
$ smla run data/glm_h8_topk256_decode.safetensors | grep -c '  not cuda: [a-z]'
> 1
= 0
% smla run data/glm_h8_topk256_decode.safetensors --backend cpu --isa scalar --threads 1 --json
> {
>  "capture": {
>  "file": "data/glm_hN_topkN_decode.safetensors",
>  "model": "GlmMoeDsaForCausalLM, random weights",
>  "rows": N,
>  "requests": N,
>  "heads": N,
>  "topk": N,
>  "cache_blocks": N,
>  "block_size": N,
>  "scale": N,
>  "valid_entries": N,
>  "unknown_tensors": []
>  },
>  "backend": {
>  "name": "cpu",
>  "kernel": "sparse_attn_bfN__scalar",
>  "isa": "scalar",
>  "threads": N,
>  "gpu": null,
>  "arch": null,
>  "kernel_arch": null,
>  "not_used": {
>  "cuda": "not asked for"
>  }
>  },
>  "lanes": {
>  "decode_rows": N,
>  "decode_requests": N,
>  "prefill_rows": N,
>  "prefill_requests": N
>  },
>  "time": {
>  "us": N,
>  "us_best": N,
>  "runs": N,
>  "gbps": N,
>  "gflops": N,
>  "first_result_ms": N
>  },
>  "score_size": N,
>  "oracle": {
>  "right": true,
>  "rows": N,
>  "out": {
>  "max_error": N,
>  "worst_index": N,
>  "max_wanted": N,
>  "relative_norm": N,
>  "non_finite_mismatches": N,
>  "bound": N
>  },
>  "lse": {
>  "max_error": N,
>  "worst_index": N,
>  "max_wanted": N,
>  "relative_norm": N,
>  "non_finite_mismatches": N,
>  "bound": N
>  }
>  },
>  "expected": {
>  "right": true,
>  "rows": N,
>  "out": {
>  "max_error": N,
>  "worst_index": N,
>  "max_wanted": N,
>  "relative_norm": N,
>  "non_finite_mismatches": N,
>  "bound": N
>  },
>  "lse": {
>  "max_error": N,
>  "worst_index": N,
>  "max_wanted": N,
>  "relative_norm": N,
>  "non_finite_mismatches": N,
>  "bound": N
>  }
>  },
>  "right": true
> }
= 0
# options of one backend do not go with the other
$ smla run data/glm_h8_topk256_decode.safetensors --threads 1 --pdl
! smla run: --pdl: accepted: with --backend cuda
= 2
$ smla run data/glm_h8_topk256_decode.safetensors --backend cuda --isa scalar
! smla run: --isa: accepted: with --backend cpu
= 2
$ smla run data/glm_h8_topk256_decode.safetensors --backend cpu --portable
! smla run: --portable: accepted: with --backend cuda
= 2
