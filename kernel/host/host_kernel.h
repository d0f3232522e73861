// host_kernel.h: attention on the CPU, the twin that the CUDA kernels are held against and that has everything in the
// contract. A template over its steps, those of the recurrence (kernel/recurrence.h) and HostSteps below: a kernel of
// another convention, or a test, derives from HostSteps and hides a step.
//
// Sums: scores in f32 lanes for f16 and in double for the types whose products leave f32; l in f32; O in f32 where P has 16 bits and in
// double where P is kept in f32. A column of O that overflows f32 although its result fits is summed again in double.
// Not written for speed on large problems; for many small ones it is quick. Reentrant.
// Example: const attest_kernel* table = host_kernel_table<HostSteps>("host");
#pragma once

#include <cmath>
#include <cstdio>
#include <type_traits>
#include <vector>

#include "kernel/check_args.h"
#include "kernel/host/vector_loops.h"

namespace attest::host {

inline constexpr int64_t kAnyWidth = int64_t{1} << 31;

// Scratch of one thread, grown as needed.
struct Scratch {
  std::vector<float> k, v, q;       // one key head's K and V, one row of Q, in float
  std::vector<double> score;        // of one tile
  std::vector<float> weight;        // P of one tile, rounded
  std::vector<float> o32, part32;   // O of the row, of one split
  std::vector<double> o64, part64;
};

inline Scratch& scratch() {
  thread_local Scratch s;
  return s;
}

// What the recurrence leaves open: where numbers are rounded, how sums are taken, how states meet.
struct HostSteps : Recurrence {
  // A tile or state of this maximum has no visible key: it is left out.
  static bool is_empty(double maximum) { return maximum == kMinusInfinity; }

  // P as P V reads it.
  static float round_weight(float p, int32_t type) {
    return type == ATTEST_BF16 ? numbers::from_bf16(numbers::to_bf16(p)) : type == ATTEST_F16 ? numbers::from_f16(numbers::to_f16(p)) : p;
  }
  // l with one key more: P before its rounding.
  static float add_weight(float l, float p, float /*rounded*/) { return l + p; }
  // O with one key more.
  template <class Sum>
  static void add_value(Sum* o, Sum p, const float* v, int64_t dv) {
    host::add_value(o, p, v, dv);
  }

  // What two states are multiplied by when they are brought to the maximum m of both.
  struct MergeFactors {
    float a, b;
  };
  static MergeFactors merge_factors(double m_a, double m_b, double m) { return {rescale(m_a, m), rescale(m_b, m)}; }
};

template <class Steps>
class HostKernel {
 public:
  static attest_status forward(const attest_args* args, void*, char* message, size_t size) {
    if (const char* why = refuse(*args, kAnyWidth)) {
      supports_or_say(why, message, size);
      return ATTEST_UNSUPPORTED;
    }
    HostKernel kernel(call_of(*args));
    kernel.run();
    return ATTEST_OK;
  }

  static int32_t supports(const attest_args* args, char* reason, size_t size) {
    return supports_or_say(refuse(*args, kAnyWidth), reason, size);
  }

  static uint64_t trace_capacity(const attest_args* args) { return trace_records(call_of(*args)); }

  // merge(a, b) of normalised states: O = (O_a e^(LSE_a - m) + O_b e^(LSE_b - m)) / (e^(LSE_a - m) + e^(LSE_b - m)).
  static attest_status merge(const attest_state* a, const attest_state* b, const attest_state* out, void*, char* message, size_t size) {
    for (const attest_state* s : {a, b, out})
      if (s->o->ndim != 2 || s->lse->ndim != 1 || type_of(*s->o) != ATTEST_F32 || type_of(*s->lse) != ATTEST_F32) {
        supports_or_say("a state is O [rows, Dv] and LSE [rows] in f32", message, size);
        return ATTEST_UNSUPPORTED;
      }
    const View ao = view_of(*a->o), al = view_of(*a->lse), bo = view_of(*b->o), bl = view_of(*b->lse), oo = view_of(*out->o), ol = view_of(*out->lse);
    for (int64_t row = 0; row < ao.extent[0]; ++row) {
      const double la = al.value(row * al.stride[0]), lb = bl.value(row * bl.stride[0]);
      const double m = Steps::maximum(la, lb);
      const auto [wa, wb] = Steps::merge_factors(la, lb, m);
      const float l = wa + wb;
      for (int64_t d = 0; d < ao.extent[1]; ++d) {
        // A state without keys adds nothing, whatever its O holds.
        const double ta = wa == 0 ? 0.0 : static_cast<double>(wa) * ao.value(row * ao.stride[0] + d * ao.stride[1]);
        const double tb = wb == 0 ? 0.0 : static_cast<double>(wb) * bo.value(row * bo.stride[0] + d * bo.stride[1]);
        const double sum = ta + tb;
        oo.store(row * oo.stride[0] + d * oo.stride[1],
                 Steps::within_type(Steps::normalise(sum, l), std::isfinite(sum), numbers::largest_finite(ATTEST_F32)));
      }
      ol.store(row * ol.stride[0], Steps::log_sum_exp(m, l));
    }
    return ATTEST_OK;
  }

 private:
  explicit HostKernel(const Call& call) : c_(call), s_(scratch()) {}

  void run() {
    const int64_t group = c_.key_heads > 0 ? c_.heads / c_.key_heads : 0;
    s_.q.resize(static_cast<size_t>(c_.d));
    s_.score.resize(static_cast<size_t>(c_.tile < c_.keys ? c_.tile : c_.keys));
    s_.weight.resize(s_.score.size());
    for (int64_t b = 0; b < c_.batches; ++b)
      for (int64_t g = 0; g < c_.key_heads && group > 0; ++g) {
        widen(c_.k, b, g, c_.d, s_.k);
        widen(c_.v, b, g, c_.dv, s_.v);
        for (int64_t h = g * group; h < (g + 1) * group; ++h)
          for (int64_t row = 0; row < c_.rows; ++row) attend(b, h, row);
      }
  }

  void widen(const View& from, int64_t b, int64_t g, int64_t width, std::vector<float>& to) const {
    to.resize(static_cast<size_t>(c_.keys * width));
    for (int64_t j = 0; j < c_.keys; ++j) {
      const int64_t at = from.at(b, g, j, 0);
      float* row = to.data() + j * width;
      if (from.type == ATTEST_F32) {
        memcpy(row, from.data + 4 * at, static_cast<size_t>(4 * width));
        continue;
      }
      if (from.type == ATTEST_BF16) widen_bf16(from.data + 2 * at, width, row);
      else widen_f16(from.data + 2 * at, width, row);
    }
  }

  struct Softmax {
    double m = Recurrence::kMinusInfinity;
    float l = 0;
  };

  void attend(int64_t b, int64_t h, int64_t row) {
    for (int64_t d = 0; d < c_.d; ++d) s_.q[static_cast<size_t>(d)] = c_.q.value(c_.q.at(b, h, row, d));
    const bool wide = c_.p_type == ATTEST_F32;
    const Softmax state = wide ? attend_in(b, h, row, s_.o64, s_.part64, true) : attend_in(b, h, row, s_.o32, s_.part32, true);
    const double largest = numbers::largest_finite(c_.o.type);
    const auto store = [&](int64_t d, double o) {
      c_.o.store(c_.o.at(b, h, row, d), Steps::within_type(Steps::normalise(o, state.l), std::isfinite(o), largest));
    };
    bool overflowed = false;
    for (int64_t d = 0; d < c_.dv; ++d) {
      const double o = wide ? s_.o64[static_cast<size_t>(d)] : static_cast<double>(s_.o32[static_cast<size_t>(d)]);
      overflowed = overflowed || (!wide && !std::isfinite(o));
      store(d, o);
    }
    // sum P v may leave f32 although O fits: sum such columns in double.
    if (overflowed && std::isfinite(state.l)) {
      attend_in(b, h, row, s_.o64, s_.part64, false);
      for (int64_t d = 0; d < c_.dv; ++d)
        if (!std::isfinite(s_.o32[static_cast<size_t>(d)])) store(d, s_.o64[static_cast<size_t>(d)]);
    }
    if (c_.has_lse) c_.lse.store(c_.lse.at(b, h, row, 0), Steps::log_sum_exp(state.m, state.l));
  }

  // The row's final state, O in `o`.
  template <class Sum>
  Softmax attend_in(int64_t b, int64_t h, int64_t row, std::vector<Sum>& o, std::vector<Sum>& part, bool trace) {
    const auto width = static_cast<size_t>(c_.dv);
    o.assign(width, Sum{0});
    Softmax state;
    for (int32_t split = 0; split < c_.splits; ++split) {
      if (split == 0) {
        state = attend_split(b, h, row, split, o.data(), trace);
        continue;
      }
      part.assign(width, Sum{0});
      const Softmax other = attend_split(b, h, row, split, part.data(), trace);
      if (Steps::is_empty(other.m)) continue;
      merge_states(state, o.data(), other, part.data());
    }
    if (c_.sink != nullptr && c_.sink[h] != Recurrence::kMinusInfinity) {
      part.assign(width, Sum{0});
      merge_states(state, o.data(), {static_cast<double>(c_.sink[h]), 1.0f}, part.data());
    }
    return state;
  }

  template <class Sum>
  void merge_states(Softmax& a, Sum* o, const Softmax& b, const Sum* other) const {
    const double m = Steps::new_maximum(a.m, b.m);
    const auto [wa, wb] = Steps::merge_factors(a.m, b.m, m);
    a.l = a.l * wa + b.l * wb;
    for (int64_t d = 0; d < c_.dv; ++d) o[d] = o[d] * wa + other[d] * wb;
    a.m = m;
  }

  template <class Sum>
  Softmax attend_split(int64_t b, int64_t h, int64_t row, int32_t split, Sum* o, bool trace) {
    Softmax state;
    const int64_t length = c_.key_lengths != nullptr ? c_.key_lengths[b] : c_.keys;
    const auto range = Steps::key_range(row, c_.rows, length, c_.causal, c_.left, c_.right);
    const int64_t begin = split_begin(c_, split), end = split_begin(c_, split + 1);
    const int64_t tiles = (end - begin + c_.tile - 1) / c_.tile;
    int64_t sequence = 0;
    for (int64_t n = 0; n < tiles; ++n) {
      const int64_t tile = c_.descending ? tiles - 1 - n : n;
      const int64_t first = begin + tile * c_.tile;
      const int64_t last = first + c_.tile < end ? first + c_.tile : end;
      const double tile_maximum = score_tile(b, h, row, first, last, range);
      if (Steps::is_empty(tile_maximum)) continue;

      const double m_new = Steps::new_maximum(state.m, tile_maximum);
      const float factor = Steps::rescale_l(state.m, m_new);
      state.l *= factor;
      scale_values(o, static_cast<Sum>(Steps::rescale_o(state.m, m_new)), c_.dv);
      state.l += weigh_tile(last - first, m_new);
      for (int64_t j = first; j < last; ++j)
        if (!Steps::is_masked(s_.score[static_cast<size_t>(j - first)]))
          Steps::add_value(o, static_cast<Sum>(s_.weight[static_cast<size_t>(j - first)]), s_.v.data() + j * c_.dv, c_.dv);
      state.m = m_new;
      if (trace && c_.trace.records != nullptr) record(b, h, row, split, sequence++, first, last, state, factor);
    }
    return state;
  }

  // Scores of keys [first, last); returns their maximum.
  double score_tile(int64_t b, int64_t h, int64_t row, int64_t first, int64_t last, const Recurrence::KeyRange& range) {
    double maximum = Recurrence::kMinusInfinity;
    const bool narrow = c_.q.type == ATTEST_F16;
    for (int64_t j = first; j < last; ++j) {
      double s = Steps::masked_score();
      const bool visible = j >= range.begin && j < range.end && (!c_.has_mask || c_.mask.data[c_.mask.at(b, h, row, j)] != 0);
      if (visible) {
        const double bias = c_.has_bias ? static_cast<double>(c_.bias.value(c_.bias.at(b, h, row, j))) : 0.0;
        if (bias != Recurrence::kMinusInfinity) {
          const float* k = s_.k.data() + j * c_.d;
          const double dot = narrow ? static_cast<double>(dot_narrow(s_.q.data(), k, c_.d)) : dot_wide(s_.q.data(), k, c_.d);
          s = Steps::score(dot, c_.scale, c_.softcap, bias);
        }
      }
      s_.score[static_cast<size_t>(j - first)] = s;
      maximum = Steps::maximum(maximum, s);
    }
    return maximum;
  }

  // P of n keys, rounded to its type; returns what they add to l.
  float weigh_tile(int64_t n, double m) {
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      const float p = Steps::weight(s_.score[static_cast<size_t>(j)], m);
      const float rounded = Steps::round_weight(p, c_.p_type);
      sum = Steps::add_weight(sum, p, rounded);
      s_.weight[static_cast<size_t>(j)] = rounded;
    }
    return sum;
  }

  void record(int64_t b, int64_t h, int64_t row, int32_t split, int64_t sequence, int64_t first, int64_t last, const Softmax& state, float factor) const {
    const uint64_t at = (*c_.trace.count)++;
    if (at >= c_.trace.capacity) return;
    attest_trace_record& r = c_.trace.records[at];
    r = {};
    r.b = static_cast<int32_t>(b);
    r.h = static_cast<int32_t>(h);
    r.row = row;
    r.split = split;
    r.sequence = sequence;
    r.key_begin = first;
    r.key_end = last;
    r.m = static_cast<float>(state.m);
    r.l = state.l;
    r.scale = factor;
  }

  const Call c_;
  Scratch& s_;
};

// What the host kernel offers; everything in the contract.
inline constexpr int32_t kTypes[] = {ATTEST_F32, ATTEST_F16, ATTEST_BF16};
inline constexpr int64_t kTiles[] = {1, 2, 3, 16, 32, 64, 128};
inline constexpr int32_t kSplits[] = {1, 2, 3, 8};
inline constexpr int32_t kOrders[] = {ATTEST_ORDER_ASCENDING, ATTEST_ORDER_DESCENDING};
inline constexpr uint32_t kEverything = ATTEST_CAUSAL | ATTEST_WINDOW | ATTEST_KEY_LENGTHS | ATTEST_MASK | ATTEST_BIAS_F32 |
                                        ATTEST_BIAS_INPUT_TYPE | ATTEST_SOFTCAP | ATTEST_SINK | ATTEST_GROUPED_HEADS | ATTEST_LSE |
                                        ATTEST_STRIDES | ATTEST_UNALIGNED;

// Lists that every built-in kernel shares.
inline attest_kernel common_table(const char* name) {
  attest_kernel t{};
  t.abi_version = ATTEST_ABI_VERSION;
  t.struct_size = sizeof(attest_kernel);
  t.name = name;
  t.version = "0.1.0";
  t.features = kEverything;
  t.types = kTypes;
  t.type_count = std::size(kTypes);
  t.head_width_max = 256;
  t.tiles = kTiles;
  t.tile_count = std::size(kTiles);
  t.splits = kSplits;
  t.split_count = std::size(kSplits);
  t.orders = kOrders;
  t.order_count = std::size(kOrders);
  t.p_types = kTypes;
  t.p_type_count = std::size(kTypes);
  return t;
}

// The table of a host kernel with these steps. `name` must outlive the program.
template <class Steps>
const attest_kernel* host_kernel_table(const char* name) {
  static const attest_kernel table = [name] {
    attest_kernel t = common_table(name);
    t.device = kDLCPU;
    t.supports = &HostKernel<Steps>::supports;
    t.forward = &HostKernel<Steps>::forward;
    t.merge = &HostKernel<Steps>::merge;
    t.trace_capacity = &HostKernel<Steps>::trace_capacity;
    t.reentrant = 1;
    return t;
  }();
  return &table;
}

}  // namespace attest::host
