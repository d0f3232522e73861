// formats.h: the number formats of Q, K, V and O, and exact conversions between them.
//
// Guarantees: every conversion here is correctly rounded (to nearest, ties to even) for every input,
// subnormals, overflow to infinity, infinities and NaN included; widening is exact. Integer arithmetic only,
// so rounding mode and flush-to-zero do not matter.
// Source: IEEE 754-2019, sections 3.4 and 4.3.1; bfloat16 is binary32 cut to 8 significand bits.
// Example: f16_from_double(65520.0) == 0x7C00 (infinity), to_double(DType::f16, 0x0001) == 0x1p-24.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace attest {

enum class DType : uint8_t { f32, f16, bf16 };
inline constexpr DType kAllDTypes[] = {DType::f32, DType::f16, DType::bf16};

constexpr int64_t size_of(DType t) { return t == DType::f32 ? 4 : 2; }  // bytes
std::string_view name_of(DType t);                                      // "f32", "f16", "bf16"
std::optional<DType> dtype_from_name(std::string_view name);

// Significand bits including the implicit one (24, 11, 8); exponent of the least normal (-126, -14, -126);
// exponent of the least subnormal (-149, -24, -133).
constexpr int significand_bits(DType t) { return t == DType::f32 ? 24 : t == DType::f16 ? 11 : 8; }
constexpr int min_normal_exponent(DType t) { return t == DType::f16 ? -14 : -126; }
constexpr int min_subnormal_exponent(DType t) { return min_normal_exponent(t) - (significand_bits(t) - 1); }
double largest_finite(DType t);
double least_normal(DType t);

// Bits to value, exactly; the low 16 or 32 bits are used. NaN stays NaN.
double to_double(DType t, uint32_t bits);
float f16_to_float(uint16_t bits);
float bf16_to_float(uint16_t bits);

// Value to the nearest bits, in one rounding.
uint32_t from_double(DType t, double value);
uint16_t f16_from_double(double value);
uint16_t bf16_from_double(double value);
uint32_t f32_from_double(double value);
uint16_t f16_from_float(float value);
uint16_t bf16_from_float(float value);

// `value` rounded to `t`, as a double.
double round_to(DType t, double value);

// Distance between neighbours of `t` at |value| (the unit in the last place, the least subnormal below the
// normal range); value finite.
double ulp_at(DType t, double value);

// Neighbour of a finite bit pattern of `t` in the direction of +inf (steps = 1) or -inf (-1), saturating at
// the largest finite value; passes through both zeros.
uint32_t step_bits(DType t, uint32_t bits, int steps);

}  // namespace attest
