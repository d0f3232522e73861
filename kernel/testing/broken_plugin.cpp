// Plug-ins that must not load, one for each ATTEST_BREAK, and `two`, which holds two kernels that do nothing.
#include "attest_kernel.h"

namespace {

enum Break { abi_version, struct_size, no_forward, no_supports, no_name, no_types, device, missing_list, empty, two };

const int32_t kTypes[] = {ATTEST_F32};

int32_t supports(const attest_args*, char*, size_t) { return 1; }
attest_status forward(const attest_args*, void*, char*, size_t) { return ATTEST_OK; }

attest_kernel table(const char* name) {
  attest_kernel t{};
  t.abi_version = ATTEST_ABI_VERSION + (ATTEST_BREAK == abi_version ? 41 : 0);
  t.struct_size = ATTEST_BREAK == struct_size ? 16 : sizeof(attest_kernel);
  t.name = ATTEST_BREAK == no_name ? nullptr : name;
  t.version = "1";
  t.device = ATTEST_BREAK == device ? 7 : kDLCPU;
  t.types = kTypes;
  t.type_count = ATTEST_BREAK == no_types ? 0 : 1;
  t.tile_count = ATTEST_BREAK == missing_list ? 3 : 0;
  t.supports = ATTEST_BREAK == no_supports ? nullptr : supports;
  t.forward = ATTEST_BREAK == no_forward ? nullptr : forward;
  return t;
}

}  // namespace

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  static const attest_kernel first = table("first"), second = table("second");
  if (ATTEST_BREAK == empty) return nullptr;
  if (index == 0) return &first;
  return ATTEST_BREAK == two && index == 1 ? &second : nullptr;
}
