// Conversions between number formats, over every 16-bit pattern and against an independent nearest search.
#include "reference/formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

using namespace attest;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Formats, EveryPatternOf16BitsRoundTrips) {
  for (DType t : {DType::f16, DType::bf16})
    for (uint32_t u = 0; u < 0x10000; ++u) {
      const double x = to_double(t, u);
      if (std::isnan(x)) EXPECT_TRUE(std::isnan(to_double(t, from_double(t, x)))) << u;
      else ASSERT_EQ(from_double(t, x), u) << name_of(t) << " " << u;
    }
}

TEST(Formats, F32AgreesWithTheProcessor) {
  uint64_t state = 1;
  for (int n = 0; n < 2'000'000; ++n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto bits = static_cast<uint32_t>(state >> 32);
    const float f = std::bit_cast<float>(bits);
    const double wide = to_double(DType::f32, bits);
    if (std::isnan(f)) {
      ASSERT_TRUE(std::isnan(wide));
      continue;
    }
    ASSERT_EQ(wide, double{f});
    // A double near it, rounded to f32 by the processor.
    const double near = std::bit_cast<double>(std::bit_cast<uint64_t>(wide) ^ (state & 0x3FFFFFFFu));
    if (std::isnan(near)) continue;
    ASSERT_EQ(from_double(DType::f32, near), std::bit_cast<uint32_t>(static_cast<float>(near))) << near;
  }
}

// Ties, and one step to either side of every tie, between every two neighbours of a 16-bit format.
TEST(Formats, RoundsToNearestTiesToEven) {
  for (DType t : {DType::f16, DType::bf16}) {
    const uint32_t infinity = t == DType::f16 ? 0x7C00 : 0x7F80;
    const uint32_t sign = 0x8000;
    for (uint32_t u = 0; u < infinity; ++u) {
      const double low = to_double(t, u);
      // Past the largest finite value the next one would have been the power of two above.
      const double high = u + 1 == infinity ? std::ldexp(1.0, std::ilogb(low) + 1) : to_double(t, u + 1);
      const double middle = low + (high - low) / 2;
      const uint32_t even = (u & 1) == 0 ? u : u + 1;
      ASSERT_EQ(from_double(t, middle), even) << name_of(t) << " " << u;
      ASSERT_EQ(from_double(t, std::nextafter(middle, 0.0)), u);
      ASSERT_EQ(from_double(t, std::nextafter(middle, kInf)), u + 1);
      ASSERT_EQ(from_double(t, -middle), sign | even);
    }
  }
}

TEST(Formats, OverflowSubnormalsAndSpecialValues) {
  EXPECT_EQ(f16_from_double(65504.0), 0x7BFF);
  EXPECT_EQ(f16_from_double(65519.999), 0x7BFF);
  EXPECT_EQ(f16_from_double(65520.0), 0x7C00);
  EXPECT_EQ(f16_from_double(1e300), 0x7C00);
  EXPECT_EQ(f16_from_double(-kInf), 0xFC00);
  EXPECT_EQ(f16_from_double(0x1p-24), 0x0001);
  EXPECT_EQ(f16_from_double(0x1p-25), 0x0000);
  EXPECT_EQ(f16_from_double(std::nextafter(0x1p-25, 1.0)), 0x0001);
  EXPECT_EQ(f16_from_double(-0.0), 0x8000);
  EXPECT_EQ(bf16_from_double(0x1p-133), 0x0001);
  EXPECT_EQ(bf16_from_double(0x1p-134), 0x0000);
  EXPECT_EQ(f32_from_double(0x1p-149), 1u);
  EXPECT_EQ(f32_from_double(std::numeric_limits<double>::denorm_min()), 0u);
  EXPECT_TRUE(std::isnan(to_double(DType::bf16, bf16_from_double(NAN))));
  // A double that rounds twice through f32 would become 1 here; once it stays one step above.
  EXPECT_EQ(bf16_from_double(1 + 0x1p-8 + 0x1p-30), 0x3F81);
  EXPECT_EQ(bf16_from_float(1.0f + 0x1p-8f), 0x3F80);
}

TEST(Formats, UlpIsTheDistanceToTheNeighbour) {
  EXPECT_EQ(ulp_at(DType::f16, 1.0), 0x1p-10);
  EXPECT_EQ(ulp_at(DType::f16, 1.999), 0x1p-10);
  EXPECT_EQ(ulp_at(DType::f16, 0.0), 0x1p-24);
  EXPECT_EQ(ulp_at(DType::bf16, -2.0), 0x1p-6);
  EXPECT_EQ(ulp_at(DType::f32, 1.0), 0x1p-23);
  EXPECT_EQ(ulp_at(DType::f32, 1e-44), 0x1p-149);
}

TEST(Formats, StepsPassThroughZeroAndStopAtTheEnds) {
  EXPECT_EQ(step_bits(DType::f16, 0x0000, -1), 0x8001u);
  EXPECT_EQ(step_bits(DType::f16, 0x8001, 1), 0x0000u);
  EXPECT_EQ(step_bits(DType::f16, 0x7BFF, 1), 0x7BFFu);
  EXPECT_EQ(step_bits(DType::bf16, 0x3F80, 1), 0x3F81u);
}

TEST(Formats, UlpIsThatOfTheBinade) {
  for (DType t : kAllDTypes)
    for (int e = -1080; e < 1024; ++e)
      for (double x : {std::ldexp(1.0, e), std::ldexp(-1.75, e), std::nextafter(std::ldexp(1.0, e), 0.0)}) {
        if (std::isinf(x)) continue;
        const int least = min_subnormal_exponent(t);
        EXPECT_EQ(ulp_at(t, x), std::ldexp(1.0, x == 0 ? least : std::max(least, std::ilogb(x) - significand_bits(t) + 1))) << x;
      }
  EXPECT_EQ(ulp_at(DType::f32, -INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(ulp_at(DType::f32, NAN)));
}

}  // namespace
