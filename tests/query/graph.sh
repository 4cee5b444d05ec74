#!/bin/sh
# Installs the graph database that the tests serve as Neo4j does, and prints the Python that has it.
set -eu

version=0.22.0

root=$(cd "$(dirname "$0")/../.." && pwd)
home=$root/.tools/graph

if [ "$(cat "$home/installed" 2>/dev/null || true)" != "$version" ]; then
    rm -rf "$home"
    mkdir -p "$home"
    python3 -m venv "$home/venv" >&2
    "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check "ladybug==$version" >&2
    echo "$version" >"$home/installed"
fi
echo "$home/venv/bin/python"
