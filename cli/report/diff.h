// diff.h: what changed between two reports.
//
// Runs are held to each other by the kernel's name; two reports of one run each, whatever the names. Of each property:
// newly fails, fails in a new way (a signature that the first did not have), newly passes, is no longer judged, and moves.
// An error moves where the mean of log2 of the largest error / bound of the kParts parts of a run differs by more than
// kSigmas standard errors (Welch) and by more than 5 %: what parts of one run differ by is chance. Two runs of very unlike
// numbers of cases (more than a factor of two) are not compared so, for the largest of more cases is larger.
// Speed is cases per second of all threads, harness included, and told where it changed by more than a tenth; it says
// little on a busy machine.
// Example: Diff d = diff(read_report("old"), read_report("new")); if (d.newly_fails()) ...
#pragma once

#include <string>
#include <vector>

#include "cli/report/report.h"

namespace attest::cli {

inline constexpr double kSigmas = 5;

struct Change {
  enum class Kind { newly_fails, new_signature, newly_inconclusive, not_judged, error_moved, newly_passes, newly_judged, speed } kind;
  std::string kernel, property;  // property "" for a whole run
  std::string was, is;
};
std::string_view name_of(Change::Kind kind);

struct Diff {
  std::vector<Change> changes;  // in the order of Kind
  int64_t compared = 0;         // properties that both hold
  std::vector<std::string> alone;  // kernels that only one of the two has
  bool newly_fails() const;
};

Diff diff(const Data& a, const Data& b);

std::string diff_text(const Diff& d);
std::string diff_page(const Diff& d, const std::string& a, const std::string& b);

}  // namespace attest::cli
