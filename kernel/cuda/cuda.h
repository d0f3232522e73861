// cuda.h: the table of attest's CUDA kernel.
#pragma once

#include "kernel/abi/attest_kernel.h"

namespace attest {

const attest_kernel* cuda_kernel();

}  // namespace attest
