// exit_code.h: what the exit codes of `attest` mean; the one place, help texts and documents are tested against it.
#pragma once

#include <string>
#include <string_view>

namespace attest::cli {

enum class Exit : int { holds = 0, violation = 1, usage = 2, crash = 3, inconclusive = 4, self_check = 5 };

struct ExitMeaning {
  Exit code;
  std::string_view meaning;
};

inline constexpr ExitMeaning kExitMeanings[] = {
    {Exit::holds, "everything that was checked holds"},
    {Exit::violation, "a violation"},
    {Exit::usage, "bad usage, or a bad file or plug-in"},
    {Exit::crash, "the kernel crashed or hung"},
    {Exit::inconclusive, "no such device, nothing matched, or a property is inconclusive"},
    {Exit::self_check, "attest failed its own check"},
};

// Of two outcomes of one command, the one that it exits with: the first of 5, 3, 1, 4, 0. Bad usage stops a command
// before it has any other outcome.
constexpr Exit graver(Exit a, Exit b) {
  for (Exit e : {Exit::usage, Exit::self_check, Exit::crash, Exit::violation, Exit::inconclusive})
    if (a == e || b == e) return e;
  return Exit::holds;
}

// "Exit codes:" and a line for each, for the end of a help text.
std::string exit_code_help();

}  // namespace attest::cli
