#!/bin/sh
# Builds the check program and the library for compare.py into $1, with nvcc alone: bench/attention/build.sh OUT
set -e
out=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$out/objects"
flags="-std=c++20 -O3 -I$root -Xcompiler -fPIC,-Wall,-Wextra -gencode=arch=compute_90a,code=sm_90a -cudart static"
for source in kernel/cuda/hopper/tensor_map kernel/cuda/hopper/prepare kernel/cuda/hopper/forward \
  kernel/cuda/hopper/forward_f16 kernel/cuda/hopper/forward_bf16 bench/attention/variants \
  bench/attention/attention_bench bench/attention/attention_check; do
  nvcc $flags -Xptxas -v -c "$root/$source.cu" -o "$out/objects/$(basename $source).o" 2>"$out/objects/$(basename $source).log" ||
    { cat "$out/objects/$(basename $source).log"; exit 1; }
done
grep -hE "warning|spill|C75" "$out"/objects/*.log | grep -v " 0 bytes spill stores, 0 bytes spill loads" || true
cd "$out/objects"
kernel="tensor_map.o prepare.o forward.o forward_f16.o forward_bf16.o variants.o"
nvcc -cudart static $kernel attention_check.o -o ../attention_check
nvcc -cudart static -shared $kernel attention_bench.o -o ../libattention_bench.so
