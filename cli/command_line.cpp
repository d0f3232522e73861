#include "cli/command_line.h"

#include <CLI/CLI.hpp>

namespace attest::cli {

void CommandLine::option(const std::string& name, std::string& value, const std::string& type, const std::string& help) {
  CLI::Option* o = app_.add_option(name, value, help)->type_name(type)->take_last();
  // "$UNSET" must not pass for an option that was left out.
  o->check([](const std::string& given) { return given.empty() ? std::string("must not be empty") : std::string(); });
  if (!value.empty()) o->capture_default_str();
}
void CommandLine::flag(const std::string& name, bool& value, const std::string& help) { app_.add_flag(name, value, help); }
void CommandLine::excludes(const std::string& name, const std::string& other) { app_.get_option(name)->excludes(app_.get_option(other)); }
void CommandLine::argument(const std::string& name, std::string& value, const std::string& help) { app_.add_option(name, value, help)->required(); }
void CommandLine::arguments(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  app_.add_option(name, values, help)->required();
}

void CommandLine::kernel(std::string& value) {
  option("--kernel", value, "K", "a built-in name, the path of a plug-in, or path:name; the best one present if left out");
}
void CommandLine::contract(std::string& value) { option("--contract", value, "C", "what the kernel may round: strict or declared"); }
void CommandLine::json(std::string& value) { option("--json", value, "FILE", "file for the figures; '-' is stdout, and then all text goes to stderr"); }
void CommandLine::exact(bool& value) { flag("--exact", value, "judges everything in cpp_dec_float: slow, the same verdicts"); }

}  // namespace attest::cli
