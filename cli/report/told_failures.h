// told_failures.h: which failures of a run are kept as files, shrunk, diagnosed and shown.
//
// Every property that failed has its first failure kept as a case that replays. Of the first kFullReports properties it is
// shrunk and diagnosed, which takes seconds; further signatures are kept as they were found, kDetails in all. What a report
// shows beyond what is printed takes at most 3 % of the run's time, or a fifth of a second.
#pragma once

#include <string>
#include <vector>

#include "cli/report/report.h"

namespace attest::cli {

inline constexpr size_t kFullReports = 3;

struct Telling {
  std::string text;                // for people
  std::vector<ToldFailure> told;   // for the report
};
// `examined`: whether the details of a report are wanted, too. Throws CaseError or filesystem_error where the cases cannot be kept.
Telling tell_failures(const VerifyReport& report, const FailureContext& context, bool examined);

// Diagnoses and examines cases that were kept already: the first kDetails of different property and signature, which come
// first; the others are dropped.
void examine_some(std::vector<ToldFailure>& told, const FailureContext& context);

}  // namespace attest::cli
