// host_kernel.h: attention on the CPU, the twin that the CUDA kernels are held against and that has everything in the
// contract. A template over its steps, those of the recurrence (kernel/recurrence.h) and HostSteps below: a kernel of
// another convention, or a test, derives from HostSteps and hides a step.
//
// Sums: scores in f32 lanes for f16 and in double for the types whose products leave f32; l in f32; O in f32 where P has 16 bits and in
// double where P is kept in f32. A column of O that overflows f32 although its result fits is summed again in double.
// Not written for speed on large problems; for many small ones it is quick. Reentrant.
// Where Steps hides none of the steps between Q K and P V, a split is taken at once (attend_at_once): the same operations
// in the same order, and so the same bits, from vector_loops.h.
// Example: const attest_kernel* table = host_kernel_table<HostSteps>("host");
#pragma once

#include <algorithm>
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
  std::vector<float> k, v;          // one key head's K and V in float
  std::vector<float> q;             // one row of Q
  std::vector<double> q64;
  std::vector<double> score;        // of one tile, or of a split where it is taken at once
  std::vector<float> weight;        // P, rounded
  std::vector<float> o32, part32;   // O of the row, of one split
  std::vector<double> o64, part64;
  // Of a split that is taken at once; see FoldArguments.
  std::vector<float> bias, factor;
  std::vector<int64_t> key;
  std::vector<double> visible, shift;
  std::vector<Tile> tiles;
};

// n elements, whatever they hold.
template <class T>
T* room(std::vector<T>& values, int64_t n) {
  if (values.size() < static_cast<size_t>(n)) values.resize(static_cast<size_t>(n));
  return values.data();
}

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

template <auto a, auto b>
inline constexpr bool kSame = std::is_same_v<std::integral_constant<decltype(a), a>, std::integral_constant<decltype(b), b>>;

// Whether Steps leaves the steps as they are that FoldArguments and its neighbours stand for.
template <class Steps>
inline constexpr bool kUsualSteps =
    kSame<&Steps::score, &Recurrence::score> && kSame<&Steps::masked_score, &Recurrence::masked_score> &&
    kSame<&Steps::is_masked, &Recurrence::is_masked> && kSame<&Steps::maximum, &Recurrence::maximum> &&
    kSame<&Steps::new_maximum, &Recurrence::new_maximum> && kSame<&Steps::exponential, &Recurrence::exponential> &&
    kSame<&Steps::rescale, &Recurrence::rescale> && kSame<&Steps::rescale_l, &Recurrence::rescale_l> &&
    kSame<&Steps::rescale_o, &Recurrence::rescale_o> && kSame<&Steps::weight, &Recurrence::weight> &&
    kSame<&Steps::is_empty, &HostSteps::is_empty> && kSame<&Steps::round_weight, &HostSteps::round_weight> &&
    kSame<&Steps::add_weight, &HostSteps::add_weight> && kSame<&Steps::template add_value<float>, &HostSteps::add_value<float>> &&
    kSame<&Steps::template add_value<double>, &HostSteps::add_value<double>>;
template <class Steps>
inline constexpr bool kUsualEnd = kSame<&Steps::normalise, &Recurrence::normalise> && kSame<&Steps::within_type, &Recurrence::within_type>;

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
    for (int64_t b = 0; b < c_.batches; ++b) {
      const auto keys = keys_in_use(b);
      for (int64_t g = 0; g < c_.key_heads && group > 0; ++g) {
        k_ = widen(c_.k, b, g, keys, d_padded_, s_.k);
        v_ = widen(c_.v, b, g, keys, dv_padded_, s_.v);
        for (int64_t h = g * group; h < (g + 1) * group; ++h)
          for (int64_t row = 0; row < c_.rows; ++row) attend(b, h, row);
      }
    }
  }

  // Keys that some row may see: the first and one past the last of all rows' ranges.
  Recurrence::KeyRange keys_in_use(int64_t b) const {
    if (!kUsualSteps<Steps> || !kSame<&Steps::key_range, &Recurrence::key_range> || c_.rows == 0) return {0, c_.keys};
    const auto first = key_range(b, 0), last = key_range(b, c_.rows - 1);
    const int64_t begin = std::clamp<int64_t>(first.begin, 0, c_.keys);
    return {begin, std::clamp<int64_t>(last.end, begin, c_.keys)};
  }
  Recurrence::KeyRange key_range(int64_t b, int64_t row) const {
    return Steps::key_range(row, c_.rows, c_.key_lengths != nullptr ? c_.key_lengths[b] : c_.keys, c_.causal, c_.left, c_.right);
  }

  // Rows of K or V in float, one after the other at a stride.
  struct Rows {
    const float* data = nullptr;
    int64_t stride = 0;
    const float* at(int64_t j) const { return data + j * stride; }
  };

  // One key head of K or V, its rows padded with zeros; where they lie in memory so already they stay there.
  Rows widen(const View& from, int64_t b, int64_t g, const Recurrence::KeyRange& keys, int64_t stride, std::vector<float>& to) const {
    const int64_t width = from.extent[3];
    if (from.type == ATTEST_F32 && width == stride && reinterpret_cast<uintptr_t>(from.data) % 4 == 0)
      return {reinterpret_cast<const float*>(from.data) + from.at(b, g, 0, 0), from.stride[2]};
    float* rows = room(to, c_.keys * stride + kSlack);
    if (width == stride && from.stride[2] == width) {
      widen_elements(from, from.at(b, g, keys.begin, 0), (keys.end - keys.begin) * width, rows + keys.begin * stride);
      return {rows, stride};
    }
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      widen_elements(from, from.at(b, g, j, 0), width, rows + j * stride);
      std::fill(rows + j * stride + width, rows + (j + 1) * stride, 0.0f);
    }
    return {rows, stride};
  }

  void widen_elements(const View& from, int64_t at, int64_t n, float* to) const {
    if (n == 0) return;
    if (from.type == ATTEST_F32) memcpy(to, from.data + 4 * at, static_cast<size_t>(4 * n));
    else if (from.type == ATTEST_BF16) loops_.widen_bf16(from.data + 2 * at, n, to);
    else loops_.widen_f16(from.data + 2 * at, n, to);
  }

  struct Softmax {
    double m = Recurrence::kMinusInfinity;
    float l = 0;
  };

  void attend(int64_t b, int64_t h, int64_t row) {
    float* q = room(s_.q, d_padded_);
    widen_elements(c_.q, c_.q.at(b, h, row, 0), c_.d, q);
    std::fill(q + c_.d, q + d_padded_, 0.0f);
    if (!narrow_) std::copy(q, q + d_padded_, room(s_.q64, d_padded_));
    const bool wide = c_.p_type == ATTEST_F32;
    const Softmax state = wide ? attend_in(b, h, row, s_.o64, s_.part64, true) : attend_in(b, h, row, s_.o32, s_.part32, true);
    const bool finite = wide ? finish(b, h, row, s_.o64.data(), state.l) : finish(b, h, row, s_.o32.data(), state.l);
    // sum P v may leave f32 although O fits: sum such columns in double.
    if (!finite && !wide && std::isfinite(state.l)) {
      attend_in(b, h, row, s_.o64, s_.part64, false);
      for (int64_t d = 0; d < c_.dv; ++d)
        if (!std::isfinite(s_.o32[static_cast<size_t>(d)])) store(b, h, row, d, s_.o64[static_cast<size_t>(d)], state.l);
    }
    if (c_.has_lse) c_.lse.store(c_.lse.at(b, h, row, 0), Steps::log_sum_exp(state.m, state.l));
  }

  // Writes the row's O; whether all its sums were finite.
  template <class Sum>
  bool finish(int64_t b, int64_t h, int64_t row, const Sum* o, float l) const {
    if constexpr (kUsualEnd<Steps>) {
      const FinishArguments<Sum> a{o, c_.dv, l, largest_, c_.o.type, c_.o.data + size_of_o() * c_.o.at(b, h, row, 0)};
      if constexpr (std::is_same_v<Sum, float>) return loops_.finish_narrow(a);
      else return loops_.finish_wide(a);
    }
    bool finite = true;
    for (int64_t d = 0; d < c_.dv; ++d) {
      finite = finite && std::isfinite(o[d]);
      store(b, h, row, d, static_cast<double>(o[d]), l);
    }
    return finite;
  }
  void store(int64_t b, int64_t h, int64_t row, int64_t d, double o, float l) const {
    c_.o.store(c_.o.at(b, h, row, d), Steps::within_type(Steps::normalise(o, l), std::isfinite(o), largest_));
  }
  int64_t size_of_o() const { return c_.o.type == ATTEST_F32 ? 4 : 2; }

  // The row's final state, O in `o`. `first`: the row's first time, to be traced.
  template <class Sum>
  Softmax attend_in(int64_t b, int64_t h, int64_t row, std::vector<Sum>& o, std::vector<Sum>& part, bool first) {
    room(o, dv_padded_);
    room(part, dv_padded_);
    Softmax state;
    for (int32_t split = 0; split < c_.splits; ++split) {
      if (split == 0) {
        state = attend_split(b, h, row, split, o.data(), first);
        continue;
      }
      const Softmax other = attend_split(b, h, row, split, part.data(), first);
      if (Steps::is_empty(other.m)) continue;
      merge_states(state, o.data(), other, part.data());
    }
    if (c_.sink != nullptr && c_.sink[h] != Recurrence::kMinusInfinity) {
      std::fill(part.begin(), part.begin() + c_.dv, Sum{0});
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

  // The state of one split, O in `o`.
  template <class Sum>
  Softmax attend_split(int64_t b, int64_t h, int64_t row, int32_t split, Sum* o, bool first_time) {
    if constexpr (kUsualSteps<Steps>) return attend_at_once(b, h, row, split, o, first_time);
    Softmax state;
    std::fill(o, o + c_.dv, Sum{0});
    const auto range = key_range(b, row);
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
          Steps::add_value(o, static_cast<Sum>(s_.weight[static_cast<size_t>(j - first)]), v_.at(j), c_.dv);
      state.m = m_new;
      if (first_time && c_.trace.records != nullptr) record(b, h, row, split, sequence++, first, last, state, factor);
    }
    return state;
  }

  // The row's Q times n rows of K from j on.
  void dots(int64_t j, int64_t n, double* dot) const {
    if (narrow_) loops_.dots_narrow(s_.q.data(), k_.at(j), k_.stride, n, d_padded_, dot);
    else loops_.dots_wide(s_.q64.data(), k_.at(j), k_.stride, n, d_padded_, dot);
  }

  // Scores of keys [first, last); returns their maximum.
  double score_tile(int64_t b, int64_t h, int64_t row, int64_t first, int64_t last, const Recurrence::KeyRange& range) {
    double maximum = Recurrence::kMinusInfinity;
    room(s_.score, last - first);
    for (int64_t j = first; j < last; ++j) {
      double s = Steps::masked_score();
      const bool visible = j >= range.begin && j < range.end && (!c_.has_mask || c_.mask.data[c_.mask.at(b, h, row, j)] != 0);
      if (visible) {
        const double bias = c_.has_bias ? static_cast<double>(c_.bias.value(c_.bias.at(b, h, row, j))) : 0.0;
        if (bias != Recurrence::kMinusInfinity) {
          double dot;
          dots(j, 1, &dot);
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
    room(s_.weight, n);
    for (int64_t j = 0; j < n; ++j) {
      const float p = Steps::weight(s_.score[static_cast<size_t>(j)], m);
      const float rounded = Steps::round_weight(p, c_.p_type);
      sum = Steps::add_weight(sum, p, rounded);
      s_.weight[static_cast<size_t>(j)] = rounded;
    }
    return sum;
  }

  // attend_split with the usual steps: scores, then the scalars of all tiles, then O. `first` false: the row's second time.
  template <class Sum>
  Softmax attend_at_once(int64_t b, int64_t h, int64_t row, int32_t split, Sum* o, bool first) {
    if (first || c_.splits > 1) fold_split(b, h, row, split);
    const ValueArguments<Sum> values{fold_.tiles, fold_.tile_count, fold_.key, fold_.p, v_.data, v_.stride, dv_padded_, o};
    if constexpr (std::is_same_v<Sum, float>) loops_.values_narrow(values);
    else loops_.values_wide(values);
    if (first && c_.trace.records != nullptr)
      for (int64_t n = 0; n < fold_.tile_count; ++n) {
        const Tile& tile = fold_.tiles[n];
        record(b, h, row, split, n, tile.first, tile.last, {tile.m, tile.l}, tile.factor);
      }
    if (fold_.tile_count == 0) return {};
    const Tile& last = fold_.tiles[fold_.tile_count - 1];
    return {last.m, last.l};
  }

  void fold_split(int64_t b, int64_t h, int64_t row, int32_t split) {
    const auto range = key_range(b, row);
    const int64_t from = split_begin(c_, split), to = split_begin(c_, split + 1);
    const int64_t begin = std::max(from, range.begin), end = std::min(to, range.end), n = end - begin;
    fold_.tile_count = 0;
    if (n <= 0) return;
    double* score = room(s_.score, n + kSlack);
    dots(begin, n, score);
    const uint8_t* mask = c_.has_mask ? c_.mask.data + c_.mask.at(b, h, row, begin) : nullptr;
    loops_.scores({score, n, c_.scale, c_.softcap, bias_of(b, h, row, begin, n), mask, c_.mask.stride[3]});
    const int64_t tiles = n / c_.tile + 2;
    fold_ = {score, begin, end, from, to, c_.tile, c_.descending, c_.p_type, room(s_.key, n), room(s_.visible, n + kSlack),
             room(s_.weight, n + kSlack), room(s_.tiles, tiles), room(s_.shift, tiles + kSlack), room(s_.factor, tiles + kSlack), 0};
    loops_.fold(fold_);
  }

  // The row's bias from key `begin` on in float, or nullptr.
  const float* bias_of(int64_t b, int64_t h, int64_t row, int64_t begin, int64_t n) const {
    if (!c_.has_bias) return nullptr;
    float* bias = room(s_.bias, n + kSlack);
    const int64_t at = c_.bias.at(b, h, row, begin), stride = c_.bias.stride[3];
    if (stride == 1) widen_elements(c_.bias, at, n, bias);
    else if (stride == 0) std::fill(bias, bias + n, c_.bias.value(at));
    else for (int64_t j = 0; j < n; ++j) bias[j] = c_.bias.value(at + j * stride);
    return bias;
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
  const VectorLoops& loops_ = vector_loops();
  const bool narrow_ = c_.q.type == ATTEST_F16;  // products of two elements are exact in float
  const int64_t d_padded_ = padded(c_.d, narrow_ ? kNarrowLanes : kWideLanes), dv_padded_ = padded(c_.dv, kWideLanes);
  const double largest_ = numbers::largest_finite(c_.o.type);
  Rows k_, v_;  // of the key head at hand
  FoldArguments fold_{};  // the last one; its arrays are scratch
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
