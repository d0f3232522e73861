#include "reference/scores.h"

#include <cmath>
#include <limits>

#include "reference/vector_clones.h"

namespace attest {

void widen_f16(const uint8_t* from, int64_t n, float* to) {
  static const std::vector<float> table = [] {
    std::vector<float> t(1 << 16);
    for (uint32_t u = 0; u < t.size(); ++u) t[u] = f16_to_float(static_cast<uint16_t>(u));
    return t;
  }();
  for (int64_t c = 0; c < n; ++c) {
    uint16_t u;
    std::memcpy(&u, from + 2 * c, 2);
    to[c] = table[u];
  }
}

void HeadData::load(const Problem& p, int64_t b, int64_t key_head) {
  nk = p.shape.nk;
  d = p.shape.d;
  dv = p.shape.dv;
  k.resize(static_cast<size_t>(nk * d));
  v.resize(static_cast<size_t>(nk * dv));
  v_nonfinite = false;
  const auto widen = [&](const Tensor& t, int64_t width, std::vector<float>& out) {
    for (int64_t j = 0; j < nk; ++j) {
      const int64_t from = t.layout.at(b, key_head, j, 0);
      float* to = out.data() + j * width;
      if (t.type == DType::f32) {
        std::memcpy(to, t.storage.data() + 4 * from, static_cast<size_t>(4 * width));
      } else if (t.type == DType::bf16) {
        for (int64_t c = 0; c < width; ++c) to[c] = bf16_to_float(static_cast<uint16_t>(t.bits(from + c)));
      } else {
        widen_f16(t.storage.data() + 2 * from, width, to);
      }
    }
  };
  widen(p.k, d, k);
  widen(p.v, dv, v);
  for (float x : v)
    if (!std::isfinite(x)) v_nonfinite = true;
}

namespace {

// Error-free sum (D. Knuth, The Art of Computer Programming, vol. 2, section 4.2.2, theorem B).
inline void two_sum(double a, double b, double& sum, double& error) {
  sum = a + b;
  const double z = sum - a;
  error = (a - (sum - z)) + (b - z);
}

constexpr int kLanes = 8;

// Products of two floats are exact in double; lanes are summed with compensation (T. Ogita, S. Rump, S. Oishi,
// "Accurate sum and dot product", 2005, algorithm 4.1).
ATTEST_VECTOR_CLONES
void dot_lanes(const double* q, const float* k, int64_t d, double* hi, double* lo, double* abs, double* terms) {
  for (int64_t c = 0; c + kLanes <= d; c += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const double product = q[c + l] * static_cast<double>(k[c + l]);
      const double sum = hi[l] + product;
      const double z = sum - hi[l];
      lo[l] += (hi[l] - (sum - z)) + (product - z);
      hi[l] = sum;
      abs[l] += std::fabs(product);
      terms[l] += product != 0.0 ? 1.0 : 0.0;
    }
  }
}

}  // namespace

Dot dot_product(const double* q, const float* k, int64_t d) {
  double hi[kLanes] = {}, lo[kLanes] = {}, abs[kLanes] = {}, terms[kLanes] = {};
  dot_lanes(q, k, d, hi, lo, abs, terms);
  Dot dot;
  for (int64_t c = d / kLanes * kLanes; c < d; ++c) {
    const double product = q[c] * static_cast<double>(k[c]);
    double error;
    two_sum(dot.hi, product, dot.hi, error);
    dot.lo += error;
    dot.abs += std::fabs(product);
    dot.terms += product != 0.0 ? 1.0 : 0.0;
  }
  for (int l = 0; l < kLanes; ++l) {
    double error;
    two_sum(dot.hi, hi[l], dot.hi, error);
    dot.lo += error + lo[l];
    dot.abs += abs[l];
    dot.terms += terms[l];
  }
  return dot;
}

double bias_of(const Problem& p, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (!p.bias) return 0.0;
  return to_double(p.bias->type, p.bias->bits(broadcast_at(p.bias->layout, b, h, i, j)));
}

namespace {

// What a non-finite product makes of the dot product, in any order of summation, and of the score.
double nonfinite_score(const Problem& p, const double* q, const float* k, double bias, bool& in_range) {
  double sum = 0, finite = 0;
  for (int64_t c = 0; c < p.shape.d; ++c) {
    const double product = q[c] * static_cast<double>(k[c]);
    if (std::isfinite(product)) finite += std::fabs(product);
    else sum += product;
  }
  if (!(finite < 0x1p126) || !(std::fabs(double{p.scale}) * finite < 0x1p126)) in_range = false;
  const double x = double{p.scale} * sum;
  if (p.softcap > 0 && !std::isnan(x)) in_range = false;  // an infinite argument of tanh: not promised
  return x + bias;
}

}  // namespace

void classify(const Problem& p, const Conventions& conventions, const HeadData& head, const double* q, int64_t b,
              int64_t h, int64_t i, Row& row, std::vector<Dot>& dots) {
  row.b = b;
  row.h = h;
  row.i = i;
  row.kind = RowKind::normal;
  visible_keys(p, conventions, b, h, i, row.key);
  row.bias.clear();
  row.dot_abs.clear();
  row.dot_terms.clear();
  dots.clear();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double scale = p.scale;
  bool in_range = true, nan = false;
  size_t kept = 0;
  for (int64_t j : row.key) {
    const double bias = bias_of(p, b, h, i, j);
    if (bias == -infinity) continue;  // the additive mask masks, whatever K holds
    const Dot dot = dot_product(q, head.k_row(j), head.d);
    if (!std::isfinite(dot.abs)) {
      const double s = nonfinite_score(p, q, head.k_row(j), bias, in_range);
      if (s == -infinity) continue;
      nan = true;
      continue;
    }
    if (!std::isfinite(bias)) {
      nan = true;  // NaN or +inf
      continue;
    }
    // The dot part and the score each stay below 2^126; with a dot part below 2^100 any finite f32 bias will do.
    const double dot_part = std::fabs(scale) * dot.abs;
    const bool fits = dot.abs < 0x1p126 && dot_part < 0x1p126 &&
                      (dot_part + std::fabs(bias) < 0x1p126 || (dot_part < 0x1p100 && dot.abs < 0x1p100));
    if (!fits) in_range = false;
    row.key[kept++] = j;
    row.bias.push_back(bias);
    row.dot_abs.push_back(dot.abs);
    row.dot_terms.push_back(dot.terms);
    dots.push_back(dot);
  }
  row.key.resize(kept);
  if (nan) row.kind = RowKind::nan;
  else if (!in_range) row.kind = RowKind::out_of_range;
  else if (kept == 0) row.kind = RowKind::empty;
  row.has_sink = p.sink && std::isfinite((*p.sink)[static_cast<size_t>(h)]);
  row.sink = row.has_sink ? double{(*p.sink)[static_cast<size_t>(h)]} : 0.0;
}

}  // namespace attest
