#include "reference/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <unordered_map>

#include "reference/vector_clones.h"

namespace attest {

namespace {

constexpr double kF32Unit = 0x1p-24;          // half a unit in the last place of f32, relative
constexpr double kBlockFactor = 1.25;         // an aligned block costs 2^-23 + 2^-25 per addition at most
constexpr double kFlush = 0x1p-126;           // results below may become 0
constexpr double kEnlarge = 1 + 0x1p-36;      // covers the rounding of the sums in this file
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

// Error of one score before the exponential, in score units, that it shares with no other key: of the dot
// product, the softcap and the bias.
double score_error(const Row& row, size_t j, const Problem& problem, const Numerics& numerics) {
  const double scale = std::fabs(double{problem.scale});
  const double x = std::fabs(row.x[j]);
  // Exact products, and additions of zero cost nothing: n terms pass n - 1 additions at most.
  const double depth = std::max(0.0, row.dot_terms[j] - 1);
  double error = depth > 0 ? grown(addition_unit(numerics), depth) * row.dot_abs[j] * scale : 0.0;
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

struct Columns {
  double* weighted_abs;     // sum p |v|
  double* spread;           // sum p (e^delta - 1) |v - O|
  double* rounding_abs;     // sum r |v|
  double* rounding_spread;  // sum r |v - O|
  double* flushed_abs;      // sum f |v|
  double* tail;             // sum p e^delta |v|
  double* noise_spread;     // sum (p sigma)^2 (v - O)^2
  double* noise_abs;        // sum (p sigma)^2 v^2
  double* low;
  double* high;
  double* nonzero;          // nonzero values
};

struct KeyWeights {
  double p, grow, grown, rounding, flush, sigma2;
};

ATTEST_VECTOR_CLONES
void add_key(const float* v, const double* o, int64_t dv, const KeyWeights w, const Columns c) {
  for (int64_t d = 0; d < dv; ++d) {
    const double value = v[d];
    const double abs = std::fabs(value);
    const double away = value - o[d];
    const double away_abs = std::fabs(away);
    c.weighted_abs[d] += w.p * abs;
    c.spread[d] += w.grow * away_abs;
    c.tail[d] += w.grown * abs;
    c.rounding_abs[d] += w.rounding * abs;
    c.rounding_spread[d] += w.rounding * away_abs;
    c.flushed_abs[d] += w.flush * abs;
    c.noise_spread[d] += w.sigma2 * (away * away);
    c.noise_abs[d] += w.sigma2 * (value * value);
    c.low[d] = std::min(c.low[d], value);
    c.high[d] = std::max(c.high[d], value);
    c.nonzero[d] += value != 0.0 ? 1.0 : 0.0;
  }
}

// Keys with the same score round alike: their values add up before they are squared. Returns, per key, the
// first key with its score and bias, or the empty vector where all differ.
std::vector<int64_t> tie_groups(const Row& row) {
  std::unordered_map<uint64_t, int64_t> first;
  first.reserve(static_cast<size_t>(row.size()) * 2);
  std::vector<int64_t> group(static_cast<size_t>(row.size()));
  bool ties = false;
  for (size_t j = 0; j < group.size(); ++j) {
    uint64_t key, extra;
    std::memcpy(&key, &row.x[j], 8);
    std::memcpy(&extra, &row.bias[j], 8);
    key ^= extra * 0x9E3779B97F4A7C15u;
    const auto [at, fresh] = first.try_emplace(key, static_cast<int64_t>(j));
    group[j] = at->second;
    ties = ties || !fresh;
  }
  if (!ties) group.clear();
  return group;
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
  const std::vector<int64_t> group = tie_groups(row);

  // How many distinct weights there are: one means that every error of a weight is shared by all of them.
  size_t distinct = n;
  bool exact_dots = true;
  for (size_t j = 0; j < n; ++j) exact_dots = exact_dots && (row.dot_terms[j] <= 1 || problem.scale == 0);
  if (!group.empty() && exact_dots) {
    distinct = 0;
    for (size_t j = 0; j < n; ++j) distinct += group[j] == static_cast<int64_t>(j) ? 1 : 0;
  }
  const size_t weights = distinct + (row.has_sink ? 1 : 0);
  const bool one_weight = weights <= 1;

  // Rescales: one per tile after the first, and never more than the maximum can rise.
  const double tiles = std::ceil(static_cast<double>(n) / static_cast<double>(std::max<int64_t>(1, numerics.tile)));
  const double rescales = std::min(tiles - 1 + static_cast<double>(numerics.extra_rescales) + (row.has_sink ? 1 : 0),
                                   static_cast<double>(weights) - 1);
  const double exp_error = std::log1p(numerics.exp_rel_error) * (1 + numerics.exp_rel_error);

  // delta_j bounds the error of key j's exponent; what all keys share has dropped out.
  out.delta.resize(n);
  double delta_most = 0;
  double gain = 0;     // errors of the double path's p_j as a fraction of delta_j
  double entropy = 0;  // sum p_j (1 + |s_j - m|)
  const auto exponent_error = [&](double own, double ds) {
    return own + 2 * kF32Unit * (std::fabs(ds) + lag) + (1 + rescales) * exp_error;
  };
  for (size_t j = 0; j < n; ++j) {
    const double own = score_error(row, j, problem, numerics);
    out.delta[j] = exponent_error(own, row.ds[j]);
    delta_most = std::max(delta_most, out.delta[j]);
    gain = std::max(gain, row.kappa * (1 + std::fabs(row.ds[j])) / out.delta[j]);
    entropy += row.p[j] * (1 + std::fabs(row.ds[j]));
  }
  // A sink is brought to the kernel's units by itself: its rounding is not shared with the scores.
  double delta_sink = 0;
  if (row.has_sink) {
    const double m_keys = *std::max_element(row.s.begin(), row.s.end());
    delta_sink = exponent_error(kF32Unit * std::fabs(m_keys) + 2 * kF32Unit * std::fabs(row.sink), row.sink_ds);
    gain = std::max(gain, row.kappa * (1 + std::fabs(row.sink_ds)) / delta_sink);
    entropy += row.sink_p * (1 + std::fabs(row.sink_ds));
    delta_most = std::max(delta_most, delta_sink);
  }

  // Weights: p e^{+-delta}. The exponent may be large; e^delta - 1 then overflows to infinity, which the cap by
  // the distance to the far value takes back.
  out.grow.resize(n);
  out.rounding.resize(n);
  out.flush.resize(n);
  out.sigma2.resize(n);
  double l_low = 0, l_high = 0, l_rounding = 0, l_flush = 0;
  double l_low_lse = 0, l_high_lse = 0;
  double arguments_noise = 0;
  const double noise_p = p_rel > 0 ? p_rel * p_rel : 0x1p-46;  // (2^-8)^2, (2^-11)^2; f32: the exponential's own 2^-23
  const double flush_margin = std::exp(std::min(700.0, 2 * delta_most + lag));
  for (size_t j = 0; j < n; ++j) {
    const double p = row.p[j], delta = one_weight ? 0.0 : out.delta[j];
    const double more = std::expm1(delta);
    out.grow[j] = p * more;
    const double high = p * (1 + more);
    l_low += p * std::exp(-delta);
    l_high += high;
    l_low_lse += p * std::exp(-out.delta[j]);
    l_high_lse += p * std::exp(out.delta[j]);
    // P rounded to its type, relative above the normal range, absolute below, and never by more than itself.
    out.rounding[j] = p_rel > 0 ? std::min(high * (1 + p_rel), std::max(p_rel * high, p * std::exp(-2 * delta_most - lag) < p_normal * 2 ? p_abs : 0.0)) : 0.0;
    l_rounding += out.rounding[j];
    // In the kernel's units, where its largest P is about 1, whatever factor all weights share.
    out.flush[j] = p < kFlush * flush_margin ? std::min(kFlush, p * flush_margin) : 0.0;
    l_flush += out.flush[j];
    // Independent noise of this weight: the rounding of P, the exponential, and the f32 roundings of its score.
    const double s = std::fabs(row.s[j]), x = std::fabs(row.x[j]);
    const double dot = row.dot_abs[j] * std::fabs(double{problem.scale});
    const double score_noise = kF32Unit * kF32Unit *
                               (4 * row.ds[j] * row.ds[j] + s * s + (affine ? x * x : 0.0) +
                                (row.dot_terms[j] > 1 ? row.dot_terms[j] * dot * dot : 0.0));
    out.sigma2[j] = p * p * (noise_p + 0x1p-46 + score_noise) / 3;
    arguments_noise = std::max(arguments_noise, p * std::fabs(row.ds[j]));
  }
  double sink_grow = 0, sink_high = 0;
  if (row.has_sink) {
    const double delta = one_weight ? 0.0 : delta_sink;
    sink_grow = row.sink_p * std::expm1(delta);
    sink_high = row.sink_p * std::exp(delta);
    l_low += row.sink_p * std::exp(-delta);
    l_high += sink_high;
    l_low_lse += row.sink_p * std::exp(-delta_sink);
    l_high_lse += row.sink_p * std::exp(delta_sink);
  }

  for (auto* v : {&out.weighted_abs, &out.spread, &out.rounding_abs, &out.rounding_spread, &out.flushed_abs, &out.tail,
                  &out.noise_spread, &out.noise_abs, &out.nonzero})
    v->assign(columns, 0.0);
  out.low.assign(columns, row.has_sink ? 0.0 : std::numeric_limits<double>::infinity());
  out.high.assign(columns, row.has_sink ? 0.0 : -std::numeric_limits<double>::infinity());
  const Columns sums{out.weighted_abs.data(), out.spread.data(),       out.rounding_abs.data(), out.rounding_spread.data(),
                     out.flushed_abs.data(),  out.tail.data(),         out.noise_spread.data(), out.noise_abs.data(),
                     out.low.data(),          out.high.data(),         out.nonzero.data()};
  for (size_t j = 0; j < n; ++j) {
    const KeyWeights w{row.p[j], out.grow[j], row.p[j] + out.grow[j], out.rounding[j], out.flush[j],
                       group.empty() ? out.sigma2[j] : 0.0};
    add_key(head.v_row(row.key[j]), row.o_hi.data(), dv, w, sums);
  }

  // Tied keys: sum the values of a group, then square.
  if (!group.empty()) {
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
  out.near_binade = false;
  const double blocks = std::ceil(static_cast<double>(n) / 16);
  for (size_t d = 0; d < columns; ++d) {
    const double o = row.o_hi[d], o_abs = std::fabs(o);
    const double far = std::max(out.high[d] - o, o - out.low[d]);
    const double magnitude = std::max(std::fabs(out.low[d]), std::fabs(out.high[d]));
    const double sink_spread = sink_grow * o_abs;
    const double theta = grown(unit, additions(out.nonzero[d], numerics) + rescales);
    const double absolute = (out.flushed_abs[d] + (out.nonzero[d] + rescales + 1) * kFlush) * inverse_flush;
    const double mass = std::min(out.tail[d] * inverse, magnitude);  // sum w |v| / sum w
    // Errors that numerator and denominator share: of the weights, and of P's rounding where l sums it too.
    const auto value_error = [&](bool shared_rounding) {
      const double spread = out.spread[d] + sink_spread + (shared_rounding ? out.rounding_spread[d] : 0.0);
      const double low = shared_rounding ? std::max(l_low - l_rounding, l_low / 2) : l_low;
      const double shared = std::isnan(spread) ? far : std::min(spread / low, far);
      const double rounding = shared_rounding ? 0.0 : std::min(out.rounding_abs[d] * inverse, magnitude);
      const double own = theta * (mass + rounding) + rounding + absolute;
      const double loss = phi < 0.5 ? phi / (1 - phi) : 2 * phi;
      return shared + own * (1 + loss) + (o_abs + shared) * loss;
    };
    const double score_spread = (out.spread[d] + sink_spread) * inverse;
    out.score_part[d] = std::isnan(score_spread) ? far : std::min(score_spread, far);
    // What the double path's own errors of p make of O.
    const double by_gain = gain * score_spread, by_far = row.kappa * far * entropy * inverse;
    out.enclosure[d] = row.kappa == 0 ? 0.0 : 2 * (by_gain <= by_far ? by_gain : by_far);
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
    if (row.kappa > 0) {
      // Units in the last place jump at powers of two; the exact path decides where one is too near to call.
      const double blur = 2 * (out.enclosure[d] + row.o_sum_error[d]) + error * 0x1p-36;
      for (double edge : {before, after})
        if (edge > 0 && n > 1 && std::fabs(edge - std::ldexp(1.0, static_cast<int>(std::lround(std::log2(edge))))) <= blur)
          out.near_binade = true;
      if (std::fabs(least - kFlush) <= blur + kFlush * 0x1p-40) out.near_binade = true;
    }
    out.o[d] = total * kEnlarge;
    out.range[d] = std::max(0.0, out.high[d] - out.low[d]);

    // Predicted variance, all of it in units of O. Uniform errors of half width a have variance a^2 / 3.
    const double inverse_l = 1 / row.l;
    const double mean_abs = out.weighted_abs[d] * inverse_l;
    double weights_noise = out.noise_spread[d];
    if (p_rel > 0 && may_keep_l) weights_noise = std::max(weights_noise, out.noise_abs[d]);
    if (one_weight && p_rel == 0) weights_noise = 0;
    weights_noise *= inverse_l * inverse_l;
    // Shared noise: rescales and the rounded scale factor move all earlier weights together.
    const double together = kF32Unit * mean_abs;
    const double accumulation = (additions(out.nonzero[d], numerics) + additions(l_terms, numerics) + 2 * rescales) * together * together;
    const double rescale_noise = (one_weight ? 0.0 : rescales + arguments_noise * arguments_noise) * together * together;
    const double division = 0x1p-23 * o_abs;
    const double output = problem.type == DType::f32 ? 0.0 : ulp_at(problem.type, o_abs) / 2;
    double variance = weights_noise + (accumulation + rescale_noise + division * division + output * output) / 3;
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

Spectrum noise_spectrum(const Row& row, const HeadData& head, const RowBound& bound) {
  const auto columns = static_cast<size_t>(head.dv);
  const size_t n = static_cast<size_t>(row.size());
  const std::vector<int64_t> group = tie_groups(row);
  std::vector<double> c(columns * columns, 0.0), w(columns);
  const double inverse_l2 = 1 / (row.l * row.l);
  const auto add = [&](double sigma2) {
    for (size_t a = 0; a < columns; ++a)
      for (size_t b = 0; b < columns; ++b) c[a * columns + b] += sigma2 * inverse_l2 * w[a] * w[b];
  };
  std::vector<size_t> order(n);
  for (size_t j = 0; j < n; ++j) order[j] = j;
  if (!group.empty()) std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return group[a] < group[b]; });
  for (size_t at = 0; at < n;) {
    std::fill(w.begin(), w.end(), 0.0);
    size_t end = at;
    do {
      const float* v = head.v_row(row.key[order[end]]);
      for (size_t d = 0; d < columns; ++d) w[d] += row.column_nonfinite[d] ? 0.0 : v[d] - row.o_hi[d];
      ++end;
    } while (!group.empty() && end < n && group[order[end]] == group[order[at]]);
    add(bound.sigma2[order[at]]);
    at = end;
  }
  // What the sources above leave of the predicted variance is independent per column.
  double trace = 0;
  for (size_t d = 0; d < columns; ++d) {
    if (row.column_nonfinite[d]) continue;  // not judged, w is 0 there
    double& diagonal = c[d * columns + d];
    diagonal = std::max(diagonal, bound.variance[d]);
    trace += diagonal;
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
