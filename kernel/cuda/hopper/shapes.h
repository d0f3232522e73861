// shapes.h: the tile shapes that are compiled, and which call takes which; one translation unit per input type.
#pragma once

#include <algorithm>

#include "kernel/cuda/hopper/prepare.h"

namespace attest::hopper {

attest_status forward_f16(const attest_args& args, const CallShape& shape, cudaStream_t stream, char* message,
                          size_t size);
attest_status forward_bf16(const attest_args& args, const CallShape& shape, cudaStream_t stream, char* message,
                           size_t size);

}  // namespace attest::hopper
