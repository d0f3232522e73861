#include "cli/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cli/arguments.h"

namespace attest::cli {

namespace {

// The bytes of the UTF-8 character that begins at `at`; 0 where none does. Overlong forms and surrogates are none.
size_t character_at(const std::string& text, size_t at) {
  const auto byte = [&](size_t n) { return n < text.size() ? static_cast<uint8_t>(text[n]) : uint8_t{0}; };
  const uint8_t first = byte(at);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (size_t n = 1; n < length; ++n)
    if ((byte(at + n) & 0xC0) != 0x80) return 0;
  const uint8_t second = byte(at + 1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return 0;
  return length;
}

}  // namespace

bool colours(std::FILE* file) {
  if (isatty(fileno(file)) == 0) return false;
  const char* none = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (none == nullptr || *none == '\0') && term != nullptr && std::string_view(term) != "dumb";
}

std::string painted(const std::string& text, Colour colour, bool on) {
  if (!on) return text;
  const int code = colour == Colour::red ? 31 : colour == Colour::yellow ? 33 : 32;
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

std::string printable(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_at(text, at);
    const auto byte = static_cast<uint8_t>(text[at]);
    // C1 controls (U+0080 to U+009F) start escape sequences, too.
    const bool control = byte < 0x20 || byte == 0x7F || (length == 2 && byte == 0xC2 && static_cast<uint8_t>(text[at + 1]) < 0xA0);
    if (length > 0 && !control) {
      out += text.substr(at, length);
      at += length;
      continue;
    }
    for (size_t n = 0; n < std::max<size_t>(length, 1); ++n, ++at) {
      const auto b = static_cast<uint8_t>(text[at]);
      out += b == '\n' ? "\\n" : b == '\t' ? "\\t" : fmt::format("\\x{:02x}", b);
    }
  }
  return out;
}

ReservedStdout::ReservedStdout(bool reserve) {
  if (!reserve) return;
  std::fflush(stdout);
  kept_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (kept_ < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) throw Stop(Exit::usage, fmt::format("stdout cannot be kept for JSON: {}", std::strerror(errno)));
}

ReservedStdout::~ReservedStdout() {
  if (kept_ >= 0) close(kept_);
}

void ReservedStdout::put(const std::string& text) {
  std::fflush(stdout);
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(kept_, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Stop(Exit::usage, fmt::format("cannot write to stdout: {}", std::strerror(errno)));
    at += static_cast<size_t>(n);
  }
}

}  // namespace attest::cli
