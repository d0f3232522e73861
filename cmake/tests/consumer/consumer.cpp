// Judges the host kernel on one problem, as a kernel's own test suite would.
#include <cstdio>

#include "kernel/runner/kernel.h"
#include "reference/judge.h"

int main() {
  using namespace attest;
  auto loaded = Kernel::load("host");
  const Kernel& kernel = std::get<Kernel>(loaded);
  Problem problem = Problem::make({.b = 1, .hq = 1, .hk = 1, .nq = 3, .nk = 40, .d = 1, .dv = 2}, DType::bf16);
  for (int i = 0; i < 3; ++i) problem.q.set(0, 0, i, 0, 1 + i);
  for (int j = 0; j < 40; ++j) {
    problem.k.set(0, 0, j, 0, 0.25 * j);
    problem.v.set(0, 0, j, j % 2, 1);
  }
  Judge judge;
  const Verdict verdict = judge(problem, kernel.run(problem), {.numerics = kernel.numerics(problem, Contract::strict)});
  std::printf("%.*s, largest error / bound %g\n", static_cast<int>(name_of(verdict.disposition).size()), name_of(verdict.disposition).data(), verdict.worst_ratio);
  return verdict.disposition == Disposition::passed ? 0 : 1;
}
