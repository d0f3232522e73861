#include "reference/hot_loops.h"

#include <cstdlib>
#include <cstring>

namespace attest {

namespace baseline {
extern const HotLoops kLoops;
}
namespace avx2 {
extern const HotLoops kLoops;
}
namespace avx512 {
extern const HotLoops kLoops;
}

HotLoopSets hot_loop_sets() {
  HotLoopSets sets{{&baseline::kLoops}, 1};
#ifdef ATTEST_HAVE_AVX
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    sets.set[sets.count++] = &avx2::kLoops;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) sets.set[sets.count++] = &avx512::kLoops;
  }
#endif
  return sets;
}

namespace {

const HotLoops& choose() {
  const HotLoopSets sets = hot_loop_sets();
  if (const char* name = std::getenv("ATTEST_INSTRUCTIONS"))
    for (int n = 0; n < sets.count; ++n)
      if (std::strcmp(sets.set[n]->name, name) == 0) return *sets.set[n];
  return *sets.set[sets.count - 1];
}

}  // namespace

const HotLoops& hot_loops() {
  static const HotLoops& best = choose();
  return best;
}

}  // namespace attest
