#include "fuzz/judge_problem.h"

#include "fuzz/feedback.h"
#include "reference/judge.h"

namespace attest::fuzz {

Judged judge_problem(const Kernel& kernel, const Problem& problem) {
  static Judge judge;
  static Observation seen;
  kernel.run(problem, {.trace = true}, seen);
  Judged judged{judge(problem, seen, {.numerics = kernel.numerics(problem, Contract::strict), .conventions = kernel.conventions()})};
  record(problem, seen, judged.verdict);
  return judged;
}

}  // namespace attest::fuzz
