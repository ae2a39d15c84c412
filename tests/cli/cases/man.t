# The man page names every option of every command, every command and every exit code.
$ sed 's/\\-/-/g; s/\\f.//g' smla.1 >man; for c in run check gen bench info; do smla $c --help | grep -o -e '--[a-z][a-z-]*' | sort -u | while read -r o; do grep -q -e "$o\b" man || echo "$c $o"; done; done
= 0
$ for c in RUN CHECK GEN BENCH INFO; do grep -c "SH \"SMLA $c\"" smla.1; done
> 1
> 1
> 1
> 1
> 1
= 0
$ sed -n '/EXIT STATUS/,/EXAMPLES/p' smla.1 | grep -c '^.B [0-5]$'
> 6
= 0
