// plugin_table.h: the table that the command's test plug-ins share: f32 on the CPU, any layout, one tile size, everything
// taken.
#pragma once

#include "kernel/abi/attest_kernel.h"

namespace attest_test {

inline attest_kernel table_of(const char* name, const char* version, decltype(attest_kernel::forward) forward) {
  static constexpr int32_t kTypes[] = {ATTEST_F32};
  static constexpr int64_t kTiles[] = {16};
  attest_kernel table{};
  table.abi_version = ATTEST_ABI_VERSION;
  table.struct_size = sizeof(attest_kernel);
  table.name = name;
  table.version = version;
  table.device = kDLCPU;
  table.types = kTypes;
  table.type_count = 1;
  table.head_width_max = 64;
  table.features = ATTEST_STRIDES | ATTEST_UNALIGNED;
  table.tiles = kTiles;
  table.tile_count = 1;
  table.supports = [](const attest_args*, char*, size_t) -> int32_t { return 1; };
  table.forward = forward;
  return table;
}

}  // namespace attest_test
