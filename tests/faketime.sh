#!/bin/sh
# Installs the library that shifts the wall clock of a program and prints its path.
set -eu

version=3.0.1

root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/.tools/faketime

find_library() {
    find "$home" -name libfaketime.so.1 2>/dev/null | head -n 1
}

if [ ! -e "$home/version-$version" ]; then
    rm -rf "$home"
    mkdir -p "$home"
    if ! python3 -m venv "$home" >&2; then
        echo "install libfaketime $version: python3 cannot make a virtual environment; install python3-venv" >&2
        exit 1
    fi
    if ! "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
        "libfaketime==$version" >&2; then
        echo "install libfaketime $version: pip could not fetch it" >&2
        exit 1
    fi
    touch "$home/version-$version"
fi

find_library
