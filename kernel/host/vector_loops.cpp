#include "kernel/host/vector_loops.h"

#include <cstring>

#include "kernel/numbers.h"

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
#define VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define VECTOR_CLONES
#endif

namespace attest::host {

namespace {

template <class Sum, int kLanes>
inline __attribute__((always_inline)) Sum dot(const float* q, const float* k, int64_t d) {
  Sum lane[kLanes] = {};
  int64_t c = 0;
  for (; c + kLanes <= d; c += kLanes)
    for (int l = 0; l < kLanes; ++l) lane[l] += static_cast<Sum>(q[c + l]) * static_cast<Sum>(k[c + l]);
  for (int l = 0; c < d; ++c, ++l) lane[l] += static_cast<Sum>(q[c]) * static_cast<Sum>(k[c]);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

}  // namespace

VECTOR_CLONES void widen_f16(const uint8_t* __restrict from, int64_t n, float* __restrict to) {
  for (int64_t d = 0; d < n; ++d) {
    uint16_t u;
    std::memcpy(&u, from + 2 * d, 2);
    to[d] = numbers::from_f16(u);
  }
}
VECTOR_CLONES void widen_bf16(const uint8_t* __restrict from, int64_t n, float* __restrict to) {
  for (int64_t d = 0; d < n; ++d) {
    uint16_t u;
    std::memcpy(&u, from + 2 * d, 2);
    to[d] = numbers::from_bf16(u);
  }
}

VECTOR_CLONES float dot_narrow(const float* q, const float* k, int64_t d) { return dot<float, 16>(q, k, d); }
VECTOR_CLONES double dot_wide(const float* q, const float* k, int64_t d) { return dot<double, 8>(q, k, d); }

VECTOR_CLONES void scale_values(float* o, float factor, int64_t dv) {
  for (int64_t d = 0; d < dv; ++d) o[d] *= factor;
}
VECTOR_CLONES void scale_values(double* o, double factor, int64_t dv) {
  for (int64_t d = 0; d < dv; ++d) o[d] *= factor;
}
VECTOR_CLONES void add_value(float* __restrict o, float p, const float* __restrict v, int64_t dv) {
  for (int64_t d = 0; d < dv; ++d) o[d] += p * v[d];
}
VECTOR_CLONES void add_value(double* __restrict o, double p, const float* __restrict v, int64_t dv) {
  for (int64_t d = 0; d < dv; ++d) o[d] += p * static_cast<double>(v[d]);
}

}  // namespace attest::host
