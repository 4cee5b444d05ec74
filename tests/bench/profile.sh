#!/bin/sh
# Records the parties of `cargo relay` with perf while they do the work of some rows, and prints
# where their time goes: by part of the program, by thread, and by function.
#
# Usage: sh tests/bench/profile.sh [ROWS]
# ROWS is a list such as `chain-1,growth-200` of ids or of how they begin.
set -eu

rows=${1:-chain,streamed-32,delegate,parallel,slow-256,growth-200,tokens-many,idle,start-10000}

root=$(cd "$(dirname "$0")/../.." && pwd)
if ! command -v perf >/dev/null; then
    echo "profile: perf is not there; install the tools of the kernel" >&2
    exit 1
fi

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
trap 'exit 130' INT

cd "$root"
# Functions need names; optimisation over the borders of crates hides some of them.
export CARGO_PROFILE_BENCH_STRIP=none CARGO_PROFILE_BENCH_DEBUG=line-tables-only
export CARGO_PROFILE_BENCH_LTO=off
cargo bench -p bench --bench relay --locked --no-run 2>"$home/built" || {
    cat "$home/built" >&2
    exit 1
}
program=$(sed -n 's/^ *Executable .*(\(.*\))$/\1/p' "$home/built")

mkdir "$home/recordings"
BENCH_RECORD=$home/recordings "$program" sheet 1 "$rows" >/dev/null 2>"$home/log" || {
    tail "$home/log" >&2
    exit 1
}
"$program" profile "$home/recordings"
