# Help and version go to standard output and end with 0.
% smla --version
> smla N.N
= 0
% smla bench --version
> smla N.N
= 0
$ for c in run check gen bench info; do smla $c --help | sed -n '1p; /^Examples/p'; done
> Usage: smla run [OPTION...] CAPTURE
> Examples:
> Usage: smla check [OPTION...]
> Examples:
> Usage: smla gen [OPTION...]
> Examples:
> Usage: smla bench [OPTION...]
> Examples:
> Usage: smla info [OPTION...]
> Examples:
= 0
$ smla --help | sed -n '1p; /^Exit codes/p; /^  run/p'
> Usage: smla [OPTION...] COMMAND [OPTION...]
>   run     attend a captured step and compare it with float64
> Exit codes: 0 right, 1 wrong result, 2 usage, 3 unsupported, 4 bad input file,
= 0
