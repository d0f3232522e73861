#include "reference/bound.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "reference/vector_clones.h"

namespace attest {

namespace {

constexpr double kF32Unit = 0x1p-24;          // half a unit in the last place of f32, relative
constexpr double kBlockFactor = 1.25;         // an aligned block costs 2^-23 + 2^-25 per addition at most
constexpr double kFlush = 0x1p-126;           // results below may become 0
constexpr double kEnlarge = 1 + 0x1p-36;      // covers the rounding of the sums in this file
constexpr double kVanishes = -1000;           // e^-1000 is 0 beside any bound
constexpr double kTanhError = 0x1p-21;
constexpr double kDivisionUlps = 2;
constexpr double kNoiseRateLog = 20.723265836946411;  // ln(1e9)

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

// Error of one score before the exponential, in score units, that it shares with no other key: of the dot
// product, the softcap and the bias.
double score_error(const Row& row, size_t j, const Problem& problem, Growth& sum_growth) {
  const double scale = std::fabs(double{problem.scale});
  const double x = std::fabs(row.x[j]);
  // Exact products, and additions of zero cost nothing: n terms pass n - 1 additions at most.
  const double depth = std::max(0.0, row.dot_terms[j] - 1);
  double error = depth > 0 ? sum_growth(depth) * row.dot_abs[j] * scale : 0.0;
  if (problem.softcap > 0) {
    // x and x / c are rounded; tanh flattens what came in by its slope; the result is rounded.
    const double c = problem.softcap;
    const double in = error + 2 * kF32Unit * (x + error);
    const double nearest = std::max(0.0, x - in) / c;
    const double slope = nearest > 350 ? 0.0 : 1 / (std::cosh(nearest) * std::cosh(nearest));
    const double capped = std::fabs(row.s[j] - row.bias[j]);
    error = std::min(in * slope, 2 * c) + (kTanhError + kF32Unit) * capped;
  }
  if (problem.bias) error += kF32Unit * ((problem.softcap > 0 ? 0.0 : x) + std::fabs(row.s[j])) * (1 + kF32Unit) + 2 * kF32Unit * error;
  return error;
}

// Sums over the keys, per column.
struct ColumnSums {
  double* spread;        // sum p (e^delta - 1) |v - O|
  double* near;          // sum r |v - O|                where P is rounded by r
  double* near_abs;      // sum r |v|                    where P is rounded by r
  double* noise_spread;  // sum (p sigma)^2 (v - O)^2
  double* noise_abs;     // sum (p sigma)^2 v^2          where P is rounded
  double* low;           // smallest value
  double* high;          // largest
  double* nonzero;       // nonzero values               where there are zeros
};

struct KeyWeights {
  const int64_t* key;
  const double* rounding;  // r, relative part of the rounding of P
  const double* grow;    // p (e^delta - 1)
  const double* sigma2;  // (p sigma)^2, 0 where ties are summed apart
  int64_t n;
};

ATTEST_VECTOR_CLONES
void column_sums(const float* v, const double* o, int64_t dv, bool rounded, bool zeros, const KeyWeights w, const ColumnSums out) {
  const auto block = [&](int64_t d, int64_t width) __attribute__((always_inline)) {
    Lanes spread{}, near{}, near_abs{}, noise_spread{}, noise_abs{}, nonzero{}, center{}, low, high;
    std::memcpy(&center, o + d, sizeof(double) * static_cast<size_t>(width));
    std::memcpy(&low, out.low + d, sizeof(double) * static_cast<size_t>(width));
    std::memcpy(&high, out.high + d, sizeof(double) * static_cast<size_t>(width));
    for (int64_t j = 0; j < w.n; ++j) {
      FloatLanes narrow{};
      std::memcpy(&narrow, v + w.key[j] * dv + d, sizeof(float) * static_cast<size_t>(width));
      const Lanes value = __builtin_convertvector(narrow, Lanes);
      const Lanes away = value - center, distance = ATTEST_ABS(away);
      spread += w.grow[j] * distance;
      noise_spread += w.sigma2[j] * (away * away);
      low = value < low ? value : low;
      high = value > high ? value : high;
      if (rounded) {
        near += w.rounding[j] * distance;
        near_abs += w.rounding[j] * ATTEST_ABS(value);
        noise_abs += w.sigma2[j] * (value * value);
      }
      if (zeros) nonzero += value != 0 ? Lanes{1, 1, 1, 1} : Lanes{};
    }
    const size_t bytes = sizeof(double) * static_cast<size_t>(width);
    std::memcpy(out.spread + d, &spread, bytes);
    std::memcpy(out.near + d, &near, bytes);
    std::memcpy(out.near_abs + d, &near_abs, bytes);
    std::memcpy(out.noise_spread + d, &noise_spread, bytes);
    std::memcpy(out.noise_abs + d, &noise_abs, bytes);
    std::memcpy(out.low + d, &low, bytes);
    std::memcpy(out.high + d, &high, bytes);
    std::memcpy(out.nonzero + d, &nonzero, bytes);
  };
  int64_t d = 0;
  for (; d + kLanes <= dv; d += kLanes) block(d, kLanes);
  if (d < dv) block(d, dv - d);
}

// Keys with the same score round alike: their values add up before they are squared. Fills, per key, the first key
// with its score and bias; returns whether any two are tied. `table` is scratch.
bool tie_groups(const Row& row, std::vector<int64_t>& group, std::vector<int64_t>& table) {
  const size_t n = static_cast<size_t>(row.size());
  const size_t slots = std::bit_ceil(2 * n + 1);
  table.assign(slots, -1);
  group.resize(n);
  bool ties = false;
  for (size_t j = 0; j < n; ++j) {
    const uint64_t bits = std::bit_cast<uint64_t>(row.x[j]) + std::bit_cast<uint64_t>(row.bias[j]) * 0x9E3779B97F4A7C15u;
    size_t slot = static_cast<size_t>((bits * 0xD6E8FEB86659FD93u) >> 32) & (slots - 1);
    while (table[slot] >= 0 && !(row.x[static_cast<size_t>(table[slot])] == row.x[j] && row.bias[static_cast<size_t>(table[slot])] == row.bias[j]))
      slot = (slot + 1) & (slots - 1);
    if (table[slot] < 0) table[slot] = static_cast<int64_t>(j);
    group[j] = table[slot];
    ties = ties || group[j] != static_cast<int64_t>(j);
  }
  return ties;
}

// Calls f with the keys of each group in turn.
template <class F>
void for_each_tie_group(const std::vector<int64_t>& group, F f) {
  std::vector<size_t> order(group.size());
  for (size_t j = 0; j < order.size(); ++j) order[j] = j;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return group[a] < group[b]; });
  for (size_t at = 0; at < order.size();) {
    size_t end = at + 1;
    while (end < order.size() && group[order[end]] == group[order[at]]) ++end;
    f(std::span<const size_t>(order.data() + at, end - at));
    at = end;
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
  const bool ties = tie_groups(row, out.group, out.table);
  const std::vector<int64_t>& group = out.group;

  // How many distinct weights there are: one means that every error of a weight is shared by all of them.
  size_t distinct = n;
  bool exact_dots = true;
  for (size_t j = 0; j < n; ++j) exact_dots = exact_dots && (row.dot_terms[j] <= 1 || problem.scale == 0);
  if (ties && exact_dots) {
    distinct = 0;
    for (size_t j = 0; j < n; ++j) distinct += group[j] == static_cast<int64_t>(j) ? 1 : 0;
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
  out.delta.resize(n);
  double delta_most = 0;
  double gain = 0;     // errors of the double path's p_j as a fraction of delta_j
  double p_kappa = 0;  // sum p_j kappa_j
  const auto exponent_error = [&](double own, double ds) {
    return own + 2 * kF32Unit * (std::fabs(ds) + lag) + (1 + rescales) * exp_error;
  };
  Growth sum_growth{addition_unit(numerics)};
  double own_most = 0;
  out.own.resize(n);
  for (size_t j = 0; j < n; ++j) {
    const double own_error = score_error(row, j, problem, sum_growth);
    out.own[j] = own_error;
    own_most = std::max(own_most, own_error);
    out.delta[j] = exponent_error(own_error, row.ds[j]);
    delta_most = std::max(delta_most, out.delta[j]);
    gain = std::max(gain, row.kappa[j] / out.delta[j]);
    p_kappa += row.p[j] * row.kappa[j];
  }
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
  out.grow.resize(n);
  out.rounding.resize(n);
  out.flush.resize(n);
  out.sub.resize(n);
  out.sigma2.resize(n);
  double l_low = 0, l_high = 0, l_flush = 0, l_rounding = 0, grow_sum = 0;
  double l_low_lse = 0, l_high_lse = 0;
  double arguments_noise = 0;
  double stagnation = 0;  // additions that lose their small term whole, always downward
  bool rare = false;  // some weight may be flushed or subnormal
  const double flush_margin = std::exp(std::min(700.0, 2 * delta_most + lag));
  const double scale = std::fabs(double{problem.scale});
  for (size_t j = 0; j < n; ++j) {
    const double delta = out.delta[j];
    // Even the largest weight that the key may have is 0 beside that of the maximum.
    const bool vanishes = row.ds[j] + delta + delta_most < kVanishes;
    const double p = vanishes ? 0.0 : row.p[j];
    // e^delta - 1 from above and e^-delta from below; for small delta by the first terms of the series.
    const double more = vanishes ? 0.0 : delta < 0x1p-8 ? delta * (1 + 0.51 * delta) : std::expm1(delta);
    const double less = delta < 0x1p-8 ? 1 - delta : std::exp(-delta);
    const double high = p * (1 + more);
    l_low_lse += p * less;
    l_high_lse += high;
    out.grow[j] = one_weight ? 0.0 : p * more;
    grow_sum += out.grow[j];
    l_low += one_weight ? p : p * less;
    l_high += p + out.grow[j];
    // A key at the maximum has P = 1 up to the rounding of the reference point, when its own tile is visited.
    const double unit_p = row.ds[j] > -0x1p-30 && lag == 0 ? std::min(p_rel, 2 * (own_most + out.own[j]) + 3 * kF32Unit * (1 + std::fabs(row.m)) + exp_error) : p_rel;
    out.rounding[j] = unit_p * high;
    // P rounded to its type: relative above the normal range, absolute below, and never by more than itself. `sub`
    // is what the absolute part adds to p_rel * p e^delta. Flushes are in the kernel's units, where its largest P is
    // about 1, whatever factor all weights share.
    out.sub[j] = p_rel > 0 && p < 2 * p_normal * flush_margin ? std::max(0.0, std::min(high * (1 + p_rel), p_abs) - unit_p * high) : 0.0;
    out.flush[j] = p < kFlush * flush_margin ? std::min(kFlush, p * flush_margin) : 0.0;
    rare = rare || out.sub[j] > 0 || out.flush[j] > 0;
    l_rounding += out.rounding[j] + out.sub[j];
    l_flush += out.flush[j];
    // Independent noise of this weight: the rounding of P, the exponential, and the f32 roundings of its score.
    const double s = std::fabs(row.s[j]), x = affine ? std::fabs(row.x[j]) : 0.0;
    const double dot = row.dot_terms[j] > 1 ? row.dot_abs[j] * scale : 0.0;
    const double score_noise = kF32Unit * kF32Unit * (4 * row.ds[j] * row.ds[j] + s * s + x * x + row.dot_terms[j] * dot * dot);
    const double rounding = out.rounding[j] + out.sub[j];
    out.sigma2[j] = (rounding * rounding + p * p * ((p_rel > 0 ? 0 : 0x1p-46) + 0x1p-46 + score_noise)) / 3;
    if (p < 0x1p-22 * row.l) stagnation += std::min(1.0, p / (0x1p-24 * row.l));
    arguments_noise = std::max(arguments_noise, p * std::fabs(row.ds[j]));
  }
  double sink_grow = 0;
  if (row.has_sink) {
    const double delta = one_weight ? 0.0 : delta_sink;
    sink_grow = row.sink_p * std::expm1(delta);
    l_low += row.sink_p * std::exp(-delta);
    l_high += row.sink_p + sink_grow;
    l_low_lse += row.sink_p * std::exp(-delta_sink);
    l_high_lse += row.sink_p * std::exp(delta_sink);
  }

  for (auto* v : {&out.spread, &out.near, &out.near_abs, &out.noise_spread, &out.noise_abs, &out.nonzero}) v->resize(columns);
  out.flushed_abs.assign(columns, 0.0);
  out.sub_abs.assign(columns, 0.0);
  out.sub_spread.assign(columns, 0.0);
  out.low.assign(columns, row.has_sink ? 0.0 : std::numeric_limits<double>::infinity());
  out.high.assign(columns, row.has_sink ? 0.0 : -std::numeric_limits<double>::infinity());
  std::vector<double>& noise_weight = out.noise_weight;
  noise_weight = out.sigma2;
  if (ties) std::fill(noise_weight.begin(), noise_weight.end(), 0.0);
  column_sums(head.v.data(), row.o_hi.data(), dv, p_rel > 0, head.v_has_zero,
              {row.key.data(), out.rounding.data(), out.grow.data(), noise_weight.data(), static_cast<int64_t>(n)},
              {out.spread.data(), out.near.data(), out.near_abs.data(), out.noise_spread.data(), out.noise_abs.data(), out.low.data(), out.high.data(), out.nonzero.data()});
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
  if (ties) {
    std::vector<double> with_o(columns), with_v(columns);
    for_each_tie_group(group, [&](std::span<const size_t> members) {
      std::fill(with_o.begin(), with_o.end(), 0.0);
      std::fill(with_v.begin(), with_v.end(), 0.0);
      for (size_t j : members) {
        const float* v = head.v_row(row.key[j]);
        for (size_t d = 0; d < columns; ++d) {
          with_o[d] += v[d] - row.o_hi[d];
          with_v[d] += v[d];
        }
      }
      const double sigma2 = out.sigma2[members[0]];
      for (size_t d = 0; d < columns; ++d) {
        out.noise_spread[d] += sigma2 * with_o[d] * with_o[d];
        out.noise_abs[d] += sigma2 * with_v[d] * with_v[d];
      }
    });
  }

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
  out.near_binade = false;
  const double blocks = std::ceil(static_cast<double>(n) / 16);
  for (size_t d = 0; d < columns; ++d) {
    const double o = row.o_hi[d], o_abs = std::fabs(o);
    const double far = std::max(out.high[d] - o, o - out.low[d]);
    const double magnitude = std::max(std::fabs(out.low[d]), std::fabs(out.high[d]));
    const double sink_spread = sink_grow * o_abs;
    const double theta = grown(unit, additions(out.nonzero[d], numerics) + rescales);
    const bool one_way = !numerics.aligned_blocks && (out.low[d] >= 0 || out.high[d] <= 0);
    const double absolute = (out.flushed_abs[d] + (out.nonzero[d] + rescales + 1) * kFlush) * inverse_flush;
    // sum w |v| / sum w, where sum p e^delta |v| <= sum p |v| + sum p (e^delta - 1) (|v - O| + |O|).
    const double tail = row.o_abs[d] + out.spread[d] + o_abs * grow_sum;
    const double mass = std::isnan(tail) ? magnitude : std::min(tail * inverse, magnitude);
    // Never more than the relative part of all the mass, whatever the weights became.
    const double rounding_abs = p_rel > 0 ? std::min((out.near_abs[d] + out.sub_abs[d]) * inverse, (1 + p_rel) * magnitude) : 0.0;
    const double rounding_spread = p_rel > 0 ? out.near[d] + out.sub_spread[d] : 0.0;
    // Errors that numerator and denominator share: of the weights, and of P's rounding where l sums it too.
    const auto value_error = [&](bool shared_rounding) {
      const double spread = out.spread[d] + sink_spread + (shared_rounding ? rounding_spread : 0.0);
      const double low = shared_rounding ? std::max(l_low - l_rounding, l_low / 2) : l_low;
      const double shared = std::isnan(spread) ? far : std::min(spread / low, far);
      const double rounding = shared_rounding ? 0.0 : rounding_abs;
      const double sums = theta * (mass + rounding), own = rounding + absolute;
      const double loss = phi < 0.5 ? phi / (1 - phi) : 2 * phi;
      const double l_sums = (o_abs + shared) * loss;
      // Sums of one sign that all round to nearest (2^-24 each way) or all truncate (2^-23 one way): the errors of
      // numerator and denominator do not add up.
      const double both = one_way ? std::max(sums, l_sums) + sums * loss : sums + l_sums;
      return shared + own * (1 + loss) + both;
    };
    const double score_spread = (out.spread[d] + sink_spread) * inverse;
    out.score_part[d] = std::isnan(score_spread) ? far : std::min(score_spread, far);
    // What the double path's own errors of p make of O.
    const double by_gain = gain * score_spread, by_far = far * p_kappa / row.l;
    out.enclosure[d] = !row.enclosed || p_kappa == 0 ? 0.0 : 2 * (by_gain <= by_far ? by_gain : by_far);
    double error = 0;
    if (may_keep_l) error = std::max(error, value_error(false));
    if (may_round_l) error = std::max(error, value_error(true));
    // The division, then the one rounding to the output type; small results may flush.
    const double before = o_abs + error;
    const double divided = error + kDivisionUlps * ulp_at(DType::f32, before) * (1 + kF32Unit);
    const double least = o_abs - divided;
    const double after = o_abs + divided;
    double total = divided;
    if (problem.type != DType::f32) total += ulp_at(problem.type, std::min(after, largest_finite(problem.type))) / 2;
    if (problem.type != DType::f16 && least < kFlush) total += kFlush;
    if (row.enclosed) {
      // Units in the last place jump at powers of two; the exact path decides where one is too near to call.
      const double blur = 2 * (out.enclosure[d] + row.o_sum_error[d]) + error * 0x1p-36;
      // (Below 2^-100 there is one unit, or none that matters.)
      for (double edge : {before, after})
        if (edge > 0x1p-100 && n > 1 && std::fabs(edge - std::ldexp(1.0, static_cast<int>(std::lround(std::log2(edge))))) <= blur)
          out.near_binade = true;
      if (o_abs > 0 && problem.type != DType::f16 && std::fabs(least - kFlush) <= blur) out.near_binade = true;
    }
    out.o[d] = total * kEnlarge;
    out.range[d] = std::max(0.0, out.high[d] - out.low[d]);

    // Predicted variance, all of it in units of O. Uniform errors of half width a have variance a^2 / 3.
    const double inverse_l = 1 / row.l;
    const double mean_abs = row.o_abs[d] * inverse_l;
    double weights_noise = out.noise_spread[d];
    if (p_rel > 0 && may_keep_l) weights_noise = std::max(weights_noise, out.noise_abs[d]);
    if (one_weight && p_rel == 0) weights_noise = 0;
    weights_noise *= inverse_l * inverse_l;
    // Sums of O and l. Roundings of a sum are independent unless its terms repeat (ties) or are too small to count;
    // then they all point one way. f32 outputs show every such rounding, so there the worst is taken.
    const auto sum_noise = [&](double depth) {
      const double one_way_steps = ties || p_rel == 0 ? depth : stagnation;
      return depth + one_way_steps * one_way_steps;
    };
    const double together = kF32Unit * mean_abs;
    const double accumulation = (sum_noise(additions(out.nonzero[d], numerics)) + rescales) * together * together;
    // What moves all columns together: l, the factors of the rescales, the rounded scale.
    const double common = (sum_noise(additions(l_terms, numerics)) + rescales + (one_weight ? 0.0 : rescales + arguments_noise * arguments_noise)) * together * together;
    out.common[d] = std::sqrt(common / 3);
    const double division = 0x1p-23 * o_abs;
    const double output = problem.type == DType::f32 ? 0.0 : ulp_at(problem.type, o_abs) / 2;
    double variance = weights_noise + (accumulation + common + division * division + output * output) / 3;
    const double floor = together * together / 3;
    variance = std::max(variance, floor);
    const double subnormal = problem.type == DType::f16 ? 0.0 : (o_abs < 2 * kFlush ? kFlush : 0.0);
    out.variance[d] = variance + (absolute + subnormal) * (absolute + subnormal);
    const bool truncates = numerics.aligned_blocks || numerics.acc_rounding == Rounding::toward_zero;
    out.drift[d] = truncates ? (numerics.aligned_blocks ? blocks : static_cast<double>(n)) * 0x1p-23 * mean_abs : 0.0;
  }

  // LSE = m + ln l: nothing is shared, so the rounding of the scale counts on m too.
  double delta_lse = std::max(std::log(l_high_lse / row.l), std::log(row.l / l_low_lse));
  if (std::isnan(delta_lse) || std::isinf(delta_lse)) delta_lse = delta_most;
  const double l_round = may_round_l ? l_rounding / l_low : 0.0;
  const double log_l = std::fabs(std::log(row.l));
  const double phi_loss = -std::log1p(-std::min(0.5, phi));
  out.lse = (delta_lse + phi_loss + l_round + 0x1p-22 * (1 + log_l + lag) + 3 * kF32Unit * (std::fabs(row.m) + lag) +
             0x1p-23 * std::fabs(row.lse) + kFlush) * kEnlarge;
}

Spectrum noise_spectrum(const Row& row, const HeadData& head, DType type, RowBound& bound) {
  const auto columns = static_cast<size_t>(head.dv);
  const size_t n = static_cast<size_t>(row.size());
  const bool ties = tie_groups(row, bound.group, bound.table);
  const std::vector<int64_t>& group = bound.group;
  std::vector<double> c(columns * columns, 0.0), w(columns);
  const double inverse_l2 = 1 / (row.l * row.l);
  const auto add = [&](double sigma2) {
    for (size_t a = 0; a < columns; ++a)
      for (size_t b = 0; b < columns; ++b) c[a * columns + b] += sigma2 * inverse_l2 * w[a] * w[b];
  };
  std::vector<size_t> order(n);
  for (size_t j = 0; j < n; ++j) order[j] = j;
  if (ties) std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return group[a] < group[b]; });
  for (size_t at = 0; at < n;) {
    std::fill(w.begin(), w.end(), 0.0);
    size_t end = at;
    do {
      const float* v = head.v_row(row.key[order[end]]);
      for (size_t d = 0; d < columns; ++d) w[d] += row.column_nonfinite[d] ? 0.0 : v[d] - row.o_hi[d];
      ++end;
    } while (ties && end < n && group[order[end]] == group[order[at]]);
    add(bound.sigma2[order[at]]);
    at = end;
  }
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
    fraction.emplace_back(std::fabs(std::frexp(row.o_hi[d], &exponent)), d);
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
  return {std::min(1.0, sum_squares), std::min(1.0, std::pow(fourth, 0.25))};
}

double noise_threshold(const Spectrum& s) {
  return 1 + 2 * std::sqrt(kNoiseRateLog * s.sum_squares) + 2 * kNoiseRateLog * s.largest;
}

double noise_threshold_equal_columns(double columns) { return noise_threshold({1 / columns, 1 / columns}); }

}  // namespace attest
