// plain.cpp: properties that one run decides, most of them by the judge alone on inputs made for the purpose.
#include <algorithm>
#include <cmath>
#include <limits>

#include "properties/contents.h"
#include "properties/definition.h"
#include "properties/generate/floats.h"
#include "properties/generate/target.h"
#include "properties/regime_sets.h"
#include "properties/transform.h"
#include "properties/trial.h"
#include "reference/visible.h"

namespace attest {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

CaseResult judged(const Problem& problem, Choices&, const PropertyContext& context) {
  return result(problem, run_and_judge(problem, context).verdict);
}

// A visible (row, key) chosen at random, or nothing after a few tries.
struct VisiblePlace {
  int64_t b, h, i, j;
};
std::optional<VisiblePlace> some_visible(const Problem& p, Choices& choices, const Conventions& conventions) {
  const Shape& s = p.shape;
  if (s.rows() == 0 || s.nk == 0) return std::nullopt;
  std::vector<int64_t> keys;
  for (int tries = 0; tries < 8; ++tries) {
    const int64_t b = choices.between(0, s.b - 1), h = choices.between(0, s.hq - 1), i = choices.between(0, s.nq - 1);
    visible_keys(p, conventions, b, h, i, keys);
    if (!keys.empty()) return VisiblePlace{b, h, i, keys[choices.below(keys.size())]};
  }
  return std::nullopt;
}

// Every row but one.
auto all_but(const VisiblePlace& place) {
  return [place](Comparison::Place at) -> std::optional<Comparison::Place> {
    if (at.b == place.b && at.h == place.h && at.i == place.i) return std::nullopt;
    return at;
  };
}

// --- masks ---------------------------------------------------------------------------------------------------

std::string masks_not_covered(const Kernel& kernel) {
  const bool others = kernel.has(ATTEST_CAUSAL) || kernel.has(ATTEST_WINDOW) || kernel.has(ATTEST_KEY_LENGTHS);
  const bool drawn = (kernel.has(ATTEST_MASK) && others) || (kernel.has(ATTEST_CAUSAL) && kernel.has(ATTEST_WINDOW));
  return drawn ? "" : "the kernel takes neither a boolean mask with another kind nor causal with a window";
}

int masks_of(const Problem& p) {
  return p.causal + (p.window.left || p.window.right) + p.key_lengths.has_value() + p.mask.has_value();
}

CaseResult masks_combine_judge(const Problem& p, Choices&, const PropertyContext& context) {
  if (masks_of(p) < 2) return says_nothing(p, "it has fewer than two masks");
  Verdict v = run_and_judge(p, context).verdict;
  if (!context.kernel.has(ATTEST_MASK) || p.shape.rows() * p.shape.nk > int64_t{1} << 16) return result(p, v);
  // The same visibility as one boolean mask.
  Problem one = p;
  one.mask = visible_mask(p, context.kernel.conventions());
  one.causal = false;
  one.window = {};
  one.key_lengths.reset();
  add(v, run_and_judge(one, context).verdict, "all masks as one boolean mask");
  return result(p, v, "all masks given as one boolean mask");
}

CaseResult empty_rows_judge(const Problem& p, Choices&, const PropertyContext& context) {
  std::vector<int64_t> keys;
  int64_t empty = 0;
  for (int64_t b = 0; b < p.shape.b; ++b)
    for (int64_t h = 0; h < p.shape.hq; ++h)
      for (int64_t i = 0; i < p.shape.nq; ++i) {
        visible_keys(p, context.kernel.conventions(), b, h, i, keys);
        empty += keys.empty();
      }
  if (empty == 0) return says_nothing(p, "every row sees a key");
  return result(p, run_and_judge(p, context).verdict);
}

// --- non-finite values ----------------------------------------------------------------------------------------

std::string any_mask_not_covered(const Kernel& kernel) {
  for (attest_feature f : {ATTEST_MASK, ATTEST_KEY_LENGTHS})
    if (kernel.has(f)) return "";
  return "the kernel takes neither a boolean mask nor key lengths";
}

// The first problem with a full bias (zeros where it had none), where that is small and the kernel takes it.
bool give_full_bias(Problem& p, const Kernel& kernel) {
  if (p.shape.rows() * p.shape.nk > int64_t{1} << 15) return false;
  if (p.bias) {
    p.bias = expanded(*p.bias, p.shape);
    return true;
  }
  if (!kernel.has(ATTEST_BIAS_F32)) return false;
  p.bias = Tensor::packed(DType::f32, {p.shape.b, p.shape.hq, p.shape.nq, p.shape.nk});
  return true;
}

CaseResult nan_score_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  const Conventions conventions = context.kernel.conventions();
  const auto place = some_visible(p, choices, conventions);
  if (!place) return says_nothing(p, "no row sees a key");
  Problem first = packed(p);
  const bool by_bias = choices.chance(1, 2) && give_full_bias(first, context.kernel);
  Problem planted = first;
  if (by_bias) {
    planted.bias->set(place->b, place->h, place->i, place->j, choices.chance(1, 2) ? kInfinity : std::nan(""));
  } else {
    // An infinite product is a NaN or infinite score only without softcap, which makes it c.
    const int64_t d = choices.between(0, p.shape.d - 1);
    const bool nan = p.softcap > 0 || choices.chance(1, 2);
    planted.q.set(place->b, place->h, place->i, d, nan ? std::nan("") : choices.chance(1, 2) ? kInfinity : -kInfinity);
  }
  Trial with = run_and_judge(planted, context);
  if (!conventions.batch_dependent && with.verdict.ok())
    compare(with.verdict, first, observe(first, context), with.seen, {.row = all_but(*place), .relation = "a NaN or infinite score was planted in another row"}, context);
  return result(planted, with.verdict, by_bias ? "a NaN or +inf bias planted at one visible key" : "NaN or infinity planted in one row of Q");
}

CaseResult non_finite_value_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  const auto place = some_visible(p, choices, context.kernel.conventions());
  if (!place) return says_nothing(p, "no row sees a key");
  Problem planted = packed(p);
  const int64_t planted_count = choices.between(1, 3);
  for (int64_t n = 0; n < planted_count; ++n) {
    const int64_t key = n == 0 ? place->j : choices.between(0, p.shape.nk - 1), column = choices.between(0, p.shape.dv - 1);
    planted.v.set_bits(planted.v.layout.at(place->b, p.shape.key_head(place->h), key, column), draw_non_finite(choices, p.type));
  }
  return result(planted, run_and_judge(planted, context).verdict, "non-finite values planted in V");
}

CaseResult out_of_range_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  const Conventions conventions = context.kernel.conventions();
  const auto place = some_visible(p, choices, conventions);
  if (!place) return says_nothing(p, "no row sees a key");
  const Problem first = packed(p);
  Problem planted = first;
  for (int64_t d = 0; d < p.shape.d; ++d)
    planted.q.set(place->b, place->h, place->i, d, (choices.chance(1, 2) ? 1 : -1) * largest_finite(p.type));
  RowScores scores(planted, conventions);
  scores.load(place->b, place->h, place->i);
  if (scores.kind() != RowKind::out_of_range) return says_nothing(p, "the type's largest query stays in range");
  Trial with = run_and_judge(planted, context);
  if (!conventions.batch_dependent && with.verdict.ok())
    compare(with.verdict, first, observe(first, context), with.seen, {.row = all_but(*place), .relation = "another row went out of range"}, context);
  return result(planted, with.verdict, "one row of Q set to the largest values of the type");
}

// --- memory, LSE ----------------------------------------------------------------------------------------------

CaseResult written_judge(const Problem& p, Choices&, const PropertyContext& context) {
  RunOptions options = kPlainRun;
  options.check_memory = true;
  options.trace = context.kernel.traceable();
  return result(p, run_and_judge(p, context, options).verdict);
}

CaseResult lse_judge(const Problem& p, Choices&, const PropertyContext& context) {
  Trial with = run_and_judge(p, context);
  if (with.seen.status == RunStatus::ok && with.seen.lse.empty() && p.shape.rows() > 0) {
    fail(with.verdict, Check::lse, Disposition::incorrect, "LSE was asked for and not given", {});
    return result(p, with.verdict);
  }
  RunOptions without = kPlainRun;
  without.want_lse = false;
  if (with.verdict.ok()) compare(with.verdict, p, with.seen, observe(p, context, without), {.relation = "LSE was no longer asked for"}, context);
  return result(p, with.verdict, "LSE not asked for");
}

// --- values ---------------------------------------------------------------------------------------------------

// One number for all keys of a batch and head, in each column.
bool constant_in_columns(const Problem& p) {
  const Shape& s = p.shape;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t g = 0; g < s.hk; ++g)
      for (int64_t j = 1; j < s.nk; ++j)
        for (int64_t d = 0; d < s.dv; ++d)
          if (p.v.bits(p.v.layout.at(b, g, j, d)) != p.v.bits(p.v.layout.at(b, g, 0, d))) return false;
  return true;
}

CaseResult constant_judge(const Problem& p, Choices&, const PropertyContext& context) {
  if (!constant_in_columns(p)) return says_nothing(p, "V varies within a column");
  return result(p, run_and_judge(p, context).verdict);
}

CaseResult value_range_judge(const Problem& p, Choices&, const PropertyContext& context) {
  Trial t = run_and_judge(p, context);
  if (!t.verdict.ok() || t.seen.status != RunStatus::ok) return result(p, t.verdict);
  // The element furthest outside the range of its visible values, in units of the range's larger end.
  const Shape& s = p.shape;
  ElementError worst;
  double furthest = 0, end = 0;
  RowScores scores(p, context.kernel.conventions());
  std::vector<double> low, high;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        scores.load(b, h, i);
        if (scores.kind() != RowKind::normal) continue;
        const bool sink = scores.sink().has_value();
        low.assign(static_cast<size_t>(s.dv), sink ? 0 : kInfinity);
        high.assign(static_cast<size_t>(s.dv), sink ? 0 : -kInfinity);
        for (int64_t j : scores.keys())
          for (int64_t d = 0; d < s.dv; ++d) {
            const double v = scores.value(j, d);
            low[static_cast<size_t>(d)] = std::min(low[static_cast<size_t>(d)], v);   // a NaN is not taken over, and the
            high[static_cast<size_t>(d)] = std::max(high[static_cast<size_t>(d)], v); // judge has decided that element
          }
        for (int64_t d = 0; d < s.dv; ++d) {
          const auto c = static_cast<size_t>(d);
          const double o = t.seen.o[static_cast<size_t>(((b * s.hq + h) * s.nq + i) * s.dv + d)];
          if (!std::isfinite(o) || !std::isfinite(low[c]) || !std::isfinite(high[c])) continue;
          const double beyond = std::max(o - high[c], low[c] - o), largest = std::max(std::fabs(low[c]), std::fabs(high[c]));
          if (beyond > furthest * largest) {
            furthest = beyond / largest;
            end = o > high[c] ? high[c] : low[c];
            worst = {b, h, i, d, o, end, 0, 0, 0};
          }
        }
      }
  if (furthest > 0) {
    const RowReference exact = context.judge.row(p, worst.b, worst.h, worst.row, judge_options(p, context));
    worst.bound = exact.bound[static_cast<size_t>(worst.col)];
    worst.ratio = std::fabs(worst.got - worst.exact) / worst.bound;
    if (worst.ratio > 1)
      fail(t.verdict, Check::invariant, Disposition::incorrect, "O leaves the range of the visible values by more than the bound", worst);
  }
  return result(p, t.verdict);
}

}  // namespace

namespace definitions {

const Definition matches_reference{.regimes = regime_sets::all, .weight = 40, .recipe = [] { return Recipe{}; }, .judge = judged};
const Definition masks_combine{.regimes = regime_sets::combined, .not_covered = masks_not_covered, .judge = masks_combine_judge};
const Definition empty_rows{.regimes = regime_sets::empty, .not_covered = any_mask_not_covered, .judge = empty_rows_judge};
const Definition non_finite_payload_stays_masked{
    .regimes = regime_sets::masked_payload, .not_covered = any_mask_not_covered, .judge = judged};
const Definition nan_score_stays_in_its_row{.regimes = regime_sets::last_tile, .judge = nan_score_judge};
const Definition non_finite_value_stays_in_its_element{.regimes = regime_sets::random, .judge = non_finite_value_judge};
const Definition out_of_range_row_disturbs_no_other{.regimes = regime_sets::random, .judge = out_of_range_judge};
const Definition values_at_the_limits{.regimes = regime_sets::limit_values, .judge = judged};
const Definition every_element_written_nothing_else{.regimes = regime_sets::layouts, .judge = written_judge};
const Definition lse_matches{
    .regimes = regime_sets::offset, .not_covered = [](const Kernel& k) { return lacks(k, {ATTEST_LSE}); }, .judge = lse_judge};
const Definition constant_values{.regimes = regime_sets::constant_values, .judge = constant_judge};
const Definition output_within_value_range{.regimes = regime_sets::peaked, .judge = value_range_judge};

}  // namespace definitions

}  // namespace attest
