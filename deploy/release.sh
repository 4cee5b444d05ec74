#!/bin/sh
# Runs cargo so that what it builds as a release is guided by a record of how often each branch of
# the program was taken while the benchmark worked: what every step of a run goes through is made
# fast and lies together, and the rest stays out of its way.
#
#   sh deploy/release.sh build --release --locked -p daemon    # the program
#   sh deploy/release.sh relay page                            # the benchmark, of such a build
#   sh deploy/release.sh record                                # makes the record anew
#
# The record also serves code that has changed since: a function that did is built as if there were
# none. Another compiler, another crate, feature or setting gives functions other names, by which
# nothing in the record is theirs; this says so when the record was made for others. To make it takes
# llvm-profdata of LLVM 19 or newer, which `rustup component add llvm-tools` brings; LLVM_PROFDATA
# names another one.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
record=$root/deploy/callboard.profdata
made_for=$root/deploy/callboard.made-for

case $root in
*" "*)
    echo "release: flags for the compiler cannot hold the blank in $root; move the checkout" >&2
    exit 1
    ;;
esac

# What is recorded: the rows of the benchmark that together go through all that a step can take.
rows=chain-,streamed-32,delegate,parallel,growth-100,tokens

# Of these crates also those functions are recorded that no row comes to, so that they are built to
# be small: the rest of the program is built so anyway, and for all of it there is no room. What a
# row does not come to may still be in each step of some team, another dialect, another models'
# server or TLS on the way to it; beside what a model takes for its turn that is little.
whole='agents_core|aho_corasick|async_nats|bus|futures_util|hashbrown|http|hyper|hyper_util|journal'
whole="$whole|model|node|opentelemetry_sdk|ractor|reqwest|serde_json|sled|store|telemetry|tokio"
whole="$whole|tracing|url|wire"
of_whole="^(_ZN[0-9]+(_\\\$LT\\\$)?)?($whole)(\\.|[0-9])"

# Prints what the names of functions depend on, as a sum.
names() (
    cd "$root"
    crates=$(cargo tree --locked --package daemon --edges normal --prefix none --format '{p} {f}')
    {
        rustc -vV
        echo "$crates" | sed 's/ ([^)]*)//g' | LC_ALL=C sort -u
        sed -n '/^\[profile\.release/,$p' Cargo.toml | grep -v '^#'
    } | cksum
)

# Flags that are named in the environment take the place of those in .cargo/config.toml.
flags='--cfg tokio_unstable'

# A call that is never made is put into its caller only where that takes no more room than the call.
small='-Cllvm-args=-inline-cold-callsite-threshold=10 -Cllvm-args=-inlinecold-threshold=10'

# What is hot lies together in the file, where the linker is one that can.
together=
if [ "$(uname -s)" = Linux ]; then
    together=-Clink-arg=-Wl,-z,keep-text-section-prefix
fi

# Where the sources of crates lie on this machine stands in no release, where it would take room too:
# a panic names a crate and the line. They are there once the names were asked for.
unplaced() {
    for sources in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
        case $sources in
        *" "*) ;;
        *) printf ' --remap-path-prefix=%s=' "$sources" ;;
        esac
    done
}

if [ "${1-}" != record ]; then
    if [ "$(names)" != "$(cat "$made_for")" ]; then
        echo "release: the record was made for another compiler, or for other crates, features or" \
            "settings; what is built is slower than it could be: sh deploy/release.sh record" >&2
        export BENCH_RECORD_OF_OTHERS=1
    fi
    export RUSTFLAGS="${RUSTFLAGS-} -Cprofile-use=$record -Cllvm-args=-no-pgo-warn-mismatch $small $together$(unplaced) $flags"
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
# The target is not named, here or above: what is built for a named one has other names as well.
export RUSTFLAGS="${RUSTFLAGS-} -Cprofile-generate=$counts $flags"
# What runs while cargo builds would be counted too.
LLVM_PROFILE_FILE=/dev/null cargo bench -p bench --bench relay --locked --no-run
cargo bench -p bench --bench relay --locked -- 1 "$rows"
"$merge" merge --sparse "--no-function=$of_whole" --output "$counts/others" "$counts"/*.profraw
"$merge" merge "--function=$of_whole" --output "$counts/whole" "$counts"/*.profraw
"$merge" merge --output "$record" "$counts/others" "$counts/whole"
names >"$made_for"
