#!/bin/sh
# header.sh CC STANDARD INCLUDE: the public header compiles alone, twice over, without a warning.
set -eu
compiler=$1 standard=$2 include=$3
case $standard in
c++*) language=c++ warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wold-style-cast' ;;
*) language=c warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes' ;;
esac
if ! echo 'int i;' | "$compiler" -x "$language" -std="$standard" -fsyntax-only - 2>/dev/null; then
    echo "skipped: $compiler does not compile $standard"
    exit 77
fi
# shellcheck disable=SC2086 # the warnings are several words
printf '#include <smla/smla.h>\n#include <smla/smla.h>\n' |
    "$compiler" -x "$language" -std="$standard" $warnings -Werror -I"$include" -fsyntax-only -
