// attest convert: a case file in the other format.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "corpus/case_file.h"

namespace attest::cli {

Action add_convert(CommandLine command) {
  struct Options {
    std::string from, to;
    bool dry_run = false;
  };
  const auto o = std::make_shared<Options>();
  command.argument("FROM", o->from, "case file to read");
  command.argument("TO", o->to, "case file to write; its extension, .json or .safetensors, says the format");
  command.flag("--dry-run", o->dry_run, "reads and checks FROM, writes nothing");
  return [o] {
    const Case c = read_case(o->from);
    const std::string extension = std::filesystem::path(o->to).extension();
    if (extension != ".json" && extension != ".safetensors")
      throw Stop(Exit::usage, fmt::format("TO: '{}' ends in neither .json nor .safetensors", o->to));
    if (o->dry_run) {
      fmt::print("{} is a well-formed case; {} was not written\n", o->from, o->to);
      return Exit::holds;
    }
    write_case(c, o->to);
    return Exit::holds;
  };
}

}  // namespace attest::cli
