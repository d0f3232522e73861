// The steps of the recurrence, and the functions and number formats under them.
#include "kernel/recurrence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernel/numbers.h"
#include "kernel/testing/direct.h"
#include "reference/formats.h"

namespace attest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double relative(double got, long double want) { return static_cast<double>(std::fabs(got - want) / std::fabs(want)); }

TEST(Elementary, ExponentialIsWithinItsBound) {
  EXPECT_EQ(elementary::exp_nonpositive(0.0), 1.0);
  EXPECT_EQ(elementary::exp_nonpositive(-0.0), 1.0);
  EXPECT_EQ(elementary::exp_nonpositive(-kInfinity), 0.0);
  EXPECT_EQ(elementary::exp_nonpositive(-88.0), 0.0);
  EXPECT_TRUE(std::isnan(elementary::exp_nonpositive(NAN)));
  testing::Random random(1);
  for (int n = 0; n < 200000; ++n) {
    const double x = -std::ldexp(random.uniform(0, 1), static_cast<int>(random.below(40)) - 33);
    if (x < -87.3) continue;
    EXPECT_LT(relative(elementary::exp_nonpositive(x), std::exp(static_cast<long double>(x))), 0x1p-35) << x;
  }
}

TEST(Elementary, LogarithmIsWithinItsBound) {
  EXPECT_EQ(elementary::ln_of(1.0), 0.0);
  EXPECT_EQ(elementary::ln_of(0.0), -kInfinity);
  EXPECT_EQ(elementary::ln_of(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(elementary::ln_of(NAN)));
  testing::Random random(2);
  for (int n = 0; n < 200000; ++n) {
    const double x = std::ldexp(random.uniform(0.5, 1), static_cast<int>(random.below(60)) - 20);
    const long double exact = std::log(static_cast<long double>(x));
    EXPECT_LT(std::fabs(elementary::ln_of(x) - exact), 0x1p-50L * std::fmax(1.0L, std::fabs(exact))) << x;
  }
}

TEST(Elementary, TanhIsWithinItsBound) {
  EXPECT_EQ(elementary::tanh_of(0.0), 0.0);
  EXPECT_EQ(elementary::tanh_of(kInfinity), 1.0);
  EXPECT_EQ(elementary::tanh_of(-1e300), -1.0);
  EXPECT_TRUE(std::isnan(elementary::tanh_of(NAN)));
  testing::Random random(3);
  for (int n = 0; n < 200000; ++n) {
    const double x = std::ldexp(random.uniform(-1, 1), static_cast<int>(random.below(40)) - 34);
    if (x == 0) continue;
    EXPECT_LT(relative(elementary::tanh_of(x), std::tanh(static_cast<long double>(x))), 0x1p-34) << x;
  }
}

TEST(Numbers, EveryF16AndBf16WidensExactlyAndComesBack) {
  for (uint32_t u = 0; u < 0x10000; ++u) {
    const auto h = static_cast<uint16_t>(u);
    const double f16 = to_double(DType::f16, u), bf16 = to_double(DType::bf16, u);
    if (std::isnan(f16)) {
      EXPECT_TRUE(std::isnan(numbers::from_f16(h)) && std::isnan(numbers::from_f16(numbers::to_f16(numbers::from_f16(h))))) << u;
    } else {
      EXPECT_EQ(numbers::from_f16(h), f16) << u;
      EXPECT_EQ(numbers::to_f16(static_cast<float>(f16)), h);
    }
    if (std::isnan(bf16)) {
      EXPECT_TRUE(std::isnan(numbers::from_bf16(h)) && std::isnan(numbers::from_bf16(numbers::to_bf16(numbers::from_bf16(h))))) << u;
    } else {
      EXPECT_EQ(numbers::from_bf16(h), bf16) << u;
      EXPECT_EQ(numbers::to_bf16(static_cast<float>(bf16)), h);
    }
  }
}

TEST(Numbers, NarrowingRoundsOnceFromFloatAndFromDouble) {
  testing::Random random(4);
  for (int n = 0; n < 400000; ++n) {
    const auto x = numbers::float_of(static_cast<uint32_t>(random.bits()));
    if (std::isnan(x)) continue;
    EXPECT_EQ(numbers::to_f16(x), f16_from_float(x)) << x;
    EXPECT_EQ(numbers::to_bf16(x), bf16_from_float(x)) << x;
    // A double beside a tie, where rounding by way of f32 to nearest would go wrong.
    const double tie = to_double(DType::f16, static_cast<uint32_t>(random.below(0x7BFF)));
    const double up = to_double(DType::f16, f16_from_double(tie) + 1u);
    const double beside = (tie + up) / 2 * (1 + (random.chance(50) ? 0x1p-40 : -0x1p-40));
    EXPECT_EQ(numbers::to_f16(numbers::to_odd(beside)), f16_from_double(beside)) << beside;
  }
  for (DType t : kAllDTypes)
    EXPECT_EQ(numbers::largest_finite(t == DType::f32 ? ATTEST_F32 : t == DType::f16 ? ATTEST_F16 : ATTEST_BF16), largest_finite(t));
}

TEST(Recurrence, KeyRangeIsTheSetOfVisibleKeys) {
  for (int64_t rows = 1; rows <= 5; ++rows)
    for (int64_t length = 0; length <= 6; ++length)
      for (int causal = 0; causal < 2; ++causal)
        for (int64_t left = -1; left <= 7; ++left)
          for (int64_t right = -1; right <= 7; ++right)
            for (int64_t row = 0; row < rows; ++row) {
              const auto range = Recurrence::key_range(row, rows, length, causal != 0, left, right);
              const int64_t position = row + length - rows;
              for (int64_t j = 0; j < 8; ++j) {
                const bool expected = j < length && !(causal && j > position) && !(left >= 0 && position - j > left) && !(right >= 0 && j - position > right);
                EXPECT_EQ(j >= range.begin && j < range.end, expected) << "row " << row << " of " << rows << ", " << length << " keys, key " << j;
              }
            }
  const auto whole = Recurrence::key_range(0, 1, 5, false, INT64_MAX, INT64_MAX);
  EXPECT_EQ(whole.begin, 0);
  EXPECT_EQ(whole.end, 5);
}

TEST(Recurrence, NothingSeenYetIsNeverSubtracted) {
  EXPECT_EQ(Recurrence::rescale(-kInfinity, 3.0), 0.0f);
  EXPECT_EQ(Recurrence::rescale(-kInfinity, -kInfinity), 0.0f);
  EXPECT_EQ(Recurrence::weight(-kInfinity, -kInfinity), 0.0f);
  EXPECT_EQ(Recurrence::rescale(3.0, 3.0), 1.0f);
  EXPECT_EQ(Recurrence::normalise(0.0, 0.0f), 0.0);
  EXPECT_EQ(Recurrence::log_sum_exp(-kInfinity, 0.0f), -kInfinity);
}

TEST(Recurrence, NanWinsEveryMaximum) {
  for (double other : {-kInfinity, -1.0, 0.0, 1.0, kInfinity, static_cast<double>(NAN)}) {
    EXPECT_TRUE(std::isnan(Recurrence::maximum(NAN, other))) << other;
    EXPECT_TRUE(std::isnan(Recurrence::maximum(other, NAN))) << other;
  }
}

TEST(Recurrence, WithinTypeOnlyTouchesWhatOverran) {
  EXPECT_EQ(Recurrence::within_type(65530.0, true, 65504.0), 65504.0);
  EXPECT_EQ(Recurrence::within_type(-65530.0, true, 65504.0), -65504.0);
  EXPECT_EQ(Recurrence::within_type(1.5, true, 65504.0), 1.5);
  EXPECT_EQ(Recurrence::within_type(kInfinity, false, 65504.0), kInfinity);
  EXPECT_TRUE(std::isnan(Recurrence::within_type(NAN, true, 65504.0)));
}

}  // namespace
}  // namespace attest
