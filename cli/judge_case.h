// judge_case.h: a saved case judged once more.
#pragma once

#include <string>

#include "corpus/case_file.h"
#include "properties/verify.h"

namespace attest::cli {

inline constexpr const char* kPlain = "plain judging";

// One run of the kernel, every byte of memory checked, judged against the reference.
CaseResult judge_plainly(const Problem& problem, const PropertyContext& context);

// The report of a property, made where it is new.
PropertyReport& entry_of(VerifyReport& report, const std::string& property);

// Counts a result under its property's name, made where it is new. What the kernel does not take is counted as refused.
void count_result(VerifyReport& report, const std::string& property, CaseResult result);

}  // namespace attest::cli
