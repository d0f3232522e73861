#include "kernel/runner/call.h"

#include <new>

namespace attest {

namespace {

constexpr uint64_t kAlign = 256;  // of every region's begin

CallTensor tensor(const Layout& layout, DLDataType type, int ndim = 4) {
  CallTensor t;
  t.present = 1;
  t.ndim = ndim;
  t.type = type;
  t.byte_offset = static_cast<uint64_t>(layout.offset) * (type.bits / 8);
  for (int n = 0; n < ndim; ++n) {
    t.shape[n] = layout.extent[static_cast<size_t>(n)];
    t.strides[n] = layout.stride[static_cast<size_t>(n)];
  }
  return t;
}

CallTensor vector(int64_t n, DLDataType type) {
  Layout l;
  l.extent = {n, 1, 1, 1};
  l.stride = {1, 1, 1, 1};
  return tensor(l, type, 1);
}

}  // namespace

int32_t abi_type(DType t) { return t == DType::f32 ? ATTEST_F32 : t == DType::f16 ? ATTEST_F16 : ATTEST_BF16; }

DLDataType dl_type(DType t) {
  return {static_cast<uint8_t>(t == DType::bf16 ? kDLBfloat : kDLFloat), static_cast<uint8_t>(t == DType::f32 ? 32 : 16), 1};
}

Region Plan::add(uint64_t bytes) {
  const Region r{(size + kAlign - 1) / kAlign * kAlign, bytes};
  size = r.begin + bytes + kGuard;
  regions[count++] = r;
  return r;
}

PlannedCall describe(const Problem& p, bool want_lse, bool want_trace) {
  const DLDataType type = dl_type(p.type), f32 = dl_type(DType::f32);
  PlannedCall c;
  c.q = tensor(p.q.layout, type);
  c.k = tensor(p.k.layout, type);
  c.v = tensor(p.v.layout, type);
  c.o = tensor(p.o, type);
  if (want_lse) c.lse = tensor(p.lse, f32, 3);
  if (p.key_lengths) c.lengths = vector(p.shape.b, {kDLInt, 32, 1});
  if (p.mask) c.mask = tensor(p.mask->layout, {kDLUInt, 8, 1});
  if (p.bias) c.bias = tensor(p.bias->layout, dl_type(p.bias->type));
  if (p.sink) c.sink = vector(p.shape.hq, f32);
  c.scale = p.scale;
  c.softcap = p.softcap;
  c.causal = p.causal ? 1 : 0;
  c.window_left = p.window.left.value_or(-1);
  c.window_right = p.window.right.value_or(-1);
  c.tile_keys = p.choice.tile_keys;
  c.order = p.choice.order == TileOrder::any ? ATTEST_ORDER_ANY : p.choice.order == TileOrder::ascending ? ATTEST_ORDER_ASCENDING : ATTEST_ORDER_DESCENDING;
  c.splits = p.choice.splits;
  c.p_type = p.choice.p_type ? abi_type(*p.choice.p_type) : ATTEST_NO_TYPE;
  c.want_trace = want_trace ? 1 : 0;
  return c;
}

void place_tensors(PlannedCall& c, const Problem& p, const Needs& needs) {
  const auto bytes_of = [](const Layout& l, int64_t element) { return static_cast<uint64_t>(l.span() * element); };
  // A kernel that asks for more than any machine has is out of memory, not an overflow of ours.
  constexpr uint64_t kMost = uint64_t{1} << 46;
  if (needs.workspace > kMost || needs.records > kMost / sizeof(attest_trace_record)) throw std::bad_alloc();
  c.plan = {};
  c.q.region = c.plan.add(p.q.storage.size());
  c.k.region = c.plan.add(p.k.storage.size());
  c.v.region = c.plan.add(p.v.storage.size());
  c.o.region = c.plan.add(bytes_of(p.o, size_of(p.type)));
  if (c.lse.present != 0) c.lse.region = c.plan.add(bytes_of(p.lse, 4));
  if (p.key_lengths) c.lengths.region = c.plan.add(4 * p.key_lengths->size());
  if (p.mask) c.mask.region = c.plan.add(p.mask->storage.size());
  if (p.bias) c.bias.region = c.plan.add(p.bias->storage.size());
  if (p.sink) c.sink.region = c.plan.add(4 * p.sink->size());
  c.workspace = c.plan.add(needs.workspace);
  if (c.want_trace != 0) {
    c.record_capacity = needs.records;
    c.records = c.plan.add(needs.records * sizeof(attest_trace_record));
    c.record_count = c.plan.add(8);
  }
}

uint64_t second_image(const PlannedCall& first) { return (first.plan.size + kAlign - 1) / kAlign * kAlign; }

PlannedMerge describe_merge(int64_t rows, int64_t width) {
  Layout matrix;
  matrix.extent = {rows, width, 1, 1};
  matrix.stride = {width, 1, 1, 1};
  PlannedMerge m;
  for (int n = 0; n < 3; ++n) {
    m.o[n] = tensor(matrix, dl_type(DType::f32), 2);
    m.lse[n] = vector(rows, dl_type(DType::f32));
    m.o[n].region = m.plan.add(static_cast<uint64_t>(rows * width * 4));
    m.lse[n].region = m.plan.add(static_cast<uint64_t>(rows * 4));
  }
  return m;
}

const DLTensor* Arguments::make(Tensor& to, const CallTensor& from, uint8_t* base, int32_t device) {
  if (from.present == 0) return nullptr;
  for (int n = 0; n < from.ndim; ++n) {
    to.shape[n] = from.shape[n];
    to.strides[n] = from.strides[n];
  }
  to.t.data = base != nullptr ? base + from.region.begin : nullptr;
  to.t.device = {static_cast<DLDeviceType>(device), 0};
  to.t.ndim = from.ndim;
  to.t.dtype = from.type;
  to.t.shape = to.shape;
  to.t.strides = to.strides;
  to.t.byte_offset = from.byte_offset;
  return &to.t;
}

Arguments::Arguments(const PlannedCall& c, uint8_t* base, int32_t device) {
  args_.struct_size = sizeof(attest_args);
  args_.q = make(q_, c.q, base, device);
  args_.k = make(k_, c.k, base, device);
  args_.v = make(v_, c.v, base, device);
  args_.o = make(o_, c.o, base, device);
  args_.lse = make(lse_, c.lse, base, device);
  args_.key_lengths = make(lengths_, c.lengths, base, device);
  args_.mask = make(mask_, c.mask, base, device);
  args_.bias = make(bias_, c.bias, base, device);
  args_.sink = make(sink_, c.sink, base, device);
  args_.scale = c.scale;
  args_.softcap = c.softcap;
  args_.causal = c.causal;
  args_.window_left = c.window_left;
  args_.window_right = c.window_right;
  args_.tile_keys = c.tile_keys;
  args_.tile_order = c.order;
  args_.split_count = c.splits;
  args_.p_type = c.p_type;
  if (base == nullptr) return;
  args_.workspace = c.workspace.bytes > 0 ? base + c.workspace.begin : nullptr;
  args_.workspace_bytes = c.workspace.bytes;
  if (c.want_trace != 0) {
    trace_ = {reinterpret_cast<attest_trace_record*>(base + c.records.begin), c.record_capacity, reinterpret_cast<uint64_t*>(base + c.record_count.begin)};
    args_.trace = &trace_;
  }
}

MergeArguments::MergeArguments(const PlannedMerge& c, uint8_t* base, int32_t device) {
  for (int n = 0; n < 3; ++n) {
    states_[n].o = Arguments::make(o_[n], c.o[n], base, device);
    states_[n].lse = Arguments::make(lse_[n], c.lse[n], base, device);
  }
}

}  // namespace attest
