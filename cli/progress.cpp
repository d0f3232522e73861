#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/run_summary.h"

namespace attest::cli {

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0) {}

std::string progress_text(const Progress& p) {
  const double rate = p.seconds > 0 ? static_cast<double>(p.cases) / p.seconds : 0;
  std::string text = p.total > 0 ? fmt::format("{} of {} cases", p.cases, p.total) : fmt::format("{} cases", p.cases);
  text += fmt::format(", {:.0f}/s", rate);
  if (p.violations > 0)
    text += fmt::format(", {} violation{} of {} signature{}", p.violations, p.violations == 1 ? "" : "s", p.signatures, p.signatures == 1 ? "" : "s");
  text += fmt::format(", worst err/bound {}", figure(p.worst_ratio));
  // Cases differ in size, but properties take turns, so that the rate holds.
  const double left = p.until > 0 ? std::max(0.0, p.until - p.seconds) : p.total > 0 && rate > 0 ? static_cast<double>(p.total - p.cases) / rate : -1;
  if (left >= 0) text += left < 120 ? fmt::format(", {:.0f} s left", left) : left < 7200 ? fmt::format(", {:.0f} min left", left / 60) : fmt::format(", {:.1f} h left", left / 3600);
  return text + fmt::format(", {}", p.property);
}

void ProgressLine::operator()(const Progress& p) {
  if (!terminal_ && p.seconds < next_plain_) return;
  next_plain_ = p.seconds + 10;
  const std::string line = progress_text(p);
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
