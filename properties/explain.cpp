#include "properties/explain.h"

#include <chrono>

#include "properties/generate/select.h"
#include "properties/transform.h"

namespace attest {

namespace {

// Widths of V for the key indicators, the widest first; the case's own is always taken.
constexpr int64_t kWidths[] = {64, 32, 16, 8};
constexpr int64_t kTracedRecords = 1 << 20;

// The worst row without the others, its masks written out.
Problem alone(const Problem& p, const Conventions& conventions, const RowPlace& at) {
  const int64_t batch[] = {at.b}, head[] = {p.shape.key_head(at.h)}, member[] = {at.h % (p.shape.hq / p.shape.hk)}, row[] = {at.i};
  return with_rows(with_group(take_key_heads(take_batches(packed(with_explicit_mask(p, conventions)), batch), head), member), row);
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
  int64_t unexplained = 0;
  std::set<Purpose> asked;
  while (Clock::now() < end) {
    const NextRuns next = next_runs(out.evidence, out.diagnosis, problem.shape.dv);
    const size_t before = out.evidence.runs.size();
    for (const Problem& p : next.problems) run(p, next.purpose);
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
    if (now.explaining.empty() && !out.diagnosis.explaining.empty()) {
      // What explained the case does not explain this run as well: the rest stands, but is not certain.
      out.evidence.runs.back().seen.status = RunStatus::unsupported;
      ++unexplained;
      if (unexplained >= 2) break;
      continue;
    }
    out.diagnosis = std::move(now);
  }
  if (out.diagnosis.explaining.empty() && !out.diagnosis.outputs_right) {
    const bool repacked = !same(packed(problem), problem) && run(packed(problem), Purpose::repacked);
    const bool by_itself = problem.shape.rows() > 1 && run(alone(problem, out.evidence.conventions, out.diagnosis.contract_worst.place), Purpose::alone);
    if (repacked || by_itself) out.diagnosis = diagnose(out.evidence, diagnose_options);
  }
  if (unexplained > 0) {
    out.diagnosis.unexplained_runs = unexplained;
    out.diagnosis.certain = false;
  }
  return out;
}

}  // namespace attest
