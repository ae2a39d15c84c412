#!/bin/sh
# symbols.sh NM LIBRARY HEADER: the library exports the functions of the header and nothing else.
set -eu
nm=$1 library=$2 header=$3
declared=$(sed -n 's/^SMLA_API .*[ *]\(smla_[a-z0-9_]*\)(.*/\1/p' "$header" | sort)
exported=$("$nm" -D --defined-only "$library" | awk '{ print $3 }' | sort)
marked=$(grep -c '^SMLA_API ' "$header")
count=$(echo "$declared" | wc -l)
if [ "$marked" -ne "$count" ]; then
    echo "$marked lines begin with SMLA_API but $count functions were read from them"
    exit 1
fi
if [ "$declared" != "$exported" ]; then
    printf 'declared:\n%s\nexported:\n%s\n' "$declared" "$exported"
    exit 1
fi
