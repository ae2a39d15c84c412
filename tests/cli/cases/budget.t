# A whole run of a small capture: at most 150 ms of processor time and three times the file's memory.
$ for f in data/*; do craft within 150 $(($(wc -c <$f) * 3 / 1024)) smla run $f || exit; done
= 0
# the helper can fail
$ craft within 150 100 smla run data/glm_h8_topk256_decode.safetensors 2>&1 | sed 's/[0-9][0-9]*/N/g'
> craft: N ms of N, N kB of N
= 0
