#!/bin/sh
# Usage: check.sh WAY SOURCE_DIR BUILD_DIR CC CMAKE
# Installs the build into a scratch folder and uses it from outside, as WAY says.
set -eu

way=$1
source=$2
build=$3
cc=$4
cmake=$5
outside=$source/tests/install/outside
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "install test: $*" >&2
    exit 1
}

# expect_shared PROGRAM yes|no: does the program load libsmla.so?
expect_shared() {
    if readelf -d "$1" | grep -q 'NEEDED.*libsmla\.so'; then found=yes; else found=no; fi
    [ "$found" = "$2" ] || fail "$1 loads libsmla.so: $found, expected: $2"
}

# Everything that is promised stands below the prefix, and none of it knows where it was built.
check_tree() {
    libdir=$(dirname "$(find "$1" -name libsmla.a)")
    for file in "$1/include/smla/smla.h" "$1/bin/smla" "$1/share/man/man1/smla.1" "$libdir/libsmla.so" \
        "$libdir/pkgconfig/smla.pc" "$libdir/cmake/smla/smlaConfig.cmake"; do
        [ -s "$file" ] || fail "not installed: $file"
    done
    if grep -rIlF -e "$build" -e "$source" "$1"; then
        fail "these files refer to the build"
    fi
    for file in "$1/bin/smla" "$libdir/libsmla.so"; do
        ! readelf -d "$file" | grep -E 'RPATH|RUNPATH' || fail "$file has a run path"
    done
    "$1/bin/smla" --version
}

install_to() {
    "$cmake" --install "$build" --prefix "$1" >"$scratch/log" || fail "cmake --install failed"
    check_tree "$1"
}

use_pkg_config() {
    command -v pkg-config >/dev/null || exit 77
    install_to "$scratch/prefix"
    export PKG_CONFIG_PATH="$libdir/pkgconfig"
    flags=$(pkg-config --cflags smla)
    # shellcheck disable=SC2046,SC2086 # lists of flags
    "$cc" $flags "$outside/main.c" -o "$scratch/shared" $(pkg-config --libs smla)
    expect_shared "$scratch/shared" yes
    LD_LIBRARY_PATH=$libdir "$scratch/shared"

    static=$(pkg-config --static --libs smla | sed 's/-lsmla/-l:libsmla.a/')
    # shellcheck disable=SC2086 # lists of flags
    "$cc" $flags "$outside/main.c" -o "$scratch/static" $static
    expect_shared "$scratch/static" no
    "$scratch/static"
}

use_cmake() {
    install_to "$scratch/prefix"
    "$cmake" -S "$outside" -B "$scratch/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
        >"$scratch/log" || fail "$(cat "$scratch/log")"
    "$cmake" --build "$scratch/build" >"$scratch/log" || fail "$(cat "$scratch/log")"
    expect_shared "$scratch/build/with_shared" yes
    expect_shared "$scratch/build/with_static" no
    "$scratch/build/with_shared"
    "$scratch/build/with_static"
}

use_make_install() {
    make -C "$source" install BUILD="$build" PREFIX=/opt/smla DESTDIR="$scratch/stage" >"$scratch/log" 2>&1 ||
        fail "$(cat "$scratch/log")"
    check_tree "$scratch/stage/opt/smla"
    [ "$(ls "$scratch/stage")" = opt ] || fail "something was installed outside the prefix"
}

"use_$way"
