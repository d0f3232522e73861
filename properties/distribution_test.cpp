// Histograms of a run, and runs that are ended early.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "properties/verify.h"

namespace attest {
namespace {

const Kernel& host() {
  static const Kernel kernel = std::get<Kernel>(Kernel::load("host"));
  return kernel;
}

int64_t sum(const std::array<int64_t, kBuckets>& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

TEST(distribution, every_element_and_every_noisy_row_stands_in_one_bucket) {
  const VerifyReport report = verify(host(), {.seed = 3, .cases = 60, .properties = "^matches_reference$"});
  const PropertyReport& p = report.properties.at(0);
  EXPECT_EQ(sum(p.errors.ratio), p.elements);
  EXPECT_EQ(sum(p.errors.noise), sum(p.errors.budget));
  EXPECT_GT(sum(p.errors.noise), 0);
  EXPECT_LE(sum(p.errors.noise), p.rows);
  // The largest figures stand in the last buckets that are not empty.
  const auto last = [](const std::array<int64_t, kBuckets>& counts) {
    int n = kBuckets - 1;
    while (n > 0 && counts[static_cast<size_t>(n)] == 0) --n;
    return n;
  };
  EXPECT_EQ(last(p.errors.ratio), bucket_of(std::max(p.worst_ratio, p.worst_lse_ratio)));
  EXPECT_EQ(last(p.errors.noise), bucket_of(p.worst_budget));
  EXPECT_LE(last(p.errors.budget), bucket_of(p.worst_budget_share));  // the rows of a case together have a share of their own
  EXPECT_EQ(*std::max_element(p.errors.worst_by_part.begin(), p.errors.worst_by_part.end()), std::max(p.worst_ratio, p.worst_lse_ratio));
  EXPECT_GE(p.errors.least_threshold, 1);
  int64_t rows = 0;
  for (const auto& type : p.errors.errors_by_keys)
    for (const RowErrors& e : type) {
      rows += e.rows;
      if (e.rows == 0) continue;
      EXPECT_LE(e.sum, std::log2(std::max(e.largest, 0x1p-10)) * static_cast<double>(e.rows) + 1e-6);
    }
  EXPECT_GT(rows, p.rows / 4);
  EXPECT_LE(rows, p.rows);
  EXPECT_EQ(p.dispositions[static_cast<size_t>(Disposition::passed)], p.cases);
}

TEST(distribution, keys_fall_into_powers_of_two) {
  EXPECT_EQ(key_bucket_of(1), 0);
  EXPECT_EQ(key_bucket_of(2), 1);
  EXPECT_EQ(key_bucket_of(3), 1);
  EXPECT_EQ(key_bucket_of(1024), 10);
  EXPECT_EQ(key_bucket_of(int64_t{1} << 40), kKeyBuckets - 1);
}

TEST(verify, what_is_planned_is_what_is_made) {
  const VerifyOptions options{.seed = 3, .cases = 90, .properties = "keys_|v_", .shard = 1, .shards = 3};
  const VerifyReport report = verify(host(), options);
  int64_t cases = 0;
  for (const auto& [property, planned] : planned_cases(host(), options)) {
    const auto made = std::find_if(report.properties.begin(), report.properties.end(), [&](const PropertyReport& p) { return p.name == property->name; });
    ASSERT_NE(made, report.properties.end());
    EXPECT_EQ(planned, made->cases) << property->name;
    cases += planned;
  }
  EXPECT_EQ(cases, report.cases());
}

TEST(verify, a_stopped_run_reports_what_it_did) {
  std::atomic<bool> stop{false};
  int64_t ended = 0;
  const VerifyReport report = verify(host(), {.seed = 3, .cases = 100000, .threads = 2, .stop = &stop},
                                     {.ends = [&](const Batch&, const PropertyReport& gave, const Mix&) {
                                       ended += gave.cases;
                                       stop = ended > 50;
                                     }});
  EXPECT_TRUE(report.stopped);
  EXPECT_GE(report.cases(), ended);  // the other thread's batch is cut; what it gave counts
  EXPECT_LT(report.cases(), ended + 8);
  EXPECT_LT(report.cases(), 200);
  EXPECT_TRUE(report.inconclusive());
  const VerifyReport whole = verify(host(), {.seed = 3, .cases = 20, .properties = "v_negated"});
  EXPECT_FALSE(whole.stopped);
}

}  // namespace
}  // namespace attest
