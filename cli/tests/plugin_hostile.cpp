// Kernels that are wrong, under names that look like paths, with reasons that are no plain text. HOSTILE_NAME is the name
// of a third kernel, which no plug-in may have.
#include <cstdio>
#include <cstring>

#include "cli/tests/plugin_table.h"

namespace {
int32_t supports(const attest_args* a, char* reason, size_t size) {
  if (a->q->shape[2] % 2 == 0) return 1;
  std::snprintf(reason, size, "%s", "\x1b[2J../../escaped\n\xFF");
  return 0;
}
// Every element is 7.
attest_status forward(const attest_args* a, void*, char* message, size_t size) {
  const DLTensor& o = *a->o;
  if (a->k->shape[2] % 2 == 1) {
    std::snprintf(message, size, "%s", "\x1b[31m../../escaped\n\xFF");
    return ATTEST_FAILED;
  }
  int64_t count = 1;
  for (int n = 0; n < o.ndim; ++n) count *= o.shape[n];
  auto* at = reinterpret_cast<float*>(static_cast<char*>(o.data) + o.byte_offset);
  for (int64_t n = 0; n < count; ++n) at[n] = 7;
  return ATTEST_OK;
}

attest_kernel table_of(const char* name) {
  attest_kernel table = attest_test::table_of(name, "../../escaped", forward);
  table.features = ATTEST_UNALIGNED;
  table.supports = supports;
  table.tile_count = 0;
  return table;
}
}  // namespace

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  static const attest_kernel tables[] = {table_of("../../escaped"), table_of("/tmp/attest_escaped"), table_of(HOSTILE_NAME)};
  return index < 3 ? &tables[index] : nullptr;
}
