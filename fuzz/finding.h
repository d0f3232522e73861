// finding.h: what becomes of a violation that a fuzz target meets.
//
// Its life: a target's judge rejects a problem; found() names its signature. Where the environment variable
// ATTEST_FINDINGS names a folder that holds a case of that signature, it is known and the run goes on. Otherwise it is
// shrunk, two seconds at most, while its signature stays, described on stderr together with the line that replays it,
// saved there as a case file (without the variable nothing is saved), and the process aborts, as libFuzzer expects. A
// kernel that crashes leaves no verdict: keep_crash() runs an input of libFuzzer's in child processes, shrinks it as
// long as the child dies, and saves it in the same way.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "kernel/runner/kernel.h"
#include "reference/problem.h"
#include "reference/verdict.h"

namespace attest::fuzz {

// A verdict, and the property by which `attest replay` repeats it; "" judges plainly.
struct Judged {
  Verdict verdict;
  std::string_view property = "";
};

// How a target judges, and its kernel as `attest replay --kernel` takes it.
struct Judging {
  std::string kernel_word;
  std::function<Judged(const Problem&)> judge;
};

// Returns where the finding is known; aborts otherwise.
void found(const Problem& problem, const Judged& judged, const Judging& judging);

// 0 where the problem crashes its child and its case is in `folder` now, 1 where it does not crash, 2 for a file that
// cannot be written.
int keep_crash(const Problem& problem, const Judging& judging, const std::string& folder);

}  // namespace attest::fuzz
