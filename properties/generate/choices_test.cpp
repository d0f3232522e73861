#include "properties/generate/choices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace attest {
namespace {

// Golden numbers from an independent implementation of splitmix64 and xoshiro256**, itself checked against their
// published test vectors.
TEST(Choices, SeedGivesTheBitsOfXoshiro256StarStar) {
  Choices c = Choices::seeded(42);
  for (uint64_t expected : {0x15780b2e0c2ec716u, 0x6104d9866d113a7eu, 0xae17533239e499a1u, 0xecb8ad4703b360a1u})
    EXPECT_EQ(c.bits(64), expected);
  EXPECT_FALSE(c.exhausted());
}

TEST(Choices, NormalHasTheSameBitsEverywhere) {
  Choices c = Choices::seeded(7);
  for (double expected : {-0x1.8d4c04d6c78cep+0, 0x1.8708d5e26e5a8p-3, 0x1.4ad376b61e712p-1, 0x1.28fc7cae30880p-3})
    EXPECT_EQ(c.normal(), expected);
}

TEST(Choices, MixIsGoldenAndNotSymmetric) {
  EXPECT_EQ(Choices::mix(1, 2), 0xbcd9dbb49673066bu);
  EXPECT_EQ(Choices::mix(2, 1), 0xe06dd043328bd285u);
}

TEST(Choices, NormalHasMeanZeroAndVarianceOne) {
  Choices c = Choices::seeded(1);
  constexpr int kDraws = 200000;
  double sum = 0, squares = 0, fourth = 0;
  for (int n = 0; n < kDraws; ++n) {
    const double x = c.normal();
    ASSERT_LT(std::fabs(x), 6.001);
    sum += x, squares += x * x, fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.01);
  EXPECT_NEAR(squares / kDraws, 1, 0.015);
  EXPECT_NEAR(fourth / kDraws, 2.9, 0.08);  // 3 - 6 / (5 * 12) for twelve uniforms
}

TEST(Choices, BytesAreReadLittleEndianAndThenZero) {
  const std::vector<uint8_t> data{0x34, 0x12, 0xFF};
  Choices c = Choices::bytes(data);
  EXPECT_EQ(c.bits(16), 0x1234u);
  EXPECT_EQ(c.bits(3), 7u);
  EXPECT_TRUE(c.exhausted());
  EXPECT_EQ(c.bits(64), 0u);
  EXPECT_EQ(c.below(17), 0u);
  EXPECT_EQ(c.between(-3, 9), -3);
  EXPECT_FALSE(c.chance(15, 16));
  EXPECT_EQ(c.unit(), 0.0);
  EXPECT_EQ(c.normal(), 0.0);
}

TEST(Choices, BelowIsUniformAndBetweenReachesBothEnds) {
  Choices c = Choices::seeded(3);
  std::vector<int> counts(6);
  for (int n = 0; n < 60000; ++n) ++counts[c.below(6)];
  for (int count : counts) EXPECT_NEAR(count, 10000, 500);
  bool low = false, high = false;
  for (int n = 0; n < 200; ++n) {
    const int64_t x = c.between(-2, 2);
    ASSERT_TRUE(x >= -2 && x <= 2);
    low |= x == -2, high |= x == 2;
  }
  EXPECT_TRUE(low && high);
  EXPECT_EQ(c.below(1), 0u);
  c.between(INT64_MIN, INT64_MAX);  // the whole range has no count in 64 bits
}

TEST(Choices, ChanceHoldsItsProbability) {
  Choices c = Choices::seeded(4);
  int hits = 0;
  for (int n = 0; n < 32000; ++n) hits += c.chance(3, 16);
  EXPECT_NEAR(hits, 6000, 350);
}

TEST(Choices, ForkIsAStreamOfItsOwn) {
  Choices a = Choices::seeded(5), b = Choices::seeded(5);
  Choices fork = a.fork();
  b.bits(64);
  EXPECT_NE(fork.bits(64), a.bits(64));
  b.bits(64);
  EXPECT_EQ(a.bits(64), b.bits(64));  // drawing from the fork takes nothing from its parent
}

}  // namespace
}  // namespace attest
