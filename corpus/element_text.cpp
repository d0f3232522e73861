#include "corpus/element_text.h"

#include <locale.h>
#include <stdlib.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

namespace attest {
namespace {

int hex_digits(DType type) { return static_cast<int>(2 * size_of(type)); }

uint32_t plain_nan(DType type) { return from_double(type, std::numeric_limits<double>::quiet_NaN()) & ~(1u << (8 * size_of(type) - 1)); }

std::string hex_text(DType type, uint32_t bits) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text = "0x";
  for (int digit = hex_digits(type) - 1; digit >= 0; --digit) text += kHex[(bits >> (4 * digit)) & 15];
  return text;
}

// "-d.ddde+XX" as a person would write it: positional for moderate exponents.
std::string readable(std::string_view scientific) {
  const bool negative = scientific.front() == '-';
  if (negative) scientific.remove_prefix(1);
  const size_t e = scientific.find('e');
  std::string digits;
  for (char c : scientific.substr(0, e))
    if (c != '.') digits += c;
  std::string_view exponent_text = scientific.substr(e + 1);
  if (exponent_text.front() == '+') exponent_text.remove_prefix(1);
  int exponent = 0;
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);

  const int count = static_cast<int>(digits.size());
  std::string text(negative ? 1 : 0, '-');
  if (exponent >= 0 && exponent < 9) {
    if (count < exponent + 1) digits.append(static_cast<size_t>(exponent + 1 - count), '0');
    text += digits.substr(0, static_cast<size_t>(exponent) + 1);
    if (count > exponent + 1) text.append(1, '.').append(digits, static_cast<size_t>(exponent) + 1);
  } else if (exponent < 0 && exponent >= -5) {
    text.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(digits);
  } else {
    text += digits[0];
    if (count > 1) text.append(1, '.').append(digits, 1);
    text.append(1, 'e').append(std::to_string(exponent));
  }
  return text;
}

}  // namespace

std::string shortest_decimal(double value, const std::function<bool(double)>& same) {
  if (value == 0) return std::signbit(value) ? "-0.0" : "0";
  char buffer[40];
  std::string_view text;
  for (int precision = 0; precision <= 16; ++precision) {  // 17 digits tell every double apart
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific, precision).ptr;
    text = std::string_view(buffer, static_cast<size_t>(end - buffer));
    if (same(decimal_from_text(text).value())) break;
  }
  return readable(text);
}

std::string element_text(DType type, uint32_t bits) {
  const double value = to_double(type, bits);
  if (std::isnan(value)) return bits == plain_nan(type) ? "nan" : hex_text(type, bits);
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return shortest_decimal(value, [type, bits](double back) { return from_double(type, back) == bits; });
}

std::optional<uint32_t> element_from_text(DType type, std::string_view text) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (text == "inf") return from_double(type, kInf);
  if (text == "-inf") return from_double(type, -kInf);
  if (text == "nan") return plain_nan(type);
  if (text.size() != static_cast<size_t>(2 + hex_digits(type)) || !text.starts_with("0x")) return std::nullopt;
  uint32_t bits = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return bits;
}

std::optional<uint32_t> element_from_number(DType type, double value) {
  const uint32_t bits = from_double(type, value);
  if (!std::isfinite(to_double(type, bits))) return std::nullopt;
  return bits;
}

bool is_number_text(std::string_view text) {
  const char last = text.back();
  return last >= '0' && last <= '9' && !text.starts_with("0x");
}

std::string float_text(float value) { return element_text(DType::f32, std::bit_cast<uint32_t>(value)); }

std::optional<double> decimal_from_text(std::string_view text) {
#if __cpp_lib_to_chars >= 201611L
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
#else  // libc++ before 20 reads no floating point: the C library, in the C locale, and only what from_chars would take
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  if (text.empty() || text.find_first_of(" \t\n\v\f\r+xX", 0) == 0 || text.find_first_of("xX") != text.npos) return std::nullopt;
  const std::string terminated(text);
  char* end = nullptr;
  errno = 0;
  const double value = strtod_l(terminated.c_str(), &end, c_locale);
  const bool out_of_range = errno == ERANGE && (value == 0 || std::isinf(value));
  if (out_of_range || end != terminated.c_str() + terminated.size()) return std::nullopt;
  return value;
#endif
}

std::optional<float> float_from_text(std::string_view text) {
  const std::optional<double> value = decimal_from_text(text);
  if (!value) return std::nullopt;
  const std::optional<uint32_t> bits = element_from_number(DType::f32, *value);
  if (!bits) return std::nullopt;
  return std::bit_cast<float>(*bits);
}

}  // namespace attest
