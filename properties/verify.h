// verify.h: the loop that runs every property on a kernel, over threads, with counts and timings.
//
// Guarantees: case number i of a property depends on (seed, property, i) alone, so the result does not depend
// on the number of threads or on sharding; every failure keeps its Problem.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "properties/property.h"

namespace attest {

struct VerifyOptions {
  uint64_t seed = 1;
  int64_t cases = 10000;              // over all properties
  std::optional<double> seconds;      // stop after this long instead, in whole rounds of every regime
  std::string properties = "";        // ECMAScript regular expression searched in the name; "" matches all
  Contract contract = Contract::strict;
  bool exact = false;
  int64_t shard = 0, shards = 1;      // this run makes the cases with index % shards == shard
  int threads = 0;                    // 0: one per core
  int64_t keep_failures = 20;         // failures whose problems are kept, per property
};

struct Failure {
  std::string property;
  uint64_t index = 0;    // case number within the property
  CaseResult result;
};

struct PropertyReport {
  std::string name;
  std::string not_covered;             // why, or ""
  bool inconclusive = false;           // some needed regime has too few cases
  int64_t cases = 0, rows = 0, violations = 0, refused = 0;
  int64_t elements = 0, loose = 0, rows_out_of_range = 0, rows_exact = 0;
  double worst_ratio = 0, worst_lse_ratio = 0, worst_budget = 0, worst_budget_share = 0;
  std::map<std::string, int64_t> regimes;
  std::map<std::string, int64_t> loose_by_regime;
  std::array<int64_t, kBuckets> buckets{};
  std::vector<Failure> failures;
};

// Shares of the cases that a run made, for the printed mix.
struct Mix {
  int64_t cases = 0;
  int64_t keys_128 = 0, keys_512 = 0, keys_2048 = 0;  // cases with at least that many keys
  int64_t width_32 = 0;                               // cases with D or Dv >= 32
  int64_t query_rows = 0;                             // sum over cases of B * Hq * Nq
  int64_t max_width = 0, min_width = 0;
  std::map<std::string, int64_t> types;
};

struct VerifyReport {
  std::string kernel, device;
  uint64_t seed = 0;
  double seconds = 0;
  Mix mix;
  std::vector<PropertyReport> properties;
  int64_t cases() const;
  int64_t rows() const;
  int64_t violations() const;
};

struct Progress {
  int64_t cases = 0, total = 0, violations = 0;
  double seconds = 0, worst_ratio = 0;
  std::string property;
};

VerifyReport verify(const Kernel& kernel, const VerifyOptions& options,
                    const std::function<void(const Progress&)>& progress = {});

}  // namespace attest
