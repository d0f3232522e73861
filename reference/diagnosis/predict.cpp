#include "reference/diagnosis/predict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace attest {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnit = 0x1p-23;  // relative error of one f32 operation, rounded or cut
constexpr double kFlush = 0x1p-126;
constexpr double kLn2 = 0.69314718055994530942;

// A value as f32 would hold its range.
double in_f32(double x) { return std::fabs(x) > 0x1.fffffep127 ? std::copysign(kInfinity, x) : x; }

double nan_max(double a, double b) { return a >= b || a != a ? a : b; }

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

struct FormatOf {
  int bits, least_exponent;  // significand bits; exponent of the least normal
  double largest;
};
FormatOf format_of(Narrow n) {
  switch (n) {
    case Narrow::f16: return {11, -14, 65504};
    case Narrow::bf16: return {8, -126, 0x1.fep127};
    case Narrow::e4m3: return {4, -6, 448};
    case Narrow::twelve_bits: return {12, -126, 0x1.ffep127};
    case Narrow::tf32: break;
  }
  return {11, -126, 0x1.ffcp127};
}

}  // namespace

double unit_of(Narrow format) { return std::ldexp(1.0, -format_of(format).bits); }

double round_narrow(Narrow format, double x, bool truncated) {
  if (x == 0 || !std::isfinite(x)) return x;
  const FormatOf f = format_of(format);
  int exponent = 0;
  std::frexp(x, &exponent);
  const int last = std::max(exponent - f.bits, f.least_exponent + 1 - f.bits);
  const double scaled = std::ldexp(x, -last);
  const double rounded = std::ldexp(truncated ? std::trunc(scaled) : std::nearbyint(scaled), last);
  if (std::fabs(rounded) <= f.largest) return rounded;
  return std::copysign(format == Narrow::e4m3 || truncated ? f.largest : kInfinity, x);
}

namespace {

// A value known within `error`, and in f32 before, rounded; and how far the rounding of another value within that may be
// from it.
std::pair<double, double> narrowed(Narrow format, double value, double error, bool truncated) {
  if (static_cast<float>(value) != value) error += kUnit * std::fabs(value);
  const double rounded = round_narrow(format, value, truncated);
  if (!std::isfinite(rounded)) return {rounded, error};
  return {rounded, std::max(std::fabs(round_narrow(format, value - error, truncated) - rounded), std::fabs(round_narrow(format, value + error, truncated) - rounded))};
}

}  // namespace

double Predicted::misfit(double seen) const {
  if (tolerance == kInfinity && !overflow) return 0;
  if (overflow) return !std::isfinite(seen) || seen == 0 || seen == value ? 0 : kInfinity;
  if (std::isnan(value) || std::isnan(seen)) return std::isnan(value) == std::isnan(seen) ? 0 : kInfinity;
  if (value == seen) return 0;
  if (!std::isfinite(value) || !std::isfinite(seen)) return kInfinity;
  return tolerance > 0 ? std::fabs(seen - value) / tolerance : kInfinity;
}

namespace {

// Products of floats are exact; the sum is within d 2^-53 abs.
Dot dot_product(const double* q, const float* k, int64_t d) {
  Dot dot;
  for (int64_t c = 0; c < d; ++c) {
    const double product = q[c] * static_cast<double>(k[c]);
    dot.value += product;
    dot.abs += std::fabs(product);
    dot.terms += product != 0 ? 1 : 0;
  }
  return dot;
}

}  // namespace

Predictor::Predictor(const Problem& problem, const Conventions& conventions, const Numerics& numerics)
    : p_(problem), conventions_(conventions), numerics_(numerics) {}

const HeadData& Predictor::head(int64_t b, int64_t key_head) {
  const auto [at, made] = heads_.try_emplace({b, key_head});
  if (made) at->second.load(p_, b, key_head);
  return at->second;
}

const std::vector<Dot>& Predictor::dots(int64_t qb, int64_t qh, int64_t qi, int64_t kb, int64_t key_head, int64_t columns) {
  const auto [at, made] = dots_.try_emplace({qb, qh, qi, kb, key_head, columns});
  if (!made) return at->second;
  const HeadData& k = head(kb, key_head);
  std::vector<double> q(static_cast<size_t>(p_.shape.d));
  for (int64_t d = 0; d < p_.shape.d; ++d) q[static_cast<size_t>(d)] = p_.q.get(qb, qh, qi, d);
  at->second.resize(static_cast<size_t>(p_.shape.nk));
  for (int64_t j = 0; j < p_.shape.nk; ++j) at->second[static_cast<size_t>(j)] = dot_product(q.data(), k.k_row(j), columns);
  return at->second;
}

RowKind Predictor::kind(const RowPlace& place) {
  visible(place);
  return kinds_.at(place).first;
}

const std::vector<int64_t>& Predictor::visible(const RowPlace& place) {
  const auto [at, made] = kinds_.try_emplace(place);
  if (made) {
    Row row;
    std::vector<double> q(static_cast<size_t>(p_.shape.d));
    for (int64_t d = 0; d < p_.shape.d; ++d) q[static_cast<size_t>(d)] = p_.q.get(place.b, place.h, place.i, d);
    classify(p_, conventions_, head(place.b, p_.shape.key_head(place.h)), q.data(), place.b, place.h, place.i, row);
    at->second = {row.kind, row.key};
  }
  return at->second.second;
}

bool Predictor::visible_by_mask(const Fault& f, const RowPlace& at, int64_t j) const {
  using Mask = Sight::Mask;
  if (!p_.mask || f.sight.mask == Mask::ignored) return true;
  const Layout& l = p_.mask->layout;
  int64_t b = at.b, h = at.h, i = at.i;
  switch (f.sight.mask) {
    case Mask::of_row_zero: i = 0; break;
    case Mask::of_head_zero: h = 0; break;
    case Mask::of_batch_zero: b = 0; break;
    case Mask::of_key_before: j = std::max<int64_t>(j - 1, 0); break;
    case Mask::of_key_after: j = std::min<int64_t>(j + 1, p_.shape.nk - 1); break;
    default: break;
  }
  const bool seen = p_.mask->storage[static_cast<size_t>(broadcast_at(l, b, h, i, j))] != 0;
  return f.sight.mask == Mask::inverted ? !seen : seen;
}

// Is this the key of a boundary between splits that the fault is about?
bool Predictor::at_split_boundary(const Fault& f, int64_t key) const {
  if (f.walk.splits <= 1 || key < 0 || (f.weighed_key != KeyRule::first_of_split && f.weighed_key != KeyRule::last_of_split)) return false;
  const int64_t size = std::max<int64_t>(1, f.walk.keys_per_split(p_.shape.nk)), behind = f.weighed_key == KeyRule::last_of_split ? key + 1 : key;
  return behind > 0 && behind < p_.shape.nk && behind % size == 0 && (f.index < 0 || behind / size - 1 == f.index);
}

// Does the row visit a tile that ends behind the last key?
bool Predictor::reaches_padding(const Fault& f) const {
  const int64_t tile = std::max<int64_t>(1, f.walk.tile);
  return p_.shape.nk % tile != 0 && range_end_ > p_.shape.nk / tile * tile && range_end_ > range_begin_;
}

// Fills keys_: every key of K, padding included, with whether it counts and its score.
void Predictor::look(const Fault& f, const RowPlace& at) {
  const Shape& s = p_.shape;
  const Sight& sight = f.sight;
  // The range, as reference/visible.cpp has it, with the fault's changes.
  int64_t length = s.nk;
  if (p_.key_lengths && !sight.no_length)
    length = std::clamp<int64_t>((*p_.key_lengths)[static_cast<size_t>(sight.length_of_batch_zero ? 0 : at.b)] + sight.length_shift, 0, s.nk);
  const bool top_left = conventions_.causal_top_left != sight.other_corner;
  const int64_t right_length = p_.key_lengths ? (*p_.key_lengths)[static_cast<size_t>(at.b)] : s.nk;
  const int64_t row = std::clamp<int64_t>(at.i + f.row_shift, 0, std::max<int64_t>(s.nq - 1, 0));
  using Corner = Sight::Corner;
  const auto position_at = [&](Corner corner) {
    const bool from_nk = sight.position_from_nk || corner == Corner::from_nk;
    int64_t at_key = row;
    if (top_left == (corner == Corner::other)) at_key += (from_nk ? s.nk : sight.length_of_batch_zero || sight.position_moves ? length : right_length) - s.nq;
    return sight.causal_clamped ? std::max<int64_t>(at_key, 0) : at_key;
  };
  const int64_t left_position = position_at(sight.left_at), right_position = position_at(sight.right_at);
  int64_t first = 0, last = length - 1;
  int64_t causal_last = last, window_first = 0, window_last = last;
  const bool windowed = p_.window.left || p_.window.right;
  if (p_.causal && !sight.no_causal && !(sight.window_ends_causal && windowed)) {
    const int64_t block = sight.causal_block > 0 ? std::min(row / sight.causal_block * sight.causal_block + sight.causal_block - 1, s.nq - 1) - row : 0;
    last = causal_last = std::min(last, position_at(sight.causal_at) + sight.causal_shift + block);
  }
  if (p_.window.left && !sight.no_left && *p_.window.left < left_position - sight.left_shift)
    first = window_first = std::max<int64_t>(first, left_position - *p_.window.left - sight.left_shift - (sight.row_block > 0 ? row % sight.row_block : 0));
  if (p_.window.right && !sight.no_right && *p_.window.right + sight.right_shift < window_last - right_position) {
    window_last = right_position + *p_.window.right + sight.right_shift;
    last = std::min(last, window_last);
  }
  if (sight.cut_begin > 0) first = round_up(first, sight.cut_begin);
  if (sight.round_begin > 0) first = first / sight.round_begin * sight.round_begin;
  if (sight.round_end > 0 && last >= first) last = std::min(round_up(last + 1, sight.round_end), s.nk) - 1;
  if (sight.cut_end > 0 && last >= first) last = (last + 1) / sight.cut_end * sight.cut_end - 1;
  range_begin_ = first;
  range_end_ = std::max(first, last + 1);
  length_ = length;

  const int64_t qh = f.head_zero_query ? 0 : at.h;
  const int64_t group = s.hq / s.hk, own = at.h / group;
  const auto by_rule = [&](HeadRule rule) {
    switch (rule) {
      case HeadRule::right: return own;
      case HeadRule::modulo: return at.h % s.hk;
      case HeadRule::zero: return int64_t{0};
      case HeadRule::next: return (own + 1) % s.hk;
      case HeadRule::clamped: return std::min(at.h, s.hk - 1);
      case HeadRule::divided: return std::min(at.h / s.hk, s.hk - 1);
      case HeadRule::last: return s.hk - 1;
    }
    return own;
  };
  const int64_t kb = f.batch_zero_keys ? 0 : at.b, kg = by_rule(f.key_head);
  const int64_t columns = f.columns > 0 ? std::min(f.columns, s.d) : s.d;
  const auto& dot = dots(f.batch_zero_query ? 0 : at.b, qh, row, kb, kg, columns);

  const double scale = double(p_.scale) * f.scale_factor, cap = p_.softcap;
  const int64_t bias_row = f.bias == BiasRule::of_row_zero ? 0 : at.i, bias_head = f.bias == BiasRule::of_head_zero ? 0 : at.h;
  const int64_t bias_batch = f.bias == BiasRule::of_batch_zero ? 0 : at.b;
  keys_.clear();
  for (int64_t j = 0; j < s.nk; ++j) {
    const Dot& product = dot[static_cast<size_t>(j)];
    double bias = f.bias == BiasRule::missing ? 0 : bias_of(p_, bias_batch, bias_head, bias_row, f.bias == BiasRule::of_key_before ? std::max<int64_t>(j - 1, 0) : j);
    if (f.bias == BiasRule::infinite_ignored && bias == -kInfinity) bias = 0;
    if (f.bias == BiasRule::lowest_masks && bias == -largest_finite(p_.bias ? p_.bias->type : DType::f32)) bias = -kInfinity;
    const bool hidden_by_bias = bias == -kInfinity && f.bias != BiasRule::negated;
    if (f.bias == BiasRule::negated) bias = -bias;
    if (f.bias == BiasRule::twice) bias *= 2;
    if (f.bias == BiasRule::scaled) bias *= scale;
    if (f.bias == BiasRule::times) bias *= f.number;
    double x = scale * product.value;
    if (!std::isfinite(product.abs)) {
      x = 0;
      for (int64_t d = 0; d < columns; ++d) x += p_.q.get(f.batch_zero_query ? 0 : at.b, qh, row, d) * double(head(kb, kg).k_row(j)[d]);
      x *= scale;
    }
    double error = product.terms > 1 ? product.abs * (1 + std::sqrt(product.terms)) * kUnit : 0;
    if (f.score_format && f.index != 2) {  // the dot product is narrow
      const auto [narrow, off] = narrowed(*f.score_format, product.value, error, f.truncated);
      x = scale * narrow;
      error = off;
    }
    error *= std::fabs(scale);
    double t = x;
    if (cap > 0) {
      error = std::min(error, 2 * cap) + 0x1p-21 * std::min(std::fabs(x), cap);
      switch (f.softcap) {
        case Softcap::right: t = cap * std::tanh(x / cap); break;
        case Softcap::missing: break;
        case Softcap::over_bias: t = cap * std::tanh((x + bias) / cap), bias = 0; break;
        case Softcap::clamped: t = std::clamp(x, -cap, cap); break;
        case Softcap::not_scaled_back: t = std::tanh(x / cap); break;
        case Softcap::twice: t = cap * std::tanh(std::tanh(x / cap)); break;
        case Softcap::two_exponentials: {
          const double u = x / cap;
          t = std::fabs(u) > 88.72 ? std::nan("") : cap * std::tanh(u);  // infinity over infinity
          error += 4 * kUnit * cap * (1 + std::min(std::fabs(u), 4.0));  // what e^u - e^-u cancels
          break;
        }
        case Softcap::rational: {
          const double u = x / cap;
          t = cap * (std::fabs(u) >= 3 ? std::copysign(1.0, u) : u * (27 + u * u) / (27 + 9 * u * u));
          break;
        }
        case Softcap::before_scale: t = scale * cap * std::tanh(product.value / cap); break;
      }
    }
    double score = t + bias;
    if (cap > 0 || bias != 0) error += kUnit * (std::fabs(x) + std::fabs(score));
    if (f.score_format && f.index >= 1) std::tie(score, error) = narrowed(*f.score_format, score, error, f.truncated);
    const bool in_range = j >= range_begin_ && j < range_end_;
    const bool by_mask = visible_by_mask(f, at, j);
    bool counts = in_range && by_mask && !hidden_by_bias;
    if (!counts) {
      if (f.special == Special::masked_score_leaks && std::isnan(x)) counts = true;
      if (f.masked_score) {
        uint8_t hidden = hidden_by_bias ? hides::bias : 0;
        if (!by_mask) hidden |= hides::mask;
        if (j >= length) hidden |= hides::length;
        if (j > causal_last && causal_last < length - 1) hidden |= hides::causal;
        if (j < window_first || j > window_last) hidden |= j < length ? hides::window : 0;
        if ((hidden & ~f.scored_kinds) == 0) {
          score = f.masked_score_added ? score + *f.masked_score : *f.masked_score;
          counts = true;
        }
      }
    } else if (f.special == Special::nan_swallowed && (std::isnan(score) || score == kInfinity)) {
      counts = false;
    }
    if (score == -kInfinity) counts = false;
    keys_.push_back({j, counts, score, error});
  }
  const auto counting = [](const Key& k) { return k.counts; };
  const auto make_count = [&](int64_t j) {
    if (j < 0 || j >= s.nk) return;
    Key& k = keys_[static_cast<size_t>(j)];
    k.counts = k.score != -kInfinity;
  };
  const auto begin = std::find_if(keys_.begin(), keys_.end(), counting);
  if (begin != keys_.end()) {
    const int64_t first_key = begin->index, last_key = std::find_if(keys_.rbegin(), keys_.rend(), counting)->index;
    if (f.weighed_key == KeyRule::before_first) make_count(first_key - 1);
    if (f.weighed_key == KeyRule::after_last) make_count(last_key + 1);
    // A key that is left out is one that nothing sees: its tile may not be visited.
    if (f.weight == 0 && f.weighed_key == KeyRule::first_visible) keys_[static_cast<size_t>(first_key)].counts = false;
    if (f.weight == 0 && f.weighed_key == KeyRule::last_visible) keys_[static_cast<size_t>(last_key)].counts = false;
    if (f.weight == 0 && f.weighed_key == KeyRule::key && f.key < s.nk) keys_[static_cast<size_t>(f.key)].counts = false;
  }
  if (f.family == Family::key_leaked && f.weighed_key == KeyRule::key) make_count(f.key);
  if (sight.pad_to > 0) {
    const int64_t padded = round_up(s.nk, sight.pad_to);
    for (int64_t j = s.nk; j < padded; ++j) keys_.push_back({-1, true, 0.0, 0.0});
  }
}

void Predictor::merge(const Fault& f, State& a, const State& b, bool rescaled, std::span<const int64_t> columns) const {
  const double alpha = f.exponent_factor;
  double m = nan_max(a.m, b.m);
  const auto right = [&](double old) { return old == -kInfinity ? 0.0 : std::exp(alpha * (old - m)); };
  double la = right(a.m), lb = right(b.m), oa = la, ob = lb;
  const auto unscaled = [](double old) { return old == -kInfinity ? 0.0 : 1.0; };
  if (!rescaled) la = oa = unscaled(a.m), lb = ob = unscaled(b.m);
  if (f.merges_like_tiles) switch (f.fold) {
      case Fold::tile_maximum:
      case Fold::tiles_averaged: m = b.m; [[fallthrough]];
      case Fold::no_rescale: la = oa = unscaled(a.m), lb = ob = unscaled(b.m); break;
      case Fold::no_rescale_o: oa = unscaled(a.m), ob = unscaled(b.m); break;
      case Fold::no_rescale_l: la = unscaled(a.m), lb = unscaled(b.m); break;
      case Fold::tile_maximum_factor:
        m = b.m;
        la = oa = a.m == -kInfinity ? 0.0 : in_f32(std::exp(alpha * (a.m - m)));
        lb = ob = 1;
        break;
      case Fold::no_maximum: m = f.number, la = oa = lb = ob = 1; break;
      case Fold::factor_power:
        la = oa = a.m == -kInfinity ? 0.0 : in_f32(std::exp(alpha * f.number * (a.m - m)));
        lb = ob = b.m == -kInfinity ? 0.0 : in_f32(std::exp(alpha * f.number * (b.m - m)));
        break;
      case Fold::first_maximum:
        if (a.m != -kInfinity) m = a.m, la = oa = lb = ob = 1;
        break;
      case Fold::last_sum: la = 0; break;
      case Fold::last_output: oa = 0; break;
      default: break;
    }
  const double right_a = right(a.m), right_b = right(b.m);  // for the columns of O that the fault leaves alone
  switch (f.merge) {
    case Merge::no_rescale: la = oa = unscaled(a.m), lb = ob = unscaled(b.m); break;
    case Merge::swapped: std::swap(la, lb), std::swap(oa, ob); break;
    case Merge::power: {
      const auto power = [&](double old) { return old == -kInfinity ? 0.0 : std::exp(f.number * (old - m)); };
      la = oa = power(a.m), lb = ob = power(b.m);
      break;
    }
    case Merge::first_only:
      if (a.seen && b.seen) lb = ob = 0;
      break;
    case Merge::second_only:
      if (a.seen && b.seen) la = oa = 0;
      break;
    case Merge::larger_only: (a.m >= b.m ? lb : la) = (a.m >= b.m ? ob : oa) = 0; break;
    case Merge::second_twice: lb *= 2, ob *= 2; break;
    case Merge::first_twice: la *= 2, oa *= 2; break;
    case Merge::first_not_rescaled: la = oa = unscaled(a.m); break;
    case Merge::second_not_rescaled: lb = ob = unscaled(b.m); break;
    case Merge::narrow_both: la = oa = round_narrow(*f.factor_format, la, f.truncated); [[fallthrough]];
    case Merge::narrow_second: lb = ob = round_narrow(*f.factor_format, lb, f.truncated); break;
    default: break;
  }
  const double loss = 2 * kUnit;
  a.l_error = a.l_error * la + b.l_error * lb + loss * (a.l * la + b.l * lb);
  a.l = in_f32(a.l * la + b.l * lb);
  for (size_t d = 0; d < a.o.size(); ++d) {
    const bool affected = columns[d] >= f.columns_begin && columns[d] < f.columns_end;
    const double ca = affected ? oa : right_a, cb = affected ? ob : right_b;
    const double x = ca == 0 ? 0.0 : a.o[d] * ca, y = cb == 0 ? 0.0 : b.o[d] * cb;
    a.o_error[d] = a.o_error[d] * ca + b.o_error[d] * cb + loss * (std::fabs(x) + std::fabs(y));
    a.o[d] = x + y;
  }
  a.m = m;
  a.seen = a.seen || b.seen;
  a.overflow = a.overflow || b.overflow || !std::isfinite(a.l);
}

void Predictor::walk_split(const Fault& f, int64_t begin, int64_t end, int32_t split, const HeadData& values, std::span<const int64_t> columns, State& st) {
  const size_t width = columns.size();
  const double start = f.fold == Fold::start_finite || f.fold == Fold::no_maximum ? f.number : -kInfinity;
  st.m = start;
  st.l = st.l_error = 0;
  st.last_m = st.last_l = 0;
  st.seen = st.overflow = false;
  st.o.assign(width, 0.0);
  st.o_error.assign(width, 0.0);
  const double p_unit = numerics_.p_type == DType::f32 ? 0.0 : std::ldexp(1.0, -significand_bits(numerics_.p_type));
  const double p_flush = numerics_.p_type == DType::f16 ? 0x1p-25 : kFlush;
  const double p_largest = numerics_.p_type == DType::f16 ? 65519.99 : numerics_.p_type == DType::bf16 ? 0x1.fefp127 : 0x1.fffffep127;
  const double alpha = f.exponent_factor;
  const int64_t tile = std::max<int64_t>(1, f.walk.tile), tiles = (end - begin + tile - 1) / tile;
  int64_t rises = 0, rises_in_all = 0;
  if (f.fold == Fold::skip_one_rescale && f.index < 0) {  // counts the rises beforehand, to find the last
    double m = start;
    for (int64_t n = 0; n < tiles; ++n) {
      const int64_t at = f.walk.descending ? tiles - 1 - n : n;
      double most = -kInfinity;
      for (int64_t j = begin + at * tile; j < std::min(end, begin + (at + 1) * tile); ++j)
        if (keys_[static_cast<size_t>(j)].counts) most = nan_max(most, keys_[static_cast<size_t>(j)].score);
      if (most > m && m != -kInfinity) ++rises_in_all;
      m = nan_max(m, most);
    }
  }
  int64_t first_key = -1, last_key = -1;
  for (const Key& k : keys_)
    if (k.counts) {
      if (first_key < 0) first_key = k.index;
      last_key = k.index;
    }
  double before_l = 1, before_o = 1;  // factors of the visit before
  int64_t visit = -1;
  double summed = 0;  // terms in a sum so far
  int64_t averaged = 0;
  for (int64_t n = 0; n < tiles; ++n) {
    const int64_t at = f.walk.descending ? tiles - 1 - n : n;
    const int64_t from = begin + at * tile, to = std::min(end, from + tile);
    double most = -kInfinity;
    int64_t tile_first = -1, tile_last = -1;
    for (int64_t j = from; j < to; ++j)
      if (const Key& k = keys_[static_cast<size_t>(j)]; k.counts) {
        most = nan_max(most, k.score);
        if (tile_first < 0) tile_first = j;
        tile_last = j;
      }
    if (tile_first < 0) {
      const bool in_range = from < range_end_ && to > range_begin_;
      if (st.m == -kInfinity && (f.special == Special::empty_tile_nan || (f.special == Special::empty_tile_in_range_nan && in_range))) poisoned_ = true;
      continue;
    }
    const auto has = [&](int64_t key) { return key >= from && key < to; };
    const bool ends_here = f.range_ends == Fault::RangeEnds::anywhere || (has(range_end_ - 1) && (range_end_ % tile == 0) == (f.range_ends == Fault::RangeEnds::with_tile));
    const bool weighed = f.range_ends != Fault::RangeEnds::anywhere ? ends_here : f.weighed_tile && (*f.weighed_tile == -1 ? has(last_key) : *f.weighed_tile == -2 ? has(first_key) : *f.weighed_tile == from / tile);
    if (weighed && f.weight == 0) continue;  // a tile that is left out is one that nothing sees
    ++visit;
    const double m_before = st.m;
    double tied = std::nan("");  // the score of the key before
    double m_new = nan_max(st.m, most), f_l = 1, f_o = 1;
    double weigh_at = m_new;
    const double right_factor = st.m == -kInfinity ? 0.0 : std::exp(alpha * (st.m - m_new));
    const bool rise = m_new > st.m && st.m != -kInfinity;
    if (rise) ++rises;
    const double unscaled = st.m == -kInfinity ? 0.0 : 1.0;
    f_l = f_o = right_factor;
    switch (f.fold) {
      case Fold::right: break;
      case Fold::no_rescale: f_l = f_o = unscaled; break;
      case Fold::no_rescale_o: f_o = unscaled; break;
      case Fold::no_rescale_l: f_l = unscaled; break;
      case Fold::tile_maximum: m_new = weigh_at = most; f_l = f_o = unscaled; break;
      case Fold::tile_maximum_factor:
        m_new = weigh_at = most;
        f_l = f_o = st.m == -kInfinity ? 0.0 : in_f32(std::exp(alpha * (st.m - m_new)));
        break;
      case Fold::tiles_averaged:
      case Fold::tiles_added: weigh_at = most; f_l = f_o = unscaled; break;
      case Fold::no_maximum: m_new = weigh_at = f.number; f_l = f_o = 1; break;
      case Fold::first_maximum:
        if (st.m != -kInfinity) m_new = weigh_at = st.m, f_l = f_o = 1;
        break;
      case Fold::maximum_before:
        if (st.m != -kInfinity) weigh_at = st.m;
        break;
      case Fold::start_finite: break;
      case Fold::factor_power: f_l = f_o = st.m == -kInfinity ? 0.0 : in_f32(std::exp(alpha * f.number * (st.m - m_new))); break;
      case Fold::skip_one_rescale:
        if (rise && (f.index >= 0 ? rises - 1 == f.index : rises == rises_in_all + f.index + 1)) f_l = f_o = 1;
        break;
      case Fold::lazy:
        if (st.m != -kInfinity && m_new - st.m <= f.number) f_l = f_o = 1, m_new = st.m;
        break;
      case Fold::lazy_known:
        if (st.m != -kInfinity && m_new - st.m <= f.number) f_l = f_o = 1, m_new = weigh_at = st.m;
        break;
      case Fold::skip_small:
        if (rise && m_new - st.m <= f.number) f_l = f_o = 1;
        break;
      case Fold::skip_large:
        if (rise && m_new - st.m > f.number) f_l = f_o = 1;
        break;
      case Fold::skip_visit:
        if (visit == f.index) f_l = f_o = unscaled, f_l = f.number == 1 ? right_factor : f_l;
        break;
      case Fold::late:
      case Fold::late_o:
        if (st.m != -kInfinity) {
          f_o = before_o;
          if (f.fold == Fold::late) f_l = before_l;
        }
        before_l = before_o = st.m == -kInfinity ? 1.0 : right_factor;
        break;
      case Fold::clear:
        if (rise) f_l = f_o = 0;
        break;
      case Fold::narrow_factor: f_l = round_narrow(*f.factor_format, f_l, f.truncated); [[fallthrough]];
      case Fold::narrow_factor_o: f_o = round_narrow(*f.factor_format, f_o, f.truncated); break;
      case Fold::minimum:
      case Fold::magnitude:
      case Fold::unscaled:
      case Fold::masked_too: {
        double reference = st.m;
        for (int64_t j = from; j < to; ++j) {
          const Key& k = keys_[static_cast<size_t>(j)];
          if (!k.counts && f.fold != Fold::masked_too) continue;
          const double score = f.fold == Fold::magnitude ? std::fabs(k.score) : f.fold == Fold::unscaled ? (p_.scale < 0 ? -k.score : k.score) : k.score;
          if (f.fold == Fold::minimum) reference = reference == -kInfinity || score < reference ? score : reference;
          else reference = nan_max(reference, score);
        }
        if (f.fold == Fold::unscaled && p_.scale < 0) {
          // max of the unscaled dot products: the least score where the scale is negative.
          double least = st.m == -kInfinity ? kInfinity : st.m;
          for (int64_t j = from; j < to; ++j)
            if (const Key& k = keys_[static_cast<size_t>(j)]; k.counts) least = std::min(least, k.score);
          reference = least;
        }
        m_new = weigh_at = reference;
        f_l = f_o = st.m == -kInfinity ? 0.0 : in_f32(std::exp(alpha * (st.m - m_new)));
        break;
      }
      case Fold::last_sum: f_l = 0; break;
      case Fold::last_output: f_o = 0; break;
    }
    const double tile_weight = weighed ? f.weight : 1;
    double sum = 0, sum_error = 0, score_error = 0;
    if (f_l != 1 || st.l == 0) st.l_error = st.l_error * f_l + 3 * kUnit * st.l * f_l;
    st.l = st.l * f_l;
    for (size_t d = 0; d < width; ++d) {
      const double factor = columns[d] >= f.columns_begin && columns[d] < f.columns_end ? f_o : right_factor;
      st.o_error[d] = st.o_error[d] * factor + (factor == 1 ? 0 : 3 * kUnit * std::fabs(st.o[d] * factor));
      st.o[d] = factor == 0 ? 0.0 : st.o[d] * factor;
    }
    double own = 0;
    if (f.fold == Fold::tiles_averaged || f.fold == Fold::tiles_added) {
      for (int64_t j = tile_first; j <= tile_last; ++j)
        if (const Key& k = keys_[static_cast<size_t>(j)]; k.counts) own += std::exp(alpha * (k.score - most));
      ++averaged;
    }
    const double terms = double(tile_last - tile_first + 1) + summed;
    const double add_unit = terms > 1 ? (2 + std::sqrt(terms)) * kUnit : 0;
    for (int64_t j = from; j < to; ++j) {
      const Key& k = keys_[static_cast<size_t>(j)];
      if (!k.counts) {
        if (f.exp == ExpRule::floor_masked_too && k.index >= 0) {
          sum += f.number;
          for (size_t d = 0; d < width; ++d) st.o[d] += f.number * double(values.v_row(k.index)[columns[d]]);
        }
        if (f.special == Special::masked_value_leaks && values.v_nonfinite && k.index >= 0)
          for (size_t d = 0; d < width; ++d)
            if (!std::isfinite(values.v_row(k.index)[columns[d]])) st.o[d] = std::nan("");
        continue;
      }
      const double argument = alpha * f.weight_factor * (k.score - weigh_at);
      const double exact = std::exp(argument);
      double p = in_f32(exact);
      if (f.exp == ExpRule::floor || f.exp == ExpRule::floor_masked_too) p = std::max(p, f.number);
      if (f.exp == ExpRule::flushed_below && argument < f.number) p = 0;
      if (f.exp == ExpRule::biased && argument != 0) p *= 1 + f.number;
      if (f.exp == ExpRule::wraps && argument < -126 * kLn2) p = in_f32(std::exp(argument + 256 * kLn2));
      if (!std::isfinite(p)) st.overflow = true;
      if (own > 0) p /= own;
      // exp(0) is 1.
      const double relative = std::min(1.0, std::fabs(alpha) * k.error + (argument != 0 ? kUnit * (1 + 2 * std::fabs(argument)) + f.exp_error + 0x1p-22 : 0));
      score_error = std::max(score_error, k.error);
      double w = tile_weight;
      // Keys that tie: with the maximum of the tiles before, or with the key before while both are the maximum.
      if ((f.weighed_key == KeyRule::tied_with_maximum_before && k.score == m_before) ||
          (f.weighed_key == KeyRule::tied_with_key_before && k.score == tied && k.score == weigh_at))
        w *= f.weight;
      tied = k.score;
      const bool left_out = f.weight == 0 && f.weighed_key != KeyRule::first_of_tile && f.weighed_key != KeyRule::last_of_tile;
      const bool named = !left_out && ((f.weighed_key == KeyRule::key && k.index == f.key) || (f.weighed_key == KeyRule::first_visible && k.index == first_key) ||
                         (f.weighed_key == KeyRule::last_visible && k.index == last_key) || (f.weighed_key == KeyRule::first_of_tile && j == tile_first) ||
                         (f.weighed_key == KeyRule::last_of_tile && j == tile_last) || at_split_boundary(f, j));
      if (named) w *= f.weight;
      double in_o = p;
      if (p > p_largest && std::isfinite(p)) in_o = kInfinity;
      if (f.largest_weight) in_o = std::min(in_o, *f.largest_weight);
      double narrowing = 0;  // where p is close to a tie, its rounding may go either way
      if (f.weight_format) {
        std::tie(in_o, narrowing) = narrowed(*f.weight_format, p, p * relative, f.truncated);
        if (f.narrow_sum_of_weights) p = in_o;
      }
      const double in_l = p * w;
      in_o *= w;
      sum += in_l;
      sum_error += in_l * (relative + p_unit) + p_flush + (f.narrow_sum_of_weights ? narrowing * w : 0);
      if (f.sum_format && f.index == 1) st.l = round_narrow(*f.sum_format, st.l + in_l, f.truncated);
      const double o_unit = relative + p_unit + add_unit;
      for (size_t d = 0; d < width; ++d) {
        const int64_t v_row = k.index + f.value_shift;
        const double v = k.index < 0 || v_row < 0 || v_row >= values.nk ? 0.0 : double(values.v_row(v_row)[columns[d]]);
        if (f.special == Special::value_swallowed && !std::isfinite(v)) continue;
        const double term = in_o * v;
        st.o[d] += term;
        st.o_error[d] += std::fabs(term) * o_unit + (p_flush + narrowing * w) * std::fabs(v);
        if (f.output_format && f.index == 1) {
          st.o[d] = round_narrow(*f.output_format, st.o[d], f.truncated);
          // Another order of the terms would round otherwise: a random walk of half units.
          st.o_error[d] += 0.5 * unit_of(*f.output_format) * std::fabs(st.o[d]) / std::sqrt(1 + 0.1 * (summed + double(j - tile_first)));
        }
      }
    }
    if (f.largest_tile_sum) sum = std::min(sum, *f.largest_tile_sum);
    summed += double(tile_last - tile_first + 1);
    if (!(f.sum_format && f.index == 1)) st.l = in_f32(st.l + sum);
    st.l_error += sum_error + add_unit * st.l;
    if (f.sum_format) st.l = round_narrow(*f.sum_format, st.l, f.truncated);
    if (f.output_format && f.index != 2)
      for (size_t d = 0; d < width; ++d) {
        st.o[d] = round_narrow(*f.output_format, st.o[d], f.truncated);
        st.o_error[d] += 1.5 * unit_of(*f.output_format) * std::fabs(st.o[d]);
      }
    if (!std::isfinite(st.l) && !std::isnan(m_new)) st.overflow = true;
    st.last_m = most;
    st.last_l = sum;
    st.m = m_new;
    st.seen = true;
    out_.visits.push_back({split, from, std::min(to, p_.shape.nk), st.m, st.l, f_l, st.l_error, kUnit * 3 * std::fabs(st.m) + score_error});
  }
  if (f.fold == Fold::tiles_averaged && averaged > 0) {
    // Each tile's weights sum to 1; the sum over tiles is their number.
    st.l = double(averaged);
    st.l_error = 4 * kUnit * st.l;
  }
  if (f.fold == Fold::tiles_added) {
    st.l = st.seen ? 1 : 0;
    st.l_error = 4 * kUnit;
  }
}

// What becomes of the final state: division, LSE, and what a row without keys gives.
void Predictor::finish(const Fault& f, State& st, double lse_without_sink, bool lse_seen, std::span<const int64_t> columns, const HeadData& values) {
  const size_t width = columns.size();
  const double unit = std::ldexp(1.0, -significand_bits(p_.type));
  const auto rounded = [&](double value, double error) {
    Predicted e{value, error, false};
    if (!std::isfinite(value)) return e;
    e.tolerance += std::max(std::fabs(value) * unit, std::ldexp(1.0, min_subnormal_exponent(p_.type) - 1)) * 1.01 + std::fabs(value) * 2 * kUnit + kFlush;
    if (f.output_format && f.index == 2 && f.division == Division::right) {
      // Only the result is narrow: rounded or cut to it, as exactly as the sums allow.
      e.value = round_narrow(*f.output_format, value, f.truncated);
      e.tolerance = error + std::fabs(value) * 2 * kUnit + kFlush +
                    1.01 * (error > 0 ? std::max(2 * unit_of(*f.output_format) * std::fabs(value), std::ldexp(1.0, min_subnormal_exponent(p_.type))) : 0);
    } else if (f.output_format || f.truncated) {
      e.tolerance += std::fabs(value) * unit;
    }
    // Rounded beyond the type's largest value: that value, or infinity.
    if (std::fabs(value) > largest_finite(p_.type)) e.overflow = true, e.value = std::copysign(largest_finite(p_.type), value);
    return e;
  };
  const auto fill_o = [&](auto value) {
    for (size_t d = 0; d < width; ++d) out_.o[d] = value(d);
  };
  const Predicted free{0, kInfinity, false};
  const auto mean_over = [&](int64_t begin, int64_t end) {
    fill_o([&](size_t d) {
      double sum = 0, abs = 0;
      for (int64_t j = begin; j < end; ++j) {
        const double v = values.v_row(j)[columns[d]];
        sum += v;
        abs += std::fabs(v);
      }
      const double n = std::max<double>(1, double(end - begin));
      return rounded(sum / n, abs / n * (unit + 16 * kUnit));
    });
  };

  if (f.constant != Constant::none) {
    out_.lse = free;
    switch (f.constant) {
      case Constant::zero: fill_o([&](size_t) { return rounded(0, 0); }); break;
      case Constant::nan: fill_o([&](size_t) { return Predicted{std::nan(""), 0, false}; }); break;
      case Constant::mean_of_all: mean_over(0, p_.shape.nk); break;
      case Constant::first: fill_o([&](size_t d) { return rounded(p_.shape.nk > 0 ? double(values.v_row(0)[columns[d]]) : 0, 0); }); break;
      default: {
        int64_t n = 0;
        for (const Key& k : keys_) n += k.counts;
        fill_o([&](size_t d) {
          double sum = 0, abs = 0;
          for (const Key& k : keys_)
            if (k.counts && k.index >= 0) sum += values.v_row(k.index)[columns[d]], abs += std::fabs(values.v_row(k.index)[columns[d]]);
          return rounded(n > 0 ? sum / double(n) : 0, n > 0 ? abs / double(n) * (unit + 16 * kUnit) : 0);
        });
      }
    }
    return;
  }

  const bool empty = !st.seen && st.l == 0;
  if (empty || (!lse_seen && f.empty_row != EmptyRow::right)) {
    const double lse = conventions_.empty_row_lse_inf ? kInfinity : -kInfinity;
    out_.lse = {lse, 0, false};
    fill_o([&](size_t) { return Predicted{conventions_.empty_row_o_nan ? std::nan("") : 0.0, 0, false}; });
    switch (f.empty_row) {
      case EmptyRow::right: break;
      case EmptyRow::nan: fill_o([&](size_t) { return Predicted{std::nan(""), 0, false}; }); out_.lse = free; break;
      case EmptyRow::only_o_nan: fill_o([&](size_t) { return Predicted{std::nan(""), 0, false}; }); break;
      case EmptyRow::mean: mean_over(0, p_.shape.nk); break;
      case EmptyRow::mean_lse: mean_over(0, p_.shape.nk); out_.lse = free; break;
      case EmptyRow::first_value: fill_o([&](size_t d) { return rounded(p_.shape.nk > 0 ? double(values.v_row(0)[columns[d]]) : 0, 0); }); out_.lse = free; break;
      case EmptyRow::lse_zero: out_.lse.value = 0; break;
      case EmptyRow::lse_nan: out_.lse.value = std::nan(""); break;
      case EmptyRow::lse_infinity: out_.lse.value = kInfinity; break;
      case EmptyRow::lse_lowest: out_.lse = free; break;
      case EmptyRow::anything: out_.lse = free; fill_o([&](size_t) { return free; }); break;
    }
    if (f.lse == LseRule::zero) out_.lse.value = 0;
    if (f.lse == LseRule::negated) out_.lse.value = -lse;
    if (poisoned_) {
      fill_o([&](size_t) { return Predicted{std::nan(""), 0, false}; });
      out_.lse = free;
    }
    return;
  }

  bool lse_is_free = false;
  if (f.sum_as_lse_shows && seen_ != nullptr && std::isfinite(*seen_)) {
    const double shown = std::exp(*seen_ - st.m);
    // Where LSE is right, l is not what is wrong.
    if (std::fabs(shown - st.l) <= f.number * st.l && std::fabs(shown - st.l) > 2 * st.l_error) {
      st.l_error = shown * kUnit * (2 + 2 * std::fabs(*seen_)) + st.l_error * 0x1p-3;
      st.l = shown;
      lse_is_free = true;
    }
  }
  double divisor = st.l, divisor_error = st.l_error;
  switch (f.division) {
    case Division::right: break;
    case Division::none: divisor = 1; divisor_error = 0; break;
    case Division::by_count: divisor = double(std::max<int64_t>(1, std::count_if(keys_.begin(), keys_.end(), [](const Key& k) { return k.counts; }))); divisor_error = 0; break;
    case Division::by_last_tile: divisor = st.last_l; divisor_error = kUnit * 16 * st.last_l; break;
    case Division::by_maximum_sum: divisor = 1 + st.l; break;
    case Division::twice: divisor = st.l * st.l; divisor_error *= 2 * st.l; break;
    case Division::sqrt: divisor = std::sqrt(st.l); break;
    case Division::plus: divisor = st.l + f.number; break;
    case Division::at_most: divisor = std::min(st.l, f.number); break;
    case Division::at_least: divisor = std::max(st.l, f.number); break;
    case Division::by_rounded_lse: {
      // Both neighbours where the rounding is close.
      const double lse = st.m + std::log(st.l), error = divisor_error / st.l;
      const double low = std::exp(double(static_cast<float>(lse - error)) - st.m), high = std::exp(double(static_cast<float>(lse + error)) - st.m);
      divisor = (low + high) / 2;
      divisor_error = (high - low) / 2 + 4 * kUnit * divisor;
      break;
    }
    case Division::narrow_reciprocal: divisor = 1 / round_narrow(*f.output_format, 1 / st.l, f.truncated); break;
  }
  const double sum_limit = f.sums_in_input_type ? largest_finite(p_.type) : kInfinity;
  fill_o([&](size_t d) {
    if (std::fabs(st.o[d]) - st.o_error[d] > sum_limit) return Predicted{std::copysign(f.saturates ? sum_limit : kInfinity, st.o[d]), 0, false};
    if (f.special == Special::padding_leaks && reaches_padding(f)) return Predicted{std::nan(""), 0, false};
    const bool affected = columns[d] >= f.columns_begin && columns[d] < f.columns_end;
    const double by = affected ? divisor : st.l, by_error = affected ? divisor_error : st.l_error;
    const double value = st.o[d] / by;
    Predicted e = rounded(value, (st.o_error[d] + std::fabs(value) * by_error) / std::fabs(by));
    if (st.overflow && !(st.m != st.m)) e.overflow = true;
    if (divisor == 0 && st.seen) e.overflow = true;  // every weight underflowed
    if (!std::isfinite(st.o[d]) && std::isfinite(st.l) && !values.v_nonfinite && st.m == st.m) e.overflow = true;
    if (std::isnan(e.tolerance)) e.tolerance = std::isnan(e.value) ? 0 : kInfinity;
    if (std::fabs(st.o[d]) + st.o_error[d] > sum_limit) e.overflow = true;  // one way or the other
    if (f.columns_past_d_zero && columns[d] >= p_.shape.d) e = {0, 0, false};
    return e;
  });
  const double ln_l = std::log(st.l), ln_error = st.l > 0 ? st.l_error / st.l : 0;
  double lse = st.m + ln_l;
  out_.m = st.m;
  out_.ln_l = ln_l;
  switch (f.lse) {
    case LseRule::right: break;
    case LseRule::without_maximum: lse = ln_l; break;
    case LseRule::base_two: lse = (st.m + ln_l) / kLn2; break;
    case LseRule::maximum_base_two: lse = st.m / kLn2 + ln_l; break;
    case LseRule::sum_base_two: lse = st.m + ln_l / kLn2; break;
    case LseRule::without_sink: lse = lse_seen ? lse_without_sink : -kInfinity; break;
    case LseRule::maximum_only: lse = st.m; break;
    case LseRule::negated: lse = -lse; break;
    case LseRule::minus_log: lse = st.m - ln_l; break;
    case LseRule::of_sum_only: lse = st.l; break;
    case LseRule::times_ln_two: lse *= kLn2; break;
    case LseRule::zero: lse = 0; break;
    case LseRule::of_last_tile: lse = st.last_m + std::log(st.last_l); break;
    case LseRule::affine: lse = f.lse_of_m * st.m + f.lse_of_l * ln_l + f.lse_plus; break;
  }
  const double of_m = f.lse == LseRule::affine ? std::fabs(f.lse_of_m) : 1, of_l = f.lse == LseRule::affine ? std::fabs(f.lse_of_l) : 1;
  out_.lse = {lse, 2 * std::max(1.0, of_l) * ln_error + 2 * kUnit * (1 + std::fabs(lse) + of_l * std::fabs(ln_l)) + 2 * kUnit * of_m * std::fabs(st.m), false};
  double largest_error = 0;
  for (const Key& k : keys_)
    if (k.counts && k.score - st.m > -4) largest_error = std::max(largest_error, k.error);
  out_.lse.tolerance += std::max(of_m, of_l) * largest_error;
  if (lse_is_free) out_.lse = free;
  if (f.lse_format) {
    out_.lse.value = round_narrow(*f.lse_format, lse, f.truncated);
    out_.lse.tolerance += 2 * unit_of(*f.lse_format) * std::fabs(lse);
  }
  if (f.lse == LseRule::of_sum_only) out_.lse.tolerance = st.l_error * 2 + st.l * 4 * kUnit;
  if (f.fold == Fold::tiles_averaged || f.fold == Fold::tiles_added || f.merge == Merge::mean || f.merge == Merge::sum) out_.lse = free;
  if (st.overflow || st.l == 0) out_.lse = st.l == 0 && !st.overflow ? Predicted{0, kInfinity, false} : free;
  if (std::isnan(out_.lse.tolerance)) out_.lse = {std::nan(""), 0, false};
  if (poisoned_) {
    fill_o([&](size_t) { return Predicted{std::nan(""), 0, false}; });
    out_.lse = free;
  }
}

const RowPrediction& Predictor::row(const Fault& f, const RowPlace& asked, std::span<const int64_t> columns, const double* lse_seen) {
  seen_ = lse_seen;
  const Shape& shape = p_.shape;
  RowPlace from = asked;
  switch (f.place) {
    case PlaceRule::right: break;
    case PlaceRule::next_head: from.h = (from.h + 1) % shape.hq; break;
    case PlaceRule::head_zero: from.h = 0; break;
    case PlaceRule::row_zero: from.i = 0; break;
    case PlaceRule::next_row: from.i = std::min(from.i + 1, shape.nq - 1); break;
    case PlaceRule::row_before: from.i = std::max<int64_t>(from.i - 1, 0); break;
    case PlaceRule::batch_zero: from.b = 0; break;
  }
  if (f.lse_transposed) {
    const int64_t place = asked.h * shape.nq + asked.i;
    one_row(f, {asked.b, place % shape.hq, place / shape.hq}, columns);
    const Predicted lse = out_.lse;
    one_row(f, asked, columns);
    out_.lse = lse;
    return out_;
  }
  if (f.place != PlaceRule::right && f.lse_stays) {
    one_row(f, from, columns);
    const auto o = out_.o;
    one_row(f, asked, columns);
    out_.o = o;
    return out_;
  }
  one_row(f, from, columns);
  return out_;
}

const RowPrediction& Predictor::one_row(const Fault& f, const RowPlace& at, std::span<const int64_t> columns) {
  out_.o.assign(columns.size(), {});
  out_.visits.clear();
  out_.m = -kInfinity;
  out_.ln_l = 0;
  poisoned_ = false;
  const Shape& s = p_.shape;
  look(f, at);
  const int64_t group = s.hq / s.hk, own = at.h / group;
  int64_t vg = own;
  switch (f.value_head) {
    case HeadRule::right: break;
    case HeadRule::modulo: vg = at.h % s.hk; break;
    case HeadRule::zero: vg = 0; break;
    case HeadRule::next: vg = (own + 1) % s.hk; break;
    case HeadRule::clamped: vg = std::min(at.h, s.hk - 1); break;
    case HeadRule::divided: vg = std::min(at.h / s.hk, s.hk - 1); break;
    case HeadRule::last: vg = s.hk - 1; break;
  }
  const HeadData& values = head(f.batch_zero_keys ? 0 : at.b, vg);
  for (Key& k : keys_) k.counts = k.counts && !(f.weight == 0 && at_split_boundary(f, k.index));

  const auto keys = static_cast<int64_t>(keys_.size());
  const int64_t splits = std::max<int64_t>(1, f.walk.splits), size = std::max<int64_t>(1, f.walk.keys_per_split(s.nk));
  const double sink = p_.sink ? double((*p_.sink)[static_cast<size_t>(f.sink == SinkRule::of_head_zero ? 0 : at.h)]) : -kInfinity;
  const auto sink_state = [&](double value) {
    State z;
    z.m = value;
    z.l = 1;
    z.l_error = 0;
    z.last_m = z.last_l = 0;
    z.o.assign(columns.size(), 0.0);
    z.o_error.assign(columns.size(), 0.0);
    z.seen = true;
    return z;
  };
  int64_t parts = 0;
  std::vector<double> mean(columns.size(), 0.0), mean_error(columns.size(), 0.0);
  const int64_t dropped = f.dropped_split ? (*f.dropped_split < 0 ? splits + *f.dropped_split : *f.dropped_split) : -1;
  bool first = true;
  for (int64_t n = 0; n < splits; ++n) {
    const int64_t begin = std::min(n * size, s.nk), end = n + 1 == splits ? keys : std::min((n + 1) * size, s.nk);
    State& st = first ? state_ : part_;
    walk_split(f, begin, end, static_cast<int32_t>(n), values, columns, st);
    if (n == dropped) {
      if (first) {
        st = sink_state(-kInfinity);
        st.l = 0;
        st.seen = false;
        first = false;
      }
      continue;
    }
    if (f.sink == SinkRule::per_split && sink != -kInfinity) merge(f, st, sink_state(sink), true, columns);
    if (f.merge == Merge::mean || f.merge == Merge::sum) {
      if (st.seen) {
        ++parts;
        for (size_t d = 0; d < columns.size(); ++d) {
          mean[d] += st.o[d] / st.l;
          mean_error[d] += (st.o_error[d] + std::fabs(st.o[d] / st.l) * st.l_error) / st.l;
        }
      } else if (f.index == 1) {
        ++parts;  // empty splits count in the mean
      }
    }
    if (!st.seen && f.merge == Merge::empty_counted) {
      State one = sink_state(f.index == 1 && state_.seen ? state_.m : f.number);
      if (f.index == 2) one.l = 0, one.seen = false;
      if (first) state_ = one;
      else merge(f, state_, one, true, columns);
      first = false;
      continue;
    }
    if (first) {
      first = false;
      if (f.merge == Merge::empty_nan && !st.seen) poisoned_ = true;
      continue;
    }
    if (!part_.seen) {
      if (f.merge == Merge::empty_nan) poisoned_ = true;
      continue;
    }
    state_.last_m = part_.last_m;
    state_.last_l = part_.last_l;
    merge(f, state_, part_, f.merge != Merge::no_rescale && f.fold != Fold::no_maximum, columns);
  }
  if ((f.merge == Merge::mean || f.merge == Merge::sum) && parts > 0 && state_.seen)
    for (size_t d = 0; d < columns.size(); ++d) {
      const double by = f.merge == Merge::mean ? state_.l / double(parts) : state_.l;
      state_.o[d] = mean[d] * by;
      state_.o_error[d] = mean_error[d] * std::fabs(by);
    }
  const bool lse_seen = state_.seen;
  const double lse_without_sink = state_.m + std::log(state_.l), l_without_sink = state_.l, m_without_sink = state_.m;
  std::vector<double> o_without_sink;
  if (f.sink == SinkRule::in_lse_only) o_without_sink = state_.o;
  if (sink == -kInfinity && p_.sink && f.sink == SinkRule::infinite_is_zero) merge(f, state_, sink_state(0), true, columns);
  if (sink != -kInfinity) {
    Fault plain = f;
    if (!f.merges_sink) plain.merge = Merge::right;
    const auto add = [&](double value) { merge(plain, state_, sink_state(value), true, columns); };
    switch (f.sink) {
      case SinkRule::right:
      case SinkRule::of_head_zero: add(sink); break;
      case SinkRule::missing:
      case SinkRule::per_split: break;
      case SinkRule::twice: add(sink); add(sink); break;
      case SinkRule::unscaled:
        state_.l = in_f32(state_.l + std::exp(sink));
        state_.l_error += 4 * kUnit * state_.l;
        if (!state_.seen) state_.m = 0;
        state_.seen = true;
        break;
      case SinkRule::as_one:
        state_.l += 1;
        if (f.index == 1) state_.m = nan_max(state_.m, sink);
        if (!state_.seen) state_.m = sink;
        state_.seen = true;
        break;
      case SinkRule::scaled: add(sink * p_.scale); break;
      case SinkRule::negated: add(-sink); break;
      case SinkRule::of_key_head: add((*p_.sink)[static_cast<size_t>(own)]); break;
      case SinkRule::capped: add(p_.softcap * std::tanh(sink / p_.softcap)); break;
      case SinkRule::infinite_is_zero: add(sink); break;
      case SinkRule::times: add(sink * f.number); break;
      case SinkRule::with_first_value: {
        State z = sink_state(sink);
        for (size_t d = 0; d < columns.size() && s.nk > 0; ++d) z.o[d] = values.v_row(0)[columns[d]];
        merge(f, state_, z, true, columns);
        break;
      }
      case SinkRule::in_output_only:
      case SinkRule::in_lse_only: add(sink); break;
    }
  }
  const State whole = f.sink == SinkRule::in_lse_only || f.sink == SinkRule::in_output_only ? state_ : State{};
  if (f.sink == SinkRule::in_lse_only && sink != -kInfinity && lse_seen) {
    State bare = state_;
    bare.l = l_without_sink;
    bare.m = m_without_sink;
    bare.o = o_without_sink;
    finish(f, bare, lse_without_sink, lse_seen, columns, values);
    const auto o = out_.o;
    State all = whole;
    finish(f, all, lse_without_sink, lse_seen, columns, values);
    out_.o = o;
    return out_;
  }
  finish(f, state_, lse_without_sink, lse_seen, columns, values);
  return out_;
}

}  // namespace attest
