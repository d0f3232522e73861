// A plug-in whose texts are made to break out of whatever they are put into. `hostile` fails with a message of several
// lines and escape sequences; `<script>...` gives zeros; both print to stdout and stderr.
#include <cstdio>
#include <cstring>

#include "cli/tests/plugin_table.h"

namespace {
void print() {
  std::printf("{\"noise\": \"on stdout\"}\n");
  std::fflush(stdout);
  std::fprintf(stderr, "noise on stderr\n");
}

attest_status fails(const attest_args*, void*, char* message, size_t size) {
  print();
  std::snprintf(message, size, "first line\nsecond \x1b[31mred\x1b[0m \xff\xfe </script><b>bold</b> ]]> &amp;");
  return ATTEST_FAILED;
}

attest_status zeros(const attest_args* a, void*, char*, size_t) {
  print();
  const DLTensor& o = *a->o;
  for (int64_t b = 0; b < o.shape[0]; ++b)
    for (int64_t h = 0; h < o.shape[1]; ++h)
      for (int64_t i = 0; i < o.shape[2]; ++i) {
        const int64_t at = o.strides == nullptr ? ((b * o.shape[1] + h) * o.shape[2] + i) * o.shape[3] : b * o.strides[0] + h * o.strides[1] + i * o.strides[2];
        std::memset(static_cast<char*>(o.data) + o.byte_offset + 4 * at, 0, 4 * static_cast<size_t>(o.shape[3]));
      }
  return ATTEST_OK;
}

constexpr const char* kVersion = "1 </script><img src=x onerror=alert(1)>";
}  // namespace

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  static const attest_kernel tables[] = {attest_test::table_of("hostile", kVersion, fails), attest_test::table_of("<script>document.title='broken'</script>", kVersion, zeros)};
  return index < 2 ? &tables[index] : nullptr;
}
