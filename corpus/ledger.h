// ledger.h: the known failures of kernels that are not ours, as files (corpus/ledger/README.md has the format and rules).
//
// Errors: read_ledger throws CaseError with one line that names the file and the line.
// Example: for (const LedgerEntry& e : read_ledger("corpus/ledger/their_kernel.tsv"))
//            if (e.covers("2.7.1")) ...
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "corpus/case_file.h"

namespace attest {

struct LedgerEntry {
  std::string first, last;  // versions, both included; "" is open
  std::string property, signature;
  std::string reason;       // a URL, or a case file relative to the findings
  std::string since;        // 2025-01-31
  std::string file;         // the case file that `reason` names, as it lies beside this ledger; "" for a URL
  std::string where;        // "their_kernel.tsv: line 3"

  bool covers(std::string_view version) const;
};

std::vector<LedgerEntry> read_ledger(const std::string& path);

// The ledger of one kernel in a folder of them: FOLDER/NAME.tsv, with '_' for what has no place in a file name.
std::string ledger_of(const std::string& folder, std::string_view kernel);

// Whether version a comes before b: their numbers, one after the other; what is no number compares as text.
bool earlier_version(std::string_view a, std::string_view b);

}  // namespace attest
