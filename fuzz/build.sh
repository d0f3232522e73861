#!/usr/bin/env bash
# Builds every fuzz target, after the contract of OSS-Fuzz and ClusterFuzzLite: compiler, flags and engine come from $CC,
# $CXX, $CFLAGS, $CXXFLAGS and $LIB_FUZZING_ENGINE; $WORK takes what is built on the way, and $OUT what is needed to run:
# fuzz_NAME, fuzz_NAME.options, fuzz_NAME.dict, fuzz_NAME_seed_corpus.zip and the example plug-in. Without those
# variables it builds with clang 19, ASan and UBSan into build/fuzz-out. Needs no network.
# Source: https://google.github.io/oss-fuzz/getting-started/new-project-guide/#buildsh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sanitizers="-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined"
export CC=${CC:-clang-19} CXX=${CXX:-clang++-19}
export CFLAGS=${CFLAGS-$sanitizers} CXXFLAGS=${CXXFLAGS-$sanitizers}
engine=${LIB_FUZZING_ENGINE:--fsanitize=fuzzer}
OUT=${OUT:-$root/build/fuzz-out}
WORK=${WORK:-$root/build/fuzz-work}
mapfile -t names < "$root/fuzz/targets.txt"
mkdir -p "$OUT" "$WORK"

launcher=()
if command -v ccache > /dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
# A build type of its own: the flags given, then -O2, and nothing else.
cmake -S "$root" -B "$WORK/attest" -G Ninja -DCMAKE_BUILD_TYPE=Fuzz -DCMAKE_CXX_FLAGS_FUZZ=-O2 -DATTEST_FUZZ=ON \
  -DATTEST_FUZZING_ENGINE="$engine" -DATTEST_TESTS=OFF -DATTEST_CUDA=OFF "${launcher[@]}"
cmake --build "$WORK/attest" --target "${names[@]/#/fuzz_}"

cp "$WORK/attest/bin/attest_example.so" "$OUT/"
for name in "${names[@]}"; do
  cp "$WORK/attest/bin/fuzz_$name" "$OUT/"
  cp "$root/fuzz/$name.options" "$OUT/fuzz_$name.options"
  if [[ -e $root/fuzz/$name.dict ]]; then cp "$root/fuzz/$name.dict" "$OUT/fuzz_$name.dict"; fi
  (cd "$root/fuzz/corpus/$name" && cmake -E tar cf "$OUT/fuzz_${name}_seed_corpus.zip" --format=zip .)
done
