// attest diagnose: which fault explains what a kernel makes of a case.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/crash.h"
#include "cli/environment.h"
#include "cli/terminal.h"
#include "corpus/case_file.h"
#include "kernel/runner/one_line.h"
#include "properties/explain.h"
#include "properties/shrink.h"

namespace attest::cli {

namespace {

struct Options {
  std::string file, contract = "strict";
  bool no_trace = false;
  KernelChoice kernel;
};

Exit diagnose_case(const Options& o) {
  const Contract how = contract("--contract", o.contract);
  const Case c = read_case(o.file);
  const Kernel kernel = load_kernel(o.kernel);
  if (const std::string why = kernel.refuses(c.problem); !why.empty()) throw Stop(Exit::inconclusive, fmt::format("kernel '{}' refuses {}: {}", kernel.name(), o.file, why));
  fmt::print("{}{}\n{}kernel {}\n", o.file, c.name.empty() ? "" : ": " + one_line(c.name), in_words(c.problem), described(kernel));
  std::fflush(stdout);
  running(again("diagnose", o.file, o.kernel, kernel));

  Judge judge;
  const PropertyContext context{kernel, judge, how};
  const Property* property = c.property.empty() ? nullptr : find_property(c.property);
  if (property != nullptr && !property->not_covered(kernel).empty()) property = nullptr;
  const Explanation found = explain(c.problem, context, {.property = property, .use_trace = !o.no_trace});
  const EvidenceRun& first = found.evidence.runs.front();
  if (!same(first.problem, c.problem)) fmt::print("property {} makes another problem of it, which is the wrong one:\n{}", c.property, in_words(first.problem));
  const Verdict verdict = judge(first.problem, first.seen, {.numerics = first.numerics, .conventions = found.evidence.conventions});
  fmt::print("verdict: {}{}\n\n{}", name_of(verdict.disposition), verdict.detail.empty() ? "" : ", " + verdict.detail, argument(found.evidence, found.diagnosis));
  if (first.seen.status == RunStatus::crashed || first.seen.status == RunStatus::timed_out) return Exit::crash;
  return verdict.ok() && found.diagnosis.explaining.empty() ? Exit::holds : Exit::violation;
}

}  // namespace

Action add_diagnose(CommandLine command) {
  const auto o = std::make_shared<Options>();
  command.argument("FILE", o->file, "case file");
  command.kernel(o->kernel);
  command.contract(o->contract);
  command.flag("--no-trace", o->no_trace, "takes the kernel as a black box, even if it gives a trace");
  return [o] { return diagnose_case(*o); };
}

}  // namespace attest::cli
