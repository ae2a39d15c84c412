# A command line that cannot be understood ends with 2 after one line that says what is accepted.
$ smla
! smla: a command is missing: accepted: run, check, gen, bench, info
= 2
$ smla frobnicate
! smla: unknown command 'frobnicate': accepted: run, check, gen, bench, info
= 2
$ smla Run
! smla: unknown command 'Run': accepted: run, check, gen, bench, info
= 2
$ smla run
! smla run: CAPTURE is missing: accepted: a safetensors file
= 2
$ smla run one two
! smla run: unexpected argument 'two': accepted: one CAPTURE
= 2
$ smla info extra
! smla info: unexpected argument 'extra': accepted: options only
= 2
$ smla check extra --heads 1 --topk 1
! smla check: unexpected argument 'extra': accepted: options only
= 2
# argp's own complaints
$ smla run --no-such-option
! smla run: unrecognized option '--no-such-option'
! Try `smla run --help' or `smla run --usage' for more information.
= 2
$ smla run x --threads
! smla run: option '--threads' requires an argument
! Try `smla run --help' or `smla run --usage' for more information.
= 2
