// judge_problem.h: one run of a kernel, all memory checks, and the judge's verdict; the figures go to the feedback.
#pragma once

#include "fuzz/finding.h"

namespace attest::fuzz {

Judged judge_problem(const Kernel& kernel, const Problem& problem);

}  // namespace attest::fuzz
