#include "reference/hot_loops.h"

#include <algorithm>
#include <cstdio>
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

// Steps of at least eight products, up to 15 left over one by one, 7 additions of lanes and 1 to 3 of chains; and never more
// than all products one by one.
double dot_roundings(int64_t d) {
  const auto n = static_cast<double>(d);
  return std::min(n, n / 8 + 24);
}

namespace {

const HotLoops& choose() {
  const HotLoopSets sets = hot_loop_sets();
  const HotLoops& best = *sets.set[sets.count - 1];
  if (const char* name = std::getenv("ATTEST_INSTRUCTIONS")) {
    for (int n = 0; n < sets.count; ++n)
      if (std::strcmp(sets.set[n]->name, name) == 0) return *sets.set[n];
    std::fprintf(stderr, "attest: ATTEST_INSTRUCTIONS=%s is not there; taking %s\n", name, best.name);
  }
  return best;
}

}  // namespace

const HotLoops& hot_loops() {
  static const HotLoops& best = choose();
  return best;
}

}  // namespace attest
