// merge.cpp: properties of the merge of partial states, on states that the kernel itself made from parts of the keys.
//
// A case is an attention problem; its keys are cut at two places drawn from the choices, which may leave a part
// empty, and each part's (O, LSE) is one state. A kernel may round in a merge what strict lets it round anywhere:
// differences, exponentials, sums and products of f32, and LSE.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "properties/definition.h"
#include "properties/regime_sets.h"
#include "properties/transform.h"
#include "properties/trial.h"

namespace attest {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string merge_not_covered(const Kernel& k) {
  if (k.table().merge == nullptr) return "the kernel offers no merge";
  if (k.conventions().empty_row_lse_inf) return "the kernel declares LSE = +inf for an empty row, which no merge can tell from a score";
  if (k.conventions().empty_row_o_nan) return "the kernel declares O = NaN for an empty row, so that it has no empty state";
  return lacks(k, {ATTEST_LSE});
}

// Scores whose states are finite numbers or empty.
Recipe mergeable() {
  Recipe r;
  r.never_traits = kNonFinite | kOutOfRange;
  r.never = {Regime::score_limits, Regime::extreme_values};
  r.never_features = ATTEST_CAUSAL | ATTEST_WINDOW | ATTEST_KEY_LENGTHS | ATTEST_SINK;
  r.max_keys = 600;
  r.work = 4e5;
  return r;
}

// The states of the keys [0, first), [first, second) and [second, Nk), or what kept the kernel from making them.
struct Parts {
  std::vector<Problem> problem;
  std::vector<PartialStates> state;
  Verdict verdict;
  bool made = false;

  // Nothing is promised for a row that is out of range in a part, and its LSE may have left f32; whatever the row is as a
  // whole: a NaN score in another part does not bring it back.
  bool out_of_range(int64_t row) const {
    const Shape& s = problem[0].shape;
    return std::any_of(problem.begin(), problem.end(), [&](const Problem& part) {
      RowScores scores(part, Conventions{});  // no mask by position is left, on which conventions differ
      scores.load(row / (s.hq * s.nq), row / s.nq % s.hq, row % s.nq);
      return scores.kind() == RowKind::out_of_range;
    });
  }
};

Parts parts_of(const Problem& p, Choices& choices, const PropertyContext& context) {
  Parts parts;
  std::array<int64_t, 4> cut{0, choices.between(0, p.shape.nk), choices.between(0, p.shape.nk), p.shape.nk};
  std::sort(cut.begin(), cut.end());
  for (size_t n = 0; n < 3; ++n) {
    std::vector<int64_t> keys(static_cast<size_t>(cut[n + 1] - cut[n]));
    std::iota(keys.begin(), keys.end(), cut[n]);
    const Problem& part = parts.problem.emplace_back(take_keys(p, keys));
    const Observation seen = observe(part, context);
    if (!ran(parts.verdict, part, seen, context)) return parts;
    PartialStates& s = parts.state.emplace_back();
    s.width = p.shape.dv;
    for (double x : seen.o) s.o.push_back(static_cast<float>(x));
    for (double x : seen.lse) s.lse.push_back(static_cast<float>(x));
  }
  parts.made = true;
  return parts;
}

std::string positions(const Problem& p) {
  return p.causal || p.window.left || p.window.right || p.key_lengths || p.sink ? "it has a causal mask, a window, lengths or a sink" : "";
}

// The kernel's merge, or a failed verdict.
std::optional<PartialStates> merged(Verdict& v, const PartialStates& a, const PartialStates& b, const PropertyContext& context) {
  Merged m = context.kernel.merge(a, b);
  if (m.status == RunStatus::ok) return std::move(m.state);
  if (m.status == RunStatus::unsupported) v = not_applicable(m.message);
  else fail(v, Check::status, Disposition::crashed, "merge failed: " + m.message, {});
  return std::nullopt;
}

// One number of a state, where it stands in the problem.
void check_value(Verdict& v, const Parts& parts, int64_t row, int64_t column, double got, double expected, double bound, Check check, const char* what) {
  ++v.elements;
  const double error = same_value(got, expected) ? 0 : std::fabs(got - expected);
  const double ratio = error == 0 ? 0 : std::isnan(error) || bound == 0 ? kInfinity : error / bound;
  ++v.buckets[static_cast<size_t>(bucket_of(ratio))];
  if (ratio <= 1) {
    v.worst_ratio = std::max(v.worst_ratio, ratio);
    return;
  }
  if (parts.out_of_range(row)) return;
  const Shape& s = parts.problem[0].shape;
  char text[200];
  std::snprintf(text, sizeof text, "%s: %s of row %ld%s is %.9g, expected %.9g", what, column < 0 ? "LSE" : "O", long(row),
                column < 0 ? "" : (", column " + std::to_string(column)).c_str(), got, expected);
  fail(v, check, Disposition::incorrect, text, {row / (s.hq * s.nq), row / s.nq % s.hq, row % s.nq, column, got, expected, bound, ratio, 0});
}

void same_states(Verdict& v, const Parts& parts, const PartialStates& got, const PartialStates& expected, const char* what) {
  for (size_t row = 0; row < expected.lse.size(); ++row) {
    ++v.rows;
    check_value(v, parts, static_cast<int64_t>(row), -1, got.lse[row], expected.lse[row], 0, Check::relation, what);
    for (int64_t d = 0; d < expected.width; ++d) {
      const size_t at = row * static_cast<size_t>(expected.width) + static_cast<size_t>(d);
      check_value(v, parts, static_cast<int64_t>(row), d, got.o[at], expected.o[at], 0, Check::relation, what);
    }
  }
}

CaseResult merge_commutes_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  if (const std::string why = positions(p); !why.empty()) return says_nothing(p, why);
  Parts parts = parts_of(p, choices, context);
  if (!parts.made) return result(p, parts.verdict);
  Verdict v;
  const auto ab = merged(v, parts.state[0], parts.state[1], context);
  if (!ab) return result(p, v);
  const auto ba = merged(v, parts.state[1], parts.state[0], context);
  if (ba) same_states(v, parts, *ba, *ab, "merge(b, a) against merge(a, b)");
  return result(p, v, "the two states exchanged");
}

CaseResult merge_identity_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  if (const std::string why = positions(p); !why.empty()) return says_nothing(p, why);
  Parts parts = parts_of(p, choices, context);
  if (!parts.made) return result(p, parts.verdict);
  Verdict v;
  for (const PartialStates& state : parts.state) {
    PartialStates empty = state;
    std::fill(empty.o.begin(), empty.o.end(), 0.0f);
    std::fill(empty.lse.begin(), empty.lse.end(), -std::numeric_limits<float>::infinity());
    const auto after = merged(v, state, empty, context);
    if (!after) return result(p, v);
    same_states(v, parts, *after, state, "merge(a, empty) against a");
    const auto before = merged(v, empty, state, context);
    if (!before) return result(p, v);
    same_states(v, parts, *before, state, "merge(empty, a) against a");
  }
  return result(p, v, "the empty state merged in");
}

// Three states merged in double, and how far two merges of a kernel may lie from that.
struct ExactMerge {
  double lse = 0, lse_bound = 0;
  std::vector<double> o, bound;
};

// A merge forms Delta = LSE_x - m (one rounding, 2^-24 |Delta|), its exponential (exp_rel_error), l = w_a + w_b,
// LSE = m + ln l and O = (w_a O_a + w_b O_b) / l. So a merged LSE is off by the error of ln l (two exponentials, one
// sum: e + 2^-23, ln itself 2^-22 (1 + ln 2)) and two roundings of its size. The second merge takes the first one's
// LSE with that error into its weights. With every weight within e^{+-delta}, O moves by at most
// (e^{2 delta} - 1) sum w |O_x - O| (reference/bound.md, section 1) and never leaves the range of the O_x; each of the
// two merges adds four roundings of the largest |O_x|. A weight below 2^-126 may be flushed: 2^-126 |O_x| each.
ExactMerge exact_merge(const std::vector<PartialStates>& s, size_t row, double exp_rel_error) {
  ExactMerge out;
  const auto width = static_cast<size_t>(s[0].width);
  double m = -kInfinity, largest = 0, apart = 0;
  for (const PartialStates& x : s) m = std::max(m, double(x.lse[row]));
  out.o.assign(width, 0.0);
  out.bound.assign(width, 0.0);
  if (m == -kInfinity) {
    out.lse = m;
    return out;
  }
  double l = 0;
  std::array<double, 3> w{};
  for (size_t n = 0; n < 3; ++n) {
    w[n] = std::exp(double(s[n].lse[row]) - m);
    l += w[n];
    if (w[n] > 0) {
      largest = std::max(largest, std::fabs(double(s[n].lse[row])));
      apart = std::max(apart, m - double(s[n].lse[row]));
    }
  }
  out.lse = m + std::log(l);
  const double one_lse = exp_rel_error + 0x1p-24 * std::min(apart, 90.0) + 0x1p-23 + 0x1p-22 * 1.7 + 0x1p-22 * (largest + 1.2);
  out.lse_bound = 2 * one_lse;
  for (size_t d = 0; d < width; ++d) {
    double sum = 0, size = 0, spread = 0, furthest = 0;
    for (size_t n = 0; n < 3; ++n) {
      if (w[n] == 0) continue;
      sum += w[n] * s[n].o[row * width + d];
      size = std::max(size, std::fabs(double(s[n].o[row * width + d])));
    }
    out.o[d] = sum / l;
    for (size_t n = 0; n < 3; ++n) {
      if (w[n] == 0) continue;
      const double away = std::fabs(s[n].o[row * width + d] - out.o[d]);
      // Its own argument twice, two exponentials, and the error that the first merge leaves in its LSE.
      const double delta = 2 * (0x1p-24 * (m - double(s[n].lse[row])) + exp_rel_error) + one_lse;
      if (away > 0) spread += w[n] / l * std::expm1(2 * delta) * away;
      furthest = std::max(furthest, away);
    }
    out.bound[d] = std::min(spread, furthest) + 8 * 0x1p-23 * size + 3 * 0x1p-125 * size + 0x1p-125;
  }
  return out;
}

CaseResult merge_associates_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  if (const std::string why = positions(p); !why.empty()) return says_nothing(p, why);
  Parts parts = parts_of(p, choices, context);
  if (!parts.made) return result(p, parts.verdict);
  Verdict v;
  const auto ab = merged(v, parts.state[0], parts.state[1], context);
  if (!ab) return result(p, v);
  const auto bc = merged(v, parts.state[1], parts.state[2], context);
  if (!bc) return result(p, v);
  const auto left = merged(v, *ab, parts.state[2], context);
  if (!left) return result(p, v);
  const auto right = merged(v, parts.state[0], *bc, context);
  if (!right) return result(p, v);
  const double exp_rel_error = judge_options(p, context).numerics.exp_rel_error;
  for (size_t row = 0; row < left->lse.size(); ++row) {
    ++v.rows;
    const bool finite = std::all_of(parts.state.begin(), parts.state.end(), [&](const PartialStates& s) { return s.lse[row] < kInfinity; });
    if (!finite) continue;
    const ExactMerge exact = exact_merge(parts.state, row, exp_rel_error);
    for (const auto& [state, what] : {std::pair{&*left, "merge(merge(a, b), c)"}, std::pair{&*right, "merge(a, merge(b, c))"}}) {
      check_value(v, parts, static_cast<int64_t>(row), -1, state->lse[row], exact.lse, exact.lse_bound, Check::lse, what);
      for (size_t d = 0; d < exact.o.size(); ++d) {
        if (!std::isfinite(exact.o[d])) continue;
        check_value(v, parts, static_cast<int64_t>(row), static_cast<int64_t>(d), state->o[row * exact.o.size() + d], exact.o[d], exact.bound[d], Check::bound, what);
      }
    }
  }
  return result(p, v, "three states merged in either grouping");
}

}  // namespace

namespace definitions {

const Definition merge_commutes{.regimes = regime_sets::needle, .not_covered = merge_not_covered, .recipe = mergeable, .judge = merge_commutes_judge};
const Definition merge_identity{.regimes = regime_sets::random, .not_covered = merge_not_covered, .recipe = mergeable, .judge = merge_identity_judge};
const Definition merge_associates{.regimes = regime_sets::last_tile, .not_covered = merge_not_covered, .recipe = mergeable, .judge = merge_associates_judge};

}  // namespace definitions

}  // namespace attest
