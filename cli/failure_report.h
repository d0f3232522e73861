// failure_report.h: what is told and kept of one failure.
//
// In the order of section 7 of the contract: verdict, property and signature; the diagnosis; the error table; the shrunk case in
// words; the line that replays it; the environment. The shrunk case and the case as it was found are written to
// files, so that the report never depends on a seed alone.
// Example: fputs(failure_report(failure, keep(failure, run), run).c_str(), stdout);
#pragma once

#include <string>

#include "properties/verify.h"

namespace attest::cli {

struct FailureContext {
  const Kernel& kernel;
  std::string kernel_words;  // the options that choose it
  Contract contract = Contract::strict;
  bool exact = false;
  std::string folder;       // where the case files go; made if missing
};

struct KeptFailure {
  Problem shrunk;
  Verdict verdict;                      // on the shrunk case
  std::string found_file, shrunk_file;  // paths; the same where it was not shrunk
  std::string signature;
  int64_t attempts = 0;                 // cases tried while shrinking
  bool repeats = true;                  // false: the same case passed when it was run again
  std::string diagnosis;                // which fault explains it, in words
};

// Shrinks the failure, two seconds at most, diagnoses it, and writes both cases. Throws CaseError if they cannot be written.
KeptFailure keep(const Failure& failure, const FailureContext& context);
// Writes the case as it was found, and no more.
KeptFailure keep_as_found(const Failure& failure, const FailureContext& context);

// Writes what a lost worker was asked to run, as a case that is judged plainly, and returns its path. Of one case the last
// call counts. Throws CaseError if it cannot be written.
std::string keep_lost(const LostCall& call, const FailureContext& context);

std::string failure_report(const Failure& failure, const KeptFailure& kept, const FailureContext& context);

// Which fault explains the failure, in words; two seconds at most. "" for a crash or a hang.
std::string diagnosis_of(const Failure& failure, const FailureContext& context);

// The command that judges the kept case again.
std::string replay_line(const KeptFailure& kept, const FailureContext& context);

// Count, buckets by error over bound, and the worst ten elements.
std::string error_table(const Verdict& verdict);

}  // namespace attest::cli
