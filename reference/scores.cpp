#include "reference/scores.h"

#include <algorithm>
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
  v_nonfinite = std::any_of(v.begin(), v.end(), [](float x) { return !std::isfinite(x); });
  k_has_zero = std::find(k.begin(), k.end(), 0.0f) != k.end();
  v_has_zero = std::find(v.begin(), v.end(), 0.0f) != v.end();
}

namespace {

ATTEST_VECTOR_CLONES
void dot_lanes(const double* q, const float* k, int64_t d, bool dense, Dot* out) {
  Lanes value[2] = {}, abs[2] = {}, terms[2] = {};
  int64_t c = 0;
  for (; c + 2 * kLanes <= d; c += 2 * kLanes)
    for (int half = 0; half < 2; ++half) {
      Lanes a;
      FloatLanes b;
      std::memcpy(&a, q + c + half * kLanes, sizeof a);
      std::memcpy(&b, k + c + half * kLanes, sizeof b);
      const Lanes product = a * __builtin_convertvector(b, Lanes);
      value[half] += product;
      abs[half] += ATTEST_ABS(product);
      if (!dense) terms[half] += product != 0 ? Lanes{1, 1, 1, 1} : Lanes{};
    }
  const Lanes v = value[0] + value[1], a = abs[0] + abs[1], t = terms[0] + terms[1];
  out->value = (v[0] + v[2]) + (v[1] + v[3]);
  out->abs = (a[0] + a[2]) + (a[1] + a[3]);
  out->terms = dense ? static_cast<double>(d) : (t[0] + t[2]) + (t[1] + t[3]);
  for (; c < d; ++c) {
    const double product = q[c] * static_cast<double>(k[c]);
    out->value += product;
    out->abs += std::fabs(product);
    if (!dense) out->terms += product != 0.0 ? 1.0 : 0.0;
  }
}

}  // namespace

Dot dot_product(const double* q, const float* k, int64_t d, bool dense) {
  Dot dot;
  dot_lanes(q, k, d, dense, &dot);
  return dot;
}

double bias_of(const Problem& p, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (!p.bias) return 0.0;
  return to_double(p.bias->type, p.bias->bits(broadcast_at(p.bias->layout, b, h, i, j)));
}

namespace {

// What a non-finite product makes of the dot product, in any order of summation, and of the score. An infinite argument
// of the softcap's tanh is beyond the range: whether it counts as the cap is not promised.
double nonfinite_score(const Problem& p, const double* q, const float* k, double bias, bool& in_range) {
  double sum = 0, finite = 0;
  for (int64_t c = 0; c < p.shape.d; ++c) {
    const double product = q[c] * static_cast<double>(k[c]);
    if (std::isfinite(product)) finite += std::fabs(product);
    else sum += product;
  }
  if (!(finite < 0x1p126) || !(std::fabs(double{p.scale}) * finite < 0x1p126)) in_range = false;
  const double x = double{p.scale} * sum;
  if (p.softcap > 0 && !std::isnan(x)) {
    in_range = false;
    return 0;
  }
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
  const bool dense = !head.k_has_zero && std::find(q, q + head.d, 0.0) == q + head.d;
  for (int64_t j : row.key) {
    const double bias = bias_of(p, b, h, i, j);
    if (bias == -infinity) continue;  // the additive mask masks, whatever K holds
    const Dot dot = dot_product(q, head.k_row(j), head.d, dense);
    if (!std::isfinite(dot.abs)) {
      const double s = nonfinite_score(p, q, head.k_row(j), bias, in_range);
      if (std::isnan(s) || s == infinity) nan = true;
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
