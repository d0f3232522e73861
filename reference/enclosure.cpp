#include "reference/enclosure.h"

#include <algorithm>
#include <cmath>

#include "reference/hot_loops.h"

namespace attest {

namespace {

constexpr double kUnit = 0x1p-53;        // relative error of one double operation
constexpr double kPairUnit = 0x1p-100;   // of one double-double operation, generously
constexpr double kExpPairUnit = 0x1p-60;  // of exp_pair
constexpr double kVanishes = -1000;      // e^-1000 is 0 in double and beside any bound
constexpr double kShows = 0x1p-32;       // a mean error of the weights that is worth double-double scores
// In f32, where P is not rounded, n keys deviate by n 2^-24 or so, so that less shows: a mean error of the weights of 2^-30 of
// that, and with few keys the rounding of the sums, too.
constexpr double kShowsInF32 = 0x1p-54;  // for each key
constexpr size_t kFewKeys = 512;
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
Pair operator/(Pair a, Pair b) {
  const double quotient = a.hi / b.hi;
  return two_sum(quotient, (std::fma(-quotient, b.hi, a.hi) + (a.lo - quotient * b.lo)) / b.hi);
}
Pair times(Pair a, double b) {
  const double product = a.hi * b;
  return two_sum(product, std::fma(a.hi, b, -product) + a.lo * b);
}

Pair exp_pair(Pair x) {  // x.hi <= 0; below -700 its lower digits are 0
  double p, low;
  hot_loops().exps(&x.hi, 1, &p);
  hot_loops().exp_lows({&x.hi, &x.lo, &p, 1, &low});
  return {p, low};
}

// A score before its bias in double-double, and its absolute error.
struct PairScore {
  Pair s;
  double error;
};

// cap tanh(x / cap) of an x that is off by `error` at most.
PairScore softcap(Pair x, double error, double cap) {
  error += kPairUnit * std::fabs(x.hi);
  const Pair t = x / Pair{cap, 0};
  const double size = std::fabs(t.hi);
  if (size < 0x1p-3) {  // x - cap (t - tanh t): a small correction, by its series; the next term is below 2^-56 of the first
    const double t2 = t.hi * t.hi;
    const double series = 1.0 / 3 - t2 * (2.0 / 15 - t2 * (17.0 / 315 - t2 * (62.0 / 2835 - t2 * (1382.0 / 155925 - t2 * (21844.0 / 6081075 - t2 * (929569.0 / 638512875 - t2 * (6404582.0 / 10854718875)))))));
    const double correction = cap * (t.hi * t2) * series;
    return {plus(x, -correction), error + 16 * kUnit * std::fabs(correction) + kPairUnit * std::fabs(x.hi)};
  }
  const double sign = std::copysign(1.0, t.hi);  // tanh t = (1 - e) / (1 + e), e = e^(-2 |t|)
  const Pair e = exp_pair({-2 * size, -2 * sign * t.lo});
  return {times(plus(e, -1) / plus(e, 1), -sign * cap), error * tanh_slope(size - 4 * kUnit * size) + (2 * kExpPairUnit * e.hi + kPairUnit) * cap};
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

// The same with every score, ds and sink_ds in double-double.
double subtract_maximum_in_pairs(const Problem& problem, const HeadData& head, const double* q, Row& row) {
  const size_t n = row.key.size();
  for (auto* values : {&row.pair_hi, &row.pair_lo, &row.ds_low}) values->resize(n);
  hot_loops().dot_pairs({q, head.k.data(), row.key.data(), row.size(), head.d, row.dot_abs.data(), row.pair_hi.data(), row.pair_lo.data()});
  hot_loops().score_pairs({row.pair_hi.data(), row.pair_lo.data(), row.dot_abs.data(), row.dot_terms.data(), row.bias.data(), row.size(), head.d,
                           double{problem.scale}, row.kappa.data(), row.s.data(), row.s_low.data()});
  std::copy(row.pair_hi.begin(), row.pair_hi.end(), row.x.begin());
  for (size_t j = 0; j < n && problem.softcap > 0; ++j) {
    const PairScore capped = softcap({row.pair_hi[j], row.pair_lo[j]}, row.kappa[j], problem.softcap);
    row.pair_hi[j] = capped.s.hi;
    row.pair_lo[j] = capped.s.lo;
    row.kappa[j] = capped.error + kPairUnit * std::fabs(capped.s.hi);
    const Pair s = plus(capped.s, row.bias[j]);
    row.s[j] = s.hi;
    row.s_low[j] = s.lo;
  }
  row.m = hot_loops().maximum(row.s.data(), row.size());
  size_t top = n;
  for (size_t j = 0; j < n; ++j)
    if (row.s[j] == row.m && (top == n || row.s_low[j] > row.s_low[top])) top = j;
  const bool sink = row.has_sink && (row.sink > row.m || (row.sink == row.m && row.s_low[top] <= 0));
  if (sink) row.m = row.sink;
  const Pair most = sink ? Pair{} : Pair{row.pair_hi[top], row.pair_lo[top]};  // without its bias
  const double bias = sink ? row.sink : row.bias[top], at_maximum = sink ? 0 : row.kappa[top];
  const auto subtract = [&](const double* hi, const double* lo, const double* biases, int64_t count, double* ds, double* ds_low) {
    hot_loops().shift_pairs({hi, lo, biases, count, most.hi, most.lo, bias, ds, ds_low});
  };
  subtract(row.pair_hi.data(), row.pair_lo.data(), row.bias.data(), row.size(), row.ds.data(), row.ds_low.data());
  const double none = 0;
  row.sink_ds = row.sink_ds_low = 0;
  if (row.has_sink) subtract(&none, &none, &row.sink, 1, &row.sink_ds, &row.sink_ds_low);
  forget_vanishing(row, at_maximum);
  return at_maximum;
}

// O = o_hi + o_lo with the lower digits of the weights, of their sum and of the sums over the values. ds + ds_low stands.
// Every step stays within what o_sum_error allows for plain sums; from exact scores, weights lose 2^-60, sums n 2^-79.
void keep_more_digits(const HeadData& head, Row& row) {
  const size_t n = row.key.size();
  row.p_low.resize(n);
  hot_loops().exp_lows({row.ds.data(), row.ds_low.data(), row.p.data(), row.size(), row.p_low.data()});
  Pair l{};
  if (row.has_sink) {
    l = exp_pair({row.sink_ds, row.sink_ds_low});
  }
  for (size_t j = 0; j < n; ++j) {
    const Pair next = two_sum(l.hi, row.p[j]);
    l = {next.hi, l.lo + (next.lo + row.p_low[j])};
  }
  hot_loops().weighted_pairs({head.v.data(), row.key.data(), row.p.data(), row.p_low.data(), row.size(), head.dv, row.o_abs.data(), row.o_hi.data(), row.o_lo.data()});
  for (size_t d = 0; d < row.o_hi.size(); ++d) {
    if (row.column_nonfinite[d]) {
      row.o_hi[d] = row.o_lo[d] = 0;
      continue;
    }
    const Pair o = two_sum(row.o_hi[d], row.o_lo[d]) / l;
    row.o_hi[d] = o.hi;
    row.o_lo[d] = o.lo;
  }
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
  if (cap > 0) {
    std::vector<double>&argument = row.pair_hi, &slope = row.pair_lo;
    argument.resize(n);
    slope.resize(n);
    for (size_t j = 0; j < n; ++j) {
      argument[j] = row.x[j] / cap;
      slope[j] = (std::fabs(row.x[j]) - row.kappa[j]) / cap;
    }
    hot_loops().tanhs(argument.data(), row.size(), row.s.data());
    tanh_slopes(row.size(), slope.data());
    for (size_t j = 0; j < n; ++j) {
      row.s[j] *= cap;
      row.kappa[j] = std::min(row.kappa[j] * slope[j], 2 * cap) + 8 * kUnit * std::fabs(row.s[j]);
    }
  }
  for (size_t j = 0; j < n && affine; ++j) {
    const Pair with_bias = two_sum(row.s[j], row.bias[j]);
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
  const bool digits = problem.type == DType::f32 && (n < kFewKeys || entropy > kShowsInF32 * static_cast<double>(n) * row.l);
  if (digits || entropy > kShows * row.l || widest > kWide) {
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
  if (digits) keep_more_digits(head, row);
}

}  // namespace attest
