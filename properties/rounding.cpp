// rounding.cpp: whether the last rounding of O leans to one side.
//
// Where all visible keys that count tie for the maximum, every P is 1, l is their number and O is the mean of their
// values: nothing but the sum in f32 and the rounding of O errs. Roundings to nearest, ties to even, of unrelated values
// average out: over n elements the mean error, in units in the last place, is within a few of its standard errors. What the
// strict model lets a kernel lean, truncated additions in f32, is allowed on top: for each element at most
// (ceil(Nk / 16) + 4) 2^-23 sum |v| / n. A rounding toward zero, or of halves away from zero, shows in some hundred
// elements, long before any bound or noise budget is exceeded.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "properties/definition.h"
#include "properties/regime_sets.h"
#include "properties/trial.h"

namespace attest {

namespace {

constexpr double kFarBelow = 60;       // a key this far below the maximum has a weight under 1e-26
constexpr double kStandardErrors = 8;  // rarer than 1e-14 for normal means
constexpr int64_t kFewest = 200;       // elements below which a mean says nothing

// A sum of signed quantities with what it takes to judge its mean.
struct Mean {
  double sum = 0, squares = 0, lean = 0;
  int64_t n = 0;
  void add(double x, double allowed) {
    sum += x;
    squares += x * x;
    lean += allowed;
    ++n;
  }
  double value() const { return sum / static_cast<double>(n); }
  double allowed() const { return (lean + kStandardErrors * std::sqrt(squares)) / static_cast<double>(n); }
};

std::string unbiased_not_covered(const Kernel& kernel) {
  const attest_kernel& t = kernel.table();
  const bool narrow = std::any_of(t.types, t.types + t.type_count, [](int32_t type) { return type != ATTEST_F32; });
  return narrow ? "" : "the kernel takes f32 alone, in which sums lean further than the last rounding";
}

CaseResult unbiased_judge(const Problem& p, Choices&, const PropertyContext& context) {
  if (p.type == DType::f32) return says_nothing(p, "in f32 the sums lean further than the last rounding");
  if (p.bias || p.softcap > 0 || p.sink) return says_nothing(p, "its scores take more than one rounding");
  Trial t = run_and_judge(p, context);
  if (!t.verdict.ok() || t.seen.status != RunStatus::ok) return result(p, t.verdict);
  const Shape& s = p.shape;
  RowScores scores(p, context.kernel.conventions());
  Mean upward, away;                        // signed errors; errors away from zero
  std::set<std::vector<double>> counted;    // rows of equal outputs have the same errors
  std::vector<int64_t> ties;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        scores.load(b, h, i);
        if (scores.kind() != RowKind::normal || scores.keys().empty()) continue;
        const double m = *std::max_element(scores.scores().begin(), scores.scores().end());
        ties.clear();
        bool clear = true;
        for (size_t n = 0; n < scores.keys().size(); ++n) {
          if (scores.scores()[n] == m) ties.push_back(scores.keys()[n]);
          else clear = clear && scores.scores()[n] < m - kFarBelow;
        }
        if (!clear || ties.size() < 2) continue;
        const auto at = static_cast<size_t>(((b * s.hq + h) * s.nq + i) * s.dv);
        const std::vector<double> row(t.seen.o.begin() + static_cast<std::ptrdiff_t>(at), t.seen.o.begin() + static_cast<std::ptrdiff_t>(at) + s.dv);
        if (!counted.insert(row).second) continue;
        for (int64_t d = 0; d < s.dv; ++d) {
          const double got = row[static_cast<size_t>(d)];
          double sum = 0, magnitude = 0;  // of values of at most 11 bits: exact in double but for a part in 2^40
          for (int64_t j : ties) {
            sum += scores.value(j, d);
            magnitude += std::fabs(scores.value(j, d));
          }
          const double keys = static_cast<double>(ties.size()), exact = sum / keys;
          if (!std::isfinite(exact) || !std::isfinite(got) || std::fabs(exact) < least_normal(p.type) || std::fabs(exact) >= largest_finite(p.type)) continue;
          const double ulp = ulp_at(p.type, exact), error = (got - exact) / ulp;
          const double allowed = (std::ceil(static_cast<double>(s.nk) / 16) + 4) * 0x1p-23 * magnitude / keys / ulp;
          upward.add(error, allowed);
          away.add(exact < 0 ? -error : error, allowed);
        }
      }
  if (upward.n < kFewest) return says_nothing(p, "too few elements depend on the last rounding alone");
  for (const auto& [mean, which] : {std::pair<const Mean&, const char*>{upward, "upward"}, {away, "away from zero"}}) {
    if (std::fabs(mean.value()) <= mean.allowed()) continue;
    char text[200];
    std::snprintf(text, sizeof text, "the rounding of O leans: the mean error %s is %.4f ulp over %lld elements of rows whose keys tie, rounding to nearest explains %.4f", which,
                  mean.value(), static_cast<long long>(mean.n), mean.allowed());
    fail(t.verdict, Check::invariant, Disposition::incorrect, text, {0, 0, 0, 0, mean.value(), 0, mean.allowed(), std::fabs(mean.value()) / mean.allowed(), std::fabs(mean.value())});
  }
  return result(p, t.verdict);
}

// Several batches and heads of ties between ordinary values, none of them repeated.
Recipe many_ties() {
  Recipe r{.work = 2e6};
  r.never_features = ATTEST_BIAS_F32 | ATTEST_BIAS_INPUT_TYPE | ATTEST_SOFTCAP | ATTEST_SINK;
  r.min_queries = 4;
  r.min_batches = 2;
  return r;
}

// V of both signs with all bits of its type in use.
void ordinary_values(Problem& p, Choices& choices) {
  const Shape& s = p.shape;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t g = 0; g < s.hk; ++g)
      for (int64_t j = 0; j < s.nk; ++j)
        for (int64_t d = 0; d < s.dv; ++d) {
          const double magnitude = std::ldexp(1 + choices.unit(), static_cast<int>(choices.between(-2, 2)));
          p.v.set(b, g, j, d, choices.chance(1, 2) ? -magnitude : magnitude);
        }
}

}  // namespace

namespace definitions {

// A case pools the errors of some hundred elements at least.
const Definition rounding_does_not_lean{.regimes = regime_sets::ties, .enough = 15, .not_covered = unbiased_not_covered, .recipe = many_ties, .values = ordinary_values, .judge = unbiased_judge};

}  // namespace definitions

}  // namespace attest
