// view.h: a DLTensor of rank 1 to 4 as a pointer and four strides in elements, for host and device.
//
// Reads DLPack's rules: byte_offset, NULL strides (packed), NULL data where a size is 0. Offsets are 64 bits.
#pragma once

#include "kernel/abi/attest_kernel.h"
#include "kernel/numbers.h"
#include "kernel/recurrence.h"

namespace attest {

struct View {
  uint8_t* data = nullptr;
  int64_t extent[4] = {1, 1, 1, 1};
  int64_t stride[4] = {0, 0, 0, 0};  // in elements; 0 where an extent of 1 broadcasts
  int32_t type = 0;                  // attest_type; 0 for uint8 and int32

  ATTEST_HOST_DEVICE int64_t at(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
  }
  // Addresses are multiples of the element's size: device code may use one load.
  template <class T>
  ATTEST_HOST_DEVICE T load(int64_t index) const {
#ifdef __CUDA_ARCH__
    return reinterpret_cast<const T*>(data)[index];
#else
    T x;
    memcpy(&x, data + static_cast<int64_t>(sizeof(T)) * index, sizeof(T));
    return x;
#endif
  }
  ATTEST_HOST_DEVICE float value(int64_t index) const {
    if (type == ATTEST_F32) return load<float>(index);
    const auto u = load<uint16_t>(index);
    return type == ATTEST_BF16 ? numbers::from_bf16(u) : numbers::from_f16(u);
  }
  // Rounds once to the view's type.
  ATTEST_HOST_DEVICE void store(int64_t index, double x) const {
    if (type == ATTEST_F32) {
      const float f = static_cast<float>(x);
      memcpy(data + 4 * index, &f, 4);
    } else {
      const float odd = numbers::to_odd(x);
      const uint16_t u = type == ATTEST_BF16 ? numbers::to_bf16(odd) : numbers::to_f16(odd);
      memcpy(data + 2 * index, &u, 2);
    }
  }
};

inline int32_t type_of(const DLTensor& t) {
  if (t.dtype.lanes != 1) return ATTEST_NO_TYPE;
  if (t.dtype.code == kDLFloat) return t.dtype.bits == 32 ? ATTEST_F32 : t.dtype.bits == 16 ? ATTEST_F16 : ATTEST_NO_TYPE;
  return t.dtype.code == kDLBfloat && t.dtype.bits == 16 ? ATTEST_BF16 : ATTEST_NO_TYPE;
}

// `broadcast`: an extent of 1 serves every index.
inline View view_of(const DLTensor& t, bool broadcast = false) {
  View v;
  v.data = t.data == nullptr ? nullptr : static_cast<uint8_t*>(t.data) + t.byte_offset;
  v.type = type_of(t);
  int64_t packed = 1;
  for (int k = t.ndim - 1; k >= 0; --k) {
    v.extent[k] = t.shape[k];
    v.stride[k] = t.strides != nullptr ? t.strides[k] : packed;
    if (broadcast && t.shape[k] == 1) v.stride[k] = 0;
    packed *= t.shape[k];
  }
  return v;
}

// Everything of a call that a kernel needs, by value: can be passed to the device.
struct Call {
  View q, k, v, o, lse, mask, bias;
  const int32_t* key_lengths = nullptr;
  const float* sink = nullptr;
  int64_t batches = 0, heads = 0, key_heads = 0, rows = 0, keys = 0, d = 0, dv = 0;
  float scale = 1, softcap = 0;
  bool causal = false, has_mask = false, has_bias = false, has_lse = false;
  int64_t left = -1, right = -1;
  int64_t tile = 0;
  int32_t splits = 1;
  bool descending = false;
  int32_t p_type = ATTEST_F32;
  attest_trace trace = {nullptr, 0, nullptr};
};

inline constexpr int64_t kDefaultTile = 64;

inline Call call_of(const attest_args& a) {
  Call c;
  c.q = view_of(*a.q);
  c.k = view_of(*a.k);
  c.v = view_of(*a.v);
  c.o = view_of(*a.o);
  c.batches = c.q.extent[0];
  c.heads = c.q.extent[1];
  c.rows = c.q.extent[2];
  c.d = c.q.extent[3];
  c.key_heads = c.k.extent[1];
  c.keys = c.k.extent[2];
  c.dv = c.v.extent[3];
  if (a.lse != nullptr) {
    c.lse = view_of(*a.lse);
    c.has_lse = true;
  }
  if (a.mask != nullptr) {
    c.mask = view_of(*a.mask, true);
    c.has_mask = true;
  }
  if (a.bias != nullptr) {
    c.bias = view_of(*a.bias, true);
    c.has_bias = true;
  }
  const auto start = [](const DLTensor& t) { return static_cast<uint8_t*>(t.data) + t.byte_offset; };
  if (a.key_lengths != nullptr && c.batches > 0) c.key_lengths = reinterpret_cast<const int32_t*>(start(*a.key_lengths));
  if (a.sink != nullptr && c.heads > 0) c.sink = reinterpret_cast<const float*>(start(*a.sink));
  c.scale = a.scale;
  c.softcap = a.softcap;
  c.causal = a.causal != 0;
  c.left = a.window_left;
  c.right = a.window_right;
  c.tile = a.tile_keys > 0 ? a.tile_keys : kDefaultTile;
  c.splits = a.split_count > 0 ? a.split_count : 1;
  c.descending = a.tile_order == ATTEST_ORDER_DESCENDING;
  c.p_type = a.p_type != ATTEST_NO_TYPE ? a.p_type : c.q.type;
  if (a.trace != nullptr) c.trace = *a.trace;
  return c;
}

// Keys of one split: equal parts, the last ones shorter or empty.
ATTEST_HOST_DEVICE int64_t split_begin(const Call& c, int64_t split) {
  const int64_t part = (c.keys + c.splits - 1) / c.splits;
  return split * part < c.keys ? split * part : c.keys;
}

}  // namespace attest
