#!/bin/sh
# Builds the check program and the library for compare.py with nvcc alone: JOBS=4 bench/attention/build.sh OUT
# Prints warnings and register spills.
set -e
out=$(mkdir -p "$1/objects" && cd "$1" && pwd)
cd "$(dirname "$0")/../.."
kernel="tensor_map prepare forward forward_f16 forward_bf16"
bench="variants attention_bench attention_check"
{ for name in $bench; do echo "bench/attention/$name"; done
  for name in $kernel; do echo "kernel/cuda/hopper/$name"; done; } |
  xargs -P "${JOBS:-1}" -I{} sh -c 'log=$0/objects/$(basename {}).log
    nvcc -std=c++20 -O3 -I. -Xcompiler -fPIC,-Wall,-Wextra -gencode=arch=compute_90a,code=sm_90a -Xptxas -v \
      -c {}.cu -o "$0/objects/$(basename {}).o" 2>"$log" || { cat "$log"; exit 255; }' "$out"
grep -hE "warning|error|C75|spill" "$out"/objects/*.log | grep -v " 0 bytes spill stores, 0 bytes spill loads" || true
cd "$out/objects"
objects=$(for name in $kernel variants; do echo "$name.o"; done)
nvcc -cudart static $objects attention_check.o -o ../attention_check
nvcc -cudart static -shared $objects attention_bench.o -o ../libattention_bench.so
