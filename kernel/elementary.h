// elementary.h: e^x, ln and tanh from basic operations alone, for host and device.
//
// Guarantees: every host compiler, optimisation level, C library and processor gives the same bits, because only
// + - * / of doubles and integer operations take part. exp_nonpositive(x) is within 2^-35 relative for
// -126 ln 2 <= x <= 0, 1 at 0, and 0 below, where f32 has no normal numbers. ln_of(x) is within 2^-50 of
// max(1, |ln x|), ln_of(1) = 0. tanh_of is odd and within 2^-34 relative. NaN gives NaN.
// Example: exp_nonpositive(-0.0) == 1.0, tanh_of(1e300) == 1.0.
// Source: J.-M. Muller, "Elementary Functions" (range reduction, Taylor series); tanh near 0 by J. H. Lambert's
// continued fraction.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define ATTEST_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define ATTEST_HOST_DEVICE inline
#endif

namespace attest::elementary {

ATTEST_HOST_DEVICE uint64_t bits_of(double x) {
  uint64_t u;
  memcpy(&u, &x, 8);
  return u;
}
ATTEST_HOST_DEVICE double double_of(uint64_t u) {
  double x;
  memcpy(&x, &u, 8);
  return x;
}

// x = n ln 2 + r with |r| <= ln 2 / 2, then the series of e^r to r^9, whose rest is below 2^-35.
ATTEST_HOST_DEVICE double exp_nonpositive(double x) {
  if (x < -87.33654475055310) return 0.0;        // -126 ln 2
  constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer, left in the low bits
  const double shifted = x * 1.4426950408889634 + kShift;
  const double n = shifted - kShift;
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double e = 1.0 / 362880;
  e = e * r + 1.0 / 40320;
  e = e * r + 1.0 / 5040;
  e = e * r + 1.0 / 720;
  e = e * r + 1.0 / 120;
  e = e * r + 1.0 / 24;
  e = e * r + 1.0 / 6;
  e = e * r + 0.5;
  e = e * r + 1.0;
  e = e * r + 1.0;
  return x != x ? x : double_of(bits_of(e) + (bits_of(shifted) << 52));
}

// x >= 0, normal, 0, infinite or NaN.
ATTEST_HOST_DEVICE double ln_of(double x) {
  if (x == 0) return -static_cast<double>(INFINITY);
  if (!(x < static_cast<double>(INFINITY))) return x;
  // x = 2^n y with y in [sqrt(1/2), sqrt(2)), and ln y = 2 atanh z with z = (y - 1) / (y + 1), |z| < 0.172.
  const int64_t n = static_cast<int64_t>(bits_of(x) - bits_of(0.70710678118654752440)) >> 52;
  const double y = double_of(bits_of(x) - (static_cast<uint64_t>(n) << 52));
  const double z = (y - 1) / (y + 1), z2 = z * z;
  double series = 1.0 / 21;
  for (int k = 19; k >= 3; k -= 2) series = series * z2 + 1.0 / k;
  return static_cast<double>(n) * 0.69314718055994530942 + 2 * (z + z * (z2 * series));
}

ATTEST_HOST_DEVICE double tanh_of(double x) {
  const double a = fabs(x), a2 = a * a;
  double t;
  if (a < 1) {
    t = a / (1 + a2 / (3 + a2 / (5 + a2 / (7 + a2 / (9 + a2 / (11 + a2 / 13))))));
  } else {
    const double e = exp_nonpositive(-2 * a);
    t = (1 - e) / (1 + e);
  }
  return copysign(t, x);
}

}  // namespace attest::elementary
