#!/bin/sh
# Runs cargo so that what it builds as a release is guided by a record of how often each branch of
# the program was taken while the benchmark worked: what every step of a run goes through is made
# fast, and the rest stays out of its way.
#
#   sh deploy/release.sh build --release --locked -p daemon    # the program
#   sh deploy/release.sh relay page                            # the benchmark, of such a build
#   sh deploy/release.sh record                                # makes the record anew
#
# The record also serves code that has changed since: a function that did is built as if there were
# none. To make it takes llvm-profdata of LLVM 19 or newer, which `rustup component add llvm-tools`
# brings; LLVM_PROFDATA names another one.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
record=$root/deploy/callboard.profdata

case $root in
*" "*)
    echo "release: flags for the compiler cannot hold the blank in $root; move the checkout" >&2
    exit 1
    ;;
esac

# What is recorded: the rows of the benchmark that together go through all that a step can take.
rows=chain-,streamed-32,delegate,parallel,growth-100,tokens

if [ "${1-}" != record ]; then
    export RUSTFLAGS="${RUSTFLAGS-} -Cprofile-use=$record -Cllvm-args=-no-pgo-warn-mismatch"
    exec cargo "$@"
fi

tools=$(rustc --print target-libdir)/../bin
merge=${LLVM_PROFDATA:-$tools/llvm-profdata}
if ! command -v "$merge" >/dev/null; then
    echo "release: $merge is not there; run: rustup component add llvm-tools" >&2
    exit 1
fi
counts=$(mktemp -d)
trap 'rm -rf "$counts"' EXIT
cd "$root"
# Flags that come with a target hold for what is built for it alone, and not for build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="${RUSTFLAGS-} -Cprofile-generate=$counts" \
    cargo bench -p tests --bench relay --locked --target "$host" -- 1 "$rows"
"$merge" merge --sparse --output "$record" "$counts"
