#!/bin/sh
# Builds the cuDNN plug-in: build.sh [OUT], attest_cudnn.so in this folder if left out. Wants g++ or $CXX, CUDA's runtime
# headers ($CUDA_HOME, else beside nvcc), dlpack/dlpack.h ($DLPACK_DIR where the compiler does not find it), and cuDNN 9: $CUDNN_HOME, else CUDA's own folders, else the packages nvidia-cudnn
# of $PYTHON (python3).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/attest_cudnn.so}
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
cuda=${CUDA_HOME:-$(dirname "$(dirname "$(readlink -f "$nvcc")")")}
# The first of some folders that holds a file of this name.
first() {
  name=$1
  shift
  for folder in "$@"; do
    for found in "$folder"/$name; do [ -e "$found" ] && echo "$found" && return 0; done
  done
  echo "build.sh: no $name in $*" >&2
  return 1
}
packages=$("${PYTHON:-python3}" -c 'import nvidia; print(" ".join(nvidia.__path__))' 2>/dev/null || true)
python=
for p in $packages; do python="$python $p/cudnn"; done
home=${CUDNN_HOME:-}
header=$(first cudnn_graph.h ${home:+"$home/include"} "$cuda/include" "$cuda"/targets/*/include /usr/include $(for p in $python; do echo "$p/include"; done))
library=$(first 'libcudnn.so.9*' ${home:+"$home/lib"} ${home:+"$home/lib64"} "$cuda/lib" "$cuda/lib64" "$cuda"/targets/*/lib /usr/lib/*-linux-gnu $(for p in $python; do echo "$p/lib"; done))
runtime=$(first 'libcudart.so*' "$cuda/lib64" "$cuda/lib" "$cuda"/targets/*/lib $(for p in $packages; do echo "$p/cu13/lib $p/cuda_runtime/lib"; done))
"${CXX:-g++}" -std=c++20 -O2 -shared -fPIC \
  -I"$here/../../abi" ${DLPACK_DIR:+-I"$DLPACK_DIR"} -I"$(dirname "$header")" -I"$cuda/include" "$here/cudnn.cpp" -o "$out" \
  "$library" "$runtime" -Wl,-rpath,"$(dirname "$library"):$(dirname "$runtime")"
echo "$out"
