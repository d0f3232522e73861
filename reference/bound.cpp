#include "reference/bound.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>

#include "reference/hot_loops.h"
#include "reference/scores.h"

namespace attest {

namespace {

constexpr double kBlockFactor = 1.25;         // an aligned block costs 2^-23 + 2^-25 per addition at most
constexpr double kVanishes = -1000;           // e^-1000 is 0 beside any bound
constexpr double kTop = -0x1p-30;             // scores so near to the maximum count as the maximum
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double grown(double unit, double times) { return std::expm1(times * std::log1p(unit)); }

// How many terms of a sum over n_terms keys an addition can still disturb.
double additions(double n_terms, const Numerics& numerics) {
  const double most = std::max(0.0, n_terms - 1);
  return numerics.sum_depth > 0 ? std::min(most, static_cast<double>(numerics.sum_depth)) : most;
}

double addition_unit(const Numerics& numerics) {
  return numerics.aligned_blocks ? kBlockFactor * numerics.sum_unit : numerics.sum_unit;
}

// Relative error of P rounded to its type, and the absolute error where P is subnormal.
double p_unit(const Numerics& n) {
  if (n.p_type == DType::f32) return 0;
  return std::ldexp(1.0, -significand_bits(n.p_type) + (n.p_rounding == Rounding::nearest ? 0 : 1));
}
double p_subnormal_unit(const Numerics& n) {
  return std::ldexp(1.0, min_subnormal_exponent(n.p_type) - (n.p_rounding == Rounding::nearest ? 1 : 0));
}

// (1 + unit)^times - 1, remembered for the last `times`: most keys of a row have as many terms as the one before.
struct Growth {
  double unit, times = 0, value = 0;
  double operator()(double n) {
    if (n != times) {
      times = n;
      value = grown(unit, n);
    }
    return value;
  }
};

// How many roundings a term of key j's dot product passes at most. Products of 16-bit inputs are exact in f32, so that n
// terms pass n - 1 additions; a product of two f32 is rounded as it enters the sum, unless it fits. Zeros cost nothing.
double roundings_of_dot(const Row& row, size_t j, DType type) {
  const double terms = row.dot_terms[j], dot = row.dot[j];
  if (type != DType::f32) return std::max(0.0, terms - 1);
  return terms == 1 && static_cast<double>(static_cast<float>(dot)) == dot ? 0.0 : terms;
}

// Errors of the scores before the exponential, in score units, that they share with no other key: of the dot products, the
// softcap and the bias.
void score_errors(const Row& row, const std::vector<double>& dot_sizes, const Problem& problem, Growth& sum_growth, RowBound& out) {
  const size_t n = row.key.size();
  const double scale = std::fabs(double{problem.scale}), c = problem.softcap;
  for (size_t j = 0; j < n; ++j) {
    const double depth = roundings_of_dot(row, j, problem.type);
    out.own[j] = depth > 0 ? sum_growth(depth) * dot_sizes[j] * scale : 0.0;
  }
  if (c > 0) {  // x and x / c are rounded; tanh flattens what came in by its slope; the result is rounded
    out.scratch.resize(n);
    for (size_t j = 0; j < n; ++j) {
      const double x = std::fabs(row.x[j]);
      out.own[j] += 2 * kF32Unit * (x + out.own[j]);
      out.scratch[j] = (x - out.own[j]) / c;
    }
    tanh_slopes(row.size(), out.scratch.data());
    for (size_t j = 0; j < n; ++j)
      out.own[j] = std::min(out.own[j] * out.scratch[j], 2 * c) + (kTanhError + kF32Unit) * std::fabs(row.s[j] - row.bias[j]);
  }
  for (size_t j = 0; j < n && problem.bias; ++j)
    out.own[j] += kF32Unit * ((c > 0 ? 0.0 : std::fabs(row.x[j])) + std::fabs(row.s[j])) * (1 + kF32Unit) + 2 * kF32Unit * out.own[j];
}

// Keys whose scores tie. Fills, per key, the first key with its `score` and bias, and the next one with it, -1 after the last;
// returns whether any two are tied.
template <class Score>
bool tie_groups(const Row& row, Score score, RowBound& out) {
  auto &group = out.group, &next = out.next_tied;
  auto &table = out.table, &last = out.last_tied;
  const size_t n = static_cast<size_t>(row.size());
  const size_t slots = std::bit_ceil(2 * n + 2);
  const int shift = 64 - std::countr_zero(slots);
  table.assign(slots, -1);
  group.resize(n);
  next.assign(n, -1);
  last.resize(n);
  bool ties = false;
  for (size_t j = 0; j < n; ++j) {
    const double own = score(j) + 0.0;  // -0 is 0
    const uint64_t bits = std::bit_cast<uint64_t>(own) + std::bit_cast<uint64_t>(row.bias[j]) * 0xD6E8FEB86659FD93u;
    auto slot = static_cast<size_t>((bits * 0x9E3779B97F4A7C15u) >> shift);  // the product's upper bits: many scores have zeros below
    while (table[slot] >= 0 && !(score(static_cast<size_t>(table[slot])) == own && row.bias[static_cast<size_t>(table[slot])] == row.bias[j]))
      slot = (slot + 1) & (slots - 1);
    const bool first = table[slot] < 0;
    if (first) table[slot] = static_cast<int32_t>(j);
    const auto head = static_cast<size_t>(table[slot]);
    group[j] = table[slot];
    if (!first) next[static_cast<size_t>(last[head])] = static_cast<int64_t>(j);
    last[head] = static_cast<int32_t>(j);
    ties = ties || !first;
  }
  return ties;
}

// Calls f with the indices below n of each group in turn: those of one group_of(index).
template <class GroupOf, class F>
void for_each_group(size_t n, GroupOf group_of, F f) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return group_of(a) < group_of(b); });
  for (size_t at = 0; at < n;) {
    size_t end = at + 1;
    while (end < n && group_of(order[end]) == group_of(order[at])) ++end;
    f(std::span<const size_t>(order.data() + at, end - at));
    at = end;
  }
}

// near_abs = sum r |v|. Away from the maximum r = p_rel p e^delta, so that the sum follows from sum p |v|, from above;
// the few keys at the maximum are taken apart. `more` bounds e^delta - 1.
void rounding_sums(const Row& row, const HeadData& head, double p_rel, double more, RowBound& out) {
  constexpr size_t kFew = 4;
  size_t top[kFew], tops = 0;
  for (size_t j = 0; j < row.key.size() && tops <= kFew; ++j)
    if (row.ds[j] > kTop) {
      if (tops < kFew) top[tops] = j;
      ++tops;
    }
  if (tops > kFew || more > 0x1p-8) {
    out.scratch.resize(out.near_abs.size());
    hot_loops().weighted_sums({head.v.data(), row.key.data(), out.rounding.data(), row.size(), head.dv, out.scratch.data(), out.near_abs.data()});
    return;
  }
  const double unit = p_rel * (1 + more), lost = p_rel * static_cast<double>(row.key.size()) * 0x1p-51;
  for (size_t d = 0; d < out.near_abs.size(); ++d) {
    double sum = unit * row.o_abs[d];
    for (size_t t = 0; t < tops; ++t) sum += (out.rounding[top[t]] - unit * row.p[top[t]]) * std::fabs(static_cast<double>(head.v_row(row.key[top[t]])[d]));
    out.near_abs[d] = std::max(0.0, sum) + lost * row.o_abs[d];
  }
}

}  // namespace

void bound_row(const Row& row, const HeadData& head, const Problem& problem, const Numerics& numerics, RowBound& out) {
  const size_t n = static_cast<size_t>(row.size());
  const int64_t dv = head.dv;
  const auto columns = static_cast<size_t>(dv);
  const bool affine = problem.bias.has_value() || problem.softcap > 0;  // more than one fused scale
  const double p_rel = p_unit(numerics);
  const double p_abs = p_rel > 0 ? p_subnormal_unit(numerics) : 0.0;
  const double p_normal = std::ldexp(1.0, min_normal_exponent(numerics.p_type));
  const double lag = numerics.max_lag;
  // How many distinct weights there are: one means that every error of a weight is shared by all of them.
  size_t distinct = n;
  bool exact_dots = !row.dense || head.d <= 1 || problem.scale == 0;
  for (size_t j = 0; j < n && exact_dots && problem.scale != 0; ++j) exact_dots = row.dot_terms[j] <= 1;
  const double cap = problem.softcap;
  bool ties = (exact_dots || !(cap > 0)) && tie_groups(row, [&](size_t j) { return row.x[j]; }, out);
  if (exact_dots && ties) {
    distinct = 0;
    for (size_t j = 0; j < n; ++j) distinct += out.group[j] == static_cast<int64_t>(j) ? 1 : 0;
  }
  // Keys with the same score round alike: their values add up before they are squared. (Not scores that only f32 makes equal: the
  // rounding that does so moves the weights.) Softcap makes equal what lies beyond it, to f32 in any case.
  if (cap > 0) {
    out.scratch.resize(n);
    for (size_t j = 0; j < n; ++j) out.scratch[j] = row.x[j] / cap;
    hot_loops().tanhs(out.scratch.data(), row.size(), out.scratch.data());
    for (double& s : out.scratch) s = static_cast<double>(static_cast<float>(cap * s));
    ties = tie_groups(row, [&](size_t j) { return out.scratch[j]; }, out);
  }
  const size_t weights = distinct + (row.has_sink ? 1 : 0);
  const bool one_weight = weights <= 1;

  // Rescales: one per tile after the first (visible keys may be spread over all tiles), and never more than the
  // maximum can rise.
  const double tiles = std::ceil(static_cast<double>(problem.shape.nk) / static_cast<double>(std::max<int64_t>(1, numerics.tile)));
  const double rescales = std::min(tiles - 1 + static_cast<double>(numerics.extra_rescales) + (row.has_sink ? 1 : 0),
                                   static_cast<double>(weights) - 1);
  const double exp_error = std::log1p(numerics.exp_rel_error) * (1 + numerics.exp_rel_error);

  // delta_j bounds the error of key j's exponent; what all keys share has dropped out.
  const auto exponent_error = [&](double own, double ds) {
    return own + 2 * kF32Unit * (std::fabs(ds) + lag) + (1 + rescales) * exp_error;
  };
  out.own.resize(n);
  out.delta.resize(n);
  Growth sum_growth{addition_unit(numerics)};
  const std::vector<double>& dot_sizes = row.dot_sizes(numerics.aligned_blocks);
  if (row.dense && !affine && head.d > 1) {
    const double for_each = sum_growth(static_cast<double>(head.d) - (problem.type == DType::f32 ? 0 : 1)) * std::fabs(double{problem.scale});
    for (size_t j = 0; j < n; ++j) out.own[j] = for_each * dot_sizes[j];
  } else {
    score_errors(row, dot_sizes, problem, sum_growth, out);
  }
  DeltaArguments deltas{out.own.data(), row.ds.data(), row.kappa.data(), row.p.data(), row.size(), exponent_error(0, 0), kVanishes, out.delta.data(), 0, 0, 0, 0};
  hot_loops().deltas(deltas);
  const double own_most = deltas.own_most;
  double delta_most = deltas.delta_most;
  double gain = deltas.gain;        // errors of the double path's p_j as a fraction of delta_j
  double p_kappa = deltas.p_kappa;  // sum p_j kappa_j
  // A sink is brought to the kernel's units by itself: its rounding is not shared with the scores.
  double delta_sink = 0;
  if (row.has_sink) {
    const double m_keys = *std::max_element(row.s.begin(), row.s.end());
    delta_sink = exponent_error(kF32Unit * std::fabs(m_keys) + 2 * kF32Unit * std::fabs(row.sink), row.sink_ds);
    gain = std::max(gain, row.sink_kappa / delta_sink);
    p_kappa += row.sink_p * row.sink_kappa;
    delta_most = std::max(delta_most, delta_sink);
  }

  // Weights: p e^{+-delta}. The exponent may be large; e^delta - 1 then overflows to infinity, which the cap by
  // the distance to the far value takes back.
  for (auto* values : {&out.grow, &out.rounding, &out.flush, &out.sub, &out.sigma2}) values->resize(n);
  const bool small = delta_most < 0x1p-8;
  if (!small) {
    out.more.resize(n);
    out.less.resize(n);
    out.scratch.resize(n);
    hot_loops().exps(out.delta.data(), row.size(), out.more.data());
    for (size_t j = 0; j < n; ++j) out.scratch[j] = -out.delta[j];
    hot_loops().exps(out.scratch.data(), row.size(), out.less.data());
    for (size_t j = 0; j < n; ++j) {
      const double delta = out.delta[j];
      // Even the largest weight that the key may have is 0 beside that of the maximum, as p is.
      const bool vanishes = row.ds[j] + delta + delta_most < kVanishes;
      out.more[j] = vanishes ? 0.0 : delta < 0x1p-8 ? delta * (1 + 0.51 * delta) : out.more[j] - 1;
      if (delta < 0x1p-8) out.less[j] = 1 - delta;
    }
  }
  WeightArguments w{};
  w.p = row.p.data(), w.ds = row.ds.data(), w.delta = out.delta.data(), w.own = out.own.data(), w.s = row.s.data(), w.x = row.x.data();
  w.dot_abs = dot_sizes.data(), w.dot_terms = row.dot_terms.data();
  w.more = small ? nullptr : out.more.data(), w.less = small ? nullptr : out.less.data();
  w.n = row.size();
  w.one_weight = one_weight;
  w.affine = affine;
  // P rounded to its type: relative above the normal range, absolute below, and never by more than itself. `sub`
  // is what the absolute part adds to p_rel * p e^delta. Flushes are in the kernel's units, where its largest P is
  // about 1, whatever factor all weights share.
  w.flush_margin = std::exp(std::min(700.0, 2 * delta_most + lag));
  w.p_rel = p_rel;
  w.p_abs = p_abs;
  w.sub_below = p_rel > 0 ? 2 * p_normal * w.flush_margin : 0.0;
  w.flush_below = kFlush * w.flush_margin;
  // A key at the maximum has P = 1 up to the rounding of the reference point, when its own tile is visited.
  w.top_unit = lag == 0 ? 3 * kF32Unit * (1 + std::fabs(row.m)) + exp_error : p_rel;
  w.own_most = own_most;
  // Independent noise of a weight: the rounding of P, the exponential, and the f32 roundings of its score.
  w.scale = std::fabs(double{problem.scale});
  // An exponential as fine as the strict model's errs by a quarter of its bound or so; one declared coarser may err by all of it.
  w.weight_noise = (p_rel > 0 ? 0 : 0x1p-46) + (numerics.exp_rel_error > 0x1p-22 ? numerics.exp_rel_error * numerics.exp_rel_error : 0x1p-46);
  w.stagnates_below = 0x1p-22 * row.l;
  w.stagnation_unit = 0x1p24 / row.l;
  w.grow = out.grow.data(), w.rounding = out.rounding.data(), w.sub = out.sub.data(), w.flush = out.flush.data(), w.sigma2 = out.sigma2.data();
  hot_loops().weights(w);
  double l_low = w.l_low, l_low_lse = w.l_low_lse, l_high_lse = w.l_high_lse;
  const double l_flush = w.l_flush, l_rounding = w.l_rounding, grow_sum = w.grow_sum, arguments_noise = w.arguments_noise;
  const double stagnation = w.stagnation;  // additions that lose their small term whole, always downward
  const bool rare = w.rare;                // some weight may be flushed or subnormal
  double sink_grow = 0;
  if (row.has_sink) {
    const double delta = one_weight ? 0.0 : delta_sink;
    sink_grow = row.sink_p * std::expm1(delta);
    l_low += row.sink_p * std::exp(-delta);
    l_low_lse += row.sink_p * std::exp(-delta_sink);
    l_high_lse += row.sink_p * std::exp(delta_sink);
  }

  for (auto* v : {&out.spread, &out.near, &out.near_abs, &out.noise1, &out.noise_spread, &out.nonzero}) v->resize(columns);
  out.noise_abs.assign(columns, 0.0);
  out.flushed_abs.assign(columns, 0.0);
  out.sub_abs.assign(columns, 0.0);
  out.sub_spread.assign(columns, 0.0);
  // The extremes of a column: those of the head where all keys take part.
  const bool all_keys = row.size() == head.nk;
  out.low.assign(columns, std::numeric_limits<float>::infinity());
  out.high.assign(columns, -std::numeric_limits<float>::infinity());
  if (all_keys) out.low = head.v_low, out.high = head.v_high;
  for (size_t d = 0; d < columns && row.has_sink; ++d) {
    out.low[d] = std::min(out.low[d], 0.0f);
    out.high[d] = std::max(out.high[d], 0.0f);
  }
  hot_loops().bound_sums({head.v.data(), row.key.data(), row.o_hi.data(), row.size(), dv, p_rel > 0, head.v_has_zero, !all_keys,
                          out.grow.data(), out.rounding.data(), ties ? nullptr : out.sigma2.data(),  // the noise of tied keys is summed apart
                         
                          {out.spread.data(), out.near.data(), out.noise1.data(), out.noise_spread.data(), out.nonzero.data(),
                           out.low.data(), out.high.data()}});
  // sum (p sigma)^2 v^2 from the sums about O. Where it is the larger, at most four times itself cancels.
  for (size_t d = 0; d < columns && p_rel > 0; ++d) {
    const double o = row.o_hi[d];
    out.noise_abs[d] = ties ? 0.0 : out.noise_spread[d] + 2 * o * out.noise1[d] + o * o * w.sigma2_sum;
  }
  if (p_rel > 0) rounding_sums(row, head, p_rel, small ? delta_most * (1 + delta_most) : kInfinity, out);
  if (!head.v_has_zero) std::fill(out.nonzero.begin(), out.nonzero.end(), static_cast<double>(n));
  for (size_t j = 0; j < n && rare; ++j) {
    if (out.sub[j] == 0 && out.flush[j] == 0) continue;
    const float* v = head.v_row(row.key[j]);
    for (size_t d = 0; d < columns; ++d) {
      const double abs = std::fabs(static_cast<double>(v[d]));
      out.flushed_abs[d] += out.flush[j] * abs;
      out.sub_abs[d] += out.sub[j] * abs;
      out.sub_spread[d] += out.sub[j] * std::fabs(v[d] - row.o_hi[d]);
    }
  }

  // Tied keys: sum the values of a group, then square.
  if (ties)
    hot_loops().tied_sums({head.v.data(), row.key.data(), row.o_hi.data(), row.size(), dv, out.group.data(), out.next_tied.data(), out.sigma2.data(),
                           out.noise_spread.data(), out.noise_abs.data()});

  // Denominator: sums of positive terms, rescales that round, flushed terms; P's rounding where l sums it.
  const double unit = addition_unit(numerics);
  const double l_terms = static_cast<double>(n) + (row.has_sink ? 1 : 0);
  const double inverse = 1 / l_low;
  const double inverse_flush = std::min(std::exp(std::min(700.0, 2 * delta_most)) * inverse, 1 + 0x1p-20);
  const double phi = grown(unit, additions(l_terms, numerics) + rescales) + (l_flush + (l_terms + rescales) * kFlush) * inverse_flush;
  const bool may_round_l = p_rel > 0 && numerics.l_from != DenominatorFrom::unrounded;
  const bool may_keep_l = p_rel == 0 || numerics.l_from != DenominatorFrom::rounded;

  out.o.resize(columns);
  out.score_part.resize(columns);
  out.range.resize(columns);
  out.enclosure.resize(columns);
  out.variance.resize(columns);
  out.drift.resize(columns);
  out.common.resize(columns);
  out.most_noise.resize(columns);
  const double products = problem.type == DType::f32 && !one_weight ? 1 : 0;  // P v of two f32 is rounded as it enters the sum, unless P is 1
  // Sums of O and l. Roundings of a sum are independent unless its terms repeat (ties) or are too small to count;
  // then they all point one way. f32 outputs show every such rounding, so there the worst is taken.
  const auto sum_noise = [&](double depth) {
    const double one_way_steps = ties || p_rel == 0 ? depth : stagnation;
    return depth + one_way_steps * one_way_steps;
  };
  Growth value_growth{unit};
  for (auto* v : {&out.theta, &out.steps}) v->resize(columns);
  for (size_t d = 0; d < columns; ++d) {
    const double depth = additions(out.nonzero[d], numerics);
    out.theta[d] = value_growth(depth + rescales + products);
    out.steps[d] = sum_noise(depth);
  }
  // What moves all columns together: l, the factors of the rescales, the rounded scale.
  const double common = sum_noise(additions(l_terms, numerics)) + rescales + (one_weight ? 0.0 : rescales + arguments_noise * arguments_noise);
  ColumnArguments c{};
  c.dv = dv;
  c.o = row.o_hi.data(), c.o_abs = row.o_abs.data(), c.o_sum_error = row.enclosed ? row.o_sum_error.data() : out.sub_abs.data();
  c.low = out.low.data(), c.high = out.high.data();
  c.theta = out.theta.data(), c.steps = out.steps.data(), c.nonzero = out.nonzero.data();
  c.spread = out.spread.data(), c.near = out.near.data(), c.near_abs = out.near_abs.data();
  c.sub_abs = out.sub_abs.data(), c.sub_spread = out.sub_spread.data(), c.flushed_abs = out.flushed_abs.data();
  c.noise_spread = out.noise_spread.data(), c.noise_abs = out.noise_abs.data();
  c.l = row.l, c.l_low = l_low, c.l_low_rounded = std::max(l_low - l_rounding, l_low / 2);
  c.inverse_flush = inverse_flush, c.phi = phi, c.grow_sum = grow_sum, c.sink_grow = sink_grow, c.p_rel = p_rel;
  c.rescales = rescales, c.gain = gain, c.p_kappa = p_kappa, c.common = std::sqrt(common / 3);
  c.truncates = numerics.aligned_blocks || numerics.acc_rounding == Rounding::toward_zero;
  c.blocks = numerics.aligned_blocks ? std::ceil(static_cast<double>(n) / 16) : static_cast<double>(n);
  c.may_round_l = may_round_l, c.may_keep_l = may_keep_l, c.one_weight = one_weight, c.aligned_blocks = numerics.aligned_blocks;
  c.enclosed = row.enclosed, c.several_keys = n > 1;
  c.least_exponent = min_subnormal_exponent(problem.type), c.significand_bits = significand_bits(problem.type), c.largest = largest_finite(problem.type);
  c.f32 = problem.type == DType::f32, c.flushes = problem.type != DType::f16;
  c.bound = out.o.data(), c.score_part = out.score_part.data(), c.range = out.range.data(), c.enclosure = out.enclosure.data();
  c.variance = out.variance.data(), c.drift = out.drift.data(), c.common_part = out.common.data(), c.most_noise = out.most_noise.data();
  hot_loops().columns(c);
  out.near_binade = c.near_binade;

  // LSE = m + ln l: nothing is shared, so the rounding of the scale counts on m too.
  double delta_lse = std::max(std::log(l_high_lse / row.l), std::log(row.l / l_low_lse));
  if (std::isnan(delta_lse) || std::isinf(delta_lse)) delta_lse = delta_most;
  // No weight is rounded by more than itself; where a sink takes all, l_low may be 0.
  const double l_round = may_round_l && l_rounding > 0 ? std::min(1.0, l_rounding / l_low) : 0.0;
  const double log_l = std::fabs(std::log(row.l));
  const double phi_loss = -std::log1p(-std::min(0.5, phi));
  out.lse = (delta_lse + phi_loss + l_round + kLnError * (1 + log_l + lag) + 3 * kF32Unit * (std::fabs(row.m) + lag) +
             0x1p-23 * std::fabs(row.lse) + kFlush) * kEnlarge;
}

double near_tie_cell(const Numerics& numerics) {
  return numerics.p_type == DType::f32 ? 0.0 : std::ldexp(1.0, -significand_bits(numerics.p_type) - 3);
}

namespace {

// For each key, how far its score lies below the maximum that its P is relative to: of the row, or of its split's tiles so far.
std::vector<double> below_reference(const Row& row, const Tiling& tiling) {
  std::vector<double> below = row.ds;
  if (tiling.walk == Walk::unknown) return below;
  const size_t n = below.size();
  const auto at = [&](size_t visited) { return tiling.walk == Walk::up ? visited : n - 1 - visited; };
  const auto tile_of = [&](size_t j) { return std::pair(row.key[j] / tiling.split, row.key[j] % tiling.split / tiling.tile); };
  double maximum = -kInfinity;
  for (size_t first = 0; first < n;) {
    const auto tile = tile_of(at(first));
    if (first > 0 && tile_of(at(first - 1)).first != tile.first) maximum = -kInfinity;
    size_t end = first;
    for (; end < n && tile_of(at(end)) == tile; ++end) maximum = std::max(maximum, row.ds[at(end)]);
    for (size_t k = first; k < end; ++k) below[at(k)] = row.ds[at(k)] - maximum;
    first = end;
  }
  return below;
}

// (Cells about whole multiples, so that the keys next to the maximum are one; those of weights below 2^-1000 are one, too.)
int64_t cell_of(double below, double cell) { return std::llround(std::max(below, -700.0) / cell); }

}  // namespace

bool rounds_alike(const Row& row, const Tiling& tiling) {
  if (!(tiling.cell > 0)) return false;
  const std::vector<double> below = below_reference(row, tiling);
  double alone = 0, together = 0;
  for_each_group(below.size(), [&](size_t j) { return cell_of(below[j], tiling.cell); }, [&](std::span<const size_t> members) {
    double sum = 0;
    for (size_t j : members) {
      if (tiling.walk != Walk::unknown && below[j] > kTop) continue;  // P is 1 there, exactly
      sum += row.p[j];
      alone += row.p[j] * row.p[j];
    }
    together += sum * sum;
  });
  return together > 1.25 * alone;
}

Spectrum noise_spectrum(const Row& row, const HeadData& head, DType type, Tiling tiling, RowBound& bound) {
  const auto columns = static_cast<size_t>(head.dv);
  const size_t n = static_cast<size_t>(row.size());
  std::vector<double> c(columns * columns, 0.0), w(columns);
  const double inverse_l2 = 1 / (row.l * row.l);
  // A source: the keys of one score, or of one cell, within one tile; or of one cell of a walk, where P is not 1.
  const std::vector<double> below = below_reference(row, tiling);
  const auto source = [&](size_t j) {
    const int64_t key = row.key[j];
    if (tiling.walk != Walk::unknown) return below[j] > kTop ? std::tuple(int64_t{1}, key, int64_t{0}) : std::tuple(cell_of(below[j], tiling.cell), int64_t{0}, int64_t{0});
    return std::tuple(tiling.cell > 0 ? cell_of(row.ds[j], tiling.cell) : bound.group[j], key / tiling.split, key % tiling.split / tiling.tile);
  };
  for_each_group(n, source, [&](std::span<const size_t> members) {
    std::fill(w.begin(), w.end(), 0.0);
    for (size_t j : members) {
      const float* v = head.v_row(row.key[j]);
      const double sigma = std::sqrt(bound.sigma2[j] * inverse_l2);
      for (size_t d = 0; d < columns; ++d) w[d] += row.column_nonfinite[d] ? 0.0 : sigma * (v[d] - row.o_hi[d]);
    }
    for (size_t x = 0; x < columns; ++x)
      for (size_t y = 0; y < columns; ++y) c[x * columns + y] += w[x] * w[y];
  });
  // Whatever the weights' errors do, they move no column by more than this.
  for (size_t d = 0; d < columns; ++d) w[d] = std::sqrt(std::min(1.0, bound.most_noise[d] / std::max(c[d * columns + d], 0x1p-1000)));
  for (size_t x = 0; x < columns; ++x)
    for (size_t y = 0; y < columns; ++y) c[x * columns + y] *= w[x] * w[y];
  // l, rescales and the scale move all columns together.
  const auto judged = [&](size_t d) { return row.column_nonfinite[d] == 0; };
  for (size_t a = 0; a < columns; ++a)
    for (size_t b = 0; b < columns; ++b)
      if (judged(a) && judged(b)) c[a * columns + b] += bound.common[a] * bound.common[b];
  // What these sources leave of the predicted variance is a column's own: its output rounding and its sums. Columns
  // whose results differ by a power of two, or by less than an eighth of an ulp, round alike.
  std::vector<double> own(columns, 0.0);
  double trace = 0;
  std::vector<std::pair<double, size_t>> fraction;
  for (size_t d = 0; d < columns; ++d) {
    if (!judged(d)) continue;
    own[d] = std::max(0.0, bound.variance[d] - c[d * columns + d]);
    trace += c[d * columns + d] + own[d];
    int exponent;
    fraction.emplace_back(std::fabs(std::frexp(row.o_hi[d] * kBinade, &exponent)), d);  // (as where units are looked up)
  }
  std::sort(fraction.begin(), fraction.end());
  const double close = std::ldexp(1.0, -significand_bits(type) - 3);
  for (size_t at = 0; at < fraction.size();) {
    size_t end = at + 1;
    while (end < fraction.size() && fraction[end].first - fraction[end - 1].first <= close) ++end;
    for (size_t a = at; a < end; ++a)
      for (size_t b = at; b < end; ++b) c[fraction[a].second * columns + fraction[b].second] += std::sqrt(own[fraction[a].second] * own[fraction[b].second]);
    at = end;
  }
  if (!(trace > 0)) return {};
  for (double& x : c) x /= trace;
  // tr C^2 exactly; lambda_max <= (tr C^4)^(1/4), from the square of C.
  double sum_squares = 0;
  for (double x : c) sum_squares += x * x;
  std::vector<double> square(columns * columns, 0.0);
  for (size_t a = 0; a < columns; ++a)
    for (size_t k = 0; k < columns; ++k)
      for (size_t b = 0; b < columns; ++b) square[a * columns + b] += c[a * columns + k] * c[k * columns + b];
  double fourth = 0;
  for (double x : square) fourth += x * x;
  return {std::min(1.0, sum_squares), std::min(1.0, std::pow(fourth, 0.25)), trace};
}

double noise_threshold(const Spectrum& s, double rate) {
  const double t = -std::log(rate);
  return 1 + 2 * std::sqrt(t * s.sum_squares) + 2 * t * s.largest;
}

double noise_threshold_equal_columns(double columns, double rate) { return noise_threshold({1 / columns, 1 / columns, 1}, rate); }

}  // namespace attest
