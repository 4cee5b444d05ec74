#!/bin/sh
# Installs the NATS client that the tests use beside our own and prints the path of its Python.
set -eu

version=2.16.0

root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/.tools/nats-client
python=$home/bin/python

if [ "$(cat "$home/installed" 2>/dev/null || true)" = "$version" ]; then
    echo "$python"
    exit 0
fi

if ! command -v python3 >/dev/null; then
    echo "install nats-py $version: python3 is needed; install python3" >&2
    exit 1
fi

rm -rf "$home"
mkdir -p "$home"
python3 -m venv "$home" >&2
"$python" -m pip install --quiet --disable-pip-version-check "nats-py==$version" >&2
echo "$version" >"$home/installed"
echo "$python"
