# What no usable backend can do ends with 3 and a reason.
$ smla gen --rows 1 --heads 129 --topk 1 --seq-len 1 -o many.st >/dev/null
= 0
$ smla run many.st
! smla: many.st: backend cuda: heads = 129: 1 .. 128 is accepted; backend cpu: heads = 129: 1 .. 128 is accepted
= 3
$ smla run many.st --json
> {
>   "exit": 3,
>   "error": "many.st: backend cuda: heads = 129: 1 .. 128 is accepted; backend cpu: heads = 129: 1 .. 128 is accepted"
> }
! smla: many.st: backend cuda: heads = 129: 1 .. 128 is accepted; backend cpu: heads = 129: 1 .. 128 is accepted
= 3
$ smla bench --heads 129
! smla: backend cpu: heads = 129: 1 .. 128 is accepted
= 3
$ smla run data/glm_h8_topk256_decode.safetensors --backend cuda 2>&1 | grep -c 'backend cuda: [a-z]'
> 1
= 0
$ smla run data/glm_h8_topk256_decode.safetensors --backend cuda 2>/dev/null
= 3
$ smla bench --backend cuda 2>/dev/null
= 3
