#include "properties/explain.h"

#include <chrono>

#include "properties/generate/select.h"
#include "properties/transform.h"

namespace attest {

namespace {

// Widths of V for the key indicators, the widest first; the case's own is always taken.
constexpr int64_t kWidths[] = {64, 32, 16, 8};
constexpr int64_t kTracedRecords = 1 << 20;

// The worst row in a problem without the other batches and heads. Nq stays: a row's place under a mask hangs on it.
Problem alone(const Problem& p, const RowPlace& at) {
  const int64_t batch[] = {at.b}, head[] = {p.shape.key_head(at.h)};
  return take_key_heads(take_batches(packed(p), batch), head);
}

}  // namespace

Explanation explain(const Problem& problem, const PropertyContext& context, const ExplainOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
  Explanation out;
  out.evidence.conventions = context.kernel.conventions();
  const bool traced = options.use_trace && context.kernel.traceable() && problem.shape.rows() * problem.shape.nk < kTracedRecords;
  const auto run = [&](const Problem& p, Purpose purpose) {
    if (!context.kernel.refuses(p).empty()) return false;
    const RunOptions how{.trace = traced, .want_lse = true, .poison = 0, .check_memory = purpose == Purpose::found};
    out.evidence.runs.push_back({p, context.kernel.run(p, how), context.kernel.numerics(p, context.contract), purpose});
    return true;
  };
  const DiagnoseOptions diagnose_options{.without = options.without, .use_trace = options.use_trace};
  if (!run(problem, Purpose::found)) return out;
  if (out.evidence.runs.front().seen.status == RunStatus::ok) {
    run(problem, Purpose::repeated);
    run(problem, Purpose::repeated);
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
  while (Clock::now() < end) {
    const NextRuns next = next_runs(out.evidence, out.diagnosis, problem.shape.dv);
    bool any = false;
    for (const Problem& p : next.problems) any = run(p, next.purpose) || any;
    if (!any) break;
    out.diagnosis = diagnose(out.evidence, diagnose_options);
  }
  if (out.diagnosis.explaining.empty() && !out.diagnosis.outputs_right && problem.shape.b * problem.shape.hk > 1) {
    if (run(alone(problem, out.diagnosis.contract_worst.place), Purpose::alone)) out.diagnosis = diagnose(out.evidence, diagnose_options);
  }
  return out;
}

}  // namespace attest
