// command_line.h: the options of a subcommand, declared without the option parser's own headers, which every file
// would otherwise compile again.
//
// Values are texts; arguments.h reads them, so that a mistake is told in this program's words.
// Example: command.option("--seed", o->seed, "S", "the same seed makes the same cases");
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace attest::cli {

struct KernelChoice;

class CommandLine {
 public:
  explicit CommandLine(CLI::App& app) : app_(app) {}

  // What `value` holds now is the default, and the help text gives it unless it is empty. Given twice, the
  // last counts.
  void option(const std::string& name, std::string& value, const std::string& type, const std::string& help);
  void required(const std::string& name, std::string& value, const std::string& type, const std::string& help);
  void flag(const std::string& name, bool& value, const std::string& help);
  void excludes(const std::string& name, const std::string& other);
  // Required, by position.
  void argument(const std::string& name, std::string& value, const std::string& help);
  void arguments(const std::string& name, std::vector<std::string>& values, const std::string& help);

  // A subcommand of this one, which then asks for one.
  CommandLine subcommand(const std::string& name, const std::string& help);
  bool chosen() const;

  // The options that several subcommands share.
  void kernel(KernelChoice& choice);
  void contract(std::string& value);
  void ledger(std::string& value);
  void json(std::string& value);
  void exact(bool& value);

 private:
  CLI::App& app_;
};

}  // namespace attest::cli
