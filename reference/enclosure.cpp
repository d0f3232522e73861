#include "reference/enclosure.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "reference/vector_clones.h"

namespace attest {

namespace {

struct Pair {
  double hi = 0, lo = 0;
};

inline Pair two_sum(double a, double b) {
  const double sum = a + b;
  const double z = sum - a;
  return {sum, (a - (sum - z)) + (b - z)};
}

// The upper 29 significand bits: times a float, or less, that is exact in double.
inline double upper_bits(double x) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(x) & ~uint64_t{0xFFFFFF});
}

// scale * (hi + lo) as a pair; the product with hi is exact.
Pair scaled(float scale, const Dot& dot) {
  const double upper = upper_bits(dot.hi);
  Pair x = two_sum(double{scale} * upper, double{scale} * (dot.hi - upper));
  x.lo += double{scale} * dot.lo;
  return two_sum(x.hi, x.lo);
}

// sums hi + lo += p v, error-free but for the additions into lo.
ATTEST_VECTOR_CLONES
void add_value(const float* v, int64_t dv, double p_upper, double p_lower, double* hi, double* lo, double* abs) {
  const double p = p_upper + p_lower;
  for (int64_t d = 0; d < dv; ++d) {
    const double value = v[d];
    const double term = p_upper * value;
    const double sum = hi[d] + term;
    const double z = sum - hi[d];
    lo[d] += ((hi[d] - (sum - z)) + (term - z)) + p_lower * value;
    hi[d] = sum;
    abs[d] += p * std::fabs(value);
  }
}

// a / b for pairs, to about 2^-100.
Pair divide(Pair a, Pair b) {
  const double q = a.hi / b.hi;
  const double rest = std::fma(-q, b.hi, a.hi) + a.lo - q * b.lo;
  return two_sum(q, rest / b.hi);
}

}  // namespace

void enclose_row(const Problem& problem, const HeadData& head, const std::vector<Dot>& dots, Row& row) {
  const size_t n = row.key.size();
  const auto columns = static_cast<size_t>(head.dv);
  row.x.resize(n);
  row.s.resize(n);
  row.ds.resize(n);
  row.p.resize(n);
  row.scratch.resize(std::max(n, columns));  // low parts of the scores, then the sums of p |v|

  // Scores as pairs; `score_error` is the largest absolute error of one.
  double score_error = 0;
  const double cap = problem.softcap;
  Pair m{-INFINITY, 0};
  for (size_t j = 0; j < n; ++j) {
    const Pair x = scaled(problem.scale, dots[j]);
    Pair s = x;
    double error = dots[j].terms > 1
                       ? dots[j].terms * dots[j].terms * 0x1p-102 * dots[j].abs * std::fabs(double{problem.scale}) + 0x1p-102 * std::fabs(x.hi)
                       : 0.0;
    if (problem.softcap > 0) {
      s = {cap * std::tanh(x.hi / cap), 0};
      error += 0x1p-49 * std::fabs(s.hi);
    }
    if (row.bias[j] != 0) {
      const Pair sum = two_sum(s.hi, row.bias[j]);
      error += 0x1p-104 * (std::fabs(sum.hi) + std::fabs(s.hi));
      s = two_sum(sum.hi, sum.lo + s.lo);
    }
    score_error = std::max(score_error, error);
    row.x[j] = x.hi;
    row.s[j] = s.hi;
    row.scratch[j] = s.lo;
    if (s.hi > m.hi || (s.hi == m.hi && s.lo > m.lo)) m = s;
  }
  if (row.has_sink && (row.sink > m.hi || (row.sink == m.hi && m.lo < 0))) m = {row.sink, 0};
  row.m = m.hi;
  row.kappa = 0x1p-50 + 2 * score_error;

  Pair l{};
  for (size_t j = 0; j < n; ++j) {
    row.ds[j] = (row.s[j] - m.hi) + (row.scratch[j] - m.lo);
    row.p[j] = std::exp(row.ds[j]);
    const Pair sum = two_sum(l.hi, row.p[j]);
    l = {sum.hi, l.lo + sum.lo};
  }
  if (row.has_sink) {
    row.sink_ds = (row.sink - m.hi) - m.lo;
    row.sink_p = std::exp(row.sink_ds);
    const Pair sum = two_sum(l.hi, row.sink_p);
    l = {sum.hi, l.lo + sum.lo};
  }
  l = two_sum(l.hi, l.lo);
  row.l = l.hi;
  const double log_l = std::log(l.hi) + l.lo / l.hi;
  row.lse = m.hi + log_l;
  row.lse_error = 0x1p-50 * (std::fabs(row.m) + std::fabs(row.lse) + std::fabs(log_l) + 1) + row.kappa * (2 + std::log(static_cast<double>(n) + 1));

  row.o_hi.assign(columns, 0.0);
  row.o_lo.assign(columns, 0.0);
  row.o_sum_error.resize(columns);
  row.column_nonfinite.assign(columns, 0);
  std::fill(row.scratch.begin(), row.scratch.end(), 0.0);
  for (size_t j = 0; j < n; ++j) {
    const double upper = upper_bits(row.p[j]);
    add_value(head.v_row(row.key[j]), head.dv, upper, row.p[j] - upper, row.o_hi.data(), row.o_lo.data(), row.scratch.data());
  }
  const double growth = static_cast<double>(n) * 0x1p-52;
  for (size_t d = 0; d < columns; ++d) {
    if (!std::isfinite(row.o_hi[d])) {  // only a non-finite V can do that: |sum p v| < n 2^128
      row.column_nonfinite[d] = 1;
      row.o_hi[d] = row.o_lo[d] = row.o_sum_error[d] = 0;
      continue;
    }
    const Pair o = divide(two_sum(row.o_hi[d], row.o_lo[d]), l);
    row.o_hi[d] = o.hi;
    row.o_lo[d] = o.lo;
    row.o_sum_error[d] = n == 1 && !row.has_sink ? 0.0 : (growth * growth + 0x1p-98) * row.scratch[d] / l.hi + 0x1p-900;
  }
}

}  // namespace attest
