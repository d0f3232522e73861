#!/bin/sh
# Builds the PyTorch plug-in: build.sh [OUT], attest_pytorch.so in this folder if left out. Wants $PYTHON (python3) with
# PyTorch for CUDA, g++ or $CXX, CUDA's runtime headers ($CUDA_HOME, else beside nvcc), and dlpack/dlpack.h ($DLPACK_DIR
# where the compiler does not find it).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/attest_pytorch.so}
torch=$("${PYTHON:-python3}" -c 'import os, torch; print(os.path.dirname(torch.__file__))')
abi=$("${PYTHON:-python3}" -c 'import torch; print(int(torch.compiled_with_cxx11_abi()))')
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
cuda=${CUDA_HOME:-$(dirname "$(dirname "$(readlink -f "$nvcc")")")}
"${CXX:-g++}" -std=c++20 -O1 -shared -fPIC -D_GLIBCXX_USE_CXX11_ABI="$abi" \
  -I"$here/../../abi" ${DLPACK_DIR:+-I"$DLPACK_DIR"} -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include" -isystem "$cuda/include" \
  "$here/pytorch.cpp" -o "$out" -L"$torch/lib" -Wl,--no-as-needed -ltorch -ltorch_cpu -ltorch_cuda -lc10 -lc10_cuda -Wl,-rpath,"$torch/lib"
echo "$out"
