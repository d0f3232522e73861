// floats.h: floats by bit class, so that the classes which uniform or normal draws never meet are met often.
//
// Guarantees: draw_class() returns bits of exactly that class in the type; signs are drawn, except that zero is
// +0 and negative_zero is -0.
// Example: uint32_t bits = draw_class(c, DType::f16, BitClass::subnormal);
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "properties/generate/choices.h"
#include "reference/formats.h"

namespace attest {

enum class BitClass : uint8_t {
  zero,
  one,           // +-1
  power_of_two,  // normal
  near_one,      // within four steps of +-1, not +-1
  moderate,      // 2^-4 <= |x| < 2^4
  small,         // normal, below 2^-4
  large,         // 2^4 and more
  negative_zero,
  subnormal,
  least_normal,  // within two steps of the least normal number, which is in both classes' neighbourhood
  largest,       // within two steps of the largest finite number
  infinity,
  nan
};
inline constexpr BitClass kFiniteClasses[] = {BitClass::zero,         BitClass::one,           BitClass::power_of_two,
                                              BitClass::near_one,     BitClass::moderate,      BitClass::small,
                                              BitClass::large,        BitClass::negative_zero, BitClass::subnormal,
                                              BitClass::least_normal, BitClass::largest};
std::string_view name_of(BitClass c);

uint32_t draw_class(Choices& c, DType type, BitClass bit_class);
uint32_t draw_finite(Choices& c, DType type);      // any finite class
uint32_t draw_non_finite(Choices& c, DType type);  // NaN or an infinity

bool is_nan(DType type, uint32_t bits);
bool is_finite(DType type, uint32_t bits);

// `value` rounded to `type` as from_double() does, but kept finite: beyond the largest finite number that number.
inline uint32_t saturate(DType type, double value) {
  // Nearly all contents lie well inside the normal range of every type, where rounding is one addition.
  const uint64_t u = std::bit_cast<uint64_t>(value), magnitude = u & ~(uint64_t{1} << 63);
  if (magnitude >= std::bit_cast<uint64_t>(0x1p-14) && magnitude < std::bit_cast<uint64_t>(0x1p15)) {
    const int drop = 53 - significand_bits(type);
    const uint64_t rounded = magnitude + ((uint64_t{1} << (drop - 1)) - 1) + ((magnitude >> drop) & 1);
    const int bias = type == DType::f16 ? 15 : 127;
    const uint64_t bits = (rounded - (static_cast<uint64_t>(1023 - bias) << 52)) >> drop;
    return static_cast<uint32_t>(bits) | (static_cast<uint32_t>(u >> 63) << (8 * size_of(type) - 1));
  }
  const uint32_t bits = from_double(type, value);
  return value != value || is_finite(type, bits) ? bits : bits - 1;  // below infinity lies the largest finite number
}

// Bell-shaped, for bulk contents: four uniforms, mean 0, variance 1, |x| < 3.47, from one word of bits.
inline double bell(Choices& c) {
  const uint64_t u = c.bits(64);
  const int64_t sum = static_cast<int64_t>(u & 0xFFFF) + static_cast<int64_t>((u >> 16) & 0xFFFF) -
                      static_cast<int64_t>((u >> 32) & 0xFFFF) - static_cast<int64_t>(u >> 48);
  return static_cast<double>(sum) * (1.7320508075688772 * 0x1p-16);
}

}  // namespace attest
