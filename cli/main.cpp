// The `attest` command: reads its arguments, runs one subcommand, turns every error into one line and an exit code.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/crash.h"
#include "cli/environment.h"
#include "cli/terminal.h"
#include "corpus/case_file.h"
#include "kernel/runner/one_line.h"
#include "kernel/runner/serve.h"
#include "properties/verify.h"

namespace {

using namespace attest::cli;

int stop(Exit code, const std::string& line) {
  constexpr size_t kLongest = 2000;
  fmt::print(stderr, "attest: {}\n", attest::one_line(line, kLongest));
  return static_cast<int>(code);
}

struct Subcommand {
  const char* name;
  const char* summary;
  Action (*add)(CommandLine);
};
constexpr Subcommand kSubcommands[] = {
    {"kernels", "lists the kernels and what they can do", add_kernels},
    {"verify", "checks every property of a kernel on many cases", add_verify},
    {"replay", "judges saved cases again", add_replay},
    {"show", "shows m, l, scale of every tile beside the reference's", add_show},
    {"diagnose", "says which fault explains what a kernel makes of a case", add_diagnose},
    {"shrink", "makes a failing case small while its failure stays the same", add_shrink},
    {"convert", "converts a case file, .json <-> .safetensors", add_convert},
    {"report", "compares and joins the reports of runs", add_report},
    {"fuzz", "runs the fuzz targets and keeps what they find", add_fuzz},
    {"selftest", "checks attest itself, in under a second", add_selftest},
};

int run(int argc, char** argv) {
  CLI::App program("attest: does this kernel's online softmax compute attention, for every input it allows?", "attest");
  program.set_version_flag("--version", version(), "prints the version");
  program.footer(exit_code_help());
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Subcommand& s : kSubcommands) {
    CLI::App* command = program.add_subcommand(s.name, s.summary);
    command->footer(exit_code_help());
    actions.emplace_back(command, s.add(CommandLine(*command)));
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return program.exit(help);
  } catch (const CLI::ParseError& e) {
    return stop(Exit::usage, std::string(e.what()) + "; attest --help tells more");
  }
  if (program.get_subcommands().empty()) return stop(Exit::usage, "a subcommand is required; attest --help tells more");
  try {
    report_crashes();
    for (const auto& [command, action] : actions)
      if (command->parsed()) return static_cast<int>(action());
  } catch (const Stop& e) {
    return stop(e.code, e.what());
  } catch (const attest::CaseError& e) {
    return stop(Exit::usage, e.what());
  } catch (const attest::HarnessError& e) {
    return stop(Exit::self_check, std::string("a check of attest itself failed: ") + e.what());
  } catch (const std::system_error& e) {
    if (std::ferror(stdout) != 0) return stop(Exit::usage, std::string("cannot write to stdout: ") + std::strerror(e.code().value()));
    return stop(Exit::self_check, std::string("attest itself failed: ") + e.what());
  } catch (const std::exception& e) {
    return stop(Exit::self_check, std::string("attest itself failed: ") + e.what());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && argv[1] == std::string_view(attest::kWorkerFlag)) return attest::serve(argv[2], [&] { return attest::find_table(argv[3]); });
  int code = run(argc, argv);
  // What was printed may still fail to be written: a full disk, a closed pipe.
  errno = 0;
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && code != static_cast<int>(Exit::usage))
    code = stop(Exit::usage, fmt::format("cannot write to stdout: {}", std::strerror(errno != 0 ? errno : EIO)));
  finished();
  return code;
}
