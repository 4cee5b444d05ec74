#!/bin/sh
# Installs a receiver of traces that is not ours and prints the program that starts it.
set -eu

version=20.26.1

root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/.tools/phoenix

if [ "$(cat "$home/installed" 2>/dev/null || true)" != "$version" ]; then
    rm -rf "$home"
    mkdir -p "$home"
    python3 -m venv "$home/venv" >&2
    "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
        "arize-phoenix==$version" >&2
    echo "$version" >"$home/installed"
fi

echo "$home/venv/bin/phoenix"
