# The table, with numbers masked; then CSV, JSON and the plot.
% smla bench --isa scalar --threads 1,2 --heads 1,2 --rows 1 --topk 16 --seconds 0.01 --pool-rows 4096 -o b.csv | grep -v '^cpu'
> peak N GFLOP/s a core; multiply-adds of scalar N
> pool N rows, N GB; last cache N MB
> gather N thread: N GB/s of random rows
> gather N threads: N GB/s of random rows
>
> kernel heads tokens topk threads us least us GB/s TFLOP/s floor us ratio peer us
> sparse_attn_bfN__scalar N N N N N N N N N N -
> sparse_attn_bfN__scalar N N N N N N N N N N -
> sparse_attn_bfN__scalar N N N N N N N N N N -
> sparse_attn_bfN__scalar N N N N N N N N N N -
= 0
$ head -n 1 b.csv
> backend,kernel,heads,tokens,topk,threads,us,gbps,tflops,floor_us,ratio,peer_us
= 0
$ sed 's/[0-9][0-9.]*/N/g' b.csv | tail -n +2
> cpu,sparse_attn_bfN__scalar,N,N,N,N,N,N,N,N,N,
> cpu,sparse_attn_bfN__scalar,N,N,N,N,N,N,N,N,N,
> cpu,sparse_attn_bfN__scalar,N,N,N,N,N,N,N,N,N,
> cpu,sparse_attn_bfN__scalar,N,N,N,N,N,N,N,N,N,
= 0
$ cut -d, -f 1-6 b.csv | tail -n +2
> cpu,sparse_attn_bf16__scalar,1,1,16,1
> cpu,sparse_attn_bf16__scalar,2,1,16,1
> cpu,sparse_attn_bf16__scalar,1,1,16,2
> cpu,sparse_attn_bf16__scalar,2,1,16,2
= 0
$ printf 'peer,heads,tokens,topk,us\nx,1,1,16,5.25\nx,1,1,16,7\nx,9,1,16,1\n' >peers.csv
= 0
$ smla bench --isa scalar --threads 1 --heads 1,2 --rows 1 --topk 16 --seconds 0.01 --pool-rows 4096 --peers peers.csv -o b.csv >/dev/null; cut -d, -f 3,12 b.csv
> heads,peer_us
> 1,5.25
> 2,
= 0
$ smla bench --isa scalar --threads 1 --heads 1 --rows 1 --topk 16 --seconds 0.01 --pool-rows 4096 --json | grep -c -e '"us":' -e '"us_best":' -e '"core_gflops":' -e '"gather_gbps":' -e '"floor_us":' -e '"peer_us": null'
> 6
= 0
# input and output that cannot be
$ smla bench --peers nowhere.csv
! smla: nowhere.csv: cannot be opened: No such file or directory
= 4
$ echo 'heads,us' >peers.csv; smla bench --peers peers.csv
! smla: peers.csv: column tokens is missing; accepted: CSV with heads, tokens, topk and us
= 4
$ printf 'heads,tokens,topk,us\n1,1,x,2\n' >peers.csv; smla bench --peers peers.csv
! smla: peers.csv: line 2: column topk is not a number >= 0
= 4
$ smla bench --isa scalar --threads 1 --heads 1 --rows 1 --topk 1 --seconds 0.001 --pool-rows 64 -o nowhere/b.csv >/dev/null
! smla: nowhere/b.csv: cannot be created: No such file or directory
= 5
# options of one backend do not go with the other
$ smla bench --isa scalar --pdl
! smla bench: --isa and --pdl: accepted: options of one backend
= 2
$ smla bench --backend cuda --threads 1
! smla bench: --threads: accepted: with --backend cpu
= 2
$ smla bench --backend cpu --positions
! smla bench: --positions: accepted: with --backend cuda
= 2
$ smla bench --backend cpu --host-cost
! smla bench: --host-cost: accepted: with --backend cuda
= 2
$ smla bench --host-cost --plot p.svg
! smla bench: --host-cost: accepted: without --output, --plot and --peers
= 2
$ smla bench --splits 65
! smla bench: --splits '65': accepted: an integer in 1..64
= 2
$ smla bench --invalid 1
! smla bench: --invalid '1': accepted: a decimal number in 0..0.99
= 2
