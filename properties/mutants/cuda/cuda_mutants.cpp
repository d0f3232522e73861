#include "properties/mutants/cuda/cuda_mutants.h"

namespace attest {

#define ATTEST_CUDA_MUTANT(name, fault, reports) const attest_kernel* cuda_mutant_##name();
#include "cuda_mutants.def"
#undef ATTEST_CUDA_MUTANT

namespace mutants {

const std::vector<CudaMutant>& cuda_mutants() {
  static const std::vector<CudaMutant> list = {
#define ATTEST_CUDA_MUTANT(name, fault, reports) {#name, fault, reports, cuda_mutant_##name()},
#include "cuda_mutants.def"
#undef ATTEST_CUDA_MUTANT
  };
  return list;
}

}  // namespace mutants

}  // namespace attest
