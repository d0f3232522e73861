// call.h: one attention call over device memory, as the plug-in interface wants it.
#pragma once

#include <cstdint>

#include "kernel/abi/attest_kernel.h"

namespace attest::bench {

struct Extents {
  int64_t batches = 1, query_heads = 1, key_heads = 1, queries = 1, keys = 1, width = 64, value_width = 64;
};

// Owns shapes, strides and tensors that `args` points to; not copyable for that reason.
struct Call {
  // Packed [B,H,N,D]; with `heads_inside`, packed [B,N,H,D] seen through strides.
  Call(const Extents& e, bool bf16, void* q, void* k, void* v, void* o, float* lse, bool heads_inside = false) {
    const DLDataType type{static_cast<uint8_t>(bf16 ? kDLBfloat : kDLFloat), 16, 1};
    tensor(0, q, type, e.batches, e.query_heads, e.queries, e.width, heads_inside);
    tensor(1, k, type, e.batches, e.key_heads, e.keys, e.width, heads_inside);
    tensor(2, v, type, e.batches, e.key_heads, e.keys, e.value_width, heads_inside);
    tensor(3, o, type, e.batches, e.query_heads, e.queries, e.value_width, heads_inside);
    tensor(4, lse, {kDLFloat, 32, 1}, e.batches, e.query_heads, e.queries, 1, false);
    tensors[4].ndim = 3;
    args.struct_size = sizeof args;
    args.q = &tensors[0], args.k = &tensors[1], args.v = &tensors[2], args.o = &tensors[3];
    if (lse) args.lse = &tensors[4];
    args.window_left = args.window_right = -1;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void set_key_lengths(int32_t* lengths) {
    tensor(5, lengths, {kDLInt, 32, 1}, tensors[0].shape[0], 1, 1, 1, false);
    tensors[5].ndim = 1;
    args.key_lengths = &tensors[5];
  }

  attest_args args = {};

 private:
  void tensor(int i, void* data, DLDataType type, int64_t b, int64_t h, int64_t n, int64_t d, bool heads_inside) {
    const int64_t extent[4] = {b, h, n, d}, packed[4] = {h * n * d, n * d, d, 1}, inside[4] = {n * h * d, d, h * d, 1};
    for (int j = 0; j < 4; ++j) shapes[i][j] = extent[j], strides[i][j] = heads_inside ? inside[j] : packed[j];
    if (i == 4)
      for (int j = 0; j < 3; ++j) strides[i][j] = packed[j];
    if (i == 5) strides[i][0] = 1;
    tensors[i] = {data, {kDLCUDA, 0}, 4, type, shapes[i], strides[i], 0};
  }
  DLTensor tensors[6];
  int64_t shapes[6][4], strides[6][4];
};

}  // namespace attest::bench
