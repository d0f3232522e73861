#include "cli/command_line.h"

#include <CLI/CLI.hpp>

#include "cli/arguments.h"

namespace attest::cli {

void CommandLine::option(const std::string& name, std::string& value, const std::string& type, const std::string& help) {
  CLI::Option* o = app_.add_option(name, value, help)->type_name(type)->take_last();
  // "$UNSET" must not pass for an option that was left out.
  o->check([](const std::string& given) { return given.empty() ? std::string("must not be empty") : std::string(); });
  if (!value.empty()) o->capture_default_str();
}
void CommandLine::required(const std::string& name, std::string& value, const std::string& type, const std::string& help) {
  option(name, value, type, help);
  app_.get_option(name)->required();
}
void CommandLine::flag(const std::string& name, bool& value, const std::string& help) { app_.add_flag(name, value, help); }
void CommandLine::excludes(const std::string& name, const std::string& other) { app_.get_option(name)->excludes(app_.get_option(other)); }
void CommandLine::argument(const std::string& name, std::string& value, const std::string& help) { app_.add_option(name, value, help)->required(); }
void CommandLine::arguments(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  app_.add_option(name, values, help)->required();
}

CommandLine CommandLine::subcommand(const std::string& name, const std::string& help) {
  app_.require_subcommand(1);
  return CommandLine(*app_.add_subcommand(name, help));
}
bool CommandLine::chosen() const { return app_.parsed(); }

void CommandLine::kernel(KernelChoice& choice) {
  option("--kernel", choice.name, "K", "a built-in name, the path of a plug-in, path:name, or file.py:function; the best one present if left out");
  flag("--isolate", choice.isolate, "runs the kernel in worker processes, as plug-ins are");
  flag("--no-isolate", choice.no_isolate, "runs it inside attest, as built-in kernels are: its crash ends attest");
  option("--call-limit", choice.call_limit, "T", "the most time that one call of an isolated kernel may take");
  option("--python", choice.python, "P", "the Python that runs file.py:function, virtual environments included");
  option("--memory-limit", choice.memory_limit, "SIZE", "the most main memory that a worker may hold: 512M, 8G");
}
void CommandLine::contract(std::string& value) { option("--contract", value, "C", "what the kernel may round: strict or declared"); }
void CommandLine::ledger(std::string& value) {
  option("--ledger", value, "PATH", "known failures, a file or a folder of KERNEL.tsv: they are counted apart, and one that stopped failing is a violation");
}
void CommandLine::json(std::string& value) { option("--json", value, "FILE", "file for the figures; '-' is stdout, and then all text goes to stderr"); }
void CommandLine::exact(bool& value) { flag("--exact", value, "judges everything in cpp_dec_float: slow, the same verdicts"); }

}  // namespace attest::cli
