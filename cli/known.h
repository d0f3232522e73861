// known.h: a run beside the ledger of its kernel's known failures. corpus/ledger/README.md has the rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "corpus/ledger.h"
#include "properties/verify.h"

namespace attest::cli {

class Known {
 public:
  // The entries that apply to this kernel's version, of a file or of a folder of ledgers; none where `path` is "".
  // Stops where it, or a case of it, cannot be read.
  Known(const std::string& path, const Kernel& kernel);

  const std::vector<KnownFailure>& failures() const { return failures_; }

  // After a run of verify: judges the case of every entry whose property was run. One that passes is an unexpected pass,
  // which counts as a violation; so is an entry without a case whose failure a conclusive run never saw. Returns what to
  // say of them, a line each.
  std::string settle(const PropertyContext& context, VerifyReport& report) const;

  // For replay: excuses a known failure; a pass of an entry's own case becomes an unexpected pass.
  void weigh(const std::string& file, const std::string& property, CaseResult& result, PropertyReport& report) const;

 private:
  struct Entry {
    LedgerEntry entry;
    std::optional<Problem> problem;  // of its case; none for a URL
  };
  std::vector<Entry> entries_;
  std::vector<KnownFailure> failures_;
};

}  // namespace attest::cli
