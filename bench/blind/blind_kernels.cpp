// blind_kernels.cpp: one attest plug-in with a correct tiled online-softmax kernel for the CPU and twenty
// faulty variants of it. What each does wrong stands in blind_families.txt and at its Fault below.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "kernel/abi/attest_kernel.h"

namespace {

enum class Fault {
  correct,
  lazy_threshold,         // rises under ln 256: no rescale and m goes back, yet P is relative to the new maximum
  second_fragment,        // columns of O from 32 on are not rescaled
  flt_min_start,          // m starts at numeric_limits<float>::min()
  local_max,              // m becomes the tile's own maximum, which may be lower
  cap_over_bias,          // softcap of (x + bias)
  bias_log2,              // bias added in the base-2 domain without log2 e
  diagonal_full_length,   // causal diagonal from Nk, not from the batch's length
  window_top_left,        // left end of the window counted from i, not from i + len - Nq
  fill_minus_10000,       // boolean mask writes -10000
  nomask_tail,            // no mask given: the zero-filled tail of the last tile counts
  overlapping_tail_tile,  // visible end on a tile boundary: that last tile runs as full and as tail tile
  split_fencepost,        // split 0 ends one key early where there is more than one split
  combine_exp2,           // combine weighs by exp2 of natural-log maxima
  finite_empty_lse,       // a split without keys publishes LSE 0
  sink_per_split,         // every split with keys merges the sink
  lse_scaled_twice,       // without softcap and bias LSE = scale * m + ln l, m being scaled already
  heads_interleaved,      // K, V head h % Hk
  dense_k_rows,           // rows of K taken to be D apart
  p_bf16,                 // P kept in bf16 whatever the input type
  l_input_type,           // l kept in the input type between tiles
  count
};

constexpr const char* kNames[] = {"correct",          "lazy_threshold",    "second_fragment",  "flt_min_start",
                                  "local_max",        "cap_over_bias",     "bias_log2",        "diagonal_full_length",
                                  "window_top_left",  "fill_minus_10000",  "nomask_tail",      "overlapping_tail_tile",
                                  "split_fencepost",  "combine_exp2",      "finite_empty_lse", "sink_per_split",
                                  "lse_scaled_twice", "heads_interleaved", "dense_k_rows",     "p_bf16",
                                  "l_input_type"};
static_assert(std::size(kNames) == static_cast<size_t>(Fault::count));

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr int64_t kDefaultTile = 32;

// ---- number formats --------------------------------------------------------------------------------------

uint32_t bits_of(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
float of_bits(uint32_t u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}

float bf16_to_float(uint16_t h) { return of_bits(uint32_t{h} << 16); }
uint16_t float_to_bf16(float x) {
  const uint32_t u = bits_of(x);
  if (x != x) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float f16_to_float(uint16_t h) {
  const uint32_t sign = uint32_t{h & 0x8000u} << 16, exponent = (h >> 10) & 31u, fraction = h & 1023u;
  if (exponent == 31) return of_bits(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return of_bits(sign | ((exponent + 112u) << 23) | (fraction << 13));
}
uint16_t float_to_f16(float x) {
  const uint32_t u = bits_of(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (a >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above
  if (a < 0x38800000u) {                                               // below 2^-14: steps of 2^-24
    const float steps = std::nearbyint(of_bits(a) * 0x1p24f);
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(steps));
  }
  const uint32_t rounded = a + 0xfffu + ((a >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

attest_type type_of(const DLTensor& t) {
  if (t.dtype.lanes != 1) return ATTEST_NO_TYPE;
  if (t.dtype.code == kDLFloat && t.dtype.bits == 32) return ATTEST_F32;
  if (t.dtype.code == kDLFloat && t.dtype.bits == 16) return ATTEST_F16;
  if (t.dtype.code == kDLBfloat && t.dtype.bits == 16) return ATTEST_BF16;
  return ATTEST_NO_TYPE;
}

float round_to(attest_type type, float x) {
  if (type == ATTEST_F16) return f16_to_float(float_to_f16(x));
  if (type == ATTEST_BF16) return bf16_to_float(float_to_bf16(x));
  return x;
}

// ---- tensors ---------------------------------------------------------------------------------------------

struct View {
  char* base = nullptr;
  attest_type type = ATTEST_NO_TYPE;
  int64_t stride[4] = {0, 0, 0, 0};

  View() = default;
  explicit View(const DLTensor& t) : type(type_of(t)) {
    if (t.data != nullptr) base = static_cast<char*>(t.data) + t.byte_offset;
    int64_t packed = 1;
    for (int k = t.ndim - 1; k >= 0; --k) {
      stride[k] = t.strides != nullptr ? t.strides[k] : packed;
      packed *= t.shape[k];
    }
  }
  // Strides of dimensions of size 1 become 0, so that any index may be given: broadcast.
  static View broadcast(const DLTensor& t) {
    View view(t);
    for (int k = 0; k < t.ndim; ++k)
      if (t.shape[k] == 1) view.stride[k] = 0;
    return view;
  }
  int64_t offset(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
  }
  float load(int64_t a, int64_t b, int64_t c, int64_t d) const {
    const int64_t at = offset(a, b, c, d);
    if (type == ATTEST_F32) return load_as<float>(at);
    const auto h = load_as<uint16_t>(at);
    return type == ATTEST_F16 ? f16_to_float(h) : bf16_to_float(h);
  }
  void store(int64_t a, int64_t b, int64_t c, int64_t d, float x) const {
    const int64_t at = offset(a, b, c, d);
    if (type == ATTEST_F32) return store_as<float>(at, x);
    store_as<uint16_t>(at, type == ATTEST_F16 ? float_to_f16(x) : float_to_bf16(x));
  }
  template <class T>
  T load_as(int64_t at) const {
    T x;
    std::memcpy(&x, base + at * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return x;
  }
  template <class T>
  void store_as(int64_t at, T x) const {
    std::memcpy(base + at * static_cast<int64_t>(sizeof(T)), &x, sizeof(T));
  }
};

double larger(double a, double b) { return (b > a || b != b) ? b : a; }  // a NaN stays

// exp of a difference of scores: the scores are kept in double, so that scale * dot is not rounded before m is
// subtracted (as a fused multiply-add would have it); the exponential is f32's.
float power(double x) { return std::exp(static_cast<float>(x)); }

// ---- the kernel ------------------------------------------------------------------------------------------

struct State {
  double m = kNothing, l = 0;
  std::vector<double> o;  // as l in double: values near the largest float may add up to more than it
};

int64_t tile_of(const attest_args* a) { return a->tile_keys > 0 ? a->tile_keys : kDefaultTile; }
int64_t tiles_of(const attest_args* a) { return (a->k->shape[2] + tile_of(a) - 1) / tile_of(a); }
int64_t splits_of(const attest_args* a) {
  if (a->split_count > 0) return a->split_count;
  return tiles_of(a) > 4 ? 2 : 1;
}

// Merges `from` into `into`: both unnormalised, relative to their own maxima.
template <Fault F>
void combine(State& into, const State& from) {
  const bool empty = from.l == 0 && from.m == kNothing;
  if (empty) return;
  if (into.l == 0 && into.m == kNothing) {
    into = from;
    return;
  }
  const double m = larger(into.m, from.m);
  const auto weight = [&](double mine) {
    return F == Fault::combine_exp2 ? std::exp2(static_cast<float>(mine - m)) : power(mine - m);
  };
  const float a = weight(into.m), b = weight(from.m);
  into.l = into.l * double{a} + from.l * double{b};
  for (size_t d = 0; d < into.o.size(); ++d) into.o[d] = into.o[d] * double{a} + from.o[d] * double{b};
  into.m = m;
}

template <Fault F>
void merge_sink(State& s, double sink) {
  if (sink == kNothing) return;
  const double m = larger(s.m, sink);
  const float factor = s.m == kNothing ? 0.0f : power(s.m - m);
  s.l = s.l * double{factor} + double{power(sink - m)};
  for (double& x : s.o) x *= double{factor};
  s.m = m;
}

struct Head {  // one (batch, key head): K and V as floats
  std::vector<float> k, v;
};

template <Fault F>
struct Kernel {
  const attest_args* a;
  int64_t batches, heads, rows, width, key_heads, keys, value_width, tile, splits;
  attest_type type;
  View q, k, v, o, lse, mask, bias;

  explicit Kernel(const attest_args* args)
      : a(args),
        batches(a->q->shape[0]),
        heads(a->q->shape[1]),
        rows(a->q->shape[2]),
        width(a->q->shape[3]),
        key_heads(a->k->shape[1]),
        keys(a->k->shape[2]),
        value_width(a->v->shape[3]),
        tile(tile_of(a)),
        splits(splits_of(a)),
        type(type_of(*a->q)),
        q(*a->q),
        k(*a->k),
        v(*a->v),
        o(*a->o) {
    if (a->lse != nullptr) lse = View(*a->lse);
    if (a->mask != nullptr) mask = View::broadcast(*a->mask);
    if (a->bias != nullptr) bias = View::broadcast(*a->bias);
    if (F == Fault::dense_k_rows && k.stride[2] != 0) k.stride[2] = width;
  }

  int64_t length(int64_t b) const {
    if (a->key_lengths == nullptr) return keys;
    const View view(*a->key_lengths);
    return view.load_as<int32_t>(b * view.stride[0]);
  }

  // The keys [lo, hi) that causal, window and length leave to row i.
  std::pair<int64_t, int64_t> range(int64_t i, int64_t len) const {
    constexpr int64_t kFar = int64_t{1} << 40;
    const int64_t position = i + len - rows;
    int64_t lo = 0, hi = len;
    if (a->causal != 0) {
      const int64_t diagonal = F == Fault::diagonal_full_length ? i + keys - rows : position;
      hi = std::min(hi, diagonal + 1);
    }
    if (a->window_left >= 0) {
      const int64_t from = F == Fault::window_top_left ? i : position;
      lo = std::max(lo, from - std::min(a->window_left, kFar));
    }
    if (a->window_right >= 0) hi = std::min(hi, position + std::min(a->window_right, kFar) + 1);
    return {lo, hi};
  }

  double score(double dot, int64_t b, int64_t h, int64_t i, int64_t j) const {
    double x = double{a->scale} * dot;
    const bool capped = a->softcap > 0;
    const auto cap = [&](double y) { return double{a->softcap} * std::tanh(y / double{a->softcap}); };
    const bool biased = a->bias != nullptr && j < keys;
    double add = biased ? double{bias.load(b, h, i, j)} : 0.0;
    if (biased && add == kNothing) return kNothing;  // masked, whatever K holds
    if constexpr (F == Fault::cap_over_bias) {
      if (capped && biased) return cap(x + add);
    }
    if (capped) x = cap(x);
    if constexpr (F == Fault::bias_log2) add *= 0.6931471805599453;  // (x log2 e + bias) then powers of 2
    return biased ? x + add : x;
  }

  void record(int64_t b, int64_t h, int64_t i, int64_t split, int64_t sequence, int64_t first, const State& s,
              float factor) const {
    if (a->trace == nullptr || *a->trace->count >= a->trace->capacity) return;
    attest_trace_record r{};
    r.b = static_cast<int32_t>(b);
    r.h = static_cast<int32_t>(h);
    r.row = i;
    r.split = static_cast<int32_t>(split);
    r.sequence = sequence;
    r.key_begin = first;
    r.key_end = std::min(first + tile, keys);
    r.m = static_cast<float>(s.m);
    r.l = static_cast<float>(s.l);
    r.scale = factor;
    a->trace->records[(*a->trace->count)++] = r;
  }

  // One visit of the tile that begins at key `first`. Returns the factor applied.
  float visit(State& s, const float* query, const Head& head, int64_t b, int64_t h, int64_t i, int64_t first,
              int64_t lo, int64_t hi, std::vector<double>& scores, std::vector<uint8_t>& hidden) const {
    double tile_max = kNothing;
    const bool plain =
        a->key_lengths == nullptr && a->causal == 0 && a->window_left < 0 && a->window_right < 0 && a->mask == nullptr;
    for (int64_t t = 0; t < tile; ++t) {
      const int64_t j = first + t;
      const size_t at = static_cast<size_t>(t);
      scores[at] = kNothing;
      hidden[at] = 0;
      if (j >= keys) {
        if (F == Fault::nomask_tail && plain) {
          scores[at] = score(0.0, b, h, i, j);
          tile_max = larger(tile_max, scores[at]);
        }
        continue;
      }
      if (j < lo || j >= hi) continue;
      if (a->mask != nullptr && mask.load_as<uint8_t>(mask.offset(b, h, i, j)) == 0) {
        if constexpr (F == Fault::fill_minus_10000) {
          scores[at] = -10000.0;
          hidden[at] = 1;
          tile_max = larger(tile_max, scores[at]);
        }
        continue;
      }
      double dot = 0;
      const float* key = head.k.data() + j * width;
      for (int64_t d = 0; d < width; ++d) dot += double{query[d]} * double{key[d]};
      scores[at] = score(dot, b, h, i, j);
      tile_max = larger(tile_max, scores[at]);
    }
    if (tile_max == kNothing) return 1.0f;  // nothing visible here: nothing changes

    double m_new = larger(s.m, tile_max);
    if (s.m != s.m) m_new = s.m;
    if constexpr (F == Fault::local_max) m_new = tile_max;
    float factor = s.m == kNothing ? 0.0f : power(s.m - m_new);
    double m_kept = m_new;
    if constexpr (F == Fault::lazy_threshold) {
      if (s.m != kNothing && m_new - s.m < 5.545177444479562) {
        factor = 1.0f;
        m_kept = s.m;
      }
    }
    const int64_t rescaled =
        F == Fault::second_fragment && s.m != kNothing ? std::min<int64_t>(value_width, 32) : value_width;
    for (int64_t d = 0; d < rescaled; ++d) s.o[static_cast<size_t>(d)] *= double{factor};

    double sum = 0;
    for (int64_t t = 0; t < tile; ++t) {
      const size_t at = static_cast<size_t>(t);
      if (scores[at] == kNothing) continue;  // a masked key, whatever K and V hold
      const float p = power(scores[at] - m_new);
      sum += p;
      const int64_t j = first + t;
      if (j >= keys || (hidden[at] != 0 && p == 0)) continue;  // V of padding is 0
      const float weight = F == Fault::p_bf16 ? round_to(ATTEST_BF16, p) : p;
      const float* value = head.v.data() + j * value_width;
      for (int64_t d = 0; d < value_width; ++d) s.o[static_cast<size_t>(d)] += double{weight} * double{value[d]};
    }
    s.l = s.l * double{factor} + sum;
    if constexpr (F == Fault::l_input_type) s.l = double{round_to(type, static_cast<float>(s.l))};
    s.m = m_kept;
    return factor;
  }

  void row(const Head& head, int64_t b, int64_t h, int64_t i, std::vector<float>& query, std::vector<double>& scores,
           std::vector<uint8_t>& hidden) const {
    for (int64_t d = 0; d < width; ++d) query[static_cast<size_t>(d)] = q.load(b, h, i, d);
    const auto [lo, hi] = range(i, length(b));
    double sink = kNothing;
    if (a->sink != nullptr) {
      const View view(*a->sink);
      sink = double{view.load_as<float>(h * view.stride[0])};
    }

    const size_t size = static_cast<size_t>(value_width);
    State total;
    total.o.assign(size, 0.0);
    const int64_t tiles = tiles_of(a), chunk = (tiles + splits - 1) / splits;
    for (int64_t split = 0; split < splits; ++split) {
      State s;
      s.o.assign(size, 0.0);
      if constexpr (F == Fault::flt_min_start) s.m = std::numeric_limits<float>::min();
      const int64_t begin = std::min(split * chunk, tiles), end = std::min(begin + chunk, tiles);
      int64_t stop = hi;  // of this split's visible keys
      if (F == Fault::split_fencepost && splits > 1 && split == 0) stop = std::min(hi, end * tile - 1);

      // The tiles of this split that meet [lo, stop), and the order of visits.
      const int64_t low_tile = std::max(begin, lo / tile);
      const int64_t high_tile = std::min(end, stop > 0 ? (stop + tile - 1) / tile : 0);
      std::vector<int64_t> visits;
      if (lo < stop)
        for (int64_t t = low_tile; t < high_tile; ++t) visits.push_back(t);
      if constexpr (F == Fault::overlapping_tail_tile) {
        // Full tiles: those below hi / tile. The tail tile: number (hi - 1) / tile.
        if (!visits.empty() && hi % tile == 0 && visits.back() == (hi - 1) / tile) visits.push_back(visits.back());
      }
      if (a->tile_order == ATTEST_ORDER_DESCENDING) std::reverse(visits.begin(), visits.end());

      int64_t sequence = 0;
      for (const int64_t t : visits) {
        const float factor = visit(s, query.data(), head, b, h, i, t * tile, lo, stop, scores, hidden);
        record(b, h, i, split, sequence++, t * tile, s, factor);
      }
      if constexpr (F == Fault::finite_empty_lse) {
        if (splits > 1 && s.m == kNothing) {
          s.m = 0;
          s.l = 1;
        }
      }
      if constexpr (F == Fault::sink_per_split) {
        if (s.m != kNothing) merge_sink<F>(s, sink);
      }
      if (F == Fault::flt_min_start && s.l == 0) continue;
      combine<F>(total, s);
    }
    if (!(F == Fault::sink_per_split && total.m != kNothing)) merge_sink<F>(total, sink);

    for (int64_t d = 0; d < value_width; ++d)
      o.store(b, h, i, d, total.l == 0 ? 0.0f : static_cast<float>(total.o[static_cast<size_t>(d)] / total.l));
    if (a->lse == nullptr) return;
    double m = total.m;
    if (F == Fault::lse_scaled_twice && !(a->softcap > 0) && a->bias == nullptr) m *= double{a->scale};
    const auto value = static_cast<float>(total.l == 0 ? kNothing : m + std::log(total.l));
    lse.store_as<float>(b * lse.stride[0] + h * lse.stride[1] + i * lse.stride[2], value);
  }

  void run() const {
    if (rows == 0 || batches == 0 || heads == 0) return;
    const int64_t group = key_heads > 0 ? heads / key_heads : 1;
    std::vector<float> query(static_cast<size_t>(width));
    std::vector<double> scores(static_cast<size_t>(tile));
    std::vector<uint8_t> hidden(static_cast<size_t>(tile));
    for (int64_t b = 0; b < batches; ++b)
      for (int64_t g = 0; g < key_heads; ++g) {
        Head head;
        head.k.resize(static_cast<size_t>(keys * width));
        head.v.resize(static_cast<size_t>(keys * value_width));
        for (int64_t j = 0; j < keys; ++j) {
          for (int64_t d = 0; d < width; ++d) head.k[static_cast<size_t>(j * width + d)] = k.load(b, g, j, d);
          for (int64_t d = 0; d < value_width; ++d)
            head.v[static_cast<size_t>(j * value_width + d)] = v.load(b, g, j, d);
        }
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t key_head = F == Fault::heads_interleaved ? h % key_heads : h / group;
          if (key_head != g) continue;
          for (int64_t i = 0; i < rows; ++i) row(head, b, h, i, query, scores, hidden);
        }
      }
  }
};

// ---- the plug-in -----------------------------------------------------------------------------------------

template <Fault F>
attest_status forward(const attest_args* a, void* /*stream*/, char* message, size_t size) {
  try {
    Kernel<F>(a).run();
    return ATTEST_OK;
  } catch (...) {
    std::snprintf(message, size, "out of memory");
    return ATTEST_FAILED;
  }
}

template <Fault F>
attest_status merge(const attest_state* x, const attest_state* y, const attest_state* out, void* /*stream*/,
                    char* /*message*/, size_t /*size*/) {
  const View xo(*x->o), xl(*x->lse), yo(*y->o), yl(*y->lse), oo(*out->o), ol(*out->lse);
  const int64_t rows = out->o->shape[0], width = out->o->shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    const double p = double{xl.load_as<float>(r * xl.stride[0])}, q = double{yl.load_as<float>(r * yl.stride[0])};
    double m = larger(p, q);
    if (p != p) m = p;
    const auto weight = [&](double mine) {
      if (mine == kNothing) return 0.0f;
      return F == Fault::combine_exp2 ? std::exp2(static_cast<float>(mine - m)) : power(mine - m);
    };
    const float a = weight(p), b = weight(q), sum = a + b;
    for (int64_t d = 0; d < width; ++d) {
      const double left =
          p == kNothing ? 0.0 : double{a} * double{xo.load_as<float>(r * xo.stride[0] + d * xo.stride[1])};
      const double right =
          q == kNothing ? 0.0 : double{b} * double{yo.load_as<float>(r * yo.stride[0] + d * yo.stride[1])};
      oo.store_as<float>(r * oo.stride[0] + d * oo.stride[1],
                         sum == 0 ? 0.0f : static_cast<float>((left + right) / double{sum}));
    }
    ol.store_as<float>(r * ol.stride[0], static_cast<float>(sum == 0 ? kNothing : m + double{std::log(sum)}));
  }
  return ATTEST_OK;
}

int32_t supports(const attest_args* a, char* reason, size_t size) {
  const auto refuse = [&](const char* why) {
    std::snprintf(reason, size, "%s", why);
    return 0;
  };
  if (a->layout != 0) return refuse("only the dense layout");
  const attest_type type = type_of(*a->q);
  if (type == ATTEST_NO_TYPE || type_of(*a->k) != type || type_of(*a->v) != type || type_of(*a->o) != type)
    return refuse("only f32, f16 and bf16, all of one type");
  if (a->bias != nullptr && type_of(*a->bias) != ATTEST_F32 && type_of(*a->bias) != type)
    return refuse("bias in f32 or the input type");
  if (a->tile_keys != 0 && (a->tile_keys < 16 || a->tile_keys > 256)) return refuse("16 to 256 keys per tile");
  if (a->split_count < 0 || a->split_count > 64) return refuse("at most 64 splits");
  if (a->p_type != 0) return refuse("no choice of the type of P");
  return 1;
}

uint64_t trace_capacity(const attest_args* a) {
  const auto rows = static_cast<uint64_t>(a->q->shape[0] * a->q->shape[1] * a->q->shape[2]);
  return rows * static_cast<uint64_t>(tiles_of(a) + 2);
}

constexpr int32_t kTypes[] = {ATTEST_F32, ATTEST_F16, ATTEST_BF16};
constexpr int64_t kTiles[] = {16, 32, 64};
constexpr int32_t kSplits[] = {1, 2, 3, 8};
constexpr int32_t kOrders[] = {ATTEST_ORDER_ASCENDING, ATTEST_ORDER_DESCENDING};

template <Fault F>
attest_kernel make_table() {
  attest_kernel t{};
  t.abi_version = ATTEST_ABI_VERSION;
  t.struct_size = sizeof(attest_kernel);
  t.name = kNames[static_cast<size_t>(F)];
  t.version = "1";
  t.device = kDLCPU;
  t.features = ATTEST_CAUSAL | ATTEST_WINDOW | ATTEST_KEY_LENGTHS | ATTEST_MASK | ATTEST_BIAS_F32 |
               ATTEST_BIAS_INPUT_TYPE | ATTEST_SOFTCAP | ATTEST_SINK | ATTEST_GROUPED_HEADS | ATTEST_LSE |
               ATTEST_STRIDES | ATTEST_UNALIGNED;
  t.types = kTypes;
  t.type_count = static_cast<uint32_t>(std::size(kTypes));
  t.head_width_max = 256;
  t.tiles = kTiles;
  t.tile_count = static_cast<uint32_t>(std::size(kTiles));
  t.splits = kSplits;
  t.split_count = static_cast<uint32_t>(std::size(kSplits));
  t.orders = kOrders;
  t.order_count = static_cast<uint32_t>(std::size(kOrders));
  t.supports = supports;
  t.forward = forward<F>;
  t.merge = merge<F>;
  t.trace_capacity = trace_capacity;
  t.reentrant = 1;
  return t;
}

template <int... I>
const attest_kernel* table(uint32_t index, std::integer_sequence<int, I...>) {
  static const attest_kernel tables[] = {make_table<static_cast<Fault>(I)>()...};
  return index < sizeof...(I) ? &tables[index] : nullptr;
}

}  // namespace

extern "C" const attest_kernel* attest_kernel_get(uint32_t index) {
  return table(index, std::make_integer_sequence<int, static_cast<int>(Fault::count)>{});
}
