#include "cli/judge_case.h"

#include <limits>

namespace attest::cli {

PropertyReport& entry_of(VerifyReport& report, const std::string& name) {
  for (PropertyReport& p : report.properties)
    if (p.name == name) return p;
  report.properties.emplace_back().name = name;
  return report.properties.back();
}

CaseResult judge_plainly(const Problem& problem, const PropertyContext& context) {
  const JudgeOptions options{.numerics = context.kernel.numerics(problem, context.contract), .conventions = context.kernel.conventions(), .exact = context.exact};
  CaseResult result;
  result.problem = problem;
  result.verdict = context.judge(problem, context.kernel.run(problem), options);
  return result;
}

void count_result(VerifyReport& report, const std::string& property, CaseResult result) {
  PropertyReport& p = entry_of(report, property);
  const Verdict& v = result.verdict;
  if (v.disposition == Disposition::not_supported) {
    ++p.refused;
    if (p.cases == 0) p.not_covered = v.detail;
    return;
  }
  p.not_covered.clear();
  count_case(p, report.mix, static_cast<uint64_t>(p.cases), std::move(result), std::numeric_limits<int64_t>::max());
}

}  // namespace attest::cli
