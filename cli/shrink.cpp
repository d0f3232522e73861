// attest shrink: makes a failing case small while its failure stays the same.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/crash.h"
#include "cli/failure_report.h"
#include "cli/files.h"
#include "cli/gtest_source.h"
#include "properties/shrink.h"
#include "properties/signature.h"

namespace attest::cli {

namespace {

constexpr const char* kPlain = "matches_reference";  // judges a case as it stands

struct Options {
  std::string file, property, output, gtest, time = "5s", contract = "strict";
  KernelChoice kernel;
};

Exit shrink_case(const Options& o) {
  const Contract how = contract("--contract", o.contract);
  const double seconds = duration("--time", o.time);
  if (!o.gtest.empty() && o.gtest == o.output) throw Stop(Exit::usage, "--gtest and --output name the same file");
  const Case found = read_case(o.file);
  const std::string name = !o.property.empty() ? o.property : !found.property.empty() ? found.property : kPlain;
  const Property* property = find_property(name);
  if (property == nullptr) throw Stop(Exit::usage, fmt::format("{}: '{}' is not the name of a property", o.property.empty() ? o.file : "--property", name));
  const Kernel kernel = load_kernel(o.kernel);
  if (const std::string why = property->not_covered(kernel); !why.empty()) throw Stop(Exit::inconclusive, fmt::format("property {} does not cover kernel '{}': {}", name, kernel.name(), why));
  running(again("shrink", o.file, o.kernel, kernel));

  Judge judge;
  const PropertyContext context{kernel, judge, how};
  const CaseResult before = property->check_and_memory(found.problem, context);
  const std::string wanted = signature(name, before);
  if (before.verdict.disposition == Disposition::not_supported) throw Stop(Exit::inconclusive, fmt::format("{}: {}", o.file, before.verdict.detail));
  if (before.verdict.ok()) {
    fmt::print("{}: passed by {} on kernel {}; there is nothing to shrink\n", o.file, name, kernel.name());
    return Exit::holds;
  }
  const auto start = std::chrono::steady_clock::now();
  const Shrunk small = shrink(found.problem, [&](const Problem& p) {
    const CaseResult result = property->check_and_memory(p, context);
    return result.verdict.disposition == before.verdict.disposition && signature(name, result) == wanted;
  }, {.seconds = seconds});
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  Case c;
  c.problem = small.problem;
  c.name = fmt::format("{} on {}, shrunk", name, kernel.name());
  c.property = name;
  c.signature = wanted;
  const std::filesystem::path from(o.file);
  const std::string output = !o.output.empty() ? o.output : (from.parent_path() / (from.stem().string() + "-shrunk.json")).string();
  write_case(c, output);
  const std::string word = o.kernel.name.empty() ? kernel.name() : o.kernel.name;
  fmt::print("signature: {}\nshrunk case ({} cases tried, {} kept, {:.1f} s{}):\n{}\n{}\n", wanted, small.attempts, small.kept, took,
             small.finished ? "" : ", time ran out", in_words(small.problem), error_table(property->check_and_memory(small.problem, context).verdict));
  fmt::print("replay: attest replay {} {}{}\n", shell_word(output), kernel_words(o.kernel, kernel), how == Contract::declared ? " --contract declared" : "");
  if (!o.gtest.empty()) {
    const bool is_path = std::filesystem::exists(word.substr(0, word.rfind(':')));
    write_file(o.gtest, gtest_source(c, is_path ? std::filesystem::absolute(word).string() : word, how));
    fmt::print("GoogleTest source: {}\n", o.gtest);
  }
  const Disposition how_it_failed = before.verdict.disposition;
  return how_it_failed == Disposition::crashed || how_it_failed == Disposition::timed_out ? Exit::crash : Exit::violation;
}

}  // namespace

Action add_shrink(CommandLine command) {
  const auto o = std::make_shared<Options>();
  command.argument("FILE", o->file, "case file that fails");
  command.kernel(o->kernel);
  command.contract(o->contract);
  command.option("--property", o->property, "NAME", "keeps the failure of this property, whatever the file names");
  command.option("--time", o->time, "T", "stops after this long: 5s, 2m");
  command.option("-o,--output", o->output, "FILE", "where the shrunk case goes; FILE-shrunk.json if left out");
  command.option("--gtest", o->gtest, "FILE", "writes a GoogleTest source as well that reproduces the failure");
  return [o] { return shrink_case(*o); };
}

}  // namespace attest::cli
