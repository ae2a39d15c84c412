#!/bin/sh
# libraries.sh READELF LIBRARY: the library needs libc, libm, libdl and OpenMP at most, and no executable stack.
set -eu
readelf=$1 library=$2
needed=$("$readelf" -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[ -n "$needed" ]
for name in $needed; do
    case $name in
    libc.so.* | libm.so.* | libdl.so.* | libgomp.so.* | libomp.so.* | ld-linux*) ;;
    *)
        echo "needs $name"
        exit 1
        ;;
    esac
done
if "$readelf" -lW "$library" | awk "/GNU_STACK/ && \$7 ~ /E/ { found = 1 } END { exit !found }"; then
    echo 'asks for an executable stack'
    exit 1
fi
