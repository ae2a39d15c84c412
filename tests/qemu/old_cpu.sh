#!/bin/sh
# old_cpu.sh programs PROGRAM... | filtered PROGRAM PATTERN... | tool SMLA DATA
# Runs each on an emulated Nehalem. 77 if the emulator is missing.
set -eu
emulator=$(command -v qemu-x86_64 || command -v qemu-x86_64-static) || {
    echo 'skipped: qemu-x86_64 is missing (package qemu-user)'
    exit 77
}

old_cpu()
{
    "$emulator" -cpu Nehalem "$@"
}

# A program whose every test was skipped is no failure.
check()
{
    rc=0
    old_cpu "$@" || rc=$?
    if [ "$rc" -ne 0 ] && [ "$rc" -ne 77 ]; then
        echo "exit code $rc from: $*"
        exit 1
    fi
}

mode=$1
shift
case $mode in
programs)
    for program; do
        check "$program"
    done
    ;;
filtered)
    while [ $# -gt 0 ]; do
        check "$1" "$2"
        shift 2
    done
    ;;
tool)
    for capture in "$2"/*.safetensors; do
        output=$(old_cpu "$1" run "$capture")
        echo "$output"
        case $output in
        *scalar*) ;;
        *)
            echo 'the scalar code was not chosen'
            exit 1
            ;;
        esac
    done
    ;;
esac
