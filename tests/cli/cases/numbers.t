# Numbers are read strictly, and the complaint names the option, the value and what is accepted.
$ smla run x --threads x
! smla run: --threads 'x': accepted: an integer in 1..1024
= 2
$ smla run x --threads ''
! smla run: --threads '': accepted: an integer in 1..1024
= 2
$ smla run x --threads 0
! smla run: --threads '0': accepted: an integer in 1..1024
= 2
$ smla run x --threads -1
! smla run: --threads '-1': accepted: an integer in 1..1024
= 2
$ smla run x --threads 1025
! smla run: --threads '1025': accepted: an integer in 1..1024
= 2
$ smla run x --threads 1.5
! smla run: --threads '1.5': accepted: an integer in 1..1024
= 2
$ smla run x --threads 0x10
! smla run: --threads '0x10': accepted: an integer in 1..1024
= 2
$ smla run x --threads ' 1'
! smla run: --threads ' 1': accepted: an integer in 1..1024
= 2
$ smla run x --threads '1 '
! smla run: --threads '1 ': accepted: an integer in 1..1024
= 2
$ smla run x --threads +1
! smla run: --threads '+1': accepted: an integer in 1..1024
= 2
$ smla run x --threads --
! smla run: --threads '--': accepted: an integer in 1..1024
= 2
$ smla run x --threads 99999999999999999999999999
! smla run: --threads '99999999999999999999999999': accepted: an integer in 1..1024
= 2
$ smla run x --threads 18446744073709551617
! smla run: --threads '18446744073709551617': accepted: an integer in 1..1024
= 2
$ smla run x --oracle-rows 0
! smla run: --oracle-rows '0': accepted: an integer in 1..2147483647
= 2
$ smla check --heads -1 --topk 1
! smla check: --heads '-1': accepted: an integer in 1..2147483647
= 2
$ smla check --heads 1 --topk 4294967297
! smla check: --topk '4294967297': accepted: an integer in 1..2147483647
= 2
$ smla check --heads 1 --topk 1 --dcp 0
! smla check: --dcp '0': accepted: an integer in 1..2147483647
= 2
$ smla gen --rows 0
! smla gen: --rows '0': accepted: an integer in 1..16777216
= 2
$ smla gen --seed -1
! smla gen: --seed '-1': accepted: an integer in 0..9223372036854775807
= 2
$ smla gen --invalid 1.01
! smla gen: --invalid '1.01': accepted: a decimal number in 0..1
= 2
$ smla gen --invalid -0.5
! smla gen: --invalid '-0.5': accepted: a decimal number in 0..1
= 2
$ smla gen --invalid nan
! smla gen: --invalid 'nan': accepted: a decimal number in 0..1
= 2
$ smla gen --invalid 0x1p-1
! smla gen: --invalid '0x1p-1': accepted: a decimal number in 0..1
= 2
$ smla gen --scale inf
! smla gen: --scale 'inf': accepted: a decimal number in -1e+30..1e+30
= 2
$ smla gen --scale 1e999
! smla gen: --scale '1e999': accepted: a decimal number in -1e+30..1e+30
= 2
$ smla gen --rows 10 --requests 2 --seq-len 4
! smla gen: --seq-len '4': accepted: at least the 5 query rows of a request
= 2
$ smla bench --heads 8,
! smla bench: --heads '8,': accepted: up to 64 integers in 1..2147483647 with commas between
= 2
$ smla bench --heads ,8
! smla bench: --heads ',8': accepted: up to 64 integers in 1..2147483647 with commas between
= 2
$ smla bench --heads 8,x
! smla bench: --heads '8,x': accepted: up to 64 integers in 1..2147483647 with commas between
= 2
$ smla bench --threads 1,0
! smla bench: --threads '1,0': accepted: up to 64 integers in 1..1024 with commas between
= 2
$ smla bench --seconds 0
! smla bench: --seconds '0': accepted: a decimal number in 0.001..3600
= 2
