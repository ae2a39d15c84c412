# An output behind a link goes where the link points, and the link stays.
$ smla gen --rows 1 --heads 1 --topk 4 --seq-len 8 -o real.st >/dev/null; ln -s real.st link.st; smla gen --rows 2 --heads 1 --topk 4 --seq-len 8 --seed 2 -o link.st >/dev/null; test -L link.st && craft show real.st | grep '^q '
> q BF16 2,1,576
= 0
$ ln -s nowhere dangling.st; smla gen --rows 1 --heads 1 --topk 4 --seq-len 8 -o dangling.st
! smla: dangling.st: is a link to nothing
= 5
# devices are not replaced, not through links either
$ ln -s /dev/null null.st; smla gen --rows 1 --heads 1 --topk 4 --seq-len 8 -o null.st; test -L null.st
! smla: null.st: is not a regular file
= 0
$ smla gen --rows 1 --heads 1 --topk 4 --seq-len 8 -o /dev/stdout >report
! smla: /dev/stdout: is not a regular file
= 5
$ smla gen --rows 1 --heads 1 --topk 4 --seq-len 8 -o /proc/self/fd/1 >report
! smla: /proc/self/fd/1: is not a regular file
= 5
# the capture itself is no place for the result, whatever it is called
$ cp real.st self.st; smla run self.st -o self.st; cmp real.st self.st
! smla: --output 'self.st': is the capture: accepted: another file
= 0
$ smla run link.st -o real.st
! smla: --output 'real.st': is the capture: accepted: another file
= 2
# one file for two outputs
$ smla bench --heads 1 --rows 1 --topk 4 --threads 1 --pool-rows 64 --seconds 0.001 -o both --plot both
! smla: --plot 'both': is the CSV: accepted: another file
= 2
# a file that grows too large is an error like any other
$ ulimit -f 8; smla gen --rows 1 --heads 1 --topk 4 --seq-len 800 -o big.st; ls big.st*
! smla: big.st: cannot be written: File too large
! ls: cannot access 'big.st*': No such file or directory
= 2
# more than memory holds, because of the blocks
% smla gen --rows 1 --heads 1 --topk 4 --seq-len 8 --requests 1000 --block-size 1048576 -o huge.st | head -n 1; ls huge.st*
! smla: a capture of this size takes N GB of memory; this machine has N GB
! ls: cannot access 'huge.st*': No such file or directory
= 2
# help that nobody can read
$ smla --help >/dev/full
= 5
$ smla run --help >&-
= 5
