#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/run_summary.h"

namespace attest::cli {

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressLine::operator()(const Progress& p) {
  if (!terminal_ && p.seconds < next_plain_) return;
  next_plain_ = p.seconds + 10;
  const std::string total = p.total > 0 ? fmt::format(" of {}", p.total) : "";
  const std::string line = fmt::format("{}{} cases, {:.0f} s, {} violation{}, worst err/bound {}, {}", p.cases, total, p.seconds, p.violations,
                                       p.violations == 1 ? "" : "s", figure(p.worst_ratio), p.property);
  if (terminal_)
    fmt::print(stderr, "\r\033[K{:.99}", line);
  else
    fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
  shown_ = terminal_;
}

void ProgressLine::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace attest::cli
