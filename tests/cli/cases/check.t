# Every backend with yes or a reason; the GPU's line depends on the build, so only the CPU's is shown.
$ smla check --heads 16 --topk 2048 >out; code=$?; grep '^cpu' out; grep -c '^c' out; exit $code
> cpu   yes
> 2
= 0
$ smla check --heads 1 --topk 1 --block-size 1 | grep '^cpu'
> cpu   yes
= 0
$ smla check --heads 16 --topk 2048 --dcp 8 | grep '^cpu'
> cpu   yes
= 0
# facts that no backend accepts end with 3
$ smla check --heads 129 --topk 1
> cuda  no: heads = 129: 1 .. 128 is accepted
> cpu   no: heads = 129: 1 .. 128 is accepted
= 3
$ smla check --heads 128 --topk 1 --dcp 2
> cuda  no: heads * dcp_world_size = 256: 1 .. 128 is accepted
> cpu   no: heads * dcp_world_size = 256: 1 .. 128 is accepted
= 3
$ smla check --heads 16 --topk 2048 --kv-lora-rank 256
> cuda  no: kv_lora_rank = 256: 512 is accepted
> cpu   no: kv_lora_rank = 256: 512 is accepted
= 3
$ smla check --heads 16 --topk 2048 --qk-rope-head-dim 128
> cuda  no: qk_rope_head_dim = 128: 64 is accepted
> cpu   no: qk_rope_head_dim = 128: 64 is accepted
= 3
$ smla check --heads 16 --topk 2048 --kv-cache fp16
> cuda  no: cache_format = 2 (fp16): 1 (bf16) is accepted
> cpu   no: cache_format = 2 (fp16): 1 (bf16) is accepted
= 3
$ smla check --heads 16 --topk 2048 --kv-cache fp8_ds_mla
> cuda  no: cache_format = 4 (fp8_ds_mla): 1 (bf16) is accepted
> cpu   no: cache_format = 4 (fp8_ds_mla): 1 (bf16) is accepted
= 3
$ smla check --heads 129 --topk 1 --json
> {
>   "supported": false,
>   "backends": [
>     {
>       "backend": "cuda",
>       "supported": false,
>       "status": "SMLA_UNSUPPORTED_HEADS",
>       "reason": "heads = 129: 1 .. 128 is accepted"
>     },
>     {
>       "backend": "cpu",
>       "supported": false,
>       "status": "SMLA_UNSUPPORTED_HEADS",
>       "reason": "heads = 129: 1 .. 128 is accepted"
>     }
>   ]
> }
= 3
