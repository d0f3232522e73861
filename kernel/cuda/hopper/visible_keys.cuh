// visible_keys.cuh: which keys a query sees, and what that means for a tile.
//
// Causal mask, window and key lengths together leave each query an interval of keys: query i stands at key position
// i + keys - queries (bottom right; `keys` is the batch's key length) and sees from position - left to
// position + right, both included. A tile that lies inside the interval of all its queries needs no test.
#pragma once

#include <cstdint>

#include "kernel/cuda/hopper/arguments.cuh"

namespace attest::hopper {

constexpr int kUnlimited = 1 << 30;      // a window side that hides nothing
constexpr int kLargestExtent = 1 << 28;  // of queries and keys, so that positions never overflow

struct VisibleKeys {
  int keys, offset, left, right;

  __device__ VisibleKeys(const Arguments& a, int key_length)
      : keys(key_length), offset(key_length - a.queries), left(a.window_left), right(a.window_right) {}

  // The interval [first, end) of query `row`; empty where end <= first.
  __device__ int first(int row) const { return max(0, row + offset - left); }
  __device__ int end(int row) const { return min(keys, row + offset + right + 1); }
};

__device__ inline int key_length(const Arguments& a, int batch) {
  return a.key_lengths ? a.key_lengths[batch * a.key_lengths_stride] : a.keys;
}

// The tiles of `KeyRows` keys that hold a key visible to one of the queries [row_begin, row_end): [begin, end).
template <int KeyRows>
struct TileRange {
  int begin, end;

  __device__ TileRange(const VisibleKeys& visible, int row_begin, int row_end) {
    const int from = visible.first(row_begin), until = visible.end(row_end - 1);
    begin = from / KeyRows;
    end = until > from ? (until + KeyRows - 1) / KeyRows : begin;
  }
  // Leaves `count` tiles from `first` on.
  __device__ void keep(int first, int count) { begin = max(begin, first), end = min(end, first + count); }
  __device__ bool empty() const { return begin >= end; }
};

// Whether keys [key_begin, key_end) are not all visible to all the queries [row_begin, row_end).
__device__ inline bool needs_mask(const VisibleKeys& visible, int row_begin, int row_end, int key_begin, int key_end) {
  return key_begin < visible.first(row_end - 1) || key_end > visible.end(row_begin);
}

}  // namespace attest::hopper
