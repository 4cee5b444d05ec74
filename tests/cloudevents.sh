#!/bin/sh
# Installs the SDK of CloudEvents and the NATS client that the tests use beside our own code, and
# prints the path of their Python.
set -eu

version=2.2.0
nats_version=2.16.0

root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/.tools/cloudevents
python=$home/bin/python
installed="$version $nats_version"

if [ "$(cat "$home/installed" 2>/dev/null || true)" = "$installed" ]; then
    echo "$python"
    exit 0
fi

if ! command -v python3 >/dev/null; then
    echo "install cloudevents $version: python3 is needed; install python3" >&2
    exit 1
fi

rm -rf "$home"
mkdir -p "$home"
python3 -m venv "$home" >&2
"$python" -m pip install --quiet --disable-pip-version-check \
    "cloudevents==$version" "nats-py==$nats_version" >&2
echo "$installed" >"$home/installed"
echo "$python"
