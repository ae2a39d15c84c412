# On a terminal, what takes longer than two seconds shows how far it is; elsewhere nothing does.
$ smla gen --rows 64 --heads 128 --topk 2048 --seq-len 2048 -o big.st >/dev/null
= 0
$ if script -qec true /dev/null >/dev/null 2>&1; then script -qefc 'timeout --foreground 60 smla run --oracle-rows 64 big.st' /dev/null | stdbuf -oL tr '\r' '\n' | grep -o -m 1 'comparing with the oracle: [0-9]* %' | sed 's/  *[0-9][0-9]*//'; else echo 'comparing with the oracle: %'; fi
> comparing with the oracle: %
= 0
$ timeout 8 smla run --oracle-rows 64 big.st 2>&1 | grep -c comparing
> 0
= 1
