# -o writes out and lse, the same as expected.
$ smla run data/glm_h8_topk256_decode.safetensors --isa scalar -o out.st | tail -n 1
> result    right
= 0
$ craft show out.st
> lse F32 6,8
> out F32 6,8,512
= 0
$ craft near out.st out data/glm_h8_topk256_decode.safetensors expected_out 1e-5
= 0
$ craft near out.st lse data/glm_h8_topk256_decode.safetensors expected_lse 1e-5
= 0
# the comparison itself can fail
$ craft near out.st lse data/glm_h8_topk256_decode.safetensors expected_lse 1e-9
! craft: the tensors differ
= 1
# not half a file, nor anything beside it
$ smla run data/glm_h8_topk256_decode.safetensors -o nowhere/out.st
! smla: nowhere/out.st: cannot be created: No such file or directory
= 5
$ ls
> data
> header.json
> out.st
> smla.1
= 0
$ trap '' XFSZ; ulimit -f 16; smla run data/glm_h8_topk256_decode.safetensors -o big.st
! smla: big.st: cannot be written: File too large
= 5
$ ls
> data
> header.json
> out.st
> smla.1
= 0
# what stood under the name stays then
$ cp out.st kept.st; trap '' XFSZ; ulimit -f 16; smla run data/glm_h8_topk256_decode.safetensors -o kept.st; cmp out.st kept.st
! smla: kept.st: cannot be written: File too large
= 0
# a device is not replaced by a file
$ smla run data/glm_h8_topk256_decode.safetensors -o /dev/null
! smla: /dev/null: is not a regular file
= 5
$ test -c /dev/null
= 0
