// run_summary.h: a finished run of verify or replay, as text for people and as JSON for programs.
//
// Text fits 100 columns. JSON holds what section 7 of the contract lists; a figure that is not finite is the
// string "inf" or "nan". Two runs of one seed give the same JSON except `seconds` and `environment`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "properties/verify.h"

namespace attest::cli {

struct RunSummary {
  const Kernel& kernel;
  const VerifyReport& report;
  Contract contract = Contract::strict;
  std::optional<uint64_t> seed;  // none: the cases came from files
  std::string command;           // repeats the run
  const Kernel* baseline = nullptr;  // that every case was compared with
};

std::string property_table(const RunSummary& run, bool colour = false);  // colour: for a terminal
std::string mix_text(const RunSummary& run);      // what the cases were like
std::string regime_text(const RunSummary& run);   // every regime with its count
std::string totals_text(const RunSummary& run);   // rows out of range, loose share, rows decided exactly
std::string baseline_text(const RunSummary& run); // how the kernel's outputs differ from the baseline's; "" without one
std::string verdict_line(const RunSummary& run);
std::string known_text(const VerifyReport& report);  // "; 3 known failures", "" where there are none
nlohmann::ordered_json figures(const RunSummary& run);
std::string to_json(const RunSummary& run);  // the same as text
// As JSON takes it: a figure that is not finite is a string.
nlohmann::ordered_json json_figure(double x);
// JSON as text, two spaces a level. Bytes that are no UTF-8 become U+FFFD.
std::string json_text(const nlohmann::ordered_json& all);

// Whether some kept failure is a crash or a hang.
bool crashed(const VerifyReport& report);

// "1.23", "4.5e-07", "inf", "nan".
std::string figure(double x);

}  // namespace attest::cli
