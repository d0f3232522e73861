// model_kernel.h: attention of one row that rounds as badly as the strict model (reference/bound.md) lets it.
//
// Every operation is the exact one (in double) followed by an error within the model's line for it: a real rounding
// where the model names one, or the model's whole allowance, in the direction that moves O away. So its results are
// those of a kernel within the model, and the bound must hold for them.
// Example: double o = model_kernel({.scores = s, .values = v, .type = DType::f32}, {.sums = Sums::truncated});
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/formats.h"

namespace attest::bench {

// How sums are taken: rounded to f32 after each addition, or as tensor cores do: blocks of 16 products and the
// accumulator aligned to the largest, each cut at 2^-25 of it, the sum cut to f32.
enum class Sums { exact, nearest, truncated, aligned };

struct RowOfKeys {
  std::vector<double> scores = {}, values = {};  // exact
  DType type = DType::f32;             // of P and O
};

struct Habits {
  double direction = 1;             // +1: errors push O up, -1: down
  int64_t tile = 1 << 30;           // keys per tile
  double arguments = 0;             // error of each exponent's argument, as a part of it
  double exponentials = 0;          // relative error of each exponential, those of rescales too; exp(0) = 1
  std::vector<double> score_errors = {}; // per key, absolute: of its dot product, softcap and bias; empty: none
  Sums sums = Sums::exact;          // of O and of l; l is never summed by tensor cores: truncated instead
  bool round_p = true;              // P to its type
  bool l_from_rounded = false;      // l sums the rounded P
  bool flush = false;               // results below 2^-126 become 0
  double division_ulps = 0;         // error of the division
  bool round_output = true;
};

inline double cut_to_f32(double x) {
  const float f = static_cast<float>(x);
  return std::fabs(f) > std::fabs(x) ? std::nextafter(f, 0.0f) : f;
}

inline double add(double a, double b, Sums sums) {
  switch (sums) {
    case Sums::nearest: return static_cast<float>(a + b);
    case Sums::truncated: case Sums::aligned: return cut_to_f32(a + b);
    case Sums::exact: break;
  }
  return a + b;
}

// The accumulator and up to 16 products.
inline double add_aligned(double accumulator, const double* products, int64_t n) {
  double largest = std::fabs(accumulator);
  for (int64_t j = 0; j < n; ++j) largest = std::max(largest, std::fabs(products[j]));
  if (largest == 0) return 0;
  const double unit = std::ldexp(1.0, std::ilogb(largest) - 25);
  double sum = std::trunc(accumulator / unit);
  for (int64_t j = 0; j < n; ++j) sum += std::trunc(products[j] / unit);
  return cut_to_f32(sum * unit);
}

inline double model_kernel(const RowOfKeys& row, const Habits& h) {
  const auto n = static_cast<int64_t>(row.scores.size());
  const double top = *std::max_element(row.scores.begin(), row.scores.end());
  double exact_l = 0, exact_o = 0;
  for (int64_t j = 0; j < n; ++j) {
    const auto at = static_cast<size_t>(j);
    const double p = std::exp(row.scores[at] - top);
    exact_l += p;
    exact_o += p * row.values[at];
  }
  exact_o /= exact_l;
  // e^-x with the allowances, up or down; their own roundings to f32 are part of the exponential's.
  const auto exponential = [&](double argument, double up) {
    if (argument == 0) return 1.0;
    const double y = std::exp(argument * (1 - up * h.arguments)) * (1 + up * h.exponentials);
    const double rounded = h.exponentials == 0 ? static_cast<double>(static_cast<float>(y)) : y;
    return h.flush && rounded < 0x1p-126 ? 0.0 : rounded;
  };
  const auto up_at = [&](double value) { return value > exact_o ? h.direction : value < exact_o ? -h.direction : 0.0; };

  double m = -INFINITY, l = 0, o = 0;
  std::vector<double> products;
  for (int64_t first = 0; first < n; first += h.tile) {
    const int64_t last = std::min(first + h.tile, n);
    const double m_new = std::max(m, *std::max_element(row.scores.begin() + first, row.scores.begin() + last));
    if (m_new > m && first > 0) {
      // One factor for l and O: up where what was seen so far lies on the pushed side.
      const double factor = exponential(m - m_new, up_at(l > 0 ? o / l : 0));
      l = add(l * factor, 0, h.sums);
      o = add(o * factor, 0, h.sums);
    }
    m = m_new;
    products.clear();
    for (int64_t j = first; j < last; ++j) {
      const auto at = static_cast<size_t>(j);
      const double up = up_at(row.values[at]);
      const double own = h.score_errors.empty() ? 0.0 : up * h.score_errors[at];
      const double p = exponential(row.scores[at] - m, up) * std::exp(own);
      const double rounded = h.round_p ? round_to(row.type, p) : p;
      l = add(l, h.l_from_rounded ? rounded : p, h.sums);
      if (h.sums == Sums::aligned) products.push_back(rounded * row.values[at]);
      else o = add(o, rounded * row.values[at], h.sums);
    }
    for (size_t at = 0; at < products.size(); at += 16) o = add_aligned(o, products.data() + at, std::min<int64_t>(16, static_cast<int64_t>(products.size() - at)));
  }
  double quotient = o / l;
  if (h.division_ulps != 0) quotient += h.direction * h.division_ulps * ulp_at(DType::f32, quotient);
  else if (h.round_output) quotient = static_cast<float>(quotient);
  return h.round_output && row.type != DType::f32 ? round_to(row.type, quotient) : quotient;
}

}  // namespace attest::bench
