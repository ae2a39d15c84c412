# Captures whose tensors are sound but whose step is not.
$ smla gen --rows 4 --requests 2 --heads 1 --topk 4 --seq-len 9 --block-size 4 -o good.st >/dev/null
= 0
$ smla run good.st | tail -n 1
> result    right
= 0
$ cp good.st f.st; craft poke f.st query_start_loc 0 1; smla run f.st
! smla: f.st: query_start_loc[0] = 1: 0 is accepted
= 4
$ cp good.st f.st; craft poke f.st query_start_loc 1 5; smla run f.st
! smla: f.st: query_start_loc[2] = 4: 5 or more is accepted
= 4
$ cp good.st f.st; craft poke f.st query_start_loc 1 -1; smla run f.st
! smla: f.st: query_start_loc[1] = -1: 0 or more is accepted
= 4
$ cp good.st f.st; craft poke f.st query_start_loc 2 3; smla run f.st
! smla: f.st: query_start_loc[2] = 3: rows = 4 is accepted
= 4
$ cp good.st f.st; craft poke f.st seq_lens 0 -1; smla run f.st
! smla: f.st: seq_lens[0] = -1: 2 (the request's query rows) or more is accepted
= 4
$ cp good.st f.st; craft poke f.st seq_lens 0 1; smla run f.st
! smla: f.st: seq_lens[0] = 1: 2 (the request's query rows) or more is accepted
= 4
$ cp good.st f.st; craft poke f.st seq_lens 0 13; smla run f.st
! smla: f.st: block_table_width = 3: request 0 with seq_len 13 needs 4
= 4
$ cp good.st f.st; craft poke f.st seq_lens 0 2147483647; smla run f.st
! smla: f.st: block_table_width = 3: request 0 with seq_len 2147483647 needs 536870912
= 4
$ cp good.st f.st; craft poke f.st block_table 0 2147483647; smla run f.st
! smla: f.st: block_table[0][0] = 2147483647: an id below cache_blocks = 6 (or negative) is accepted
= 4
# list entries of any value are no fault: they are not valid, or they are
$ cp good.st f.st; for v in 2147483647 -2147483648 9 -7; do craft poke f.st topk_indices 0 $v; smla run f.st | tail -n 1; done
> result    right
> result    right
> result    right
> result    right
= 0
# a block that is missing makes its positions invalid
$ cp good.st f.st; craft poke f.st block_table 0 -1; smla run f.st | tail -n 1
> result    right
= 0
# lengths of any value are clamped
$ smla gen --rows 4 --heads 1 --topk 4 --seq-len 9 --lengths -o l.st >/dev/null; for v in -5 0 1000000; do craft poke l.st topk_length 1 $v; smla run l.st | tail -n 1; done
> result    right
> result    right
> result    right
= 0
