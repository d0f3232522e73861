#include "kernel/runner/one_line.h"

#include <algorithm>

namespace attest {

namespace {

// Bytes of the UTF-8 character that `text` begins with, 0 if it begins with none.
size_t character(std::string_view text) {
  const auto byte = [&](size_t n) { return static_cast<unsigned char>(text[n]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80 ? 1 : first >= 0xC2 && first < 0xE0 ? 2 : first >= 0xE0 && first < 0xF0 ? 3 : first >= 0xF0 && first < 0xF5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t n = 1; n < length; ++n)
    if ((byte(n) & 0xC0) != 0x80) return 0;
  if (length < 3) return length;
  // Overlong forms, surrogates, and what is past the last character.
  const unsigned char second = byte(1);
  const bool good = first == 0xE0 ? second >= 0xA0 : first == 0xED ? second < 0xA0 : first == 0xF0 ? second >= 0x90 : first == 0xF4 ? second < 0x90 : true;
  return good ? length : 0;
}

bool control(std::string_view c) {
  const auto first = static_cast<unsigned char>(c[0]);
  return c.size() == 1 ? first < 0x20 || first == 0x7F : first == 0xC2 && static_cast<unsigned char>(c[1]) < 0xA0;  // C0, DEL; C1
}

}  // namespace

std::string one_line(std::string_view text, size_t most) {
  std::string line;
  while (!text.empty()) {
    const size_t length = character(text);
    const std::string_view c = text.substr(0, std::max<size_t>(length, 1));
    const std::string shown = length == 0 ? "?" : control(c) ? " " : std::string(c);
    if (line.size() + shown.size() > most) return line + "...";
    line += shown;
    text.remove_prefix(c.size());
  }
  return line;
}

}  // namespace attest
