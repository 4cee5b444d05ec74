#!/bin/sh
# Finds or fetches the bubblewrap that the tests make sandboxes by, and prints the path of its binary.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/.tools/bwrap

fail() {
    echo "install bubblewrap: $1" >&2
    exit 1
}

# Prints the path if it is a bubblewrap of 0.8 or newer that runs.
usable() {
    version=$("$1" --version 2>/dev/null) || return 1
    case ${version#bubblewrap } in
    0.[0-7] | 0.[0-7].*) return 1 ;;
    esac
    echo "$1"
}

if found=$(command -v bwrap) && usable "$found"; then
    exit 0
fi
if usable "$home/root/usr/bin/bwrap"; then
    exit 0
fi

command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
    fail "this system has no apt; install bubblewrap 0.8 or newer by its own means"

# Lists and downloads of our own, so that nobody has to be root.
rm -rf "$home"
mkdir -p "$home/lists/partial" "$home/cache/archives/partial" "$home/root"
chmod -R a+rX "$home"
cd "$home"
apt() {
    apt-get -qq -o "Dir::State::lists=$home/lists" -o "Dir::Cache=$home/cache" \
        -o APT::Sandbox::User="$(id -un)" "$@" >&2
}
apt update || fail "apt could not fetch its lists"
apt download bubblewrap || fail "apt could not fetch the package"
dpkg -x bubblewrap_*.deb root || fail "the package could not be unpacked"
rm -rf lists cache
usable "$home/root/usr/bin/bwrap" || fail "the bubblewrap of this system is older than 0.8 or does not run; install a newer one"
