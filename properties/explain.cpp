#include "properties/explain.h"

#include <algorithm>
#include <chrono>

#include "properties/contents.h"
#include "properties/trial.h"
#include "properties/transform.h"

namespace attest {

namespace {

// Widths of V for the key indicators, the widest first; the case's own is always taken.
constexpr int64_t kWidths[] = {64, 32, 16, 8};
constexpr int64_t kDraws = 4;  // of what stands beside a row
constexpr int64_t kTracedRecords = 1 << 20;

// The same row beside others that are as calm as can be: their queries 0, K and V of other heads 0, all of their keys
// hidden where there is a mask to do so.
Problem others_calmed(const Problem& p, const RowPlace& at) {
  Problem out = packed(p);
  const Shape& s = p.shape;
  if (out.mask) out.mask = expanded(*out.mask, s);
  for (int64_t b = 0; b < s.b; ++b) {
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        if (RowPlace{b, h, i} == at) continue;
        for (int64_t d = 0; d < s.d; ++d) out.q.set(b, h, i, d, 0);
        for (int64_t j = 0; j < s.nk && out.mask; ++j) out.mask->storage[static_cast<size_t>(out.mask->layout.at(b, h, i, j))] = 0;
      }
    for (int64_t g = 0; g < s.hk; ++g) {
      if (b == at.b && g == s.key_head(at.h)) continue;
      for (int64_t j = 0; j < s.nk; ++j) {
        for (int64_t d = 0; d < s.d; ++d) out.k.set(b, g, j, d, 0);
        for (int64_t d = 0; d < s.dv; ++d) out.v.set(b, g, j, d, 0);
      }
    }
  }
  return out;
}

// The same row beside other rows, heads and batches: calm ones, or any.
Problem others_replaced(const Problem& p, const RowPlace& at, uint64_t draw) {
  if (draw % 2 == 0) return others_calmed(p, at);
  Problem out = packed(p);
  Choices choices = Choices::seeded(content_seed(p) + draw);
  replace_all_but(out, {at.b, at.h, at.i}, choices);
  return out;
}

// A problem on which a property runs the kernel, and whether it asks for LSE.
struct Call {
  Problem problem;
  bool with_lse;
};

// The calls that the property makes, those that are wrong by themselves first; of the problem alone where it makes none.
std::vector<Call> calls_of(const Property* property, const Problem& problem, const PropertyContext& context) {
  std::vector<Call> wrong, right;
  if (property != nullptr) {
    std::vector<RunMade> runs;
    PropertyContext recording = context;
    recording.runs = &runs;
    property->check(problem, recording);
    for (const RunMade& run : runs) {
      const bool with_lse = !context.kernel.has(ATTEST_LSE) || !run.seen.lse.empty() || run.problem.shape.rows() == 0;
      const auto is_this = [&](const Call& c) { return c.with_lse == with_lse && same(c.problem, run.problem); };
      if (std::any_of(wrong.begin(), wrong.end(), is_this) || std::any_of(right.begin(), right.end(), is_this)) continue;
      (context.judge(run.problem, run.seen, judge_options(run.problem, context)).ok() ? right : wrong).push_back({run.problem, with_lse});
    }
  }
  wrong.insert(wrong.end(), right.begin(), right.end());
  if (wrong.empty()) wrong.push_back({problem, true});
  return wrong;
}

}  // namespace

Explanation explain(const Problem& given, const PropertyContext& context, const ExplainOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
  Explanation out;
  out.evidence.conventions = context.kernel.conventions();
  const std::vector<Call> calls = calls_of(options.property, given, context);
  const Problem& problem = calls.front().problem;
  const bool traced = options.use_trace && context.kernel.traceable() && problem.shape.rows() * problem.shape.nk < kTracedRecords;
  const auto run_call = [&](const Problem& p, bool with_lse, Purpose purpose) {
    if (!context.kernel.refuses(p).empty()) return false;
    const RunOptions how{.trace = traced, .want_lse = with_lse, .poison = 0, .check_memory = purpose == Purpose::found || purpose == Purpose::related};
    out.evidence.runs.push_back({p, context.kernel.run(p, how), context.kernel.numerics(p, context.contract), purpose});
    return true;
  };
  const auto run = [&](const Problem& p, Purpose purpose) { return run_call(p, calls.front().with_lse, purpose); };
  const DiagnoseOptions diagnose_options{.without = options.without, .use_trace = options.use_trace};
  if (!run(problem, Purpose::found)) return out;
  if (out.evidence.runs.front().seen.status == RunStatus::ok) {
    run(problem, Purpose::repeated);
    run(problem, Purpose::repeated);
    for (size_t n = 1; n < calls.size(); ++n) run_call(calls[n].problem, calls[n].with_lse, Purpose::related);
    // Key indicators in the widest V that the kernel takes.
    std::vector<int64_t> widths(std::begin(kWidths), std::end(kWidths));
    widths.push_back(problem.shape.dv);
    for (int64_t width : widths) {
      const NextRuns next = next_runs(out.evidence, {}, width);
      if (next.problems.empty()) break;
      if (!context.kernel.refuses(next.problems.front()).empty()) continue;
      for (const Problem& p : next.problems)
        if (Clock::now() < end) run(p, next.purpose);
      break;
    }
  }
  out.diagnosis = diagnose(out.evidence, diagnose_options);
  std::set<Purpose> asked;
  while (Clock::now() < end) {
    const NextRuns next = next_runs(out.evidence, out.diagnosis, problem.shape.dv);
    const size_t before = out.evidence.runs.size();
    for (const Problem& p : next.problems)
      if (run(p, next.purpose) && next.first_only) break;
    if (next.problems.empty() || (out.evidence.runs.size() == before && !asked.insert(next.purpose).second)) break;
    if (out.evidence.runs.size() == before) {
      // Refused: told as a run that was not made, so that it is not asked for again.
      out.evidence.runs.push_back({next.problems.front(), {}, context.kernel.numerics(problem, context.contract), next.purpose});
      out.evidence.runs.back().seen.status = RunStatus::unsupported;
      continue;
    }
    DiagnoseOptions narrowed = diagnose_options;
    narrowed.among = out.diagnosis.survivors;
    Diagnosis now = diagnose(out.evidence, narrowed);
    if (now.explaining.empty() && !out.diagnosis.explaining.empty()) now = diagnose(out.evidence, diagnose_options);
    // Where nothing explains this run beside the others, what explained those is refuted.
    out.diagnosis = std::move(now);
  }
  // Without a model: does the answer hang on what stands beside a row, or on where its tensors lie?
  if (out.diagnosis.explaining.empty() && problem.shape.rows() > 0) {
    const bool is_packed = same(packed(problem), problem);
    bool more = !is_packed && run(packed(problem), Purpose::repacked);
    const Shape& s = problem.shape;
    if (s.b > 1) {
      const int64_t batch[] = {out.diagnosis.contract_worst.place.b};
      more = run(take_batches(packed(problem), batch), Purpose::others_replaced) || more;
    }
    for (int64_t draw = 0; draw < kDraws && s.rows() > 1; ++draw) {
      const int64_t r = draw * (s.rows() - 1) / (kDraws - 1);
      const RowPlace at = out.diagnosis.outputs_right ? RowPlace{r / (s.hq * s.nq), r / s.nq % s.hq, r % s.nq} : out.diagnosis.contract_worst.place;
      more = run(others_replaced(problem, at, static_cast<uint64_t>(draw)), Purpose::others_replaced) || more;
    }
    if (more) out.diagnosis = diagnose(out.evidence, diagnose_options);
  }
  return out;
}

}  // namespace attest
