// A plug-in of two kernels: `crashes` writes through a null pointer, `exits` ends the process as if all were well.
#include <cstdlib>

#include "cli/tests/plugin_table.h"

namespace {
attest_status forward(const attest_args*, void*, char*, size_t) {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
  return ATTEST_OK;
}
attest_status forward_exit(const attest_args*, void*, char*, size_t) { std::exit(0); }

}  // namespace

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  static const attest_kernel tables[] = {attest_test::table_of("crashes", "1", forward), attest_test::table_of("exits", "1", forward_exit)};
  return index < 2 ? &tables[index] : nullptr;
}
