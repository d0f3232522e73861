// careful_copy.cuh: rows to a tile in shared memory by ordinary loads, for what the copy engine does not take: any
// alignment, stride and width, and values whose non-finite entries are to be read as 0.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernel/cuda/hopper/bulk_copy.cuh"

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

// Rows of a matrix in device memory: row r starts r * stride elements after `data`.
struct Rows {
  const void* data;
  int64_t stride;
  int count, columns;
};

// Fills a swizzled tile of `TileRows` rows from `first` on x `Columns` (bulk_copy.cuh), in panels of `PanelRows` rows,
// with the threads of one warpgroup. Rows and columns that are not there become zeros.
template <class T, int TileRows, int Columns, int PanelRows = TileRows>
__device__ inline void copy_carefully(void* tile, const Rows& rows, int first, bool clean, int thread) {
  constexpr int kChunks = Columns / 8;
#pragma unroll 1
  for (int i = thread; i < TileRows * kChunks; i += 128) {
    const int row = i / kChunks, chunk = i % kChunks;
    const int columns = first + row < rows.count ? rows.columns - chunk * 8 : 0;
    const auto* from = static_cast<const uint16_t*>(rows.data) + (first + row) * rows.stride + chunk * 8;
    uint32_t words[4] = {};
    if (columns >= 8 && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
      const uint4 all = *reinterpret_cast<const uint4*>(from);
      words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e)
        if (e < columns) words[e / 2] |= uint32_t{from[e]} << e % 2 * 16;
    }
    if (clean) {
#pragma unroll
      for (uint32_t& word : words) word = finite_or_zero<T>(word);
    }
    char* panel = static_cast<char*>(tile) + (chunk / 8) * PanelRows * kPanelRowBytes;
    *reinterpret_cast<uint4*>(panel + swizzled_offset(row, chunk % 8)) = {words[0], words[1], words[2], words[3]};
  }
  publish_shared_writes();
}

}  // namespace attest::hopper
