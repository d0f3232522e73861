// cuda.h: the tables of attest's CUDA kernels.
//
// "cuda" takes everything in the contract: calls that suit kernel/cuda/hopper on its device go there, all others to the
// plain kernel. "cuda_hopper" is that first path by itself, so that a run can test it alone; it refuses what it does
// not take.
#pragma once

#include "kernel/abi/attest_kernel.h"

namespace attest {

const attest_kernel* cuda_kernel();
const attest_kernel* cuda_hopper_kernel();

}  // namespace attest
