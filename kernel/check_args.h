// check_args.h: what the built-in kernels refuse, with the reason; shared by host and device.
#pragma once

#include <cstdio>

#include "kernel/view.h"

namespace attest {

inline constexpr int64_t kLargestSplit = 4096;

// nullptr if the arguments are well formed and within what the built-in kernels do.
inline const char* refuse(const attest_args& a, int64_t largest_width) {
  if (a.struct_size < sizeof(attest_args)) return "attest_args is of an older version";
  if (a.layout != 0) return "only the dense layout (0) is supported";
  for (const DLTensor* t : {a.q, a.k, a.v, a.o})
    if (t == nullptr || t->ndim != 4) return "q, k, v and o must be tensors of rank 4";
  const int32_t type = type_of(*a.q);
  if (type == ATTEST_NO_TYPE) return "the input type must be f32, f16 or bf16";
  for (const DLTensor* t : {a.k, a.v, a.o})
    if (type_of(*t) != type) return "k, v and o must have the type of q";
  const int64_t b = a.q->shape[0], hq = a.q->shape[1], nq = a.q->shape[2], d = a.q->shape[3];
  const int64_t hk = a.k->shape[1], nk = a.k->shape[2], dv = a.v->shape[3];
  if (a.k->shape[0] != b || a.v->shape[0] != b || a.o->shape[0] != b) return "batch sizes differ";
  if (a.v->shape[1] != hk || a.v->shape[2] != nk || a.k->shape[3] != d) return "shapes of q, k and v do not fit";
  if (a.o->shape[1] != hq || a.o->shape[2] != nq || a.o->shape[3] != dv) return "shape of o does not fit";
  if (hk == 0 ? hq != 0 : hq % hk != 0) return "the query heads are no multiple of the key heads";
  if (d < 1 || dv < 1) return "head widths must be 1 or more";
  if (d > largest_width || dv > largest_width) return "head widths above 256 are not supported";
  for (const DLTensor* t : {a.q, a.k, a.v, a.o})
    if (t->strides != nullptr && t->shape[3] > 1 && t->strides[3] != 1) return "the last dimension must have stride 1";
  if (!(a.softcap >= 0)) return "softcap must be 0 or more";
  if (a.mask != nullptr && a.mask->ndim != 4) return "mask must be of rank 4";
  if (a.bias != nullptr) {
    if (a.bias->ndim != 4) return "bias must be of rank 4";
    const int32_t bias = type_of(*a.bias);
    if (bias != ATTEST_F32 && bias != type) return "bias must be f32 or of the input type";
  }
  if (a.tile_keys < 0) return "tile_keys must be 0 or more";
  if (a.split_count < 0 || a.split_count > kLargestSplit) return "split_count must be 0 to 4096";
  if (a.p_type != ATTEST_NO_TYPE && a.p_type != ATTEST_F32 && a.p_type != type) return "P is kept in f32 or rounded to the input type";
  return nullptr;
}

inline int32_t supports_or_say(const char* why, char* reason, size_t size) {
  if (why == nullptr) return 1;
  if (reason != nullptr && size > 0) std::snprintf(reason, size, "%s", why);
  return 0;
}

// Records that a call writes at most: one per row, split and tile.
inline uint64_t trace_records(const Call& c) {
  const int64_t part = c.splits > 0 ? (c.keys + c.splits - 1) / c.splits : 0;
  const int64_t tiles = (part + c.tile - 1) / c.tile;
  return static_cast<uint64_t>(c.batches * c.heads * c.rows * c.splits) * static_cast<uint64_t>(tiles);
}

}  // namespace attest
