// softmax.cuh: the online softmax of a warpgroup's tile of scores.
//
// A thread holds parts of two rows (matrix_multiply.cuh), its quad (4 neighbouring threads) the whole of them. Per
// row: the running maximum m of the raw dot products x, and the sum l of exponentials. With c = scale * log2(e) > 0
// and M = round(m*c), one and the same rounded M is the reference point of every exponential, exp2(x*c - M), and of
// every rescale, exp2(M_old - M_new). While m = -inf the reference point is 0: every exponential is then exp2(-inf),
// and -inf - -inf is never formed. Where |M| is so large that its rounding would show in P (kLargestReference), the
// row is taken again with exp2((x - m)*c) and exp2((m_old - m_new)*c). fmaxf passes over NaN; a NaN score makes l NaN,
// which the epilogue sees.
// Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax" (2018).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernel/cuda/hopper/visible_keys.cuh"

namespace attest::hopper {

constexpr int kRowsPerThread = 2, kRowDistance = 8;  // a thread's rows, and how far apart they are

// Below this |M| the rounding of m*c moves P at the maximum by no more than a quarter of the rounding of P to T: by
// 2^-15 for f16, 2^-12 for bf16. Rows above it are done again, x - m formed first, which is exact for all x that count.
template <class T>
constexpr float kLargestReference = std::is_same_v<T, __half> ? 0x1p10f : 0x1p13f;

// PTX ISA, "ex2": at most 2 ulp, subnormal results flushed.
__device__ inline float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// PTX ISA, "rcp": at most 1 ulp; with the rounding of the product O * (1 / l) less than 2.
__device__ inline float reciprocal_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// Element i of a thread's part of a tile belongs to row row_of(i) of its two and to column column_of(i), counted
// from the thread's first column 2 * (lane % 4).
__host__ __device__ constexpr int row_of(int i) { return (i >> 1) & 1; }
__host__ __device__ constexpr int column_of(int i) { return (i >> 2) * 8 + (i & 1); }

// Of a thread's elements in one row of a tile, numbered j = 0, 1, ...: those in columns below `column`, as bits from
// number 32 * word on. `column` counts from the thread's first.
__device__ inline uint32_t elements_below(int column, int word) {
  const int from_tile = max(column, 0), count = from_tile / 8 * 2 + min(from_tile % 8, 2) - 32 * word;
  return ~__funnelshift_lc(0u, ~0u, max(count, 0));
}

// Scores of invisible keys become -inf. `key` is the key of the thread's first column, `row` its first query.
template <int Count>
__device__ inline void hide(float (&scores)[Count], int key, const VisibleKeys& visible, int row) {
#pragma unroll
  for (int r = 0; r < kRowsPerThread; ++r) {
    const int this_row = row + kRowDistance * r;
    const int from = visible.first(this_row) - key, until = visible.end(this_row) - key;
#pragma unroll
    for (int word = 0; word < (Count / 2 + 31) / 32; ++word) {
      const uint32_t is_visible = elements_below(until, word) & ~elements_below(from, word);
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        const int j = (i >> 2) * 2 + (i & 1) - 32 * word;  // its number in the row
        if (row_of(i) == r && j >= 0 && j < 32) scores[i] = is_visible >> j & 1 ? scores[i] : -INFINITY;
      }
    }
  }
}

// M = round(m * c), and 0 while nothing was seen.
__device__ inline float reference_point(float maximum, float scale_log2e) {
  return maximum == -INFINITY ? 0.0f : __fmul_rn(maximum, scale_log2e);
}
// m * c - M, exactly.
__device__ inline float reference_error(float maximum, float scale_log2e) {
  return __fmaf_rn(maximum, scale_log2e, -__fmul_rn(maximum, scale_log2e));
}
// scale*m + ln l, with l taken from its reference point M to the true maximum: ln2 * (log2 l - (m*c - M)).
__device__ inline float log_sum_exp(float maximum, float sum, float scale, float reference_error) {
  if (maximum == -INFINITY) return -INFINITY;
  return __fmaf_rn(scale, maximum, 0.693147180559945f * (log2f(sum) - reference_error));
}
__device__ inline float reciprocal_sum(float sum) { return sum > 0 ? reciprocal_approximate(sum) : 0.0f; }

struct RowFactors {
  float of_row[kRowsPerThread];
};

// MaySubtract: rows can be told to subtract before they scale.
template <bool MaySubtract>
class OnlineSoftmax {
 public:
  __device__ explicit OnlineSoftmax(float scale_log2e) : c_(scale_log2e) {}
  __device__ void subtract_first(int r, bool yes) { subtracts_[r] = yes; }

  // Takes in one tile: `scores` holds raw dot products and becomes the exponentials P. Returns the factor that O
  // must be scaled by.
  template <int Count>
  __device__ RowFactors take(float (&scores)[Count]) {
    float most[kRowsPerThread][2], reference[kRowsPerThread], part[kRowsPerThread][2] = {};
    RowFactors factors;
#pragma unroll
    for (int r = 0; r < kRowsPerThread; ++r) most[r][0] = maximum_[r], most[r][1] = -INFINITY;
#pragma unroll
    for (int i = 0; i < Count; ++i) most[row_of(i)][i & 1] = fmaxf(most[row_of(i)][i & 1], scores[i]);
#pragma unroll
    for (int r = 0; r < kRowsPerThread; ++r) {
      const float before = maximum_[r];
      maximum_[r] = quad_max(fmaxf(most[r][0], most[r][1]));
      reference[r] = reference_point(maximum_[r], c_);
      // P and l were taken at the rounded reference point.
      factors.of_row[r] = exp2_approximate(subtracts(r) ? difference(before, r) : __fmul_rn(before, c_) - reference[r]);
    }
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const int r = row_of(i);
      scores[i] = exp2_approximate(subtracts(r) ? difference(scores[i], r) : __fmaf_rn(scores[i], c_, -reference[r]));
      part[row_of(i)][i & 1] += scores[i];
    }
#pragma unroll
    for (int r = 0; r < kRowsPerThread; ++r) sum_[r] = __fmaf_rn(sum_[r], factors.of_row[r], part[r][0] + part[r][1]);
    return factors;
  }

  // Joins the sums of the quad; once, after the last tile.
  __device__ void finish() {
#pragma unroll
    for (int r = 0; r < kRowsPerThread; ++r) sum_[r] = quad_sum(sum_[r]);
  }

  __device__ float maximum(int r) const { return maximum_[r]; }  // of the raw dot products
  __device__ float sum(int r) const { return sum_[r]; }          // relative to the rounded reference point

  __device__ bool subtracts(int r) const { return MaySubtract && subtracts_[r]; }
  // m * c less the reference point.
  __device__ float reference_error(int r) const {
    return subtracts(r) ? 0.0f : hopper::reference_error(maximum_[r], c_);
  }
  // Whether |m * c| is too large for a rounded reference point.
  __device__ bool is_large(int r, float limit) const {
    return maximum_[r] != -INFINITY && !(fabsf(maximum_[r] * c_) < limit);
  }

 private:
  // (x - m) * c.
  __device__ float difference(float x, int r) const {
    return __fmul_rn(__fsub_rn(x, maximum_[r] == -INFINITY ? 0.0f : maximum_[r]), c_);
  }

  float c_;
  float maximum_[kRowsPerThread] = {-INFINITY, -INFINITY};
  float sum_[kRowsPerThread] = {0, 0};
  bool subtracts_[kRowsPerThread] = {false, false};
};

// Two numbers rounded to nearest, the first in the low half.
template <class T>
__device__ inline uint32_t pack(float low, float high);
template <>
__device__ inline uint32_t pack<__half>(float low, float high) {
  uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
template <>
__device__ inline uint32_t pack<__nv_bfloat16>(float low, float high) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// The same, with what would round to infinity cut to the largest finite number: where all values are that number, P's
// rounding alone may lift O / l above it.
template <class T>
__device__ inline uint32_t pack_finite(float low, float high);
template <>
__device__ inline uint32_t pack_finite<__half>(float low, float high) {
  uint32_t both;
  asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
template <>
__device__ inline uint32_t pack_finite<__nv_bfloat16>(float low, float high) {
  uint32_t both;
  asm("cvt.rn.satfinite.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

template <class T, int Count>
__device__ inline void round_to(uint32_t (&p)[Count / 2], const float (&exponentials)[Count]) {
#pragma unroll
  for (int i = 0; i < Count / 2; ++i) p[i] = pack<T>(exponentials[2 * i], exponentials[2 * i + 1]);
}

template <int Count>
__device__ inline void scale_rows(float (&o)[Count], const RowFactors& factors) {
#pragma unroll
  for (int i = 0; i < Count; ++i) o[i] *= factors.of_row[row_of(i)];
}

}  // namespace attest::hopper
