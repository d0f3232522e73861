// difference.h: how the outputs of two kernels on the same problems differ, and which of the two is nearer to the exact
// result; figures for whoever changes a kernel, no verdict.
//
// Every element of O and LSE that both kernels give counts once: equal bits, or how many numbers of its type lie between.
// Nearer is asked where the reference gives a finite value and both kernels do, by element and by row (the sum of squared
// errors of O); equal errors are neither's. Figures of parts add up to the figures of the whole.
// Errors: none; what cannot be compared is counted as that.
// Example:
//     Difference d = difference(problem, mine.run(problem), before.run(problem), details);
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "reference/judge.h"
#include "reference/observation.h"
#include "reference/problem.h"

namespace attest {

// Numbers of the type between two values: 0 the same, 1, 2, up to 4, up to 16, up to 256, more, one of them no number.
inline constexpr int kDistances = 8;
std::string distance_name(int bucket);

struct Difference {
  int64_t cases = 0, without_baseline = 0;  // compared; those that the baseline refuses or does not survive
  int64_t elements = 0;                     // compared
  std::array<int64_t, kDistances> distances{};
  int64_t nearer = 0, baseline_nearer = 0;            // elements of which one kernel's is nearer to the exact value
  int64_t rows = 0, rows_nearer = 0, rows_baseline_nearer = 0;
  int64_t equal() const { return distances[0]; }
  void add(const Difference& other);
};

// Numbers of `type` from a to b, both finite and of that type.
uint64_t steps_between(DType type, double a, double b);

// `exact`: what the judge found of the kernel's run, every element with its exact value (JudgeOptions::details).
Difference difference(const Problem& problem, const Observation& kernel, const Observation& baseline, const Details& exact);

}  // namespace attest
