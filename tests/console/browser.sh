#!/bin/sh
# Finds or fetches the browser that the tests drive the console with, and prints four lines: a node,
# the folder of the packages that it drives the browser by, the browser's binary, and the folder of
# the libraries that the binary needs beside those of the system (empty if none).
set -eu

driver_version=1.65.0
checker_version=4.14.1

root=$(cd "$(dirname "$0")/../.." && pwd)
home=$root/.tools/browser

fail() {
    echo "install a browser: $1" >&2
    exit 1
}

# Prints the binary and the folder of its libraries if it runs.
usable() {
    LD_LIBRARY_PATH=$2 "$1" --version >/dev/null 2>&1 || return 1
    echo "$1"
    echo "$2"
}

find_browser() {
    for name in chromium-headless-shell chromium google-chrome; do
        if found=$(command -v "$name") && usable "$found" ""; then
            return 0
        fi
    done
    libraries=
    for folder in "$home"/root/usr/lib/*-linux-gnu "$home"/root/usr/lib/*-linux-gnu/pulseaudio; do
        libraries=$libraries:$folder
    done
    usable "$home/root/usr/lib/chromium/chromium-headless-shell" "${libraries#:}"
}

# The packages that the system lacks, unpacked into a folder, so that nobody has to be root.
fetch_browser() {
    command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
        fail "this system has no apt; install Chromium by its own means"
    rm -rf "$home/root" "$home/apt"
    mkdir -p "$home/apt/lists/partial" "$home/apt/cache/archives/partial" "$home/root"
    chmod -R a+rX "$home"
    apt() {
        apt-get -qq -o "Dir::State::lists=$home/apt/lists" -o "Dir::Cache=$home/apt/cache" \
            -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=1 "$@" >&2
    }
    apt update || fail "apt could not fetch its lists"
    apt install --download-only --no-install-recommends --yes \
        chromium-headless-shell fonts-dejavu-core || fail "apt could not fetch the packages"
    for package in "$home"/apt/cache/archives/*.deb; do
        dpkg -x "$package" "$home/root" || fail "$package could not be unpacked"
    done
    rm -rf "$home/apt"
}

mkdir -p "$home"
node=$(sh "$root/tests/mcp/servers.sh" | head -n 1)
if [ "$(cat "$home/installed" 2>/dev/null || true)" != "$driver_version $checker_version" ]; then
    PATH=$root/.tools/mcp/venv/bin:$PATH npm install --silent --no-audit --no-fund \
        --prefix "$home" "playwright-core@$driver_version" "axe-core@$checker_version" >&2
    echo "$driver_version $checker_version" >"$home/installed"
fi
browser=$(find_browser) || {
    fetch_browser
    browser=$(find_browser) || fail "the browser that apt has does not run"
}
echo "$node"
echo "$home/node_modules"
echo "$browser"
