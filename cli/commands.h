// commands.h: the subcommands of `attest`, one file each.
//
// Each function adds its subcommand with all options to the program and returns what to do if it was chosen.
#pragma once

#include <functional>

#include "cli/exit_code.h"

namespace CLI {
class App;
}

namespace attest::cli {

using Action = std::function<Exit()>;

Action add_kernels(CLI::App& command);
Action add_verify(CLI::App& command);
Action add_replay(CLI::App& command);
Action add_show(CLI::App& command);
Action add_convert(CLI::App& command);
Action add_selftest(CLI::App& command);

}  // namespace attest::cli
