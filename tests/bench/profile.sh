#!/bin/sh
# Records one party of `cargo relay` with perf and prints where its time goes: by thread, and by
# function, of which it shows the 40 that take the largest part by themselves.
#
# Usage: sh tests/bench/profile.sh [ROLE] [CALLS] [SESSIONS] [RUNS]
# ROLE is host for a node on the bus inside its process, and handmade for the loop.
set -eu

role=${1:-host}
calls=${2:-10}
sessions=${3:-1}
runs=${4:-400}

root=$(cd "$(dirname "$0")/../.." && pwd)
if ! command -v perf >/dev/null; then
    echo "profile: perf is not there; install the tools of the kernel" >&2
    exit 1
fi

home=$(mktemp -d)
stub=
trap 'test -z "$stub" || kill "$stub"; rm -rf "$home"' EXIT

cd "$root"
# Functions need names; optimisation over the borders of crates hides some of them.
export CARGO_PROFILE_BENCH_STRIP=none CARGO_PROFILE_BENCH_DEBUG=line-tables-only
export CARGO_PROFILE_BENCH_LTO=off
cargo bench -p bench --bench relay --locked --no-run 2>"$home/built" || {
    cat "$home/built" >&2
    exit 1
}
program=$(sed -n 's/^ *Executable .*(\(.*\))$/\1/p' "$home/built")

"$program" stub "$home/port" &
stub=$!
while ! test -s "$home/port"; do sleep 0.1; done

# The words are those of `Work::from_args` in tests/bench/work.rs.
perf record --quiet --event cpu-clock --freq 1999 --output "$home/perf.data" -- \
    "$program" "$role" chain "$calls" "$sessions" "$runs" 0 0 false true \
    "http://$(cat "$home/port")" "" false >"$home/figures"

# Prints a table of the recording without its comments, its empty lines and its padding.
table() {
    perf report --stdio --no-children --sort "$1" --input "$home/perf.data" 2>/dev/null |
        grep -v '^#' | grep -v '^ *$' | sed 's/  *-  *-  *$//; s/  *$//' | head -"$2"
}

echo "$role, chain $calls, $sessions at once, $runs runs"
echo "by thread and library:"
table comm,dso 20
echo "by function:"
table dso,symbol 40
cat "$home/figures"
