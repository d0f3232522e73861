// A plug-in for a later attest.
#include "kernel/abi/attest_kernel.h"

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  static attest_kernel table{};
  table.abi_version = ATTEST_ABI_VERSION + 998;
  table.struct_size = sizeof(attest_kernel);
  return index == 0 ? &table : nullptr;
}
