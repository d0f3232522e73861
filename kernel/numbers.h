// numbers.h: f16 and bf16 on kernels' own account, for host and device: widening is exact, narrowing rounds to nearest,
// ties to even, NaN stays NaN. Integer operations only.
#pragma once

#include "kernel/abi/attest_kernel.h"
#include "kernel/elementary.h"

namespace attest::numbers {

ATTEST_HOST_DEVICE uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}
ATTEST_HOST_DEVICE float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

ATTEST_HOST_DEVICE float from_bf16(uint16_t u) { return float_of(static_cast<uint32_t>(u) << 16); }

// Without a branch, so that loops over it become vector code: the product moves the exponent, exact for subnormals
// too; infinities and NaN get their exponent back.
ATTEST_HOST_DEVICE float from_f16(uint16_t h) {
  const uint32_t rest = static_cast<uint32_t>(h & 0x7FFF) << 13;
  const uint32_t special = rest >= (0x7C00u << 13) ? 0x7F800000u : 0u;
  return float_of(bits_of(float_of(rest) * 5.192296858534828e33f) | special | static_cast<uint32_t>(h & 0x8000) << 16);  // 2^112
}

ATTEST_HOST_DEVICE uint16_t to_bf16(float x) {
  const uint32_t u = bits_of(x);
  if ((u & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((u >> 16) | 0x40);
  return static_cast<uint16_t>((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
}

ATTEST_HOST_DEVICE uint16_t to_f16(float x) {
  const uint32_t u = bits_of(x);
  const uint32_t sign = (u >> 16) & 0x8000;
  const uint32_t rest = u & 0x7FFFFFFF;
  if (rest > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00);
  if (rest >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);  // 65520 and above round to infinity
  if (rest >= 0x38800000) {                                              // 2^-14 and above: normal
    const uint32_t shifted = rest - 0x38000000;
    return static_cast<uint16_t>(sign | ((shifted + 0xFFF + ((shifted >> 13) & 1)) >> 13));
  }
  if (rest < 0x33000000) return static_cast<uint16_t>(sign);  // below 2^-25
  const int drop = 126 - static_cast<int>(rest >> 23);        // bits below the unit 2^-24
  const uint32_t significand = (rest & 0x7FFFFF) | 0x800000;
  const uint32_t kept = significand >> drop, cut = significand & ((1u << drop) - 1), half = 1u << (drop - 1);
  return static_cast<uint16_t>(sign | (kept + (cut > half || (cut == half && (kept & 1)) ? 1 : 0)));
}

// Largest finite value of an attest_type.
ATTEST_HOST_DEVICE double largest_finite(int32_t type) {
  return type == ATTEST_F16 ? 65504.0 : static_cast<double>(float_of(type == ATTEST_BF16 ? 0x7F7F0000u : 0x7F7FFFFFu));
}

// A double to f32 without losing that it lay beside a tie of a narrower type: rounded to odd, so that a second
// rounding to f16 or bf16 is the one rounding of the double.
ATTEST_HOST_DEVICE float to_odd(double x) {
  float f = static_cast<float>(x);
  if (static_cast<double>(f) == x || x != x) return f;
  uint32_t u = bits_of(f);
  if ((u & 0x7FFFFFFF) == 0x7F800000) return f;  // beyond f32: infinity in every narrower type too
  if (fabs(static_cast<double>(f)) > fabs(x)) u -= 1;  // toward zero
  return float_of(u | 1);
}

}  // namespace attest::numbers
