// The ten broken kernels as a plug-in: attest verify --kernel libattest_broken_ten.so:no_rescale
#include "properties/mutants/broken_ten.h"

extern "C" __attribute__((visibility("default"))) const attest_kernel* attest_kernel_get(uint32_t index) {
  static const auto tables = attest::mutants::broken_ten();
  return index < tables.size() ? tables[index] : nullptr;
}
