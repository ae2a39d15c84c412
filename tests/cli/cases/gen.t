# The same seed gives the same bytes, on any machine.
$ smla gen --rows 3 --requests 2 --heads 2 --topk 40 --seq-len 50 --block-size 16 --seed 9 --invalid 0.25 --lengths --sinks -o a.st
> a.st: 3 rows of 2 requests, 2 heads, top-k 40, 7 blocks of 16 rows, seed 9
= 0
$ sha256sum a.st
> 855a933225c24595944d23c302a0a380d6363f75c853864b937af18000a0b6c6  a.st
= 0
$ smla gen --rows 3 --requests 2 --heads 2 --topk 40 --seq-len 50 --block-size 16 --seed 10 --invalid 0.25 --lengths --sinks -o b.st >/dev/null; cmp -s a.st b.st
= 1
$ craft show a.st
> block_table I32 2,4
> query_start_loc I32 3
> seq_lens I32 2
> sinks F32 2
> topk_indices I32 3,40
> topk_length I32 3
> kv_cache BF16 7,16,576
> q BF16 3,2,576
= 0
$ smla run a.st | tail -n 1
> result    right
= 0
$ smla gen --rows 5 --heads 3 --topk 7 --seq-len 5 --block-size 1 --expected -o e.st --json
> {
>   "file": "e.st",
>   "rows": 5,
>   "requests": 5,
>   "heads": 3,
>   "topk": 7,
>   "cache_blocks": 25,
>   "block_size": 1,
>   "seed": 1
> }
= 0
$ craft show e.st | sort
> block_table I32 5,5
> expected_lse F32 5,3
> expected_out F32 5,3,512
> kv_cache BF16 25,1,576
> q BF16 5,3,576
> query_start_loc I32 6
> seq_lens I32 5
> topk_indices I32 5,7
= 0
$ smla run e.st | grep -e ^expected -e ^result
> expected  right, 5 of 5 rows
> result    right
= 0
# shapes: one of everything; all entries invalid; fewer rows than requests; more K than tokens
$ smla gen --rows 1 --heads 1 --topk 1 --seq-len 1 --block-size 1 -o s.st; smla run s.st | tail -n 1
> s.st: 1 rows of 1 requests, 1 heads, top-k 1, 2 blocks of 1 rows, seed 1
> result    right
= 0
$ smla gen --rows 4 --heads 2 --topk 9 --invalid 1 -o s.st; smla run s.st | grep -e gathered -e result | sed 's/, .*//'
> s.st: 4 rows of 4 requests, 2 heads, top-k 9, 149 blocks of 64 rows, seed 1
> rate      0 cache rows gathered
> result    right
= 0
$ smla gen --rows 2 --requests 5 --heads 2 --topk 9 --seq-len 30 -o s.st; smla run s.st | tail -n 1
> s.st: 2 rows of 5 requests, 2 heads, top-k 9, 6 blocks of 64 rows, seed 1
> result    right
= 0
$ smla gen --rows 600 --requests 1 --heads 1 --topk 3 --seq-len 700 -o s.st; smla run s.st | grep -e lanes -e result
> s.st: 600 rows of 1 requests, 1 heads, top-k 3, 13 blocks of 64 rows, seed 1
> lanes     decode 600 rows of 1 requests, prefill 0 rows of 0 requests
> result    right
= 0
# failures
$ smla gen -o nowhere/x.st
! smla: nowhere/x.st: cannot be created: No such file or directory
= 5
% smla gen --rows 16777216 --heads 1024 --topk 1 --seq-len 16777216 --requests 1
! smla: a capture of this size takes N GB of memory; this machine has N GB
= 5
