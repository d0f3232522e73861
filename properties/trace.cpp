// trace.cpp: the properties of a traced run; the invariants themselves stand in trace_check.cpp.
#include "properties/trace_check.h"

#include "properties/definition.h"
#include "properties/regime_sets.h"

namespace attest {

namespace {

std::string trace_not_covered(const Kernel& kernel) { return kernel.traceable() ? "" : "the kernel gives no trace"; }

RunOptions traced() {
  RunOptions options = kPlainRun;
  options.trace = true;
  return options;
}

template <TraceInvariant invariant>
CaseResult invariant_judge(const Problem& p, Choices&, const PropertyContext& context) {
  Verdict v;
  const Observation seen = observe(p, context, traced());
  if (!ran(v, p, seen, context)) return result(p, v);
  if (!seen.traced) {
    fail(v, Check::invariant, Disposition::incorrect, "the kernel offers a trace and gave none", {});
    return result(p, v);
  }
  check_trace(v, p, seen, invariant, judge_options(p, context));
  return result(p, v);
}

CaseResult trace_changes_no_bits_judge(const Problem& p, Choices&, const PropertyContext& context) {
  Verdict v;
  const Observation with = observe(p, context, traced()), without = observe(p, context);
  if (!ran(v, p, with, context)) return result(p, v);
  compare(v, p, without, with, {.same_non_finite = true, .relation = "a trace was asked for"}, context);
  return result(p, v, "with and without a trace");
}

}  // namespace

namespace definitions {

const Definition scale_within_unit{
    .regimes = regime_sets::rescale, .not_covered = trace_not_covered, .judge = invariant_judge<TraceInvariant::scale>};
const Definition maximum_is_running_maximum{
    .regimes = regime_sets::either_way, .not_covered = trace_not_covered, .judge = invariant_judge<TraceInvariant::maximum>};
const Definition denominator_bounds{
    .regimes = regime_sets::masses, .not_covered = trace_not_covered, .judge = invariant_judge<TraceInvariant::denominator>};
const Definition masked_tiles_change_nothing{
    .regimes = regime_sets::masked_tiles, .not_covered = trace_not_covered, .judge = invariant_judge<TraceInvariant::masked_tiles>};
const Definition last_state_gives_output{
    .regimes = regime_sets::masses_and_sink, .not_covered = trace_not_covered, .judge = invariant_judge<TraceInvariant::last_state>};
const Definition trace_changes_no_bits{
    .regimes = regime_sets::last_tile, .not_covered = trace_not_covered, .judge = trace_changes_no_bits_judge};

}  // namespace definitions

}  // namespace attest
