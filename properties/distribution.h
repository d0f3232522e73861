// distribution.h: how the errors of many cases spread, for charts and for comparing two runs.
//
// Guarantee: adding parts in any order gives the same counts and maxima; sums may differ in their last bits.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "reference/formats.h"
#include "reference/verdict.h"

namespace attest {

// Cases are dealt to this many parts by their number. How the largest errors of the parts of one run differ says what is
// chance in the difference of two runs.
inline constexpr size_t kParts = 8;

struct Distribution {
  std::array<int64_t, kBuckets> ratio{};   // elements by error / bound
  std::array<int64_t, kBuckets> noise{};   // rows by noise ratio R
  std::array<int64_t, kBuckets> budget{};  // rows by R / threshold
  double least_threshold = std::numeric_limits<double>::infinity();
  std::array<std::array<RowErrors, kKeyBuckets>, std::size(kAllDTypes)> errors_by_keys{};  // by type
  std::array<double, kParts> worst_by_part{};  // largest error / bound of the cases with index % kParts

  void add(const Verdict& verdict, DType type, uint64_t index);
  void add(const Distribution& other);
};

}  // namespace attest
