# Text of a file can neither end a line of the report nor speak to the terminal.
$ sed 's/"model":"[^"]*"/"model":"m\\nresult    right\\u001b[31m"/' header.json | craft make f.st 2324; craft poke f.st query_start_loc 1 1; craft poke f.st seq_lens 0 1; smla run f.st | head -n 1
> capture   f.st: m?result    right?[31m
= 0
$ sed 's/}}$/},"a\\nresult    right":{"dtype":"I32","shape":[1],"data_offsets":[2324,2328]}}/' header.json | craft make f.st 2328; craft poke f.st query_start_loc 1 1; craft poke f.st seq_lens 0 1; smla run f.st | grep -c '^result'
> 1
= 0
# peers that are no file
$ mkfifo peers; smla bench --peers peers
! smla: peers: is not a regular file
= 4
$ smla bench --peers /dev/zero
! smla: /dev/zero: is not a regular file
= 4
$ smla bench --peers .
! smla: .: is not a regular file
= 4
# names of files: the reason is told however long or odd they are, in one line
$ smla run $(head -c 3000 /dev/zero | tr '\0' x) 2>&1 | sed 's/x*:/X:/2'
> smla: X: cannot be opened: File name too long
= 0
$ smla run "$(printf 'a\nb')"
! smla: a?b: cannot be opened: No such file or directory
= 4
$ smla run "$(printf 'a\377b')" --json
> {
>   "exit": 4,
>   "error": "a?b: cannot be opened: No such file or directory"
> }
! smla: aÿb: cannot be opened: No such file or directory
= 4
