#include "properties/trial.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace attest {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kWorst = 10;
}  // namespace

JudgeOptions judge_options(const Problem& problem, const PropertyContext& context) {
  JudgeOptions options;
  options.numerics = context.kernel.numerics(problem, context.contract);
  options.conventions = context.kernel.conventions();
  options.exact = context.exact;
  return options;
}

Observation observe(const Problem& problem, const PropertyContext& context, const RunOptions& options) {
  Observation seen = context.kernel.run(problem, options);
  if (context.runs != nullptr) context.runs->push_back({problem, seen});
  return seen;
}

Trial run_and_judge(const Problem& problem, const PropertyContext& context, const RunOptions& options) {
  Trial t;
  t.seen = observe(problem, context, options);
  t.verdict = context.judge(problem, t.seen, judge_options(problem, context));
  return t;
}

Verdict not_applicable(const std::string& why) {
  Verdict v;
  v.disposition = Disposition::not_supported;
  v.detail = why;
  return v;
}

bool ran(Verdict& verdict, const Problem& problem, const Observation& seen, const PropertyContext& context) {
  if (seen.status == RunStatus::ok) return true;
  add(verdict, context.judge(problem, seen, judge_options(problem, context)), "");
  return false;
}

void add(Verdict& v, const Verdict& further, const std::string& run) {
  if (further.disposition == Disposition::not_supported) {
    if (v.check == Check::none) v = further;
    return;
  }
  if (v.disposition == Disposition::not_supported) return;
  if (v.check == Check::none && further.check != Check::none) {
    v.check = further.check;
    v.disposition = further.disposition;
    v.detail = run.empty() ? further.detail : run + ": " + further.detail;
    v.worst = further.worst;
  } else if (v.check == Check::none) {
    for (const ElementError& e : further.worst) v.worst.push_back(e);
    std::stable_sort(v.worst.begin(), v.worst.end(), [](const ElementError& a, const ElementError& b) { return a.ratio > b.ratio; });
    if (v.worst.size() > kWorst) v.worst.resize(kWorst);
  }
  v.rows += further.rows;
  v.rows_out_of_range += further.rows_out_of_range;
  v.rows_exact += further.rows_exact;
  v.elements += further.elements;
  v.loose += further.loose;
  v.failures += further.failures;
  v.budget_failures += further.budget_failures;
  v.worst_ratio = std::max(v.worst_ratio, further.worst_ratio);
  v.worst_lse_ratio = std::max(v.worst_lse_ratio, further.worst_lse_ratio);
  v.worst_budget = std::max(v.worst_budget, further.worst_budget);
  v.worst_budget_share = std::max(v.worst_budget_share, further.worst_budget_share);
  for (size_t n = 0; n < v.buckets.size(); ++n) {
    v.buckets[n] += further.buckets[n];
    v.noise_buckets[n] += further.noise_buckets[n];
    v.budget_buckets[n] += further.budget_buckets[n];
  }
  v.least_threshold = std::min(v.least_threshold, further.least_threshold);
  for (size_t n = 0; n < v.errors_by_keys.size(); ++n) v.errors_by_keys[n].add(further.errors_by_keys[n]);
}

void fail(Verdict& v, Check check, Disposition disposition, const std::string& detail, const ElementError& where) {
  ++v.failures;
  if (v.check == Check::none || v.check == check) {
    if (v.check == Check::none) v.worst.clear();
    if (v.worst.size() < kWorst) v.worst.push_back(where);
  }
  if (v.check != Check::none) return;
  v.check = check;
  v.disposition = disposition;
  v.detail = detail;
}

RowScores::RowScores(const Problem& problem, const Conventions& conventions) : problem_(problem), conventions_(conventions) {}

void RowScores::load(int64_t b, int64_t h, int64_t i) {
  const Problem& p = problem_;
  const int64_t hk = p.shape.key_head(h);
  if (b != head_b_ || hk != head_k_) head_.load(p, b, hk);
  head_b_ = b;
  head_k_ = hk;
  h_ = h;
  q_.resize(static_cast<size_t>(p.shape.d));
  for (int64_t d = 0; d < p.shape.d; ++d) q_[static_cast<size_t>(d)] = p.q.get(b, h, i, d);
  classify(p, conventions_, head_, q_.data(), b, h, i, row_);
  sum_fields(p, head_, q_.data(), row_);
  x_.clear();
  scores_.clear();
  if (row_.kind != RowKind::normal) return;
  for (size_t n = 0; n < row_.key.size(); ++n) {
    const double x = double(p.scale) * row_.dot[n];
    const double s = p.softcap > 0 ? p.softcap * std::tanh(x / p.softcap) : x;
    x_.push_back(x);
    scores_.push_back(s + row_.bias[n]);
  }
}

std::optional<double> RowScores::sink() const {
  if (!problem_.sink) return std::nullopt;
  const double s = (*problem_.sink)[static_cast<size_t>(h_)];
  return std::isfinite(s) ? std::optional<double>(s) : std::nullopt;
}

void compare(Verdict& verdict, const Problem& first, const Observation& a, const Observation& b, const Comparison& how,
             const PropertyContext& context) {
  if (!ran(verdict, first, a, context) || !ran(verdict, first, b, context)) return;
  const Shape& s = first.shape;
  const Shape& t = how.differs ? how.second_shape : s;
  const auto equal = [&](double x, double y) {
    return same_value(x, y) || (!how.same_non_finite && !std::isfinite(x) && !std::isfinite(y));
  };
  RowScores scores(first, context.kernel.conventions());
  const Disposition disposition = how.check == Check::determinism ? Disposition::non_deterministic : Disposition::incorrect;
  for (int64_t bb = 0; bb < s.b; ++bb)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        const Comparison::Place here{bb, h, i};
        const std::optional<Comparison::Place> there = how.row ? how.row(here) : here;
        if (!there) continue;
        const auto at = static_cast<size_t>((bb * s.hq + h) * s.nq + i);
        const auto to = static_cast<size_t>((there->b * t.hq + there->h) * t.nq + there->i);
        const auto width = static_cast<size_t>(s.dv);
        ++verdict.rows;
        std::optional<bool> in_range;  // found out only where something differs
        const auto complain = [&](int64_t col, double was, double is) {
          if (!in_range) {
            scores.load(bb, h, i);
            in_range = scores.kind() != RowKind::out_of_range;
            if (!*in_range) ++verdict.rows_out_of_range;
          }
          if (!*in_range) return;
          char text[200];
          const std::string column = col < 0 ? "" : ",d=" + std::to_string(col);
          std::snprintf(text, sizeof text, "%s[b=%ld,h=%ld,i=%ld%s] is %.9g, must be %.9g", col < 0 ? "LSE" : "O", long(there->b), long(there->h),
                        long(there->i), column.c_str(), is, was);
          const double unit = std::isfinite(was) && std::isfinite(is) ? std::fabs(is - was) / ulp_at(col < 0 ? DType::f32 : first.type, was) : kInfinity;
          fail(verdict, how.check, disposition, std::string(text) + " as before " + how.relation, {there->b, there->h, there->i, col, is, was, 0, kInfinity, unit});
          ++verdict.buckets[kBuckets - 1];
        };
        for (size_t d = 0; d < width; ++d) {
          const double raw = a.o[at * width + d];
          if (how.skip && how.skip(here, raw)) continue;
          const double was = how.o ? how.o(raw) : raw, is = b.o[to * width + d];
          ++verdict.elements;
          if (equal(was, is)) ++verdict.buckets[0];
          else complain(static_cast<int64_t>(d), was, is);
        }
        if (a.lse.empty() || b.lse.empty()) continue;
        ++verdict.elements;
        if (equal(a.lse[at], b.lse[to])) ++verdict.buckets[0];
        else complain(-1, a.lse[at], b.lse[to]);
      }
}

}  // namespace attest
