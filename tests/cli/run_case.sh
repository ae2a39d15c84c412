#!/bin/sh
# Runs a case of the command-line tests: run_case.sh [--update] CASE TOOLS
#
# A case is a transcript. "$ COMMAND" is run by sh in an empty folder, with the programs of the folders TOOLS
# (with colons between) first in PATH; after it stand its standard output ("> "), its standard error ("! ") and
# its exit code ("= "). "% COMMAND" is the same with every number shown as N and blanks squeezed. The test
# passes if the transcript comes out the same; --update writes it as it comes out.
set -u
update=
if [ "$1" = --update ]; then
    update=yes
    shift
fi
case_file=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
export PATH="$2:$PATH" LC_ALL=C
unset ARGP_HELP_FMT
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/work"
cd "$folder/work" || exit 1
ln -s "$here/../data" data
ln -s "$here/header.json" header.json
ln -s "$here/../../man/smla.1" smla.1

mask() {
    if [ "$1" = masked ]; then
        sed -E 's/[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?/N/g; s/ +/ /g'
    else
        cat
    fi
}

show() { # COMMAND masked|plain
    sh -c "$1" </dev/null >../out 2>../err
    code=$?
    mask "$2" <../out | sed 's/^/> /; s/ $//'
    mask "$2" <../err | sed 's/^/! /; s/ $//'
    echo "= $code"
}

while IFS= read -r line; do
    case $line in
    '$ '*)
        printf '%s\n' "$line"
        show "${line#??}" plain
        ;;
    '% '*)
        printf '%s\n' "$line"
        show "${line#??}" masked
        ;;
    '> '* | '>' | '! '* | '!' | '= '*) ;;
    *) printf '%s\n' "$line" ;;
    esac
done <"$case_file" >../transcript

if [ -n "$update" ]; then
    cp ../transcript "$case_file"
else
    diff -u "$case_file" ../transcript
fi
