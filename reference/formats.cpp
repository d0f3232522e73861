#include "reference/formats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace attest {

std::string_view name_of(DType t) {
  return t == DType::f32 ? "f32" : t == DType::f16 ? "f16" : "bf16";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (DType t : kAllDTypes)
    if (name_of(t) == name) return t;
  return std::nullopt;
}

double least_normal(DType t) { return t == DType::f16 ? 0x1p-14 : 0x1p-126; }

double largest_finite(DType t) {
  switch (t) {
    case DType::f32: return 0x1.fffffep127;
    case DType::f16: return 65504.0;
    case DType::bf16: return 0x1.fep127;
  }
  return 0;
}

namespace {

struct Fields {
  int significand;  // stored significand bits
  int exponent;     // exponent bits
};

constexpr Fields fields_of(DType t) {
  return t == DType::f32 ? Fields{23, 8} : t == DType::f16 ? Fields{10, 5} : Fields{7, 8};
}

}  // namespace

double to_double(DType t, uint32_t bits) {
  const auto [s, e] = fields_of(t);
  const uint64_t sign = uint64_t{(bits >> (s + e)) & 1u} << 63;
  const uint32_t exponent = (bits >> s) & ((1u << e) - 1);
  const uint64_t fraction = bits & ((1u << s) - 1);
  const int bias = (1 << (e - 1)) - 1;
  if (exponent == (1u << e) - 1)  // infinity or NaN, payload kept and made quiet
    return std::bit_cast<double>(sign | 0x7FF0000000000000u | (fraction ? (fraction << (52 - s)) | (uint64_t{1} << 51) : 0));
  if (exponent == 0) {
    if (fraction == 0) return std::bit_cast<double>(sign);
    const int top = 63 - std::countl_zero(fraction);  // position of the leading bit
    const uint64_t biased = static_cast<uint64_t>(top - s + 1 - bias + 1023);
    return std::bit_cast<double>(sign | (biased << 52) | ((fraction << (52 - top)) & ((uint64_t{1} << 52) - 1)));
  }
  const uint64_t biased = static_cast<uint64_t>(static_cast<int>(exponent) - bias + 1023);
  return std::bit_cast<double>(sign | (biased << 52) | (fraction << (52 - s)));
}

uint32_t from_double(DType t, double value) {
  const auto [s, e] = fields_of(t);
  const uint64_t u = std::bit_cast<uint64_t>(value);
  const uint32_t sign = static_cast<uint32_t>(u >> 63) << (s + e);
  const uint32_t infinity = ((1u << e) - 1) << s;
  const int exponent = static_cast<int>((u >> 52) & 0x7FF);
  const uint64_t fraction = u & ((uint64_t{1} << 52) - 1);
  if (exponent == 0x7FF) {
    if (fraction == 0) return sign | infinity;
    return sign | infinity | (1u << (s - 1)) | static_cast<uint32_t>(fraction >> (52 - s));
  }
  if (exponent == 0) return sign;  // a double's subnormals lie far below half of the least subnormal here
  const int bias = (1 << (e - 1)) - 1;
  const uint64_t significand = fraction | (uint64_t{1} << 52);
  int biased = exponent - 1023 + bias;  // exponent field in the narrow format, if normal
  int drop = 52 - s;
  if (biased < 1) {
    drop += 1 - biased;
    biased = 0;
    if (drop > 53) return sign;  // below half of the least subnormal
  }
  const uint64_t kept = significand >> drop;
  const uint64_t rest = significand & ((uint64_t{1} << drop) - 1);
  const uint64_t half = uint64_t{1} << (drop - 1);
  // With the implicit bit in `kept`, adding the exponent field minus one makes carries fall into place.
  uint64_t result = biased == 0 ? kept : kept + (static_cast<uint64_t>(biased - 1) << s);
  if (rest > half || (rest == half && (kept & 1))) ++result;
  if (result >= infinity) return sign | infinity;
  return sign | static_cast<uint32_t>(result);
}

float f16_to_float(uint16_t bits) { return static_cast<float>(to_double(DType::f16, bits)); }
float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
uint16_t f16_from_double(double value) { return static_cast<uint16_t>(from_double(DType::f16, value)); }
uint16_t bf16_from_double(double value) { return static_cast<uint16_t>(from_double(DType::bf16, value)); }
uint32_t f32_from_double(double value) { return from_double(DType::f32, value); }
uint16_t f16_from_float(float value) { return f16_from_double(to_double(DType::f32, std::bit_cast<uint32_t>(value))); }
uint16_t bf16_from_float(float value) { return bf16_from_double(to_double(DType::f32, std::bit_cast<uint32_t>(value))); }

double round_to(DType t, double value) { return to_double(t, from_double(t, value)); }

double ulp_at(DType t, double value) {
  const int field = static_cast<int>(std::bit_cast<uint64_t>(value) >> 52) & 0x7FF;
  if (field == 0x7FF) return std::fabs(value);
  const int least = min_subnormal_exponent(t), exponent = std::max(least, field - 1023 - (significand_bits(t) - 1));
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

uint32_t step_bits(DType t, uint32_t bits, int steps) {
  const auto [s, e] = fields_of(t);
  const uint32_t sign_bit = 1u << (s + e);
  const int64_t largest = static_cast<int64_t>(((1u << e) - 1) << s) - 1;
  int64_t ordered = (bits & sign_bit) ? -static_cast<int64_t>(bits & (sign_bit - 1)) : static_cast<int64_t>(bits);
  ordered += steps;
  if (ordered > largest) ordered = largest;
  if (ordered < -largest) ordered = -largest;
  return ordered < 0 ? sign_bit | static_cast<uint32_t>(-ordered) : static_cast<uint32_t>(ordered);
}

}  // namespace attest
