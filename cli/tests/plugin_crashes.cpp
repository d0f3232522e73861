// A plug-in whose kernel writes through a null pointer.
#include "kernel/abi/attest_kernel.h"

namespace {
constexpr int32_t kTypes[] = {ATTEST_F32};
int32_t supports(const attest_args*, char*, size_t) { return 1; }
attest_status forward(const attest_args*, void*, char*, size_t) {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
  return ATTEST_OK;
}
}  // namespace

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  static attest_kernel table{};
  table.abi_version = ATTEST_ABI_VERSION;
  table.struct_size = sizeof(attest_kernel);
  table.name = "crashes";
  table.version = "1";
  table.device = kDLCPU;
  table.types = kTypes;
  table.type_count = 1;
  table.head_width_max = 64;
  table.supports = supports;
  table.forward = forward;
  return index == 0 ? &table : nullptr;
}
