// cudnn.cpp: cuDNN's fused attention as a plug-in, through cuDNN's own graph interface and nothing in between.
//
// A call is described as a graph of operations, S = Q K^T, scale, softcap, bias, masks, softmax, O = P V, which cuDNN's
// runtime fusion engines recognise and run as one kernel. A graph and its plan depend on everything but the contents and
// addresses, so plans are kept, the latest kKeptPlans of them.
// Source of the operations' order: the documentation of cuDNN's graph interface, "Fused Attention fprop".
// What cuDNN has no plan for is refused with cuDNN's own words.
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "attest_kernel.h"

namespace {

constexpr size_t kKeptPlans = 512;
constexpr int64_t kAlignment = 16;  // bytes, of every tensor
constexpr int64_t kLongestHead = 256;

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char words[200] = "";
  cudnnGetLastErrorString(words, sizeof words);
  throw Refused(std::string("cuDNN, ") + what + ": " + cudnnGetErrorString(status) + (words[0] != 0 ? std::string(", ") + words : ""));
}

// Owns one backend descriptor.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) { check(cudnnBackendCreateDescriptor(type, &at_), "a descriptor"); }
  ~Descriptor() { cudnnBackendDestroyDescriptor(at_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values) {
    check(cudnnBackendSetAttribute(at_, name, type, count, values), "an attribute");
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) { set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.at_); }
  void finalize(const char* what) { check(cudnnBackendFinalize(at_), what); }
  cudnnBackendDescriptor_t get() const { return at_; }

 private:
  cudnnBackendDescriptor_t at_ = nullptr;
};

using Extents = std::array<int64_t, 4>;

// A tensor of the graph: its descriptor and what makes others like it.
struct Node {
  const Descriptor* descriptor = nullptr;
  Extents extent{}, stride{};
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
};

Extents packed(const Extents& e) { return {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1}; }

// Numbers of the tensors whose addresses are given when a plan runs. Virtual tensors come after them.
enum Uid : int64_t { kQ = 1, kK, kV, kO, kStats, kBias, kLengthsQ, kLengthsK, kSink, kScale, kSoftcap, kMinusInfinity, kFirstVirtual = 100 };

// Builds a graph, operation by operation; keeps every descriptor alive.
class Graph {
 public:
  Node tensor(int64_t uid, cudnnDataType_t type, const Extents& extent, const Extents& stride, bool is_virtual, bool by_value = false) {
    Descriptor& d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, uid);
    d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, extent.data());
    d.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride.data());
    d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, by_value || uid == kLengthsQ || uid == kLengthsK || uid == kSink ? int64_t{4} : kAlignment);
    d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
    d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
    d.finalize("a tensor");
    return {&d, extent, stride, type};
  }
  Node scalar(int64_t uid) { return tensor(uid, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true); }
  Node between(const Extents& extent, cudnnDataType_t type) { return tensor(next_++, type, extent, packed(extent), true); }

  // y = a mode b, or with `select` y = select ? a : b.
  Node pointwise(cudnnPointwiseMode_t mode, const Node& a, const Node* b, const Node* select, const Node& y, cudnnDataType_t compute, int64_t axis = -1) {
    Descriptor& how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute);
    if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
    how.finalize("a pointwise operation");
    Descriptor& op = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *a.descriptor);
    if (b != nullptr) op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b->descriptor);
    if (select != nullptr) op.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *select->descriptor);
    op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y.descriptor);
    op.finalize("a pointwise operation");
    return y;
  }
  // Extents of 1 are repeated.
  Node pointwise(cudnnPointwiseMode_t mode, const Node& a, const Node& b, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    Extents extent = a.extent;
    for (size_t n = 0; n < extent.size(); ++n) extent[n] = std::max(extent[n], b.extent[n]);
    return pointwise(mode, a, &b, nullptr, between(extent, type), type);
  }
  Node pointwise(cudnnPointwiseMode_t mode, const Node& a) { return pointwise(mode, a, nullptr, nullptr, between(a.extent, CUDNN_DATA_FLOAT), CUDNN_DATA_FLOAT); }
  // The index of every element along an axis.
  Node index(const Node& like, int64_t axis) {
    return pointwise(CUDNN_POINTWISE_GEN_INDEX, like, nullptr, nullptr, between(like.extent, CUDNN_DATA_INT32), CUDNN_DATA_INT32, axis);
  }
  Node select(const Node& where, const Node& a, const Node& otherwise) {
    return pointwise(CUDNN_POINTWISE_BINARY_SELECT, a, &otherwise, &where, between(a.extent, CUDNN_DATA_FLOAT), CUDNN_DATA_FLOAT);
  }
  Node reduce(cudnnReduceTensorOp_t what, const Node& x) {
    Node y = between({x.extent[0], x.extent[1], x.extent[2], 1}, CUDNN_DATA_FLOAT);
    Descriptor& how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, what);
    how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    how.finalize("a reduction");
    Descriptor& op = operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    op.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x.descriptor);
    op.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y.descriptor);
    op.finalize("a reduction");
    return y;
  }
  struct Override {
    cudnnBackendAttributeName_t name;
    const Node* value;
  };
  Node matmul(const Node& a, const Node& b, const Node& c, bool padded, const std::vector<Override>& overrides) {
    Descriptor& how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    if (padded) how.set(CUDNN_ATTR_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 0.0);
    how.finalize("a product");
    Descriptor& op = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    op.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a.descriptor);
    op.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b.descriptor);
    op.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c.descriptor);
    for (const Override& o : overrides) op.set(o.name, *o.value->descriptor);
    op.finalize("a product");
    return c;
  }
  std::vector<cudnnBackendDescriptor_t> operations() const {
    std::vector<cudnnBackendDescriptor_t> all;
    for (const Descriptor* op : operations_) all.push_back(op->get());
    return all;
  }

 private:
  Descriptor& make(cudnnBackendDescriptorType_t type) { return *made_.emplace_back(std::make_unique<Descriptor>(type)); }
  Descriptor& operation(cudnnBackendDescriptorType_t type) {
    Descriptor& op = make(type);
    operations_.push_back(&op);
    return op;
  }
  std::vector<std::unique_ptr<Descriptor>> made_;
  std::vector<const Descriptor*> operations_;
  int64_t next_ = kFirstVirtual;
};

// What of a tensor a plan depends on.
struct Layout {
  Extents extent{}, stride{};
};

// What of a call a plan depends on, as plain words: no padding, compared as bytes.
struct Key {
  Layout q, k, v, o, lse, bias;
  int64_t type = 0, causal = 0, softcap = 0, has_lse = 0, has_bias = 0, bias_type = 0, has_lengths = 0, has_sink = 0;
  bool operator<(const Key& other) const { return std::memcmp(this, &other, sizeof *this) < 0; }
};

Layout layout_of(const DLTensor& t) {
  Layout l;
  int64_t expected = 1;
  for (int n = 3; n >= 0; --n) {
    const bool there = n < t.ndim;
    l.extent[static_cast<size_t>(n)] = there ? t.shape[n] : 1;
    l.stride[static_cast<size_t>(n)] = !there ? 1 : t.strides != nullptr ? t.strides[n] : expected;
    if (there) expected *= t.shape[n];
  }
  return l;
}

cudnnDataType_t type_of(const DLTensor& t) {
  if (t.dtype.code == kDLBfloat) return CUDNN_DATA_BFLOAT16;
  return t.dtype.bits == 16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

Key key_of(const attest_args& a) {
  Key key;
  std::memset(static_cast<void*>(&key), 0, sizeof key);
  key.q = layout_of(*a.q);
  key.k = layout_of(*a.k);
  key.v = layout_of(*a.v);
  key.o = layout_of(*a.o);
  key.type = type_of(*a.q);
  key.causal = a.causal;
  key.softcap = a.softcap > 0 ? 1 : 0;
  if (a.lse != nullptr) {
    key.has_lse = 1;
    key.lse = layout_of(*a.lse);
  }
  if (a.bias != nullptr) {
    key.has_bias = 1;
    key.bias = layout_of(*a.bias);
    key.bias_type = type_of(*a.bias);
  }
  key.has_lengths = a.key_lengths != nullptr ? 1 : 0;
  key.has_sink = a.sink != nullptr ? 1 : 0;
  return key;
}

// O = softmax(mask(softcap(scale Q K^T) + bias)) V, with LSE where it is wanted.
void describe(Graph& g, const Key& key) {
  const auto type = static_cast<cudnnDataType_t>(key.type);
  const auto given = [&](int64_t uid, const Layout& l, cudnnDataType_t t) { return g.tensor(uid, t, l.extent, l.stride, false); };
  const Node q = given(kQ, key.q, type), v = given(kV, key.v, type), o = given(kO, key.o, type);
  Layout transposed = key.k;
  std::swap(transposed.extent[2], transposed.extent[3]);
  std::swap(transposed.stride[2], transposed.stride[3]);
  const Node k = given(kK, transposed, type);
  const int64_t batches = key.q.extent[0], heads = key.q.extent[1], rows = key.q.extent[2], keys = key.k.extent[2];
  const Extents score_extent{batches, heads, rows, keys};

  Node length_q, length_k;
  std::vector<Graph::Override> first, second;
  if (key.has_lengths != 0) {
    length_q = g.tensor(kLengthsQ, CUDNN_DATA_INT32, {batches, 1, 1, 1}, {1, 1, 1, 1}, false);
    length_k = g.tensor(kLengthsK, CUDNN_DATA_INT32, {batches, 1, 1, 1}, {1, 1, 1, 1}, false);
    first = {{CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, &length_q}, {CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, &length_k}};
    second = {{CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, &length_q}, {CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, &length_k}};
  }

  Node s = g.matmul(q, k, g.between(score_extent, CUDNN_DATA_FLOAT), key.has_lengths != 0, first);
  s = g.pointwise(CUDNN_POINTWISE_MUL, s, g.scalar(kScale));
  if (key.softcap != 0) {
    const Node cap = g.scalar(kSoftcap);
    s = g.pointwise(CUDNN_POINTWISE_MUL, g.pointwise(CUDNN_POINTWISE_TANH_FWD, g.pointwise(CUDNN_POINTWISE_DIV, s, cap)), cap);
  }
  if (key.has_bias != 0) s = g.pointwise(CUDNN_POINTWISE_ADD, s, given(kBias, key.bias, static_cast<cudnnDataType_t>(key.bias_type)));
  if (key.has_lengths != 0 || key.causal != 0) {
    const Node nothing = g.scalar(kMinusInfinity);
    if (key.has_lengths != 0) {
      const Node row = g.index(s, 2), column = g.index(s, 3);
      const Node in_rows = g.pointwise(CUDNN_POINTWISE_CMP_LT, row, length_q, CUDNN_DATA_BOOLEAN);
      const Node in_keys = g.pointwise(CUDNN_POINTWISE_CMP_LT, column, length_k, CUDNN_DATA_BOOLEAN);
      s = g.select(g.pointwise(CUDNN_POINTWISE_LOGICAL_AND, in_rows, in_keys, CUDNN_DATA_BOOLEAN), s, nothing);
    }
    if (key.causal != 0) {  // from the top left
      const Node row = g.index(s, 2), column = g.index(s, 3);
      s = g.select(g.pointwise(CUDNN_POINTWISE_CMP_GE, row, column, CUDNN_DATA_BOOLEAN), s, nothing);
    }
  }

  Node m = g.reduce(CUDNN_REDUCE_TENSOR_MAX, s), sink;
  if (key.has_sink != 0) {
    sink = g.tensor(kSink, CUDNN_DATA_FLOAT, {1, heads, 1, 1}, {heads, 1, 1, 1}, false);
    m = g.pointwise(CUDNN_POINTWISE_MAX, m, sink);
  }
  const Node p = g.pointwise(CUDNN_POINTWISE_EXP, g.pointwise(CUDNN_POINTWISE_SUB, s, m));
  Node sum;
  if (key.has_sink != 0) {
    const Node rest = g.pointwise(CUDNN_POINTWISE_EXP, g.pointwise(CUDNN_POINTWISE_SUB, sink, m));
    sum = g.pointwise(CUDNN_POINTWISE_ADD, g.reduce(CUDNN_REDUCE_TENSOR_ADD, p), rest);
  } else {
    sum = g.reduce(CUDNN_REDUCE_TENSOR_ADD, p);
  }
  // cuDNN knows the softmax by its statistics, wanted or not.
  const Extents stats_extent{batches, heads, rows, 1};
  const Node stats = key.has_lse != 0 ? g.tensor(kStats, CUDNN_DATA_FLOAT, stats_extent, {key.lse.stride[0], key.lse.stride[1], key.lse.stride[2], 1}, false)
                                      : g.between(stats_extent, CUDNN_DATA_FLOAT);
  const Node log = g.pointwise(CUDNN_POINTWISE_LOG, sum);
  g.pointwise(CUDNN_POINTWISE_ADD, m, &log, nullptr, stats, CUDNN_DATA_FLOAT);
  const Node weights = g.pointwise(CUDNN_POINTWISE_DIV, p, &sum, nullptr, g.between(score_extent, type), CUDNN_DATA_FLOAT);
  g.matmul(weights, v, o, false, second);
}

// A graph with the plan that runs it.
class Plan {
 public:
  Plan(cudnnHandle_t handle, const Key& key) : rows_(static_cast<size_t>(key.q.extent[0]), static_cast<int32_t>(key.q.extent[2])) {
    describe(graph_, key);
    const std::vector<cudnnBackendDescriptor_t> operations = graph_.operations();
    whole_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
    whole_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(operations.size()), operations.data());
    whole_.finalize("the graph");
    choose(handle);
    int64_t returned = 0;
    check(cudnnBackendGetAttribute(plan_->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &returned, &workspace_), "the workspace");
  }
  int64_t workspace() const { return workspace_; }
  // Nq for every batch. Lives as long as the plan: a graph that captured the copy of it may run later.
  const std::vector<int32_t>& rows() const { return rows_; }
  void run(cudnnHandle_t handle, const std::vector<int64_t>& uids, const std::vector<void*>& addresses, void* workspace) const {
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, static_cast<int64_t>(uids.size()), uids.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(addresses.size()), addresses.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    pack.finalize("the addresses");
    check(cudnnBackendExecute(handle, plan_->get(), pack.get()), "the launch");
  }

 private:
  // The first of the heuristics' engine configurations that makes a plan.
  void choose(cudnnHandle_t handle) {
    Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole_);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    heuristics.finalize("no engine takes this graph");
    int64_t count = 0;
    check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr), "the engines");
    std::vector<std::unique_ptr<Descriptor>> configurations;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (int64_t n = 0; n < count; ++n) raw.push_back(configurations.emplace_back(std::make_unique<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR))->get());
    check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()), "the engines");
    std::string why = "cuDNN has no engine for this graph";
    for (int64_t n = 0; n < count; ++n) {
      try {
        auto plan = std::make_unique<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
        plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *configurations[static_cast<size_t>(n)]);
        plan->finalize("a plan");
        plan_ = std::move(plan);
        return;
      } catch (const Refused& e) {
        why = e.what();
      }
    }
    throw Refused(why);
  }

  std::vector<int32_t> rows_;
  Graph graph_;
  Descriptor whole_{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
  std::unique_ptr<Descriptor> plan_;
  int64_t workspace_ = 0;
};

// The handle and the plans of this process. Not for several threads at once.
class Library {
 public:
  Library() { check(cudnnCreate(&handle), "its handle"); }

  // Throws Refused, the same words every time.
  const Plan& plan(const Key& key) {
    const auto found = places_.find(key);
    if (found != places_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
    } else {
      Entry entry{key, nullptr, ""};
      try {
        entry.plan = std::make_unique<Plan>(handle, key);
      } catch (const Refused& e) {
        entry.why = e.what();
      }
      recent_.push_front(std::move(entry));
      places_[key] = recent_.begin();
      if (recent_.size() > kKeptPlans) {
        places_.erase(recent_.back().key);
        recent_.pop_back();
      }
    }
    const Entry& entry = recent_.front();
    if (entry.plan == nullptr) throw Refused(entry.why);
    return *entry.plan;
  }

  cudnnHandle_t handle = nullptr;

 private:
  struct Entry {
    Key key;
    std::unique_ptr<Plan> plan;
    std::string why;
  };
  std::list<Entry> recent_;  // the latest first
  std::map<Key, std::list<Entry>::iterator> places_;
};

std::mutex mutex;  // of the library: supports may be called while forward runs

Library& library() {
  static auto* only = new Library;  // never destroyed: the driver may be gone by then
  return *only;
}

void say(char* text, size_t size, const char* words) { std::snprintf(text, size, "%s", words); }

// What no plan needs to be built for; "" where a plan decides.
const char* refusal(const attest_args& a) {
  if (a.layout != 0) return "only the dense layout";
  if (a.mask != nullptr) return "no boolean mask";
  if (a.window_left >= 0 || a.window_right >= 0) return "no window";
  const int64_t *q = a.q->shape, *k = a.k->shape;
  for (const int64_t n : {q[0], q[1], q[2], k[2]})
    if (n == 0) return "no size of 0";
  if (q[3] % 8 != 0 || a.v->shape[3] % 8 != 0) return "D and Dv must be multiples of 8";
  if (q[3] > kLongestHead || a.v->shape[3] > kLongestHead) return "D and Dv must be at most 256";
  return "";
}

int32_t supports(const attest_args* a, char* reason, size_t size) {
  if (const char* why = refusal(*a); why[0] != 0) {
    say(reason, size, why);
    return 0;
  }
  try {
    const std::lock_guard lock(mutex);
    library().plan(key_of(*a));
    return 1;
  } catch (const std::exception& e) {
    say(reason, size, e.what());
    return 0;
  }
}

// The plan's own workspace, then Nq for every batch where key lengths are given: cuDNN wants both.
size_t plan_bytes(const Plan& plan) { return (static_cast<size_t>(plan.workspace()) + 255) / 256 * 256; }

uint64_t workspace_bytes(const attest_args* a) {
  try {
    const std::lock_guard lock(mutex);
    return plan_bytes(library().plan(key_of(*a))) + (a->key_lengths != nullptr ? 4 * static_cast<size_t>(a->q->shape[0]) : 0);
  } catch (const std::exception&) {
    return 0;  // forward says why
  }
}

void* address(const DLTensor& t) { return static_cast<char*>(t.data) + t.byte_offset; }

attest_status forward(const attest_args* a, void* stream, char* message, size_t size) {
  try {
    const std::lock_guard lock(mutex);
    const Plan& plan = library().plan(key_of(*a));
    check(cudnnSetStream(library().handle, static_cast<cudaStream_t>(stream)), "the stream");
    float scale = a->scale, softcap = a->softcap, minus_infinity = -std::numeric_limits<float>::infinity();
    std::vector<int64_t> uids{kQ, kK, kV, kO, kScale};
    std::vector<void*> addresses{address(*a->q), address(*a->k), address(*a->v), address(*a->o), &scale};
    const auto give = [&](int64_t uid, void* at) {
      uids.push_back(uid);
      addresses.push_back(at);
    };
    if (a->lse != nullptr) give(kStats, address(*a->lse));
    if (a->bias != nullptr) give(kBias, address(*a->bias));
    if (a->sink != nullptr) give(kSink, address(*a->sink));
    if (a->softcap > 0) give(kSoftcap, &softcap);
    if (a->causal != 0 || a->key_lengths != nullptr) give(kMinusInfinity, &minus_infinity);
    if (a->key_lengths != nullptr) {
      char* at = static_cast<char*>(a->workspace) + plan_bytes(plan);
      const cudaError_t copied = cudaMemcpyAsync(at, plan.rows().data(), 4 * plan.rows().size(), cudaMemcpyHostToDevice, static_cast<cudaStream_t>(stream));
      if (copied != cudaSuccess) {
        say(message, size, cudaGetErrorString(copied));
        return ATTEST_FAILED;
      }
      give(kLengthsQ, at);
      give(kLengthsK, address(*a->key_lengths));
    }
    plan.run(library().handle, uids, addresses, a->workspace);
    return ATTEST_OK;
  } catch (const std::exception& e) {
    say(message, size, e.what());
    return ATTEST_FAILED;
  }
}

constexpr int32_t kTypes[] = {ATTEST_F16, ATTEST_BF16};
constexpr int32_t kHeadWidths[] = {8, 16, 24, 32, 40, 64, 72, 96, 128, 136, 192, 256};

std::string version() {
  const size_t v = cudnnGetVersion();
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

attest_kernel make_table() {
  static const std::string number = version();
  attest_kernel t{};
  t.abi_version = ATTEST_ABI_VERSION;
  t.struct_size = sizeof(attest_kernel);
  t.name = "cudnn";
  t.version = number.c_str();
  t.device = kDLCUDA;
  t.features = ATTEST_CAUSAL | ATTEST_KEY_LENGTHS | ATTEST_BIAS_INPUT_TYPE | ATTEST_SOFTCAP | ATTEST_SINK | ATTEST_GROUPED_HEADS | ATTEST_LSE | ATTEST_STRIDES;
  t.types = kTypes;
  t.type_count = 2;
  t.head_widths = kHeadWidths;
  t.head_width_count = static_cast<uint32_t>(std::size(kHeadWidths));
  t.head_width_max = static_cast<int32_t>(kLongestHead);
  t.conventions.causal_top_left = 1;
  t.conventions.nonfinite_v_leaks = 1;  // a weight of 0 is multiplied with V all the same
  t.numerics.l_from = 1;
  t.supports = supports;
  t.workspace_bytes = workspace_bytes;
  t.forward = forward;
  return t;
}

}  // namespace

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  static const attest_kernel table = make_table();
  return index == 0 ? &table : nullptr;
}
