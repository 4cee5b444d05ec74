#!/bin/sh
# Builds the llama.cpp server that the tests run against and prints the path of its binary.
#
# The build takes about ten minutes on two cores, so the tests that need it are a command of their
# own: cargo llama.
set -eu

version=0.3.36

root=$(cd "$(dirname "$0")/../.." && pwd)
home=$root/.tools/llama
binary=$home/llama-server

if [ "$(cat "$home/installed" 2>/dev/null || true)" = "$version" ]; then
    echo "$binary"
    exit 0
fi

rm -rf "$home"
mkdir -p "$home/sdist"
python3 -m venv "$home/venv" >&2
"$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check cmake ninja >&2
PATH=$home/venv/bin:$PATH

# The source archive of these Python bindings carries the whole of llama.cpp.
"$home/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps \
    --no-binary llama-cpp-python --dest "$home/sdist" \
    "llama-cpp-python==$version" >&2
archive=$(find "$home/sdist" -name '*.tar.gz' | head -n 1)
if [ -z "$archive" ]; then
    echo "build llama-server: pip could not fetch llama-cpp-python $version" >&2
    exit 1
fi
tar xzf "$archive" -C "$home/sdist"
cmake -G Ninja -S "$home/sdist/llama_cpp_python-$version/vendor/llama.cpp" -B "$home/build" \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF >&2
cmake --build "$home/build" --target llama-server -j2 >&2
cp "$home/build/bin/llama-server" "$binary"
rm -rf "$home/build" "$home/sdist"
echo "$version" >"$home/installed"
echo "$binary"
