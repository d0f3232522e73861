// commands.h: the subcommands of `attest`, one file each.
//
// Each function adds its subcommand with all options to the program and returns what to do if it was chosen.
#pragma once

#include <functional>

#include "cli/command_line.h"
#include "cli/exit_code.h"

namespace attest::cli {

using Action = std::function<Exit()>;

Action add_kernels(CommandLine command);
Action add_verify(CommandLine command);
Action add_replay(CommandLine command);
Action add_show(CommandLine command);
Action add_diagnose(CommandLine command);
Action add_shrink(CommandLine command);
Action add_convert(CommandLine command);
Action add_report(CommandLine command);
Action add_fuzz(CommandLine command);
Action add_selftest(CommandLine command);

}  // namespace attest::cli
