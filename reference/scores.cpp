#include "reference/scores.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/hot_loops.h"

namespace attest {

void HeadData::load(const Problem& p, int64_t b, int64_t key_head) {
  nk = p.shape.nk;
  d = p.shape.d;
  dv = p.shape.dv;
  k.resize(static_cast<size_t>(nk * d));
  v.resize(static_cast<size_t>(nk * dv));
  const HotLoops& loops = hot_loops();
  const auto widen = [&](const Tensor& t, int64_t width, std::vector<float>& out) {
    const bool packed = t.layout.stride[2] == width;  // all rows in one run
    const int64_t runs = packed ? std::min<int64_t>(1, nk) : nk, length = packed ? nk * width : width;
    for (int64_t j = 0; j < runs; ++j) {
      const int64_t from = t.layout.at(b, key_head, j, 0);
      float* to = out.data() + j * width;
      if (t.type == DType::f32) {
        std::memcpy(to, t.storage.data() + 4 * from, static_cast<size_t>(4 * length));
      } else {
        const auto widen_run = t.type == DType::bf16 ? loops.widen_bf16 : loops.widen_f16;
        widen_run(t.storage.data() + 2 * from, length, to);
      }
    }
  };
  widen(p.k, d, k);
  widen(p.v, dv, v);
  k_has_zero = loops.has_zero(k.data(), nk * d);
  k_has_subnormal = p.type != DType::f32 && loops.has_below(k.data(), nk * d, static_cast<float>(least_normal(p.type)));
  v_has_zero = loops.has_zero(v.data(), nk * dv);
  v_nonfinite = loops.has_nonfinite(v.data(), nk * dv);
  v_low.assign(static_cast<size_t>(dv), std::numeric_limits<float>::infinity());
  v_high.assign(static_cast<size_t>(dv), -std::numeric_limits<float>::infinity());
  loops.extremes(v.data(), nk, dv, v_low.data(), v_high.data());
}

void tanh_slopes(int64_t n, double* t) {
  for (int64_t j = 0; j < n; ++j) t[j] = t[j] > 0 ? -t[j] : 0.0;
  hot_loops().exps(t, n, t);
  for (int64_t j = 0; j < n; ++j) {
    const double e = t[j], sech = 2 * e / (1 + e * e);
    t[j] = sech * sech;
  }
}

double tanh_slope(double t) {
  tanh_slopes(1, &t);
  return t;
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
              int64_t h, int64_t i, Row& row) {
  row.b = b;
  row.h = h;
  row.i = i;
  row.kind = RowKind::normal;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  visible_keys(p, conventions, b, h, i, row.key);
  row.bias.assign(row.key.size(), 0.0);
  size_t kept = 0;
  if (p.bias) {  // -inf masks, whatever K holds
    for (int64_t j : row.key) {
      const double bias = bias_of(p, b, h, i, j);
      if (bias == -infinity) continue;
      row.key[kept] = j;
      row.bias[kept++] = bias;
    }
    row.key.resize(kept);
    row.bias.resize(kept);
  }

  row.dense = !head.k_has_zero && std::find(q, q + head.d, 0.0) == q + head.d;
  const size_t n = row.key.size();
  for (auto* values : {&row.dot, &row.dot_abs, &row.dot_terms}) values->resize(n);
  const double most = hot_loops().dots({q, head.k.data(), row.key.data(), row.size(), head.d, row.dense, row.dot.data(), row.dot_abs.data(), row.dot_terms.data()});

  const double scale = p.scale;
  bool in_range = true, nan = false;
  const bool plain = !p.bias && most < 0x1p126 && std::fabs(scale) * most < 0x1p126;  // every key is kept, and in range
  kept = plain ? n : 0;
  for (size_t j = 0; j < n && !plain; ++j) {
    const double bias = row.bias[j], abs = row.dot_abs[j];
    if (!std::isfinite(abs)) {
      const double s = nonfinite_score(p, q, head.k_row(row.key[j]), bias, in_range);
      if (std::isnan(s) || s == infinity) nan = true;
      continue;
    }
    if (!std::isfinite(bias)) {
      nan = true;  // NaN or +inf
      continue;
    }
    // The dot part and the score each stay below 2^126; with a dot part below 2^100 any finite f32 bias will do.
    const double dot_part = std::fabs(scale) * abs;
    const bool fits = abs < 0x1p126 && dot_part < 0x1p126 &&
                      (dot_part + std::fabs(bias) < 0x1p126 || (dot_part < 0x1p100 && abs < 0x1p100));
    if (!fits) in_range = false;
    if (kept != j) {
      row.key[kept] = row.key[j];
      row.bias[kept] = bias;
      row.dot[kept] = row.dot[j];
      row.dot_abs[kept] = abs;
      row.dot_terms[kept] = row.dot_terms[j];
    }
    ++kept;
  }
  row.key.resize(kept);
  for (auto* values : {&row.bias, &row.dot, &row.dot_abs, &row.dot_terms}) values->resize(kept);
  row.dot_field.clear();
  if (nan) row.kind = RowKind::nan;
  else if (!in_range) row.kind = RowKind::out_of_range;
  else if (kept == 0) row.kind = RowKind::empty;
  row.has_sink = p.sink && std::isfinite((*p.sink)[static_cast<size_t>(h)]);
  row.sink = row.has_sink ? double{(*p.sink)[static_cast<size_t>(h)]} : 0.0;
}

void sum_fields(const Problem& p, const HeadData& head, const double* q, Row& row) {
  if (p.type == DType::f32) return;  // tensor cores take no f32
  const double least = least_normal(p.type);
  const auto field = [least](double x) { return x == 0 ? 0.0 : std::max(std::fabs(x), least); };
  const auto subnormal = [field](double x) { return field(x) != std::fabs(x); };
  if (!head.k_has_subnormal && !std::any_of(q, q + head.d, subnormal)) return;
  std::vector<double>& q_field = row.pair_hi;
  q_field.resize(static_cast<size_t>(head.d));
  std::transform(q, q + head.d, q_field.begin(), field);
  row.dot_field.resize(row.key.size());
  hot_loops().field_sums({q_field.data(), head.k.data(), row.key.data(), row.size(), head.d, least, head.k_has_zero, row.dot_field.data()});
}

}  // namespace attest
