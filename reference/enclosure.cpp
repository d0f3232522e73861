#include "reference/enclosure.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "reference/vector_clones.h"

namespace attest {

namespace {

constexpr double kUnit = 0x1p-53;  // relative error of one double operation
constexpr double kVanishes = -1000;  // e^-1000 is 0 in double and beside any bound

// A value of at most 24 significand bits: its product with a float is exact in double.
inline bool is_float(double x) { return (std::bit_cast<uint64_t>(x) & 0x1FFFFFFF) == 0; }

// o[d] = sum p_j v_jd and abs[d] = sum p_j |v_jd| over the keys, column blocks outermost.
ATTEST_VECTOR_CLONES
void weighted_sums(const float* v, const int64_t* key, const double* p, int64_t n, int64_t dv, double* o, double* abs) {
  int64_t d = 0;
  for (; d + 2 * kLanes <= dv; d += 2 * kLanes) {
    Lanes sum0{}, sum1{}, abs0{}, abs1{};
    for (int64_t j = 0; j < n; ++j) {
      const float* row = v + key[j] * dv + d;
      FloatLanes v0, v1;
      std::memcpy(&v0, row, sizeof v0);
      std::memcpy(&v1, row + kLanes, sizeof v1);
      const Lanes term0 = p[j] * __builtin_convertvector(v0, Lanes), term1 = p[j] * __builtin_convertvector(v1, Lanes);
      sum0 += term0;
      sum1 += term1;
      abs0 += ATTEST_ABS(term0);
      abs1 += ATTEST_ABS(term1);
    }
    std::memcpy(o + d, &sum0, sizeof sum0);
    std::memcpy(o + d + kLanes, &sum1, sizeof sum1);
    std::memcpy(abs + d, &abs0, sizeof abs0);
    std::memcpy(abs + d + kLanes, &abs1, sizeof abs1);
  }
  for (; d < dv; ++d) {
    double sum = 0, magnitude = 0;
    for (int64_t j = 0; j < n; ++j) {
      const double term = p[j] * static_cast<double>(v[key[j] * dv + d]);
      sum += term;
      magnitude += std::fabs(term);
    }
    o[d] = sum;
    abs[d] = magnitude;
  }
}

}  // namespace

void enclose_row(const Problem& problem, const HeadData& head, const std::vector<Dot>& dots, Row& row) {
  const size_t n = row.key.size();
  const auto columns = static_cast<size_t>(head.dv);
  row.x.resize(n);
  row.s.resize(n);
  row.ds.resize(n);
  row.p.resize(n);
  row.kappa.resize(n);
  row.enclosed = true;

  // Scores, each with its absolute error in kappa; with a bias as unevaluated pairs, since the bias may swallow what
  // tells the keys apart. What the maximum is off by is shared.
  const double scale = problem.scale, cap = problem.softcap;
  const double lanes = static_cast<double>(head.d) / 8 + 4;
  row.s_low.assign(n, 0.0);
  row.m = -INFINITY;
  double m_low = 0;
  for (size_t j = 0; j < n; ++j) {
    const double x = scale * dots[j].value;
    // With one product of 24 bits the product with the scale is exact, too.
    double error = dots[j].terms > 1 ? lanes * kUnit * dots[j].abs * std::fabs(scale) : 0.0;
    if (dots[j].terms > 1 || !is_float(dots[j].value)) error += kUnit * std::fabs(x);
    double s = x;
    if (cap > 0) {
      s = cap * std::tanh(x / cap);
      const double nearest = std::max(0.0, std::fabs(x) - error) / cap;
      const double slope = nearest > 350 ? 0.0 : 1 / (std::cosh(nearest) * std::cosh(nearest));
      error = std::min(error * slope, 2 * cap) + 8 * kUnit * std::fabs(s);
    }
    if (row.bias[j] != 0) {
      const double sum = s + row.bias[j], part = sum - s;
      row.s_low[j] = (s - (sum - part)) + (row.bias[j] - part);
      s = sum;
    }
    row.x[j] = x;
    row.s[j] = s;
    row.kappa[j] = error;
    if (s > row.m || (s == row.m && row.s_low[j] > m_low)) {
      row.m = s;
      m_low = row.s_low[j];
    }
  }
  if (row.has_sink && (row.sink > row.m || (row.sink == row.m && m_low < 0))) {
    row.m = row.sink;
    m_low = 0;
  }

  // A key that stays far below the maximum whatever the errors are has no weight; if one key remains, its error is
  // shared by all there is.
  double at_maximum = 0;
  for (size_t j = 0; j < n; ++j)
    if (row.s[j] == row.m) at_maximum = std::max(at_maximum, row.kappa[j]);
  size_t remaining = row.has_sink ? 1 : 0, last = 0;
  for (size_t j = 0; j < n; ++j) {
    row.ds[j] = (row.s[j] - row.m) + (row.s_low[j] - m_low);
    if (row.ds[j] + row.kappa[j] + at_maximum < kVanishes) {
      row.kappa[j] = 0;
      continue;
    }
    ++remaining;
    last = j;
  }
  const double lse_kappa = at_maximum;
  if (remaining == 1 && !row.has_sink) row.kappa[last] = 0;

  row.l = 0;
  double entropy = 0;  // sum p kappa
  for (size_t j = 0; j < n; ++j) {
    row.p[j] = std::exp(row.ds[j]);
    row.kappa[j] += row.ds[j] == 0 ? 0.0 : kUnit * (4 - row.ds[j]);  // exp within 2 ulp, its argument rounded
    row.l += row.p[j];
    entropy += row.p[j] * row.kappa[j];
  }
  row.sink_kappa = 0;
  if (row.has_sink) {
    row.sink_ds = (row.sink - row.m) - m_low;
    row.sink_p = std::exp(row.sink_ds);
    row.sink_kappa = row.sink_ds == 0 ? 0.0 : kUnit * (4 - row.sink_ds);
    row.l += row.sink_p;
    entropy += row.sink_p * row.sink_kappa;
  }
  const double growth = (static_cast<double>(n) + 2) * kUnit;
  const double log_l = std::log(row.l);
  row.lse = row.m + log_l;
  // Here the error of the maximum counts: it is at most that of the key that attains it.
  double m_error = lse_kappa;
  for (size_t j = 0; j < n; ++j)
    if (row.ds[j] > -1e-3) m_error = std::max(m_error, row.kappa[j]);
  row.lse_error = 2 * kUnit * (std::fabs(row.m) + std::fabs(row.lse) + std::fabs(log_l)) + growth + 2 * entropy / row.l + 2 * m_error;

  row.o_hi.resize(columns);
  row.o_lo.assign(columns, 0.0);
  row.o_abs.resize(columns);
  row.o_sum_error.resize(columns);
  row.column_nonfinite.assign(columns, 0);
  weighted_sums(head.v.data(), row.key.data(), row.p.data(), static_cast<int64_t>(n), head.dv, row.o_hi.data(), row.o_abs.data());
  const bool alone = n == 1 && !row.has_sink;
  for (size_t d = 0; d < columns; ++d) {
    if (!std::isfinite(row.o_hi[d])) {  // only a non-finite V can do that: |sum p v| < n 2^128
      row.column_nonfinite[d] = 1;
      row.o_hi[d] = row.o_sum_error[d] = 0;
      continue;
    }
    row.o_hi[d] /= row.l;
    // n roundings of the sum, n of l, a product and a quotient; subnormal p are lost below 2^-1000.
    row.o_sum_error[d] = alone ? 0.0 : 2 * growth * row.o_abs[d] / row.l + (row.o_abs[d] > 0 ? 0x1p-900 : 0.0);
  }
}

}  // namespace attest
