// clean_values.cuh: a tile of V with its non-finite entries read as 0, by ordinary loads.
#pragma once

#include "kernel/cuda/hopper/bulk_copy.cuh"
#include "kernel/cuda/hopper/softmax.cuh"

namespace attest::hopper {

template <class T>
struct ExponentBits;
template <>
struct ExponentBits<__half> {
  static constexpr uint32_t mask = 0x7C00;
};
template <>
struct ExponentBits<__nv_bfloat16> {
  static constexpr uint32_t mask = 0x7F80;
};

// Two elements, those that are not finite replaced by 0.
template <class T>
__device__ inline uint32_t finite_or_zero(uint32_t pair) {
  constexpr uint32_t low = ExponentBits<T>::mask, high = low << 16;
  return ((pair & low) == low ? 0 : pair & 0xFFFF) | ((pair & high) == high ? 0 : pair & 0xFFFF0000);
}

// Fills a swizzled tile of `Rows` keys x `Columns` (bulk_copy.cuh) with the threads of one warpgroup.
template <class T, int Rows, int Columns>
__device__ inline void copy_finite_values(void* tile, const T* values, int64_t row_stride, int first_key, int keys,
                                          int columns, int thread) {
  constexpr int kChunks = Columns / 8;
#pragma unroll 1
  for (int i = thread; i < Rows * kChunks; i += 128) {
    const int row = i / kChunks, chunk = i % kChunks;
    uint4 v = {};
    if (first_key + row < keys && chunk * 8 < columns)
      v = *reinterpret_cast<const uint4*>(values + (first_key + row) * row_stride + chunk * 8);
    v = {finite_or_zero<T>(v.x), finite_or_zero<T>(v.y), finite_or_zero<T>(v.z), finite_or_zero<T>(v.w)};
    char* panel = static_cast<char*>(tile) + (chunk / 8) * Rows * kPanelRowBytes;
    *reinterpret_cast<uint4*>(panel + swizzled_offset(row, chunk % 8)) = v;
  }
  publish_shared_writes();
}

}  // namespace attest::hopper
