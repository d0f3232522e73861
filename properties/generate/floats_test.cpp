#include "properties/generate/floats.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attest {
namespace {

bool in_class(DType t, BitClass c, double x) {
  const double a = std::fabs(x), least_normal = std::ldexp(1.0, min_normal_exponent(t)), step = ulp_at(t, 0);
  int exponent = 0;
  switch (c) {
    case BitClass::zero:
      return x == 0 && !std::signbit(x);
    case BitClass::negative_zero:
      return x == 0 && std::signbit(x);
    case BitClass::one:
      return a == 1;
    case BitClass::power_of_two:
      return a >= least_normal && std::frexp(a, &exponent) == 0.5;
    case BitClass::near_one:
      return a != 1 && std::fabs(a - 1) <= 4 * ulp_at(t, 1.0);
    case BitClass::moderate:
      return a >= 0x1p-4 && a < 16;
    case BitClass::small:
      return a >= least_normal && a < 0x1p-4;
    case BitClass::large:
      return a >= 16 && a <= largest_finite(t);
    case BitClass::subnormal:
      return a > 0 && a < least_normal;
    case BitClass::least_normal:
      return std::fabs(a - least_normal) <= 2 * step;
    case BitClass::largest:
      return a <= largest_finite(t) && a >= largest_finite(t) - 2 * ulp_at(t, largest_finite(t));
    case BitClass::infinity:
      return std::isinf(x);
    case BitClass::nan:
      return std::isnan(x);
  }
  return false;
}

TEST(Floats, EveryDrawIsOfItsClass) {
  Choices c = Choices::seeded(1);
  for (DType t : kAllDTypes)
    for (int k = 0; k <= static_cast<int>(BitClass::nan); ++k) {
      const auto bit_class = static_cast<BitClass>(k);
      bool negative = false, positive = false;
      for (int n = 0; n < 300; ++n) {
        const uint32_t bits = draw_class(c, t, bit_class);
        const double x = to_double(t, bits);
        ASSERT_TRUE(in_class(t, bit_class, x)) << name_of(t) << " " << name_of(bit_class) << " " << x;
        ASSERT_EQ(is_nan(t, bits), std::isnan(x));
        ASSERT_EQ(is_finite(t, bits), std::isfinite(x));
        (std::signbit(x) ? negative : positive) = true;
      }
      EXPECT_EQ(negative, bit_class != BitClass::zero) << name_of(bit_class);
      EXPECT_TRUE(positive || bit_class == BitClass::negative_zero || bit_class == BitClass::nan);
    }
}

TEST(Floats, SaturateRoundsLikeFromDoubleAndStaysFinite) {
  Choices c = Choices::seeded(2);
  for (DType t : kAllDTypes) {
    for (int n = 0; n < 100000; ++n) {
      const double x = std::ldexp(c.normal(), static_cast<int>(c.between(-30, 20)));
      const uint32_t expected = from_double(t, x);
      ASSERT_EQ(saturate(t, x), is_finite(t, expected) ? expected : from_double(t, std::copysign(largest_finite(t), x)))
          << x;
    }
    for (double x :
         {1 + 0.5 * ulp_at(t, 1), 1 + 1.5 * ulp_at(t, 1), 0x1p15, 0x1.fffffffp14, 0x1p-14, 0.0, -0.0})  // ties, edges
      EXPECT_EQ(saturate(t, x), from_double(t, x)) << x;
    EXPECT_EQ(to_double(t, saturate(t, 1e300)), largest_finite(t));
    EXPECT_EQ(to_double(t, saturate(t, -INFINITY)), -largest_finite(t));
    EXPECT_TRUE(is_nan(t, saturate(t, NAN)));
  }
}

TEST(Floats, BellHasMeanZeroAndVarianceOne) {
  Choices c = Choices::seeded(3);
  double sum = 0, squares = 0;
  for (int n = 0; n < 100000; ++n) {
    const double x = bell(c);
    sum += x, squares += x * x;
  }
  EXPECT_NEAR(sum / 1e5, 0, 0.015);
  EXPECT_NEAR(squares / 1e5, 1, 0.02);
}

}  // namespace
}  // namespace attest
