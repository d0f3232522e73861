#include "reference/enclosure.h"

#include <algorithm>
#include <cmath>

#include "reference/hot_loops.h"

namespace attest {

namespace {

constexpr double kUnit = 0x1p-53;        // relative error of one double operation
constexpr double kPairUnit = 0x1p-100;   // of one double-double operation, generously
constexpr double kVanishes = -1000;      // e^-1000 is 0 in double and beside any bound
constexpr double kShows = 0x1p-32;       // a mean error of the weights that is worth double-double scores
constexpr double kWide = 0x1p-10;        // beyond this the enclosure's first order does not hold

// An unevaluated sum of two doubles, the second within half a unit of the first.
struct Pair {
  double hi = 0, lo = 0;
};

Pair two_sum(double a, double b) {  // D. Knuth, TAOCP 2, section 4.2.2, theorem B: exact
  const double sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
Pair plus(Pair a, double b) {
  const Pair s = two_sum(a.hi, b);
  return two_sum(s.hi, s.lo + a.lo);
}
Pair times(Pair a, double b) {
  const double product = a.hi * b;
  return two_sum(product, std::fma(a.hi, b, -product) + a.lo * b);
}

// The score before the bias in double-double, and its absolute error.
struct PairScore {
  Pair x, s;
  double error;
};

// q.k: products of floats are exact, the sum is compensated.
// Source: T. Ogita, S. Rump, S. Oishi, "Accurate sum and dot product", SIAM J. Sci. Comput. 26 (2005), algorithm 4.4:
// error u |sum| + (n u)^2 sum |.| for the rounded sum; kept as a pair, the second term and u^2 |sum| remain.
Pair dot_pair(const double* q, const float* k, int64_t d) {
  double sum = 0, rest = 0;
  for (int64_t c = 0; c < d; ++c) {
    const Pair next = two_sum(sum, q[c] * static_cast<double>(k[c]));
    sum = next.hi;
    rest += next.lo;
  }
  return two_sum(sum, rest);
}

PairScore pair_score(const Problem& problem, const double* q, const float* k, int64_t d, double dot_abs) {
  const double scale = problem.scale, cap = problem.softcap;
  PairScore out;
  out.x = times(dot_pair(q, k, d), scale);
  const double terms = static_cast<double>(d) * kUnit;
  out.error = terms * terms * dot_abs * std::fabs(scale) + kPairUnit * std::fabs(out.x.hi);
  out.s = out.x;
  if (cap > 0) {
    // cap tanh t = x - cap (t - tanh t), or +-(cap - 2 cap / (e^2t + 1)): a small correction of an exact part.
    const double t = out.x.hi / cap, size = std::fabs(t);
    if (size < 0x1p-6) {
      const double t2 = t * t;  // tanh t = t - t^3/3 + 2 t^5/15 - 17 t^7/315 + ...; the next term is below 2^-52 of the first
      const double correction = cap * (t * t2) * (1.0 / 3 - t2 * (2.0 / 15 - t2 * (17.0 / 315 - t2 * (62.0 / 2835))));
      out.s = plus(out.x, -correction);
      out.error += 16 * kUnit * std::fabs(correction) + kPairUnit * std::fabs(out.x.hi);
    } else {
      const double rest = size > 350 ? 0.0 : 2 * cap / (std::exp(2 * size) + 1);
      out.s = two_sum(std::copysign(cap, t), std::copysign(rest, -t));
      out.error = (out.error + 4 * kUnit * std::fabs(out.x.hi)) * tanh_slope(size - 4 * kUnit * size) + (8 + 4 * size) * kUnit * rest + kPairUnit * cap;
    }
  }
  return out;
}

// Forgets the errors of keys that have no weight whatever their errors are, `at_maximum` that of the maximum. If one key
// remains, its error is shared by all there is.
void forget_vanishing(Row& row, double at_maximum) {
  const size_t n = row.key.size(), sinks = row.has_sink && row.sink_ds + at_maximum >= kVanishes ? 1 : 0;
  size_t remaining = sinks, last = 0;
  for (size_t j = 0; j < n; ++j) {
    if (row.ds[j] + row.kappa[j] + at_maximum < kVanishes) {
      row.kappa[j] = 0;
      continue;
    }
    ++remaining;
    last = j;
  }
  if (remaining == 1 && sinks == 0) row.kappa[last] = 0;
}

// Brings the scores s + s_low to their maximum. Returns the error of the maximum.
double subtract_maximum(Row& row, bool pairs) {
  const size_t n = row.key.size();
  double m_low = 0;
  row.m = hot_loops().maximum(row.s.data(), row.size());
  if (pairs) {
    m_low = -INFINITY;
    for (size_t j = 0; j < n; ++j)
      if (row.s[j] == row.m) m_low = std::max(m_low, row.s_low[j]);
  }
  if (row.has_sink && (row.sink > row.m || (row.sink == row.m && m_low < 0))) {
    row.m = row.sink;
    m_low = 0;
  }
  row.sink_ds = row.has_sink ? (row.sink - row.m) - m_low : 0.0;
  ShiftArguments shift{row.s.data(), row.s_low.data(), row.kappa.data(), row.size(), row.m, m_low, row.ds.data(), 0, 0};
  hot_loops().shift(shift);
  if (shift.least_ds < kVanishes || row.sink_ds < kVanishes || n == 1) forget_vanishing(row, shift.kappa_at_maximum);
  return shift.kappa_at_maximum;
}

// The same with every score in double-double. Bias and the rest are subtracted apart: a bias may be 2^127 larger.
// Returns the error of the maximum.
double subtract_maximum_in_pairs(const Problem& problem, const HeadData& head, const double* q, Row& row) {
  const size_t n = row.key.size();
  const auto vanished = [&](size_t j) { return row.p[j] == 0 && row.kappa[j] == 0; };
  row.pair_hi.resize(n);
  row.pair_lo.resize(n);
  Pair most{-INFINITY, 0}, reference{0, 0};  // the maximum, and its part without the bias
  double bias = 0, at_maximum = 0;
  if (row.has_sink) {
    most = {row.sink, 0};
    bias = row.sink;
  }
  for (size_t j = 0; j < n; ++j) {
    if (vanished(j)) continue;
    const PairScore score = pair_score(problem, q, head.k_row(row.key[j]), head.d, row.dot_abs[j]);
    const bool exact = row.dot_terms[j] <= 1 && problem.softcap == 0;
    row.x[j] = score.x.hi;
    row.pair_hi[j] = score.s.hi;
    row.pair_lo[j] = score.s.lo;
    row.kappa[j] = exact ? 0.0 : score.error + kPairUnit * std::fabs(score.s.hi);
    const Pair s = plus(score.s, row.bias[j]);
    row.s[j] = s.hi;
    row.s_low[j] = s.lo;
    if (s.hi > most.hi || (s.hi == most.hi && s.lo > most.lo)) {
      most = s;
      reference = score.s;
      bias = row.bias[j];
      at_maximum = row.kappa[j];
    }
  }
  row.m = most.hi;
  const auto minus_maximum = [&](Pair s, double b) {
    const Pair scores = two_sum(s.hi, -reference.hi), biases = two_sum(b, -bias), sum = two_sum(scores.hi, biases.hi);
    return sum.hi + (sum.lo + (scores.lo + biases.lo) + (s.lo - reference.lo));
  };
  for (size_t j = 0; j < n; ++j)
    if (!vanished(j)) row.ds[j] = minus_maximum({row.pair_hi[j], row.pair_lo[j]}, row.bias[j]);
  row.sink_ds = row.has_sink ? minus_maximum({0, 0}, row.sink) : 0.0;
  forget_vanishing(row, at_maximum);
  return at_maximum;
}

}  // namespace

void enclose_row(const Problem& problem, const HeadData& head, const double* q, Row& row) {
  const size_t n = row.key.size();
  const auto columns = static_cast<size_t>(head.dv);
  for (auto* values : {&row.x, &row.s, &row.s_low, &row.ds, &row.p, &row.kappa}) values->resize(n);
  row.enclosed = true;

  // Scores, each with its absolute error in kappa; with a bias as unevaluated pairs, since the bias may swallow what
  // tells the keys apart. What the maximum is off by is shared.
  const double scale = problem.scale, cap = problem.softcap;
  const bool affine = problem.bias.has_value() || cap > 0;
  hot_loops().scores({row.dot.data(), row.dot_abs.data(), row.dot_terms.data(), row.size(), scale, dot_roundings(head.d) * kUnit * std::fabs(scale),
                      row.x.data(), row.s.data(), row.kappa.data()});
  std::fill(row.s_low.begin(), row.s_low.end(), 0.0);
  for (size_t j = 0; j < n && affine; ++j) {
    double s = row.x[j];
    if (cap > 0) {
      const double x = s, error = row.kappa[j];
      s = cap * std::tanh(x / cap);
      row.kappa[j] = std::min(error * tanh_slope((std::fabs(x) - error) / cap), 2 * cap) + 8 * kUnit * std::fabs(s);
    }
    const Pair with_bias = two_sum(s, row.bias[j]);
    row.s[j] = with_bias.hi;
    row.s_low[j] = with_bias.lo;
  }

  // Sums p and p kappa, once ds and kappa stand.
  double entropy = 0, widest = 0;
  const auto sums = [&] {
    hot_loops().exps(row.ds.data(), row.size(), row.p.data());
    SumArguments a{row.ds.data(), row.p.data(), row.size(), row.kappa.data(), 0, 0, 0};
    hot_loops().sums(a);
    row.l = a.l;
    entropy = a.entropy;
    widest = a.kappa_most;
    row.sink_kappa = 0;
    if (row.has_sink) {
      row.sink_p = std::exp(row.sink_ds);
      row.sink_kappa = row.sink_ds == 0 ? 0.0 : kUnit * (4 - 2 * row.sink_ds);
      row.l += row.sink_p;
      entropy += row.sink_p * row.sink_kappa;
    }
  };
  double m_error = subtract_maximum(row, affine);
  sums();
  if (entropy > kShows * row.l || widest > kWide) {
    m_error = subtract_maximum_in_pairs(problem, head, q, row);
    sums();
  }
  row.wide = widest > kWide;
  const double growth = (static_cast<double>(n) + 2) * kUnit;
  const double log_l = std::log(row.l);
  row.lse = row.m + log_l;
  // Here the error of the maximum counts: it is at most that of the key that attains it.
  for (size_t j = 0; j < n; ++j)
    if (row.ds[j] > -1e-3) m_error = std::max(m_error, row.kappa[j]);
  row.lse_error = 2 * kUnit * (std::fabs(row.m) + std::fabs(row.lse) + std::fabs(log_l)) + growth + 2 * entropy / row.l + 2 * m_error;

  row.o_hi.resize(columns);
  row.o_lo.assign(columns, 0.0);
  row.o_abs.resize(columns);
  row.o_sum_error.resize(columns);
  row.column_nonfinite.assign(columns, 0);
  hot_loops().weighted_sums({head.v.data(), row.key.data(), row.p.data(), static_cast<int64_t>(n), head.dv, row.o_hi.data(), row.o_abs.data()});
  const bool alone = n == 1 && !row.has_sink;
  for (size_t d = 0; d < columns; ++d) {
    if (!std::isfinite(row.o_hi[d])) {  // only a non-finite V can do that: |sum p v| < n 2^128
      row.column_nonfinite[d] = 1;
      row.o_hi[d] = row.o_sum_error[d] = 0;
      continue;
    }
    row.o_hi[d] /= row.l;
    // n roundings of the sum, n of l, a product and a quotient; and what subnormal p may lose, 2^-1022 |v| a key.
    row.o_sum_error[d] = alone ? 0.0 : 2 * growth * row.o_abs[d] / row.l + static_cast<double>(n) * 0x1p-890;
  }
}

}  // namespace attest
