# What is there depends on the machine; that it is told does not.
$ smla info | sed 's/  .*//'
> library
> cpu
> isa
> gpu kernels
> gpu
= 0
$ smla info --json | grep -c -e '"cpus": [1-9]' -e '"scalar"' -e '"kernels"' -e '"version": 1'
> 4
= 0
$ smla info >/dev/full
! smla: standard output: No space left on device
= 5
