#include "properties/distribution.h"

#include <algorithm>

namespace attest {

namespace {

void add_counts(std::array<int64_t, kBuckets>& to, const std::array<int64_t, kBuckets>& from) {
  for (size_t n = 0; n < to.size(); ++n) to[n] += from[n];
}

}  // namespace

void Distribution::add(const Verdict& v, DType type, uint64_t index) {
  add_counts(ratio, v.buckets);
  add_counts(noise, v.noise_buckets);
  add_counts(budget, v.budget_buckets);
  least_threshold = std::min(least_threshold, v.least_threshold);
  auto& errors = errors_by_keys[static_cast<size_t>(type)];
  for (size_t n = 0; n < errors.size(); ++n) errors[n].add(v.errors_by_keys[n]);
  double& worst = worst_by_part[index % kParts];
  worst = std::max({worst, v.worst_ratio, v.worst_lse_ratio});
}

void Distribution::add(const Distribution& other) {
  add_counts(ratio, other.ratio);
  add_counts(noise, other.noise);
  add_counts(budget, other.budget);
  least_threshold = std::min(least_threshold, other.least_threshold);
  for (size_t t = 0; t < errors_by_keys.size(); ++t)
    for (size_t n = 0; n < errors_by_keys[t].size(); ++n) errors_by_keys[t][n].add(other.errors_by_keys[t][n]);
  for (size_t n = 0; n < worst_by_part.size(); ++n) worst_by_part[n] = std::max(worst_by_part[n], other.worst_by_part[n]);
}

}  // namespace attest
