// Loose elements: where the bound cannot tell right weights from wrong ones. Exact scores leave none.
#include <gtest/gtest.h>

#include "kernel/runner/kernel.h"
#include "properties/generate/generate.h"
#include "properties/trial.h"
#include "properties/verify.h"

namespace attest {

namespace {

constexpr uint32_t kAddsToScores = ATTEST_BIAS_F32 | ATTEST_BIAS_INPUT_TYPE | ATTEST_SOFTCAP | ATTEST_SINK;

}  // namespace

// Scores up to 2^100 (score_limits among them), one exact product each, nothing added to them.
TEST(Loose, NoElementOfEmbeddedScores) {
  const Kernel host = std::get<Kernel>(Kernel::load("host"));
  const Target target = Target::from_table(host.table());
  Judge judge;
  PropertyContext context{host, judge};
  for (Regime score : regimes_of(Axis::score)) {
    if (!(traits_of(score) & kEmbedded)) continue;
    for (DType type : kAllDTypes) {
      int64_t elements = 0;
      for (uint64_t seed = 0; seed < 25; ++seed) {
        Choices c = Choices::seeded(Choices::mix(seed, static_cast<uint64_t>(score)));
        const Generated g = generate(c, target, {.pins = {score}, .never_traits = kNonFinite, .embedded = true, .never_features = kAddsToScores,
                                                 .type = type, .max_keys = 300, .work = 2e4});
        const Verdict v = run_and_judge(g.problem, context).verdict;
        ASSERT_TRUE(v.ok()) << v.detail;
        EXPECT_EQ(v.loose, 0) << name_of(score) << " " << name_of(type) << " seed " << seed;
        elements += v.elements;
      }
      EXPECT_GT(elements, 0) << name_of(score);
    }
  }
}

// Scores summed from products that cancel: their errors exceed their differences, and the report says so.
TEST(Loose, AreCountedByRegimeAndType) {
  const Kernel host = std::get<Kernel>(Kernel::load("host"));
  const VerifyReport report = verify(host, {.seed = 3, .cases = 600, .properties = "^matches_reference$", .threads = 2});
  const auto looseness = report.looseness();
  int64_t elements = 0, loose = 0;
  for (const auto& [name, l] : looseness) {
    const auto regime = regime_from_name(name);
    ASSERT_TRUE(regime) << name;
    for (DType type : kAllDTypes) {
      const auto n = static_cast<size_t>(type);
      EXPECT_LE(l.loose[n], l.elements[n]);
      EXPECT_LE(l.share(type), 1);
      if (axis_of(*regime) != Axis::score) continue;
      elements += l.elements[n];
      loose += l.loose[n];
    }
  }
  // Each case has at most one regime of scores.
  int64_t all = 0, all_loose = 0;
  for (const PropertyReport& p : report.properties) all += p.elements, all_loose += p.loose;
  EXPECT_LE(elements, all);
  EXPECT_LE(loose, all_loose);
  EXPECT_GT(looseness.at("dense_limits").share(DType::f32), 0.1) << "sums near the limits leave nothing to tell";
}

}  // namespace attest
