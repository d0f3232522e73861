#include "corpus/case_error.h"

#include <cstdint>

namespace attest {
namespace {

// Length of the well-formed UTF-8 sequence that starts `text` (RFC 3629), 0 if there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto continues = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!continues(1) || !continues(2)) return 0;
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool too_high = first == 0xF4 && byte(1) >= 0x90;
    return overlong || too_high ? 0 : 4;
  }
  return 0;
}

// U+0080 to U+009F and the line and paragraph separators: a terminal may act on them.
bool is_wide_control(std::string_view sequence) {
  if (sequence.size() == 2) return sequence[0] == '\xC2' && static_cast<uint8_t>(sequence[1]) < 0xA0;
  return sequence == "\xE2\x80\xA8" || sequence == "\xE2\x80\xA9";
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    size_t length = utf8_length(text.substr(i));
    const bool control = static_cast<uint8_t>(c) < 0x20 || c == 0x7F;
    if (length > 0 && !control && !is_wide_control(text.substr(i, length))) {
      out += text.substr(i, length);
      i += length;
      continue;
    }
    if (length == 0) length = 1;
    for (; length > 0; --length, ++i) {
      if (text[i] == '\n') {
        out += "\\n";
      } else if (text[i] == '\t') {
        out += "\\t";
      } else {
        const auto u = static_cast<uint8_t>(text[i]);
        out += {'\\', 'x', kHex[u >> 4], kHex[u & 15]};
      }
    }
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 60;
  size_t end = text.size();
  if (end > kLongest) {
    end = kLongest;
    // Not in the middle of a character.
    while (end > kLongest - 3 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  }
  std::string out(1, '"');
  out += printable(text.substr(0, end));
  out += end < text.size() ? "...\"" : "\"";
  return out;
}

void fail(std::string_view file, std::string_view field, std::string_view what) {
  std::string message;
  for (std::string_view part : {file, field, what}) {
    if (part.empty()) continue;
    if (!message.empty()) message += ": ";
    message += printable(part);
  }
  throw CaseError(message);
}

}  // namespace attest
