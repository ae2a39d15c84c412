# A result that differs from expected_* ends with 1 and says where.
$ smla gen --rows 2 --heads 2 --topk 8 --seq-len 16 --block-size 4 --expected -o good.st >/dev/null
= 0
% smla run good.st --isa scalar --threads 1
> capture good.st: synthetic
> step N rows of N requests, N heads, top-k N, N blocks of N rows, scale N
> backend cpu: sparse_attn_bfN__scalar, N thread
>  not cuda: not asked for
> lanes decode N rows of N requests, prefill N rows of N requests
> time N us median of N, N us best; the first was done N ms after the start
> rate N cache rows gathered, N GB/s, N GFLOP/s
> oracle right, N of N rows
>  out: largest error N at row N head N column N (bound N), relative norm N (bound N)
>  lse: largest error N at row N head N (bound N)
> expected right, N of N rows
>  out: largest error N at row N head N column N (bound N), relative norm N (bound N)
>  lse: largest error N at row N head N (bound N)
> result right
= 0
# 1065353216 is 1.0f, 2143289344 a NaN
$ cp good.st out.st; craft poke out.st expected_out 1537 1065353216
= 0
% smla run out.st --isa scalar --threads 1
> capture out.st: synthetic
> step N rows of N requests, N heads, top-k N, N blocks of N rows, scale N
> backend cpu: sparse_attn_bfN__scalar, N thread
>  not cuda: not asked for
> lanes decode N rows of N requests, prefill N rows of N requests
> time N us median of N, N us best; the first was done N ms after the start
> rate N cache rows gathered, N GB/s, N GFLOP/s
> oracle right, N of N rows
>  out: largest error N at row N head N column N (bound N), relative norm N (bound N)
>  lse: largest error N at row N head N (bound N)
> expected WRONG, N of N rows
>  out: largest error N at row N head N column N (bound N), relative norm N (bound N)
>  lse: largest error N at row N head N (bound N)
> result WRONG
= 1
$ cp good.st lse.st; craft poke lse.st expected_lse 3 1065353216
= 0
% smla run lse.st --isa scalar --threads 1 | grep -v -e time -e rate
> capture lse.st: synthetic
> step N rows of N requests, N heads, top-k N, N blocks of N rows, scale N
> backend cpu: sparse_attn_bfN__scalar, N thread
>  not cuda: not asked for
> lanes decode N rows of N requests, prefill N rows of N requests
> oracle right, N of N rows
>  out: largest error N at row N head N column N (bound N), relative norm N (bound N)
>  lse: largest error N at row N head N (bound N)
> expected WRONG, N of N rows
>  out: largest error N at row N head N column N (bound N), relative norm N (bound N)
>  lse: largest error N at row N head N (bound N)
> result WRONG
= 0
$ smla run lse.st >/dev/null
= 1
$ cp good.st nan.st; craft poke nan.st expected_out 5 2143289344
= 0
$ smla run nan.st --isa scalar | grep -e WRONG -e NaN | sed 's/largest.*//'
> expected  WRONG, 2 of 2 rows
>           out: 1 elements NaN or infinite on one side only, first at row 0 head 0 column 5;
> result    WRONG
= 0
$ smla run nan.st --json >/dev/null
= 1
$ cp good.st inf.st; craft poke inf.st expected_lse 1 2139095040; smla run inf.st --isa scalar | grep -e NaN | sed 's/largest.*//'
>           lse: 1 elements NaN or infinite on one side only, first at row 0 head 1;
= 0
