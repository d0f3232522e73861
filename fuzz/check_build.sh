#!/usr/bin/env bash
# Builds the fuzz targets in a scratch folder by fuzz/build.sh and checks what came out: every target is there with its
# options and seeds, starts, runs its seeds, and then fuzzes from them without a finding, for ATTEST_FUZZ_SECONDS (10 if
# left out). Two run at a time.
#     fuzz/check_build.sh [FLAG...]      flags are added to CXXFLAGS, -stdlib=libc++ for instance
# ATTEST_SANITIZE names the sanitizers: address,undefined where left out, none where empty.
# Exit: 0 all holds, 1 something does not, 4 clang 19 is not installed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=${ATTEST_FUZZ_SECONDS:-10}
if ! command -v clang++-19 > /dev/null; then
  echo "skipped: clang++-19 is missing; scripts/packages-fuzz.txt names the packages"
  exit 4
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export SRC=$root OUT=$scratch/out WORK=$scratch/work
export CCACHE_NOHASHDIR=1  # every scratch folder finds the objects of the last
export CC=clang-19 CXX=clang++-19 LIB_FUZZING_ENGINE=-fsanitize=fuzzer
sanitize=${ATTEST_SANITIZE-address,undefined}
export CXXFLAGS="-O1 -g1 -fno-omit-frame-pointer -fsanitize=${sanitize:+$sanitize,}fuzzer-no-link -fno-sanitize-recover=all $*"
export CFLAGS=$CXXFLAGS
# Debian builds libFuzzer with libstdc++ (clang takes -lstdc++ for libc++ here); the images that use libc++ bring their own.
if [[ " $* " == *" -stdlib=libc++ "* ]]; then LIB_FUZZING_ENGINE+=" -l:libstdc++.so.6"; fi
"$root/fuzz/build.sh" > "$scratch/build.log" 2>&1 || {
  tail -n 30 "$scratch/build.log"
  echo "fuzz/build.sh failed"
  exit 1
}

# The value of a libFuzzer option in an options file.
option() { sed -n "s/^$2 = //p" "$1"; }

check() {
  local name=$1 target=$OUT/fuzz_$1 seeds=$scratch/seeds/$1 log=$scratch/$1.log options=() key
  for file in "$target" "$target.options" "${target}_seed_corpus.zip"; do
    [[ -e $file ]] || { echo "$name: $(basename "$file") is missing"; return 1; }
  done
  if ldd "$target" | grep "not found"; then echo "$name: \$OUT is not complete"; return 1; fi
  mkdir -p "$seeds" "$scratch/found/$name"
  (cd "$seeds" && cmake -E tar xf "${target}_seed_corpus.zip")
  local count
  count=$(find "$seeds" -type f | wc -l)
  ((count > 0)) || { echo "$name: no seeds"; return 1; }
  for key in max_len len_control timeout rss_limit_mb malloc_limit_mb; do
    local value
    value=$(option "$target.options" "$key")
    if [[ -n $value ]]; then options+=("-$key=$value"); fi
  done
  if grep -q '^dict' "$target.options"; then options+=("-dict=$OUT/$(option "$target.options" dict)"); fi
  if ! (cd "$scratch" && "$target" "${options[@]}" -max_total_time="$seconds" -print_final_stats=1 \
    -artifact_prefix="$scratch/found/$name/" "$scratch/found/$name" "$seeds") > "$log" 2>&1; then
    tail -n 40 "$log"
    echo "$name: failed"
    return 1
  fi
  local runs
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  ((runs > count)) || { echo "$name: $runs executions from $count seeds"; return 1; }
  echo "$name: $count seeds, $runs executions in $seconds s, no finding"
}

failed=0
mapfile -t names < "$root/fuzz/targets.txt"
for ((n = 0; n < ${#names[@]}; n += 2)); do
  pids=()
  for name in "${names[@]:n:2}"; do
    check "$name" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
done
exit $failed
