// A plug-in of two kernels: `crashes` writes through a null pointer, `exits` ends the process as if all were well.
#include <cstdlib>

#include "kernel/abi/attest_kernel.h"

namespace {
constexpr int32_t kTypes[] = {ATTEST_F32};
constexpr int64_t kTiles[] = {1};
int32_t supports(const attest_args*, char*, size_t) { return 1; }
attest_status forward(const attest_args*, void*, char*, size_t) {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
  return ATTEST_OK;
}
attest_status forward_exit(const attest_args*, void*, char*, size_t) { std::exit(0); }

attest_kernel table_of(const char* name, decltype(attest_kernel::forward) run) {
  attest_kernel table{};
  table.abi_version = ATTEST_ABI_VERSION;
  table.struct_size = sizeof(attest_kernel);
  table.name = name;
  table.version = "1";
  table.device = kDLCPU;
  table.types = kTypes;
  table.type_count = 1;
  table.head_width_max = 64;
  table.features = ATTEST_STRIDES | ATTEST_UNALIGNED;
  table.tiles = kTiles;
  table.tile_count = 1;
  table.supports = supports;
  table.forward = run;
  return table;
}
}  // namespace

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  static const attest_kernel tables[] = {table_of("crashes", forward), table_of("exits", forward_exit)};
  return index < 2 ? &tables[index] : nullptr;
}
