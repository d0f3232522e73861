// Every mutant as a kernel of one plug-in: attest verify --kernel libattest_mutants.so:no_rescale
#include "properties/mutants/mutants.h"

extern "C" __attribute__((visibility("default"))) const attest_kernel* attest_kernel_get(uint32_t index) {
  for (const attest::mutants::Family& family : attest::mutants::all()) {
    if (index < family.mutants.size()) return family.mutants[index].kernel;
    index -= static_cast<uint32_t>(family.mutants.size());
  }
  return nullptr;
}
