// fault.h: how a mutant is made from the host kernel.
//
// A fault is a struct derived from Fault that hides what it gets wrong: a step of the kernel (host::HostSteps,
// kernel/recurrence.h), or `change`, which sees the call before the kernel does and may alter scalars, descriptors and
// contents; tensors that it makes itself live as long as the call. A fault that is more than one call of the kernel
// has a `forward` of its own. Everything else is the production kernel.
// Example:
//     struct OneOverD : Fault {
//       static void change(FaultyCall& call) { call.args.scale = 1.0f / call.q.shape[3]; }
//     };
//     const Mutant row = mutant<OneOverD>("scale_one_over_d", "The scale is 1/d instead of 1/sqrt(d).", "G06");
#pragma once

#include <cmath>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "kernel/host/host_kernel.h"
#include "properties/mutants/mutants.h"

namespace attest::mutants {

// A DLTensor with a shape and strides of its own.
struct Descriptor : DLTensor {
  int64_t own_shape[4] = {}, own_strides[4] = {};

  Descriptor() : DLTensor{} {}
  Descriptor(const Descriptor&) = delete;
  void describe(const DLTensor& from) {
    static_cast<DLTensor&>(*this) = from;
    int64_t packed = 1;
    for (int n = ndim - 1; n >= 0; --n) {
      own_shape[n] = from.shape[n];
      own_strides[n] = from.strides != nullptr ? from.strides[n] : packed;
      packed *= from.shape[n];
    }
    shape = own_shape;
    strides = own_strides;
  }
  // Leaves `count` indices of dimension n, from `first` on.
  void slice(int n, int64_t first, int64_t count) {
    byte_offset += static_cast<uint64_t>(first * own_strides[n] * (dtype.bits / 8));
    own_shape[n] = count;
  }
  // The same for an operand whose extent of 1 serves every index.
  void slice_broadcast(int n, int64_t first, int64_t count) {
    if (own_shape[n] != 1) slice(n, first, count);
  }
};

// A call that a fault may change without touching the caller's.
class FaultyCall {
 public:
  explicit FaultyCall(const attest_args& given) : args(given) {
    for (auto [own, pointer] : tensors()) {
      if (*pointer == nullptr) continue;
      own->describe(**pointer);
      *pointer = own;
    }
  }
  FaultyCall(const FaultyCall&) = delete;

  attest_args args;
  Descriptor q, k, v, o, lse, key_lengths, mask, bias, sink;  // those that the call has

  int64_t batches() const { return q.shape[0]; }
  int64_t heads() const { return q.shape[1]; }
  int64_t key_heads() const { return k.shape[1]; }
  int64_t rows() const { return q.shape[2]; }
  int64_t keys() const { return k.shape[2]; }
  int64_t tile() const { return args.tile_keys > 0 ? args.tile_keys : kDefaultTile; }
  int64_t splits() const { return args.split_count > 0 ? args.split_count : 1; }
  int64_t length(int64_t b) const { return args.key_lengths != nullptr ? element<int32_t>(key_lengths)[b] : keys(); }

  template <class T>
  static T* element(const DLTensor& t) {
    return reinterpret_cast<T*>(static_cast<uint8_t*>(t.data) + t.byte_offset);
  }

  // A packed tensor of zeros in place of `own`.
  void make(Descriptor& own, DLDataType type, int ndim, const int64_t* extent) {
    int64_t count = 1;
    for (int n = ndim - 1; n >= 0; --n) {
      own.own_shape[n] = extent[n];
      own.own_strides[n] = count;
      count *= extent[n];
    }
    own.data = memory_.emplace_back(static_cast<size_t>(count * (type.bits / 8) + 8)).data();
    own.byte_offset = 0;
    own.dtype = type;
    own.ndim = ndim;
    own.device = q.device;
    own.shape = own.own_shape;
    own.strides = own.own_strides;
  }

  // A packed copy of a tensor of rank 4, to be changed.
  View copy(Descriptor& own) {
    const View from = view_of(own);
    make(own, own.dtype, 4, std::vector<int64_t>(own.shape, own.shape + 4).data());
    const View to = view_of(own);
    for_each(to, [&](int64_t a, int64_t b, int64_t c, int64_t d) { copy_element(from, from.at(a, b, c, d), to, to.at(a, b, c, d)); });
    return to;
  }

  // A copy of a floating tensor, f(value) in place of each value.
  template <class F>
  void map(Descriptor& own, F f) {
    const View to = copy(own);
    for_each(to, [&](int64_t a, int64_t b, int64_t c, int64_t d) { to.store(to.at(a, b, c, d), f(static_cast<double>(to.value(to.at(a, b, c, d))))); });
  }

  // A bias of full size in f32: the one given or 0.
  View full_bias() {
    const View from = args.bias != nullptr ? view_of(bias, true) : View{};
    const int64_t extent[4] = {batches(), heads(), rows(), keys()};
    make(bias, {kDLFloat, 32, 1}, 4, extent);
    const View to = view_of(bias);
    if (args.bias != nullptr)
      for_each(to, [&](int64_t b, int64_t h, int64_t i, int64_t j) { to.store(to.at(b, h, i, j), static_cast<double>(from.value(from.at(b, h, i, j)))); });
    args.bias = &bias;
    return to;
  }
  // A boolean mask of full size: the one given or 1.
  View full_mask() {
    const View from = args.mask != nullptr ? view_of(mask, true) : View{};
    const int64_t extent[4] = {batches(), heads(), rows(), keys()};
    make(mask, {kDLUInt, 8, 1}, 4, extent);
    const View to = view_of(mask);
    for_each(to, [&](int64_t b, int64_t h, int64_t i, int64_t j) { to.data[to.at(b, h, i, j)] = args.mask == nullptr || from.data[from.at(b, h, i, j)] != 0; });
    args.mask = &mask;
    return to;
  }
  // Lengths of its own: those given or Nk.
  int32_t* own_lengths() {
    std::vector<int32_t> lengths;
    for (int64_t b = 0; b < batches(); ++b) lengths.push_back(static_cast<int32_t>(length(b)));
    const int64_t extent[1] = {batches()};
    make(key_lengths, {kDLInt, 32, 1}, 1, extent);
    args.key_lengths = &key_lengths;
    if (!lengths.empty()) std::memcpy(key_lengths.data, lengths.data(), 4 * lengths.size());
    return element<int32_t>(key_lengths);
  }
  // Sinks of its own, those given; the call has some.
  float* own_sink() {
    const float* from = element<float>(sink);
    const int64_t extent[1] = {heads()};
    make(sink, {kDLFloat, 32, 1}, 1, extent);
    if (heads() > 0) std::memcpy(sink.data, from, static_cast<size_t>(4 * heads()));
    return element<float>(sink);
  }

  // Whether the masks given leave key j to row i.
  bool visible(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const auto range = Recurrence::key_range(i, rows(), length(b), args.causal != 0, args.window_left, args.window_right);
    if (j < range.begin || j >= range.end) return false;
    if (args.mask == nullptr) return true;
    const View m = view_of(mask, true);
    return m.data[m.at(b, h, i, j)] != 0;
  }
  void drop_masks() {
    args.mask = nullptr;
    args.key_lengths = nullptr;
    args.causal = 0;
    args.window_left = args.window_right = -1;
  }

  // Leaves one query head of one batch, with its key head.
  void keep_head(int64_t b, int64_t h) {
    const int64_t g = h / (heads() / key_heads());
    for (Descriptor* t : {&q, &o}) {
      t->slice(0, b, 1);
      t->slice(1, h, 1);
    }
    for (Descriptor* t : {&k, &v}) {
      t->slice(0, b, 1);
      t->slice(1, g, 1);
    }
    if (args.lse != nullptr) {
      lse.slice(0, b, 1);
      lse.slice(1, h, 1);
    }
    if (args.key_lengths != nullptr) key_lengths.slice(0, b, 1);
    if (args.sink != nullptr) sink.slice(0, h, 1);
    for (auto [own, there] : {std::pair{&mask, args.mask != nullptr}, {&bias, args.bias != nullptr}})
      if (there) {
        own->slice_broadcast(0, b, 1);
        own->slice_broadcast(1, h, 1);
      }
  }

  template <class F>
  static void for_each(const View& v, F f) {
    for (int64_t a = 0; a < v.extent[0]; ++a)
      for (int64_t b = 0; b < v.extent[1]; ++b)
        for (int64_t c = 0; c < v.extent[2]; ++c)
          for (int64_t d = 0; d < v.extent[3]; ++d) f(a, b, c, d);
  }
  static void copy_element(const View& from, int64_t at, const View& to, int64_t place) {
    const int64_t bytes = from.type == ATTEST_F32 ? 4 : from.type == 0 ? 1 : 2;
    std::memcpy(to.data + bytes * place, from.data + bytes * at, static_cast<size_t>(bytes));
  }

 private:
  std::vector<std::pair<Descriptor*, const DLTensor**>> tensors() {
    return {{&q, &args.q}, {&k, &args.k}, {&v, &args.v}, {&o, &args.o}, {&lse, &args.lse}, {&key_lengths, &args.key_lengths},
            {&mask, &args.mask}, {&bias, &args.bias}, {&sink, &args.sink}};
  }
  std::deque<std::vector<uint8_t>> memory_;
};

// The correct kernel.
inline void correct(const attest_args& args) { host::HostKernel<host::HostSteps>::forward(&args, nullptr, nullptr, 0); }

// The call as it came, for steps that need more than they are given; of this thread.
inline thread_local const FaultyCall* running = nullptr;

struct Fault : host::HostSteps {
  static void change(FaultyCall&) {}
  // Without tensors while two partial states are merged.
  static const FaultyCall& call() {
    static const FaultyCall none{attest_args{}};
    return running != nullptr ? *running : none;
  }
};

// The kernel with fault F.
template <class F>
void faulty(FaultyCall& call) {
  const FaultyCall original(call.args);
  running = &original;
  F::change(call);
  host::HostKernel<F>::forward(&call.args, nullptr, nullptr, 0);
  running = nullptr;
}
template <class F>
void faulty(const attest_args& args) {
  FaultyCall call(args);
  faulty<F>(call);
}

template <class F>
concept HasForward = requires(const attest_args& args) { F::forward(args); };

template <class F>
attest_status mutant_forward(const attest_args* args, void*, char* message, size_t size) {
  if (const char* why = refuse(*args, host::kAnyWidth)) {
    supports_or_say(why, message, size);
    return ATTEST_UNSUPPORTED;
  }
  if constexpr (HasForward<F>)
    F::forward(*args);
  else
    faulty<F>(*args);
  return ATTEST_OK;
}

// Runs f(call) on each head of each batch as a call of its own; their trace is that of the whole.
template <class F>
void for_each_head(const attest_args& args, F f) {
  for (int64_t b = 0; b < args.q->shape[0]; ++b)
    for (int64_t h = 0; h < args.q->shape[1]; ++h) {
      FaultyCall call(args);
      call.keep_head(b, h);
      const uint64_t before = args.trace != nullptr ? *args.trace->count : 0;
      f(call, b, h);
      if (args.trace == nullptr) continue;
      for (uint64_t n = before; n < *args.trace->count && n < args.trace->capacity; ++n) {
        args.trace->records[n].b = static_cast<int32_t>(b);
        args.trace->records[n].h = static_cast<int32_t>(h);
      }
    }
}

// The host kernel with fault F, in memory of its own.
template <class F>
attest_kernel& table_of(const char* name) {
  static attest_kernel table;
  table = *host::host_kernel_table<F>(name);
  table.forward = &mutant_forward<F>;
  return table;
}

// One row of the list. `reports`: ids of public reports of this fault. `equivalent`: why no observation can show it.
template <class F>
Mutant mutant(const char* name, const char* fault, const char* reports = "", const char* equivalent = "") {
  return {name, fault, reports, equivalent, &table_of<F>(name)};
}

}  // namespace attest::mutants
