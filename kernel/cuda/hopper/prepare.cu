#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>

#include "kernel/cuda/hopper/forward.h"
#include "kernel/cuda/hopper/launch.h"
#include "kernel/cuda/hopper/tensor_map.h"
#include "kernel/cuda/hopper/visible_keys.cuh"

namespace attest::hopper {
namespace {

constexpr int64_t kL2BytesForKeys = 32 << 20;  // of K and V that a section of heads may fill
constexpr int64_t kSplitKeys = 1024;           // keys of a split, about
// forward.h says why.
constexpr double kLeastScale = 0x1p-100, kLargestScale = 0x1p100;

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

// Whether rows start at multiples of 16 bytes and are whole multiples of it (2-byte elements), and the copy engine
// can step over the other dimensions.
bool suits_copy_engine(const DLTensor& t) {
  if (reinterpret_cast<uintptr_t>(address(t)) % 16 || t.shape[3] % 8) return false;
  for (int i = 0; i < 3; ++i)
    if (t.shape[i] > 1 && (stride(t, i) % 8 || stride(t, i) >= int64_t{1} << 39)) return false;
  return t.shape[2] == 1 || stride(t, 2) != 0;  // rows broadcast from one are not
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

int64_t ceiling(int64_t x, int64_t unit) { return (x + unit - 1) / unit; }

// What a call is cut into.
struct Parts {
  int64_t tiles, blocks, split_tiles, splits;

  Parts(const CallShape& shape, const TileSizes& tile)
      : tiles(ceiling(shape.keys, tile.key_rows)),
        blocks(ceiling(shape.queries, tile.query_rows)),
        split_tiles(tile.query_rows == kWarpgroupRows ? ceiling(kSplitKeys, tile.key_rows) : tiles),
        splits(ceiling(tiles, split_tiles)) {}
};

// The workspace, piece by piece, each 16-byte aligned.
class Workspace {
 public:
  Workspace(const CallShape& shape, const TileSizes& tile, void* base) : next_(static_cast<char*>(base)), base_(next_) {
    const Parts parts(shape, tile);
    const int64_t heads = shape.batches * shape.query_heads, states = heads * parts.splits * shape.queries;
    value_columns = static_cast<int>(ceiling(shape.value_width, 8) * 8);
    take(next_place, 1);
    take(row_state, states);
    take(previous_place, heads * parts.splits * parts.blocks);
    if (parts.splits > 1) take(partial, states), take(partial_o, states * value_columns);
  }
  uint64_t bytes() const { return next_ - base_; }

  int* next_place;
  uint8_t* row_state;
  int* previous_place;
  PartialState* partial = nullptr;
  float* partial_o = nullptr;
  int value_columns;

 private:
  template <class E>
  void take(E*& elements, int64_t count) {
    elements = reinterpret_cast<E*>(next_);
    next_ += ceiling(count * static_cast<int64_t>(sizeof(E)), 16) * 16;
  }
  char *next_, *base_;
};

}  // namespace

const char* unsupported_feature(const attest_args& args) {
  if (args.layout != 0) return "the Hopper path does not take this layout";
  if (args.mask) return "the Hopper path does not take a boolean mask";
  if (args.bias) return "the Hopper path does not take a bias";
  if (args.softcap != 0) return "the Hopper path does not take a softcap";
  if (args.sink) return "the Hopper path does not take a sink";
  if (args.tile_keys != 0 || args.tile_order != 0 || args.split_count != 0)
    return "the Hopper path does not take a chosen tile, order or split";
  const bool f16 = is(*args.q, kDLFloat, 16), bf16 = is(*args.q, kDLBfloat, 16);
  if (!f16 && !bf16) return "the Hopper path takes f16 and bf16 alone";
  if (args.p_type != 0 && args.p_type != (bf16 ? ATTEST_BF16 : ATTEST_F16))
    return "the Hopper path rounds P to the input type";
  const int64_t queries = args.q->shape[2], keys = args.k->shape[2];
  if (args.q->shape[3] > 256 || args.v->shape[3] > 256) return "the Hopper path takes head widths up to 256";
  // Places are counted in 32 bits, whatever the tile.
  const int64_t parts = ceiling(queries, 64) * (queries <= 64 ? ceiling(keys, kSplitKeys) : 1);
  if (queries > kLargestExtent || keys > kLargestExtent ||
      args.q->shape[0] * args.q->shape[1] > kLargestExtent / std::max<int64_t>(parts, 1))
    return "the Hopper path does not take so many queries or keys";
  return nullptr;
}

bool degenerate(const attest_args& args) {
  for (const DLTensor* t : {args.q, args.k, args.v})
    for (int i = 0; i < 4; ++i)
      if (t->shape[i] < 1) return true;
  const double scale = std::fabs(static_cast<double>(args.scale));
  return !(scale >= kLeastScale && scale <= kLargestScale);
}

CallShape shape_of(const attest_args& args) {
  const DLTensor &q = *args.q, &k = *args.k, &v = *args.v;
  CallShape shape{q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3],
                  is(q, kDLBfloat, 16), false};
  const Reach sides = reach(args, shape.queries, shape.keys);
  shape.bounded = sides.left != kUnlimited || sides.right != kUnlimited;
  return shape;
}

uint64_t workspace_bytes(const CallShape& shape, const TileSizes& tile) {
  return Workspace(shape, tile, nullptr).bytes();
}

uint64_t trace_records(const CallShape& shape, const TileSizes& tile) {
  return shape.batches * shape.query_heads * shape.queries * Parts(shape, tile).tiles;
}

bool prepare(const attest_args& args, const CallShape& shape, const TileSizes& tile, Arguments& a, char* reason,
             size_t size) {
  const Workspace workspace(shape, tile, args.workspace);
  if (!args.workspace || args.workspace_bytes < workspace.bytes()) {
    std::snprintf(reason, size, "the Hopper path needs %llu bytes of workspace, got %llu",
                  static_cast<unsigned long long>(workspace.bytes()),
                  static_cast<unsigned long long>(args.workspace_bytes));
    return false;
  }
  a = {};
  a.q = operand(*args.q), a.k = operand(*args.k), a.v = operand(*args.v), a.o = operand(*args.o);
  a.copy_engine = suits_copy_engine(*args.q) && suits_copy_engine(*args.k) && suits_copy_engine(*args.v) &&
                  suits_copy_engine(*args.o) &&
                  describe_operand(*args.q, shape.bf16, kWarpgroupRows, a.q_map, a.q_batch_step, a.q_head_step) &&
                  describe_operand(*args.k, shape.bf16, tile.key_rows, a.k_map, a.k_batch_step, a.k_head_step) &&
                  describe_operand(*args.v, shape.bf16, tile.key_rows, a.v_map, a.v_batch_step, a.v_head_step);
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
  if (args.trace) {
    a.trace_records = args.trace->records, a.trace_capacity = args.trace->capacity;
    a.trace_count = reinterpret_cast<unsigned long long*>(args.trace->count);
  }

  const Parts parts(shape, tile);
  a.blocks = static_cast<int>(parts.blocks), a.splits = static_cast<int>(parts.splits);
  a.split_tiles = static_cast<int>(parts.split_tiles);
  a.row_state = workspace.row_state, a.previous_place = workspace.previous_place;
  a.partial = workspace.partial, a.partial_o = workspace.partial_o, a.value_columns = workspace.value_columns;
  // Pieces of different lengths; and splits, which wait for memory, some multiprocessors longer than others.
  if (a.copy_engine && (shape.bounded || args.key_lengths || parts.splits > 1)) a.next_place = workspace.next_place;
  const int64_t heads = shape.batches * shape.query_heads;
  const int64_t key_head_bytes = shape.keys * (shape.width + shape.value_width) * 2;
  a.section_heads = static_cast<int>(
      std::min<int64_t>(std::max<int64_t>(1, kL2BytesForKeys / key_head_bytes) * a.heads_per_key_head, heads));
  return true;
}

}  // namespace attest::hopper
