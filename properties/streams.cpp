// streams.cpp: what a kernel on a GPU owes its callers beyond one call on one stream: to be captured into a graph and
// replayed, and to run beside itself on another stream.
#include "properties/contents.h"
#include "properties/definition.h"
#include "properties/regime_sets.h"
#include "properties/transform.h"
#include "properties/trial.h"

namespace attest {

namespace {

std::string streams_not_covered(const Kernel& kernel) { return kernel.table().device == kDLCUDA ? "" : "the kernel runs on the CPU, where there are no streams"; }

CaseResult graph_replay_judge(const Problem& p, Choices&, const PropertyContext& context) {
  const std::string relation = "the call was captured into a graph, which ran twice";
  RunOptions captured = kPlainRun;
  captured.captured = true;
  Verdict v;
  const Observation direct = observe(p, context), replayed = observe(p, context, captured);
  if (ran(v, p, direct, context) && ran(v, p, replayed, context)) compare(v, p, direct, replayed, {.same_non_finite = true, .check = Check::determinism, .relation = relation}, context);
  return result(p, v, relation);
}

CaseResult two_streams_judge(const Problem& p, Choices& choices, const PropertyContext& context) {
  if (p.shape.rows() == 0) return says_nothing(p, "it has no row");
  const std::string relation = "a call with other contents ran beside it on another stream";
  Problem other = packed(p);
  replace_all_but(other, {choices.between(0, p.shape.b - 1), choices.between(0, p.shape.hq - 1), choices.between(0, p.shape.nq - 1)}, choices);
  Verdict v;
  const Observation alone = observe(p, context), other_alone = observe(other, context);
  if (!ran(v, p, alone, context) || !ran(v, other, other_alone, context)) return result(p, v, relation);
  const auto [beside, other_beside] = context.kernel.run_together(p, other);
  if (!ran(v, p, beside, context)) return result(p, v, relation);
  const Comparison same{.same_non_finite = true, .check = Check::determinism, .relation = relation};
  compare(v, p, alone, beside, same, context);
  if (v.ok()) compare(v, other, other_alone, other_beside, same, context);
  return result(p, v, relation);
}

}  // namespace

namespace definitions {

// What a stream or a graph breaks, it breaks in every case of a kind: fewer cases say enough.
constexpr int64_t kEnough = 20;

const Definition graph_replay{.regimes = regime_sets::random, .enough = kEnough, .not_covered = streams_not_covered, .judge = graph_replay_judge};
const Definition two_streams{.regimes = regime_sets::batches, .enough = kEnough, .not_covered = streams_not_covered, .judge = two_streams_judge};

}  // namespace definitions

}  // namespace attest
