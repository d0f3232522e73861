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

// Scores that are sums of products which cancel: their errors exceed their differences.
TEST(Loose, EveryElementOfScoresThatCancel) {
  Problem p = Problem::make({.nk = 8, .d = 2, .dv = 4}, DType::f32);
  p.scale = 1;
  p.q.set(0, 0, 0, 0, 1);
  p.q.set(0, 0, 0, 1, 1);
  for (int64_t j = 0; j < 8; ++j) {
    p.k.set(0, 0, j, 0, 0x1p23);
    p.k.set(0, 0, j, 1, -0x1p23 + static_cast<double>(j));
    for (int64_t d = 0; d < 4; ++d) p.v.set(0, 0, j, d, static_cast<double>(j + d));
  }
  const Kernel host = std::get<Kernel>(Kernel::load("host"));
  Judge judge;
  const Verdict v = run_and_judge(p, {host, judge}).verdict;
  EXPECT_TRUE(v.ok()) << v.detail;
  EXPECT_EQ(v.loose, 4);
}

TEST(Loose, AreCountedByRegimeAndType) {
  const Kernel host = std::get<Kernel>(Kernel::load("host"));
  const VerifyReport report = verify(host, {.seed = 3, .cases = 600, .properties = "^matches_reference$", .threads = 2});
  ASSERT_EQ(report.properties.size(), 1u);
  Looseness scores;  // each case has one regime of scores at most
  for (const auto& [name, l] : report.looseness()) {
    const auto regime = regime_from_name(name);
    ASSERT_TRUE(regime) << name;
    if (axis_of(*regime) == Axis::score) scores.add(l);
  }
  int64_t elements = 0, loose = 0;
  for (DType type : kAllDTypes) {
    const auto n = static_cast<size_t>(type);
    EXPECT_GT(scores.elements[n], 0) << name_of(type);
    EXPECT_DOUBLE_EQ(scores.share(type), static_cast<double>(scores.loose[n]) / static_cast<double>(scores.elements[n]));
    elements += scores.elements[n];
    loose += scores.loose[n];
  }
  EXPECT_GT(loose, 0);
  EXPECT_LE(loose, report.properties[0].loose);
  EXPECT_LE(elements, report.properties[0].elements);
}

}  // namespace attest
