#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <initializer_list>

#include "kernel/cuda/hopper/prepare.h"
#include "kernel/cuda/hopper/tensor_map.h"
#include "kernel/cuda/hopper/visible_keys.cuh"

namespace attest::hopper {
namespace {

constexpr int64_t kMostWarps = 1024 * 12;      // consumer warps of one launch: multiprocessors x warps
constexpr int64_t kCounterBytes = 16;          // the counter of places, aligned
constexpr int64_t kL2BytesForKeys = 32 << 20;  // of K and V that a section of heads may fill

char* address(const DLTensor& t) { return static_cast<char*>(t.data) + t.byte_offset; }

int64_t stride(const DLTensor& t, int dimension) {
  if (t.strides) return t.strides[dimension];
  int64_t packed = 1;
  for (int i = t.ndim - 1; i > dimension; --i) packed *= t.shape[i];
  return packed;
}

bool is(const DLTensor& t, DLDataTypeCode code, int bits) {
  return t.dtype.code == code && t.dtype.bits == bits && t.dtype.lanes == 1;
}

// Every address that a row starts at is a multiple of 16 bytes (2-byte elements).
bool aligned(const DLTensor& t) {
  if (reinterpret_cast<uintptr_t>(address(t)) % 16) return false;
  for (int i = 0; i < 3; ++i)
    if (t.shape[i] > 1 && stride(t, i) % 8) return false;
  return true;
}

Operand operand(const DLTensor& t) { return {address(t), stride(t, 0), stride(t, 1), stride(t, 2)}; }

// How far a query sees to each side; a side on which no query is ever limited counts as unlimited.
struct Reach {
  int left, right;
};
Reach reach(const attest_args& args, int64_t queries, int64_t keys) {
  int64_t left = args.window_left, right = args.window_right;
  if (args.causal) right = right < 0 ? 0 : std::min<int64_t>(right, 0);
  const bool all_left = left < 0 || left >= keys - 1, all_right = right < 0 || right >= queries - 1;
  return {all_left ? kUnlimited : static_cast<int>(left), all_right ? kUnlimited : static_cast<int>(right)};
}

bool describe_operand(const DLTensor& t, bool bf16, int box_rows, CUtensorMap& map, int& batch_step, int& head_step) {
  batch_step = t.shape[0] > 1 && stride(t, 0) != 0;
  head_step = t.shape[1] > 1 && stride(t, 1) != 0;
  return describe({address(t),
                   {batch_step ? t.shape[0] : 1, head_step ? t.shape[1] : 1, t.shape[2], t.shape[3]},
                   {stride(t, 0), stride(t, 1), stride(t, 2)},
                   bf16},
                  box_rows, map);
}

}  // namespace

bool examine(const attest_args& args, CallShape& shape, char* reason, size_t size) {
  const auto refuse = [&](const char* why) {
    std::snprintf(reason, size, "the Hopper path does not take %s", why);
    return false;
  };
  if (args.layout != 0) return refuse("this layout");
  if (args.mask) return refuse("a boolean mask");
  if (args.bias) return refuse("a bias");
  if (args.softcap != 0) return refuse("a softcap");
  if (args.sink) return refuse("a sink");
  if (args.trace) return refuse("a trace");
  if (args.tile_keys != 0 || args.tile_order != 0 || args.split_count > 1)
    return refuse("a chosen tile, order or split");
  const DLTensor &q = *args.q, &k = *args.k, &v = *args.v, &o = *args.o;
  const bool f16 = is(q, kDLFloat, 16), bf16 = is(q, kDLBfloat, 16);
  if (!f16 && !bf16) return refuse("this input type");
  if (args.p_type != 0 && args.p_type != (bf16 ? ATTEST_BF16 : ATTEST_F16)) return refuse("this type of P");
  shape = {q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3], bf16, false};
  for (const int64_t extent :
       {shape.batches, shape.query_heads, shape.key_heads, shape.queries, shape.keys, shape.width, shape.value_width})
    if (extent < 1) return refuse("empty tensors");
  if (shape.width > 256 || shape.value_width > 256 || shape.width % 8 || shape.value_width % 8)
    return refuse("head widths that are not multiples of 8 up to 256");
  if (shape.queries > kLargestExtent || shape.keys > kLargestExtent ||
      shape.batches * shape.query_heads > kLargestExtent / ((shape.queries + 127) / 128))
    return refuse("so many queries or keys");
  for (const DLTensor* t : {&q, &k, &v, &o})
    if (!aligned(*t)) return refuse("addresses or strides that are not multiples of 16 bytes");
  for (const DLTensor* t : {&q, &k, &v})
    for (int i = 0; i < 3; ++i) {
      if (i == 2 && t->shape[i] > 1 && stride(*t, i) == 0) return refuse("rows broadcast from one");
      if (t->shape[i] > 1 && stride(*t, i) >= int64_t{1} << 39) return refuse("strides of 2^40 bytes and more");
    }
  const float scale_log2e = static_cast<float>(std::fabs(static_cast<double>(args.scale)) * M_LOG2E);
  if (!(scale_log2e >= FLT_MIN && scale_log2e <= FLT_MAX)) return refuse("a scale that is zero, tiny or not finite");
  const Reach sides = reach(args, shape.queries, shape.keys);
  shape.bounded = sides.left != kUnlimited || sides.right != kUnlimited;
  return true;
}

uint64_t workspace_bytes(const CallShape& shape) {
  const uint64_t heads = shape.batches * shape.query_heads, strips = (shape.queries + kStripRows - 1) / kStripRows;
  const uint64_t states = heads * shape.queries + heads * strips + kMostWarps;
  return (states + kCounterBytes - 1) / kCounterBytes * kCounterBytes + kCounterBytes;
}

bool prepare(const attest_args& args, const CallShape& shape, const TileSizes& tile, Arguments& a, char* reason,
             size_t size) {
  a = {};
  a.q = operand(*args.q), a.k = operand(*args.k), a.v = operand(*args.v), a.o = operand(*args.o);
  if (!describe_operand(*args.q, shape.bf16, kWarpgroupRows, a.q_map, a.q_batch_step, a.q_head_step) ||
      !describe_operand(*args.k, shape.bf16, tile.key_rows, a.k_map, a.k_batch_step, a.k_head_step) ||
      !describe_operand(*args.v, shape.bf16, tile.key_rows, a.v_map, a.v_batch_step, a.v_head_step)) {
    std::snprintf(reason, size, "the driver cannot describe Q, K or V to the copy engine");
    return false;
  }
  if (args.lse) {
    a.lse = reinterpret_cast<float*>(address(*args.lse));
    a.lse_batch = stride(*args.lse, 0), a.lse_head = stride(*args.lse, 1), a.lse_row = stride(*args.lse, 2);
  }
  if (args.key_lengths) {
    a.key_lengths = reinterpret_cast<const int32_t*>(address(*args.key_lengths));
    a.key_lengths_stride = stride(*args.key_lengths, 0);
  }
  a.batches = static_cast<int>(shape.batches), a.query_heads = static_cast<int>(shape.query_heads);
  a.heads_per_key_head = static_cast<int>(shape.query_heads / shape.key_heads);
  a.queries = static_cast<int>(shape.queries), a.keys = static_cast<int>(shape.keys);
  a.width = static_cast<int>(shape.width), a.value_width = static_cast<int>(shape.value_width);
  a.scale = std::fabs(args.scale), a.negative_scale = args.scale < 0;
  a.scale_log2e = static_cast<float>(static_cast<double>(a.scale) * M_LOG2E);
  const Reach sides = reach(args, shape.queries, shape.keys);
  a.window_left = sides.left, a.window_right = sides.right;

  const int64_t heads = shape.batches * shape.query_heads;
  a.strips = (a.queries + kStripRows - 1) / kStripRows;
  a.row_state = static_cast<uint8_t*>(args.workspace);
  a.strip_state = a.row_state + heads * a.queries;
  a.warp_state = a.strip_state + heads * a.strips;
  if (shape.bounded || args.key_lengths)
    a.next_place = reinterpret_cast<int*>(a.row_state + workspace_bytes(shape) - kCounterBytes);
  a.blocks = (a.queries + tile.query_rows - 1) / tile.query_rows;
  const int64_t key_head_bytes = shape.keys * (shape.width + shape.value_width) * 2;
  a.section_heads = static_cast<int>(
      std::min<int64_t>(std::max<int64_t>(1, kL2BytesForKeys / key_head_bytes) * a.heads_per_key_head, heads));
  return true;
}

}  // namespace attest::hopper
