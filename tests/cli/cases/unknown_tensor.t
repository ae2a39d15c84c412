# A tensor that no capture has is left alone and named: it may be a misspelt optional one.
$ craft make f.st 2324 <header.json; craft poke f.st query_start_loc 1 1; craft poke f.st seq_lens 0 1; smla run f.st | tail -n 1
> result    right
= 0
$ sed 's/}}$/},"topk_lengths":{"dtype":"I32","shape":[1],"data_offsets":[2324,2328]}}/' header.json | craft make f.st 2328; craft poke f.st query_start_loc 1 1; craft poke f.st seq_lens 0 1; smla run f.st | grep -e tensor -e result
>           tensor topk_lengths is none of a capture's and was not used
> result    right
= 0
$ smla run f.st --json | grep -A 1 unknown
>     "unknown_tensors": [
>       "topk_lengths"
= 0
