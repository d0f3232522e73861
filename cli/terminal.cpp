#include "cli/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cli/arguments.h"

namespace attest::cli {

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
