#include "bench/detection/rules.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "properties/generate/choices.h"

namespace attest::bench {

namespace {

struct Asked {
  Shape shape;
  bool causal = false;
  std::optional<int64_t> window_left = {};
  float softcap = 0;
  bool lengths = false, bias = false, sink = false;
};

void fill(Tensor& t, const std::function<double()>& draw) {
  const auto& e = t.layout.extent;
  for (int64_t a = 0; a < e[0]; ++a)
    for (int64_t b = 0; b < e[1]; ++b)
      for (int64_t c = 0; c < e[2]; ++c)
        for (int64_t d = 0; d < e[3]; ++d) t.set(a, b, c, d, draw());
}

Problem problem_of(const Asked& asked, DType type, Choices& choices, const std::function<double()>& draw) {
  Problem p = Problem::make(asked.shape, type);
  for (Tensor* t : {&p.q, &p.k, &p.v}) fill(*t, draw);
  const Shape& s = asked.shape;
  p.causal = asked.causal;
  p.window.left = asked.window_left;
  if (asked.window_left) p.window.right = 0;
  p.softcap = asked.softcap;
  if (s.nq <= 3) p.choice.splits = 3;  // as kernels do where rows are few
  if (asked.lengths) {
    p.key_lengths.emplace();
    for (int64_t b = 0; b < s.b; ++b) p.key_lengths->push_back(static_cast<int32_t>(choices.between(std::max<int64_t>(1, s.nk - 20), s.nk)));
  }
  if (asked.bias) {
    p.bias = Tensor::packed(type, {s.b, 1, s.nq, s.nk});
    fill(*p.bias, draw);
  }
  if (asked.sink) {
    p.sink.emplace();
    for (int64_t h = 0; h < s.hq; ++h) p.sink->push_back(static_cast<float>(draw()));
  }
  return p;
}

// Scores, probabilities and outputs each rounded to the input type, sums in f32: attention as a framework runs it in
// that type. The largest error in O.
double error_of_low_precision(const Problem& p, const testing::Direct& exact) {
  const Shape& s = p.shape;
  double worst = 0;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        const int64_t g = s.key_head(h);
        std::vector<double> p_ij(static_cast<size_t>(s.nk), 0);
        double m = -std::numeric_limits<double>::infinity(), l = 0;
        for (int64_t j = 0; j < s.nk; ++j) {
          float dot = 0;
          for (int64_t d = 0; d < s.d; ++d)
            dot += static_cast<float>(p.q.get(b, h, i, d)) * static_cast<float>(round_to(p.type, p.k.get(b, g, j, d) * static_cast<double>(p.scale)));
          double x = round_to(p.type, dot);
          if (p.softcap > 0) x = round_to(p.type, p.softcap * round_to(p.type, std::tanh(x / p.softcap)));
          if (p.bias) x = round_to(p.type, x + p.bias->get(p.bias->layout.extent[0] == 1 ? 0 : b, 0, i, j));
          p_ij[static_cast<size_t>(j)] = testing::visible(p, b, h, i, j) ? x : -std::numeric_limits<double>::infinity();
          m = std::max(m, p_ij[static_cast<size_t>(j)]);
        }
        if (p.sink) m = std::max(m, static_cast<double>((*p.sink)[static_cast<size_t>(h)]));
        if (!std::isfinite(m)) continue;
        for (double& x : p_ij) l += x = std::exp(x - m);
        if (p.sink) l += std::exp(static_cast<double>((*p.sink)[static_cast<size_t>(h)]) - m);
        for (double& x : p_ij) x = round_to(p.type, x / l);
        for (int64_t d = 0; d < s.dv; ++d) {
          float o = 0;
          for (int64_t j = 0; j < s.nk; ++j) o += static_cast<float>(p_ij[static_cast<size_t>(j)]) * static_cast<float>(p.v.get(b, g, j, d));
          const auto at = static_cast<size_t>(((b * s.hq + h) * s.nq + i) * s.dv + d);
          worst = std::max(worst, std::fabs(round_to(p.type, o) - static_cast<double>(exact.o[at])));
        }
      }
  return worst;
}

std::vector<Trial> trials(const std::vector<Asked>& list, std::initializer_list<DType> types, const std::function<double(Choices&)>& draw) {
  std::vector<Trial> out;
  Choices choices = Choices::seeded(4);
  for (const Asked& asked : list)
    for (DType type : types) {
      Trial t{problem_of(asked, type, choices, [&] { return draw(choices); }), {}, 0};
      t.exact = testing::direct_attention(t.problem);
      t.low_precision_error = error_of_low_precision(t.problem, t.exact);
      out.push_back(std::move(t));
    }
  return out;
}

// |got - exact| <= atol + rtol |exact| in every element; NaN is never close.
bool all_close(const Trial& t, const Observation& seen, double atol, double rtol) {
  for (size_t n = 0; n < seen.o.size(); ++n) {
    const auto exact = static_cast<double>(t.exact.o[n]);
    if (!(std::fabs(seen.o[n] - exact) <= atol + rtol * std::fabs(exact))) return false;
  }
  return true;
}

double largest_error(const Trial& t, const Observation& seen) {
  double worst = 0;
  for (size_t n = 0; n < seen.o.size(); ++n) {
    const double error = std::fabs(seen.o[n] - static_cast<double>(t.exact.o[n]));
    if (!(error <= worst)) worst = error;
    if (std::isnan(worst)) return worst;
  }
  return worst;
}

bool close_at_1e_2(const Trial& t, const Observation& seen) { return all_close(t, seen, 1e-2, 1e-2); }
bool close_at_1_5e_2(const Trial& t, const Observation& seen) { return all_close(t, seen, 1.5e-2, 1.5e-2); }

// Three times with a softcap; what one rounding of the output makes comes on top.
bool twice_low_precision(const Trial& t, const Observation& seen) {
  double rounding = 0;
  for (long double o : t.exact.o) {
    const float x = static_cast<float>(o);
    rounding = std::max(rounding, static_cast<double>(std::fabs(x + 0.3f - 0.3f - x)));
  }
  return largest_error(t, seen) <= (t.problem.softcap > 0 ? 3 : 2) * t.low_precision_error + 2 * rounding;
}

bool mean_square_error(const Trial& t, const Observation& seen) {
  double error = 0, size = 0;
  for (size_t n = 0; n < seen.o.size(); ++n) {
    const auto exact = static_cast<double>(t.exact.o[n]);
    error += (seen.o[n] - exact) * (seen.o[n] - exact);
    size += exact * exact;
  }
  return error / size <= 5e-4;
}

// Element by element absolute or relative, the cosine over all, and LSE tight.
bool cosine_and_absolute(const Trial& t, const Observation& seen) {
  const auto near = [](double got, double exact, double absolute, double relative) {
    return got == exact || std::fabs(got - exact) < absolute || std::fabs(got - exact) < relative * std::fabs(exact);
  };
  double product = 0, sizes = 0;
  for (size_t n = 0; n < seen.o.size(); ++n) {
    const auto exact = static_cast<double>(t.exact.o[n]);
    if (!near(seen.o[n], exact, 8e-4, 2.01 / 128)) return false;
    product += seen.o[n] * exact;
    sizes += seen.o[n] * seen.o[n] + exact * exact;
  }
  if (!(1 - 2 * product / sizes < 5e-6)) return false;
  for (size_t n = 0; n < seen.lse.size(); ++n)
    if (!near(seen.lse[n], static_cast<double>(t.exact.lse[n]), 1e-6, 8.01 / 65536)) return false;
  return true;
}

double normal(Choices& c) { return c.normal(); }

}  // namespace

bool Rule::rejects(const Kernel& kernel) const {
  for (const Trial& t : trials) {
    const Observation seen = kernel.run(t.problem, {.check_memory = false});
    if (seen.status != RunStatus::ok || !accepts(t, seen)) return true;
  }
  return false;
}

const std::vector<Rule>& rules() {
  const auto same = [](int64_t b, int64_t h, int64_t n, int64_t d) { return Shape{b, h, h, n, n, d, d}; };
  static const std::vector<Rule> list = {
      {"allclose 1e-2",
       "normal, f16 and bf16; N = 128 and 256, D = 64 and 128, full and causal; one query row on 512 keys, 8 heads on 2",
       trials({{same(2, 4, 128, 64)}, {same(1, 2, 256, 128)}, {same(1, 4, 256, 64), true}, {{1, 8, 2, 1, 512, 128, 128}}}, {DType::f16, DType::bf16}, normal),
       close_at_1e_2},
      {"twice low precision",
       "normal, f16 and bf16; Nq x Nk = 113 x 203, 128 x 217, 108 x 256, 256 x 512 and 1 x 339, D = 59 to 128, grouped heads; full, causal, "
       "a window, a softcap, key lengths",
       trials({{{2, 4, 2, 113, 203, 64, 64}, true},
               {{1, 4, 4, 128, 217, 59, 59}},
               {{1, 2, 2, 108, 256, 128, 128}, false, 64},
               {{1, 2, 1, 256, 512, 64, 64}, true},
               {{2, 2, 2, 128, 217, 64, 64}, true, {}, 15},
               {{3, 4, 1, 1, 339, 128, 128}, false, {}, 0, true}},
              {DType::f16, DType::bf16}, normal),
       twice_low_precision},
      {"allclose 1.5e-2 on small inputs",
       "0.1 normal, bf16; N = 128, 256 and 512, D = 64 and 128, full and causal",
       trials({{same(2, 4, 256, 64)}, {same(1, 2, 128, 128)}, {same(1, 2, 512, 64), true}, {same(1, 2, 256, 128), true}}, {DType::bf16},
              [](Choices& c) { return 0.1 * c.normal(); }),
       close_at_1_5e_2},
      {"mean square error 5e-4",
       "uniform in [-1, 1], f16; 1, 3 and 35 rows on 113 and 512 keys, D = 64 and 128, 4 heads on 1 and 4; an additive mask, a softcap, a sink",
       trials({{{1, 4, 4, 1, 512, 128, 128}, false, {}, 0, false, true},
               {{1, 4, 1, 3, 113, 64, 64}, false, {}, 0, false, true},
               {{1, 4, 4, 35, 512, 64, 64}, false, {}, 10, false, true},
               {{1, 4, 1, 35, 113, 128, 128}, false, {}, 0, false, true, true},
               {{1, 4, 4, 35, 512, 128, 128}}},
              {DType::f16}, [](Choices& c) { return 2 * c.unit() - 1; }),
       mean_square_error},
      {"cosine and absolute",
       "normal / 10, bf16; 1 and 2 rows on 256 and 512 keys and 64 on 128, D = 128 and 192, Dv = 128, 8 heads on 1; causal, key lengths",
       trials({{{4, 8, 1, 1, 512, 128, 128}, true, {}, 0, true}, {{2, 8, 1, 2, 256, 192, 128}, true, {}, 0, true}, {{1, 8, 1, 64, 128, 192, 128}, true}, {{1, 8, 1, 64, 128, 128, 128}}},
              {DType::bf16}, [](Choices& c) { return c.normal() / 10; }),
       cosine_and_absolute}};
  return list;
}

}  // namespace attest::bench
