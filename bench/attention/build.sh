#!/bin/sh
# Builds the check program and the library for compare.py with nvcc alone: JOBS=4 bench/attention/build.sh OUT
# Prints warnings and register spills; the compiler's reports stay in OUT/objects/*.log.
set -e
out=$(mkdir -p "$1/objects" && cd "$1" && pwd)
cd "$(dirname "$0")/../.."
shapes=$(sed -n 's/^  X(\([A-Za-z0-9]*\),.*/\1/p' kernel/cuda/hopper/shapes.cuh)
{ for shape in $shapes; do
    for type in __nv_bfloat16 __half; do
      echo "$shape$type kernel/cuda/hopper/launch_shape.cu -DATTEST_SHAPE=$shape -DATTEST_TYPE=$type"
    done
  done
  for name in tensor_map prepare forward; do echo "$name kernel/cuda/hopper/$name.cu"; done
  for name in variants attention_bench attention_check product_range; do echo "$name bench/attention/$name.cu"; done; } |
  xargs -P "${JOBS:-1}" -L1 sh -c 'name=$1; shift; log=$0/objects/$name.log
    nvcc -std=c++20 -O3 -I. ${NVCC_FLAGS:-} -Xcompiler -fPIC,-Wall,-Wextra -gencode=arch=compute_90a,code=sm_90a \
      -Xptxas -v -c "$@" -o "$0/objects/$name.o" 2>"$log" || { cat "$log"; exit 255; }' "$out"
grep -hE "warning|error|C75|spill" "$out"/objects/*.log | grep -v " 0 bytes spill stores, 0 bytes spill loads" || true
cd "$out/objects"
kernel=$(for shape in $shapes; do echo "${shape}__nv_bfloat16.o ${shape}__half.o"; done)
objects="$kernel tensor_map.o prepare.o forward.o variants.o"
nvcc -cudart static $objects attention_check.o -o ../attention_check
nvcc -cudart static product_range.o -o ../product_range
nvcc -cudart static -shared $objects attention_bench.o -o ../libattention_bench.so
