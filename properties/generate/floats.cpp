#include "properties/generate/floats.h"

namespace attest {

namespace {

struct Pattern {
  int fraction_bits;   // stored significand bits
  uint32_t sign;       // sign bit
  uint32_t exponents;  // largest exponent field: infinities and NaN
  uint32_t bias;

  explicit Pattern(DType t)
      : fraction_bits(significand_bits(t) - 1),
        sign(1u << (size_of(t) * 8 - 1)),
        exponents((sign >> fraction_bits) - 1),
        bias(exponents / 2) {}
  uint32_t fraction_mask() const { return (1u << fraction_bits) - 1; }
  uint32_t infinity() const { return exponents << fraction_bits; }
};

}  // namespace

std::string_view name_of(BitClass c) {
  switch (c) {
    case BitClass::zero:
      return "zero";
    case BitClass::one:
      return "one";
    case BitClass::power_of_two:
      return "power_of_two";
    case BitClass::near_one:
      return "near_one";
    case BitClass::moderate:
      return "moderate";
    case BitClass::small:
      return "small";
    case BitClass::large:
      return "large";
    case BitClass::negative_zero:
      return "negative_zero";
    case BitClass::subnormal:
      return "subnormal";
    case BitClass::least_normal:
      return "least_normal";
    case BitClass::largest:
      return "largest";
    case BitClass::infinity:
      return "infinity";
    case BitClass::nan:
      return "nan";
  }
  return "";
}

uint32_t draw_class(Choices& c, DType type, BitClass bit_class) {
  const Pattern p(type);
  if (bit_class == BitClass::zero) return 0;
  if (bit_class == BitClass::negative_zero) return p.sign;
  const uint32_t sign = c.bits(1) ? p.sign : 0;
  const auto exponent = [&](uint32_t lo, uint32_t hi) {
    return static_cast<uint32_t>(c.between(lo, hi)) << p.fraction_bits;
  };
  const auto with_fraction = [&](uint32_t exponent_bits) {
    return sign | exponent_bits | static_cast<uint32_t>(c.bits(p.fraction_bits));
  };
  switch (bit_class) {
    case BitClass::zero:
    case BitClass::negative_zero:
      break;
    case BitClass::one:
      return sign | (p.bias << p.fraction_bits);
    case BitClass::power_of_two:
      return sign | exponent(1, p.exponents - 1);
    case BitClass::near_one: {
      const auto steps = static_cast<uint32_t>(c.between(1, 4));
      return sign | (c.bits(1) ? (p.bias << p.fraction_bits) - steps : (p.bias << p.fraction_bits) + steps);
    }
    case BitClass::moderate:
      return with_fraction(exponent(p.bias - 4, p.bias + 3));
    case BitClass::small:
      return with_fraction(exponent(1, p.bias - 5));
    case BitClass::large:
      return with_fraction(exponent(p.bias + 4, p.exponents - 1));
    case BitClass::subnormal:
      return sign | static_cast<uint32_t>(c.between(1, p.fraction_mask()));
    case BitClass::least_normal:
      return sign | ((1u << p.fraction_bits) - 2 + static_cast<uint32_t>(c.below(5)));
    case BitClass::largest:
      return sign | (p.infinity() - 1 - static_cast<uint32_t>(c.below(3)));
    case BitClass::infinity:
      return sign | p.infinity();
    case BitClass::nan:
      return sign | p.infinity() | static_cast<uint32_t>(c.between(1, p.fraction_mask()));
  }
  return 0;
}

uint32_t draw_finite(Choices& c, DType type) { return draw_class(c, type, c.pick(kFiniteClasses)); }

uint32_t draw_non_finite(Choices& c, DType type) {
  return draw_class(c, type, c.bits(1) ? BitClass::infinity : BitClass::nan);
}

bool is_nan(DType type, uint32_t bits) {
  const Pattern p(type);
  return (bits & (p.sign - 1)) > p.infinity();
}

bool is_finite(DType type, uint32_t bits) {
  const Pattern p(type);
  return (bits & (p.sign - 1)) < p.infinity();
}

}  // namespace attest
