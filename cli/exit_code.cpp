#include "cli/exit_code.h"

#include <fmt/format.h>

namespace attest::cli {

std::string exit_code_help() {
  std::string text = "Exit codes:\n";
  for (const ExitMeaning& e : kExitMeanings) text += fmt::format("  {}  {}\n", static_cast<int>(e.code), e.meaning);
  return text + "Where several apply, the first of 5, 3, 1, 4, 0.";
}

}  // namespace attest::cli
