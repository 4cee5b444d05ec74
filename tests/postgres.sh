#!/bin/sh
# Finds or fetches the PostgreSQL that the tests run, and prints the directory of its programs and, if
# it came from here, the one of its libraries.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/.tools/postgres

fail() {
    echo "install PostgreSQL: $1" >&2
    exit 1
}

# Prints the directory if its programs run, those of 14 or newer.
usable() {
    version=$(LD_LIBRARY_PATH=${2:-} "$1/postgres" --version 2>/dev/null) || return 1
    version=${version#postgres (PostgreSQL) }
    [ "${version%%[!0-9]*}" -ge 14 ] && [ -x "$1/initdb" ] || return 1
    echo "$1"
    [ -z "${2:-}" ] || echo "$2"
}

for bin in "$(dirname "$(readlink -f "$(command -v initdb || echo /)")")" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
    if usable "$bin"; then
        exit 0
    fi
done

own() {
    for bin in "$home"/root/usr/lib/postgresql/*/bin; do
        libraries=$(dirname "$(find "$home/root" -name 'libpq.so.5' -print -quit 2>/dev/null)")
        if usable "$bin" "$libraries"; then
            exit 0
        fi
    done
}
own

command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
    fail "this system has no apt; install PostgreSQL 14 or newer by its own means"

# Lists and downloads of our own, so that nobody has to be root.
rm -rf "$home"
mkdir -p "$home/lists/partial" "$home/cache/archives/partial" "$home/root"
chmod -R a+rX "$home"
cd "$home"
options="-qq -o Dir::State::lists=$home/lists -o Dir::Cache=$home/cache -o APT::Sandbox::User=$(id -un)"
# shellcheck disable=SC2086
apt-get $options update >&2 || fail "apt could not fetch its lists"
# shellcheck disable=SC2086
name=$(apt-cache ${options#-qq } search --names-only '^postgresql-[0-9]+$' | sort -V | tail -n 1 | cut -d ' ' -f 1)
[ -n "$name" ] || fail "apt knows no package of it"
# The package and what it needs that is not there yet.
# shellcheck disable=SC2086
packages=$(apt-get $options -s install --no-install-recommends "$name" | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
# shellcheck disable=SC2086
apt-get $options download ${packages:-$name} >&2 || fail "apt could not fetch the packages"
for package in *.deb; do
    dpkg -x "$package" root || fail "$package could not be unpacked"
done
rm -rf lists cache ./*.deb
own
fail "the programs of $name do not run here"
