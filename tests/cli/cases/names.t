# Names are one of a list.
$ smla run x --backend gpu
! smla run: --backend 'gpu': accepted: auto, cpu, cuda
= 2
$ smla run x --isa sse9
! smla run: --isa 'sse9': accepted: scalar, avx2, avx512, avx512_bf16, amx_bf16
= 2
$ smla bench --isa ''
! smla bench: --isa '': accepted: scalar, avx2, avx512, avx512_bf16, amx_bf16
= 2
$ smla check --heads 1 --topk 1 --kv-cache int4
! smla check: --kv-cache 'int4': accepted: bf16, fp16, fp8_e4m3, fp8_ds_mla
= 2
$ smla check --heads 1 --topk 1 --arch 90
! smla check: --arch '90': accepted: sm_ and a number, such as sm_90
= 2
$ smla check --heads 1 --topk 1 --arch sm_
! smla check: --arch 'sm_': accepted: sm_ and a number, such as sm_90
= 2
$ smla check --heads 1 --topk 1 --arch sm_90b
! smla check: --arch 'sm_90b': accepted: sm_ and a number, such as sm_90
= 2
$ smla check --heads 1 --topk 1 --arch sm_99999
! smla check: --arch 'sm_99999': accepted: sm_ and a number, such as sm_90
= 2
$ smla check --topk 1
! smla check: --heads is missing: accepted: an integer in 1..2147483647
= 2
$ smla check --heads 1
! smla check: --topk is missing: accepted: an integer in 1..2147483647
= 2
