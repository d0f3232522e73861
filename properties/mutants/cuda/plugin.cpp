// Every CUDA mutant as a kernel of one plug-in: attest verify --kernel libattest_cuda_mutants.so:sum_of_own_lane
#include "properties/mutants/cuda/cuda_mutants.h"

extern "C" __attribute__((visibility("default"))) const attest_kernel* attest_kernel_get(uint32_t index) {
  const auto& list = attest::mutants::cuda_mutants();
  return index < list.size() ? list[index].kernel : nullptr;
}
