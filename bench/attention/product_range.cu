// product_range: what the matrix unit makes of products and sums below the range of f32's normal numbers, and of
// zeros beside huge factors. Prints each sum as wgmma forms it beside the exact one; kernel/cuda/hopper/forward.h and
// docs/results/hopper-log.md rest on what it shows.
#include <cmath>
#include <cstdio>
#include <vector>

#include "kernel/cuda/hopper/attention.cuh"

namespace {

using namespace attest::hopper;
struct SmallTile {
  static constexpr int query_rows = 64, key_rows = 64, width = 64;
};

__device__ void round_to_type(__nv_bfloat16& to, float x) { to = __float2bfloat16(x); }
__device__ void round_to_type(__half& to, float x) { to = __float2half(x); }

// One warpgroup: sum over i of a[i] b[i], i < 64.
template <class Type>
__global__ void dot(const float* a, const float* b, float* out) {
  __shared__ __align__(1024) char q[64 * 128];
  __shared__ __align__(1024) char k[64 * 128];
  for (int i = threadIdx.x; i < 64 * 64; i += 128) {
    const int row = i / 64, column = i % 64, at = swizzled_offset(row, column / 8) + column % 8 * 2;
    round_to_type(*reinterpret_cast<Type*>(q + at), row == 0 ? a[column] : 0);
    round_to_type(*reinterpret_cast<Type*>(k + at), row == 0 ? b[column] : 0);
  }
  publish_shared_writes();
  __syncthreads();
  float s[32];
  products::open();
  start_scores<SmallTile, Type>(s, q, k);
  products::close();
  products::wait_for_all_but<0>();
  pin(s);
  if (threadIdx.x == 0) *out = s[0];
}

}  // namespace

int main() {
  float *factors, *out;  // a, then b
  if (cudaMalloc(&factors, 128 * sizeof(float)) || cudaMalloc(&out, sizeof(float))) return 2;
  struct Case {
    const char* what;
    std::vector<std::pair<double, double>> factors;  // element 0, 16, 32, 48: a step of the matrix unit each
    bool one_step;                                   // or all in the first step
    bool f16 = false;                                // bf16
  };
  const Case cases[] = {
      {"2^-126", {{0x1p-63, 0x1p-63}}, true},
      {"2^-127", {{0x1p-63, 0x1p-64}}, true},
      {"2^-140", {{0x1p-70, 0x1p-70}}, true},
      {"2^-149", {{0x1p-75, 0x1p-74}}, true},
      {"2^-150", {{0x1p-75, 0x1p-75}}, true},
      {"2^-150 four times in one step", {{0x1p-75, 0x1p-75}, {0x1p-75, 0x1p-75}, {0x1p-75, 0x1p-75}, {0x1p-75, 0x1p-75}}, true},
      {"2^-150 in each of four steps", {{0x1p-75, 0x1p-75}, {0x1p-75, 0x1p-75}, {0x1p-75, 0x1p-75}, {0x1p-75, 0x1p-75}}, false},
      {"2^-130 in each of four steps", {{0x1p-65, 0x1p-65}, {0x1p-65, 0x1p-65}, {0x1p-65, 0x1p-65}, {0x1p-65, 0x1p-65}}, false},
      {"subnormal factor 2^-130 times 2^7", {{0x1p-130, 0x1p7}}, true},
      {"subnormal factor 2^-130 times 2^-7", {{0x1p-130, 0x1p-7}}, true},
      {"2^-100 beside 0 times 2^127", {{0, 0x1p127}, {0x1p-50, 0x1p-50}}, true},
      {"(1 + 2^-7)^2 2^-100 beside 0 times 2^127", {{0x1p127, 0}, {0x1.02p-50, 0x1.02p-50}}, true},
      {"2^-126 - 2^-127", {{0x1p-63, 0x1p-63}, {-0x1p-63, 0x1p-64}}, true},
      {"2^-126 - 2^-127 in two steps", {{0x1p-63, 0x1p-63}, {-0x1p-63, 0x1p-64}}, false},
      {"2^-126 2^115 beside 2^-30", {{0x1p-126, 0x1p115}, {0x1p-15, 0x1p-15}}, true},
      {"2^-133 2^122 beside 2^-28", {{0x1p-133, 0x1p122}, {0x1p-14, 0x1p-14}}, true},
      {"2^-133 2^122 beside 2^-29", {{0x1p-133, 0x1p122}, {0x1p-15, 0x1p-14}}, true},
      {"2^-133 2^122 beside 2^-30", {{0x1p-133, 0x1p122}, {0x1p-15, 0x1p-15}}, true},
      {"2^-133 2^122 after 2^-30", {{0x1p-15, 0x1p-15}, {0x1p-133, 0x1p122}}, false},
      {"f16 2^-14 2^0 beside 2^-28", {{0x1p-14, 1}, {0x1p-14, 0x1p-14}}, true, true},
      {"f16 2^-24 2^10 beside 2^-28", {{0x1p-24, 0x1p10}, {0x1p-14, 0x1p-14}}, true, true},
      {"f16 2^-24 2^10 beside 2^-30", {{0x1p-24, 0x1p10}, {0x1p-15, 0x1p-15}}, true, true},
  };
  for (const Case& c : cases) {
    float host[128] = {}, sum = 0;
    double exact = 0;
    for (size_t i = 0; i < c.factors.size(); ++i) {
      const size_t at = c.one_step ? i : 16 * i;
      host[at] = static_cast<float>(c.factors[i].first), host[64 + at] = static_cast<float>(c.factors[i].second);
      exact += c.factors[i].first * c.factors[i].second;
    }
    if (cudaMemcpy(factors, host, sizeof host, cudaMemcpyHostToDevice)) return 2;
    (c.f16 ? dot<__half> : dot<__nv_bfloat16>)<<<1, 128>>>(factors, factors + 64, out);
    if (cudaMemcpy(&sum, out, sizeof sum, cudaMemcpyDeviceToHost)) return 2;
    std::printf("%-45s exact %.9g, wgmma %.9g%s\n", c.what, exact, static_cast<double>(sum),
                exact == static_cast<double>(sum) ? "" : "  *");
  }
  return 0;
}
