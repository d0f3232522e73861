// element_text.h: elements of tensors as text, exactly.
//
// Guarantee: element_from_text and element_from_number give back the bits that element_text wrote, for every bit
// pattern. A finite value is the shortest decimal that reads back to it in its own type (0.1 in bf16 is "0.1",
// although the stored value is 0.10009765625); -0 is "-0.0"; infinities are "inf" and "-inf"; the quiet NaN without
// payload is "nan"; every other NaN is its bits in hexadecimal, "0x7fc1".
// Example: element_text(DType::bf16, 0x3dcd) == "0.1", element_text(DType::f16, 0xfe01) == "0xfe01".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "reference/formats.h"

namespace attest {

// Without quotes: a number, or one of the words above.
std::string element_text(DType type, uint32_t bits);

// The words inf, -inf, nan and hexadecimal bits with all their digits; nullopt for anything else.
std::optional<uint32_t> element_from_text(DType type, std::string_view text);

// A decimal, rounded to the type; nullopt if it is finite and the type cannot hold it.
std::optional<uint32_t> element_from_number(DType type, double value);

// The shortest decimal of a finite value that `same` accepts when it is read back; positional for moderate exponents.
// `same` must accept the value itself.
std::string shortest_decimal(double value, const std::function<bool(double)>& same);

// True where element_text gave a JSON number and not a word.
bool is_number_text(std::string_view text);

// The whole text as a decimal, nearest double; inf and nan too; nullopt for anything else.
std::optional<double> decimal_from_text(std::string_view text);

// The shortest decimal that reads back to a finite f32, and the way back ("1e-3", "-0.0"; no words).
std::string float_text(float value);
std::optional<float> float_from_text(std::string_view text);

}  // namespace attest
