// verify.h: the loop that runs every property on a kernel, over threads, with counts and timings.
//
// Guarantees: case number i of a property depends on (seed, property, i) alone, so the result does not depend
// on the number of threads, and the shards of a run together make the cases of the whole run; every failure
// keeps its Problem. A property that throws is a fault of the harness: verify() stops and throws HarnessError.
//
// The cases are worked through in batches of one property. An isolated kernel that loses its worker loses the batch with
// it: nothing of the batch counts, and each of its cases is run again alone, in a worker that has run nothing else. So the
// case that did it is named, and the others give what they give without it. Where no case does it alone, the one at
// which the worker was lost takes the blame, and its detail says so.
//
// Share of the cases: each property first gets what its regimes need (`enough` cases of each), or its part of
// that where --cases is too small for all; the rest goes by weight.
// Example:
//     VerifyReport report = verify(kernel, {.seed = 7, .cases = 10000});
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "properties/difference.h"
#include "properties/distribution.h"
#include "properties/property.h"

namespace attest {

struct Failure {
  std::string property;
  uint64_t index = 0;    // case number within the property
  CaseResult result;
};

// What is kept of a failure whose problem is not.
struct FailureLine {
  uint64_t index = 0;
  Disposition disposition = Disposition::incorrect;
  Check check = Check::none;
  double worst_ratio = 0, worst_budget_share = 0;
  std::string signature;
};

// Elements that were judged, by type (DType), and how many of them were loose (reference/bound.md).
struct Looseness {
  std::array<int64_t, std::size(kAllDTypes)> elements{}, loose{};
  void add(const Looseness& other);
  double share(DType type) const;  // 0 of none
};

struct PropertyReport {
  std::string name;
  std::string not_covered;             // why, or ""
  bool inconclusive = false;           // some needed regime has too few cases
  int64_t cases = 0, rows = 0, violations = 0;
  int64_t refused = 0;                 // cases that the kernel or the property does not take; others were drawn
  int64_t elements = 0, loose = 0, rows_out_of_range = 0, rows_exact = 0;
  double worst_ratio = 0, worst_lse_ratio = 0, worst_budget = 0, worst_budget_share = 0;
  std::map<std::string, int64_t> regimes;
  std::map<std::string, Looseness> looseness;  // by regime
  std::map<std::string, Difference> differences;  // from the baseline, by type; empty without one
  double seconds = 0;                  // of its cases, over all threads
  std::array<int64_t, kDispositions> dispositions{};  // cases by what came of them
  std::array<int64_t, kChecks> checks{};              // violations by the check that failed first
  Distribution errors;
  std::map<std::string, int64_t> signatures;  // violations of each
  std::map<std::string, int64_t> known;       // failures that are no violations, by signature
  std::vector<Failure> failures;       // the first by index
  std::vector<FailureLine> lines;      // likewise, more of them
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
  bool stopped = false;  // before its cases were done
  Mix mix;
  std::vector<PropertyReport> properties;
  int64_t cases() const;
  int64_t rows() const;
  int64_t violations() const;
  bool inconclusive() const;                       // any property is
  std::map<std::string, int64_t> regimes() const;  // over all properties
  std::map<std::string, Looseness> looseness() const;
};

// A failure that is known: one of this signature is counted apart, and is no violation.
struct KnownFailure {
  std::string property, signature;
};

// Cases [first, last) of one property, those of this shard.
struct Batch {
  std::string property;
  uint64_t first = 0, last = 0;
};

// What a batch gave; `report` without its failures.
struct FinishedBatch {
  Batch batch;
  PropertyReport report;
  Mix mix;
};

struct VerifyOptions {
  uint64_t seed = 1;
  int64_t cases = 10000;              // over all properties and shards
  std::optional<double> seconds = {}; // begin no batch after this long instead
  std::string properties = "";        // ECMAScript regular expression searched in the name; "" matches all
  Contract contract = Contract::strict;
  bool exact = false;
  int64_t shard = 0, shards = 1;      // this run makes the cases with index % shards == shard
  int threads = 0;                    // 0: one per core
  int64_t keep_failures = 20;         // failures whose problems are kept, per property
  int64_t keep_lines = 10000;         // failures of which a line is kept, per property
  const std::atomic<bool>* stop = nullptr;  // begin no batch once it is true; the report holds what was done until then
  bool until_violation = false;       // stop after the first violation (of each thread, where they are several)
  // What an earlier part of the same run gave: counted, and not run again, but for the batches that hold the first
  // `keep_failures` failures of a property, whose problems are wanted.
  std::vector<FinishedBatch> finished = {};
  double seconds_before = 0;          // that the earlier part took
  std::vector<KnownFailure> known = {};
  const Kernel* baseline = nullptr;   // also runs every case, and its outputs are held to the kernel's (difference.h)
};

// A call that a worker did not survive: what it was asked to run, and in which case.
struct LostCall {
  uint64_t seed = 0;
  std::string property;
  uint64_t index = 0;
  const Problem& problem;
  const Observation& seen;
};

struct Progress {
  int64_t cases = 0, total = 0, violations = 0;  // total: 0 where time ends the run
  int64_t signatures = 0;                        // different ones of the violations
  double seconds = 0, worst_ratio = 0;
  double until = 0;                              // seconds after which the run ends; 0 where cases end it
  std::string property;
};

// A property threw: what it said, and the case it was at.
struct HarnessError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a run tells while it goes on; each may be empty. Called from one thread at a time.
struct VerifyListener {
  std::function<void(const Progress&)> progress = {};  // now and then
  std::function<void(const Batch&)> begins = {};       // before the first case of a batch
  std::function<void(const Batch&, const PropertyReport&, const Mix&)> ends = {};  // with what the batch gave
  std::function<void(const LostCall&)> lost = {};      // as soon as a worker is lost
};

// Throws std::regex_error for a malformed expression, HarnessError, and what a listener throws.
VerifyReport verify(const Kernel& kernel, const VerifyOptions& options, const VerifyListener& listener = {});

// The same over a list of properties of one's own.
VerifyReport verify(const Kernel& kernel, std::span<const Property> properties, const VerifyOptions& options,
                    const VerifyListener& listener = {});

// How many cases of each property `options` ask for, in the order of the properties that the kernel is covered for; where
// time ends the run, of one round.
std::vector<std::pair<const Property*, int64_t>> planned_cases(const Kernel& kernel, const VerifyOptions& options);

// Makes a failure that is known one that is no violation, and counts it under its signature.
void excuse(const std::vector<KnownFailure>& known, CaseResult& result, PropertyReport& report);

// Counts one judged case in its property's report and in the mix; of the failures the first `keep` are kept, and a line of
// the first `keep_lines`. For
// loops that take their cases from elsewhere, as replay does.
void count_case(PropertyReport& report, Mix& mix, uint64_t index, CaseResult&& result, int64_t keep, int64_t keep_lines = VerifyOptions{}.keep_lines);

// The stream of choices of one case, as verify() makes it; `attempt` counts the draws that were refused.
Choices case_choices(uint64_t seed, std::string_view property, uint64_t index, uint64_t attempt = 0);

}  // namespace attest
