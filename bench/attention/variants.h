// variants.h: the Hopper kernel in several tile shapes, by number, for comparing them on one card in one run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernel/abi/attest_kernel.h"

namespace attest::bench {

struct Variant {
  const char* name;
  int width;  // head width that it is made for
  attest_status (*forward)(const attest_args& args, cudaStream_t stream, char* message, size_t size);  // bf16
};

// The variants; the count in `count`.
const Variant* variants(int& count);

}  // namespace attest::bench
