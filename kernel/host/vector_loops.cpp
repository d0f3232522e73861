#include "kernel/host/vector_loops.h"

#include <cstdlib>
#include <cstring>

namespace attest::host {

namespace baseline {
extern const VectorLoops kLoops;
}
namespace avx2 {
extern const VectorLoops kLoops;
}

VectorLoopSets vector_loop_sets() {
  VectorLoopSets sets{{&baseline::kLoops}, 1};
#ifdef ATTEST_HAVE_AVX
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) sets.set[sets.count++] = &avx2::kLoops;
#endif
  return sets;
}

const VectorLoops& vector_loops() {
  static const VectorLoops& chosen = []() -> const VectorLoops& {
    const VectorLoopSets sets = vector_loop_sets();
    const char* name = std::getenv("ATTEST_INSTRUCTIONS");
    for (int n = 0; n < sets.count && name != nullptr; ++n)
      if (std::strcmp(sets.set[n]->name, name) == 0) return *sets.set[n];
    return *sets.set[sets.count - 1];
  }();
  return chosen;
}

void scale_values(float* o, float factor, int64_t dv) {
  for (int64_t d = 0; d < dv; ++d) o[d] *= factor;
}
void scale_values(double* o, double factor, int64_t dv) {
  for (int64_t d = 0; d < dv; ++d) o[d] *= factor;
}
void add_value(float* __restrict o, float p, const float* __restrict v, int64_t dv) {
  for (int64_t d = 0; d < dv; ++d) o[d] += p * v[d];
}
void add_value(double* __restrict o, double p, const float* __restrict v, int64_t dv) {
  for (int64_t d = 0; d < dv; ++d) o[d] += p * static_cast<double>(v[d]);
}

}  // namespace attest::host
