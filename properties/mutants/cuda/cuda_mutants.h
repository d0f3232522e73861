// cuda_mutants.h: faulty CUDA kernels, each named by its fault, to see that the harness catches what only a GPU gets wrong.
// CMakeLists.txt beside this file lists them and makes them from the plain kernel's text.
#pragma once

#include <vector>

#include "kernel/abi/attest_kernel.h"

namespace attest::mutants {

struct CudaMutant {
  const char* name;
  const char* fault;    // one sentence
  const char* reports;  // ids of public reports of it, separated by blanks, or ""
  const attest_kernel* kernel;
};

const std::vector<CudaMutant>& cuda_mutants();

}  // namespace attest::mutants
